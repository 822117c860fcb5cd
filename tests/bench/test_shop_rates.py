"""Short run of ``scripts/bench_shop.py``: with few messages, most of the time is the start."""

from __future__ import annotations

from typing import Any

import bench_shop
from bench_setting import fill

from airflow_sqlqueue.queue.depth import depth


def test_drains_and_sends_of_the_shops_messages_are_measured_and_leave_nothing(queue: Any) -> None:
    found = bench_shop.compare_shop(queue, count=30, different=20, sent=20, turns=1)
    assert depth(queue).messages == 0
    assert [(each.name, each.base_name, each.unit) for each in found] == [
        ("1-worker drain", "plainest loop", "messages/s"),
        ("1-worker drain", "bare loop", "messages/s"),
        ("1-worker drain", "bare loop", "µs of client CPU"),
        ("generate and send", "INSERTs alone", "messages/s"),
        ("generate and send", "INSERTs alone", "µs of client CPU"),
    ]
    assert all(each.ratio > 0 for each in found)


def test_the_plainest_loop_takes_every_message(queue: Any) -> None:
    fill(queue, 30)
    assert bench_shop.plainest_loop(queue) == 30
    assert depth(queue).messages == 0
