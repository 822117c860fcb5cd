"""Short run of ``scripts/bench_consume.py``: with few messages, most of the time is the start."""

from __future__ import annotations

from typing import Any

import bench_consume
from bench_setting import fill

from airflow_sqlqueue.queue.depth import depth


def test_every_kind_of_handling_is_measured_and_leaves_nothing(queue: Any) -> None:
    found = bench_consume.compare_consuming(queue, count=12, turns=1)
    assert depth(queue).messages == 0
    assert [(each.name, each.base_name, each.bound) for each in found] == [
        ("1 handler", "bare loop, 1 thread", 0.8),
        ("4 handlers", "bare loop, 4 threads", 0.8),
    ]
    assert all(each.ratio > 0 for each in found)


def test_both_sides_take_every_message(queue: Any) -> None:
    with bench_consume.second_queue(queue) as error:
        for work in (lambda: bench_consume.bare_loops(queue, 2), lambda: bench_consume.consume(queue, error, 2)):
            fill(queue, 30)
            assert work() == 30
