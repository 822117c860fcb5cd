"""Short run of ``scripts/bench_executors.py``; ``make bench`` checks the ratios."""

from __future__ import annotations

from typing import Any

import bench_executors
import pytest

from airflow_sqlqueue.queue.depth import depth


@pytest.mark.spark
def test_executors_are_measured_against_threads(queue: Any) -> None:
    found = bench_executors.compare_executors(queue, count=60, turns=1, executors=(1,))
    assert depth(queue).messages == 0
    assert [(each.name, each.base_name, each.unit) for each in found] == [
        ("1 executors", "1 threads", "messages/s"),
        ("first drain by 1", "1 threads", "s"),
    ]
    assert all(each.ratio > 0 for each in found)
