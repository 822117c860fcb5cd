"""The memory that a drain of large bodies owes, as ``scripts/bench_memory.py`` measures it, in short."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import bench_memory
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

MB, MIB = bench_memory.MB, bench_memory.MIB


def test_sizes_add_up_and_reach_from_one_byte_to_the_largest() -> None:
    sizes = bench_memory.body_sizes(2_000 * MB, 64 * MIB)
    assert sum(sizes) == 2_000 * MB
    assert min(sizes) == 1
    assert sum(size == 64 * MIB for size in sizes) >= 3
    assert sizes == bench_memory.body_sizes(2_000 * MB, 64 * MIB)


def test_memory_of_a_drain_is_bounded(queue: Any) -> None:
    (memory,) = bench_memory.compare_memory(queue, total=150 * MB, largest=24 * MIB, limit=330 * MB)
    assert memory.ratio <= 1, memory


def test_every_body_is_found_in_its_row_or_in_its_own_file_as_it_was_sent(tmp_path: Path) -> None:
    (tmp_path / "body.bin").write_bytes(b"large")
    rows = [
        {"Id": "a", "Body": b"small", "BodyFile": None},
        {"Id": "b", "Body": None, "BodyFile": f"file://{tmp_path}/body.bin"},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "part.parquet")
    sent = {"a": hashlib.sha256(b"small").hexdigest(), "b": hashlib.sha256(b"large").hexdigest()}
    paths = [f"file://{tmp_path}/part.parquet"]
    bench_memory.check_bodies(paths, sent)
    with pytest.raises(bench_memory.BodiesDifferError, match="1 of 3 messages are in no file"):
        bench_memory.check_bodies(paths, {**sent, "c": sent["a"]})
    for name in sent:
        with pytest.raises(bench_memory.BodiesDifferError, match=rf"message {name} in .* is not the one sent"):
            bench_memory.check_bodies(paths, {**sent, name: "another"})
    with pytest.raises(bench_memory.BodiesDifferError, match=r"message a in .* is not the one sent"):
        bench_memory.check_bodies(paths * 2, sent)
