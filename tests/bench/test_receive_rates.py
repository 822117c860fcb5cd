"""Short run of ``scripts/bench_receive.py``: with few ghosts, the receives cost about the same."""

from __future__ import annotations

from typing import Any

import bench_receive
import bench_setting
import pytest

from airflow_sqlqueue.queue.depth import depth
from fakemssql import FakeServer


@pytest.fixture
def measured(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(server, FakeServer):
        monkeypatch.setattr(bench_setting, "stand_in", server)


@pytest.mark.usefixtures("measured")
def test_every_kind_of_receiver_is_measured_in_time_and_pages(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_receive, "RECEIVERS", 2)
    monkeypatch.setattr(bench_setting, "_REPORTED", 0.05)
    found = bench_receive.compare_receives(queue, ghosts=2_500, count=2, turns=1)
    assert [(each.unit, each.bound, each.limit) for each in found] == [
        ("ms a receive", 0.5, True),
        ("pages a receive", 0.5, True),
        ("ms a receive", 1.0, True),
    ]
    assert all(each.value > 0 and each.base_value > 0 for each in found)
    assert depth(queue).messages == 0
