"""Short runs of ``scripts/bench_drain.py``.

The rates themselves are for ``make bench``: of a short drain, most is what a drain costs by itself.
"""

from __future__ import annotations

from typing import Any

import bench_drain
import pytest

from airflow_sqlqueue.queue.depth import depth


def test_every_kind_of_drain_is_measured_and_leaves_nothing(queue: Any) -> None:
    found = bench_drain.compare_drains(queue, count=30, single=3, turns=1)
    assert depth(queue).messages == 0
    assert all(each.ratio > 0 for each in found)


@pytest.mark.parametrize(("cores", "bound", "note"), [(4, 1.5, "4 cores"), (2, None, "2 cores: too few for a bound")])
def test_two_workers_owe_nothing_where_there_are_no_cores_to_spare(
    queue: Any, monkeypatch: pytest.MonkeyPatch, cores: int, bound: float | None, note: str
) -> None:
    monkeypatch.setattr(bench_drain, "cores", lambda: cores)
    monkeypatch.setattr(bench_drain, "best_rates", lambda kinds, turns, before: dict.fromkeys(kinds, 1.0))
    found = bench_drain.compare_drains(queue)
    assert {(each.name, each.base_name): (each.bound, each.note) for each in found} == {
        ("4-worker drain", "single receives"): (25, ""),
        ("1-worker drain", "bare loop"): (0.8, ""),
        ("drain with rules of other types", "1-worker drain"): (1 / 1.3, "a field of another type"),
        ("2-worker drain", "1-worker drain"): (bound, note),
        ("2-worker drain", "do it yourself"): (1, "the default"),
        ("4-worker drain", "do it yourself"): (None, ""),
        ("1-worker drain", "do it yourself"): (None, ""),
    }


def test_growth_is_the_cost_of_a_message_against_smaller_drains(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    costs = iter([99.0, 50.0, 40.0, 60.0, 45.0, 61.0])
    monkeypatch.setattr(bench_drain, "_growth_cost", lambda queue, size: next(costs))
    monkeypatch.setattr(bench_drain, "GROWTH_TURNS", {10: 2, 100: 2, 1000: 1})
    found = bench_drain.compare_growth(queue)
    told = [(each.value, each.base_value, each.passed) for each in found]
    assert told == [(45, 40, True), (61, 40, False), (61, 45, False)]


def test_the_last_messages_of_a_drain_are_compared_with_the_first(queue: Any) -> None:
    (found,) = bench_drain.compare_millions(queue, count=3_000, step=1_000)
    assert (found.name, found.base_name) == ("the last 1,000 of 3,000", "the first 1,000")
    assert found.base_value > 0


def test_moments_are_on_a_line_between_two_parts() -> None:
    assert bench_drain.moments_of([(50, 10), (0, 12), (100, 32), (150, 62)], 100) == [22, 42, 62]
