"""The memory that a drain of large bodies owes, as ``scripts/bench_memory.py`` measures it, in short."""

from __future__ import annotations

from typing import Any

import bench_memory
import pytest

MB, MIB = bench_memory.MB, bench_memory.MIB


def test_sizes_add_up_and_reach_from_one_byte_to_the_largest() -> None:
    sizes = bench_memory.body_sizes(2_000 * MB, 64 * MIB)
    assert sum(sizes) == 2_000 * MB
    assert min(sizes) == 1
    assert sum(size == 64 * MIB for size in sizes) >= 3
    assert sizes == bench_memory.body_sizes(2_000 * MB, 64 * MIB)


def test_memory_of_a_drain_is_bounded(queue: Any) -> None:
    (memory,) = bench_memory.compare_memory(queue, total=150 * MB, largest=24 * MIB, limit=400 * MB)
    assert memory.ratio <= 1, memory


def test_a_body_that_comes_back_otherwise_is_found(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_memory, "_hash", lambda row: "another")
    with pytest.raises(bench_memory.BodiesDifferError, match="is not the one sent"):
        bench_memory.compare_memory(queue, total=1 * MB, largest=100_000)
