"""The rates that the bulk operations owe, as ``scripts/bench_queue.py`` measures them, in short."""

from __future__ import annotations

from typing import Any

from bench_queue import compare_purges, compare_sends


def test_bulk_sends_are_ten_times_as_fast(queue: Any, best_of_three: Any) -> None:
    (sends,) = best_of_three(lambda: [compare_sends(queue, single=100, bulk=2_560)])
    assert sends.bound == 10
    assert sends.ratio >= 10, sends


def test_purges_are_half_as_fast_as_the_bare_delete(queue: Any, best_of_three: Any) -> None:
    comparisons = best_of_three(lambda: compare_purges(queue, count=10_000, turns=1, bound=0.5))
    assert [comparison.bound for comparison in comparisons] == [0.5, 0.5, None]
    assert all(comparison.passed for comparison in comparisons), comparisons
