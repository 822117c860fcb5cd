"""Gauges of the page among Airflow's own metrics: those that operators set, for every queue."""

from __future__ import annotations

import time
from collections.abc import Iterable

from airflow.observability import stats

from airflow_sqlqueue.inspection.overview import QueueOverview
from airflow_sqlqueue.operators.metrics import PREFIX, are_on, name_of, tag


def send_gauges(conn_id: str, queues: Iterable[QueueOverview]) -> None:
    """Send the gauges that operators set, of every queue, where Airflow sends its metrics anywhere."""
    if not are_on():
        return
    for each in queues:
        if each.kind == "queue":
            tags = {"conn_id": tag(conn_id), "queue": tag(name_of(each.table))}
            stats.gauge(f"{PREFIX}backlog.messages", each.rows, tags=tags)
            if (oldest := each.oldest) is not None:
                age = max(0.0, time.time() - oldest.timestamp())
                stats.gauge(f"{PREFIX}backlog.oldest_seconds", age, tags=tags)
