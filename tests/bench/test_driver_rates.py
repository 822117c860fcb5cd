"""Short run of ``scripts/bench_drivers.py``."""

from __future__ import annotations

from typing import Any

import bench_drivers

from airflow_sqlqueue.queue.depth import depth


def test_both_drivers_take_every_message_of_each_size(queue: Any) -> None:
    found = bench_drivers.compare_drivers(queue, count=30, different=20, turns=1)
    assert depth(queue).messages == 0
    assert [(each.name, each.base_name, each.unit) for each in found] == [
        (f"{size}: Arrow of mssql-python", "rows of pyodbc", "µs of client CPU")
        for size in ("200 bytes", "1 kB", "shop")
    ]
    assert all(each.ratio > 0 for each in found)
