"""What the page sees, among Airflow's own metrics: the gauges that operators set, for every queue."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from airflow.observability import stats

from airflow_sqlqueue.operators.metrics import PREFIX, are_on, name_of, tag

if TYPE_CHECKING:
    from airflow_sqlqueue.plugin.looks import Look


def send_gauges(conn_id: str, look: Look) -> None:
    """The gauges that operators set, of every queue of a look, where Airflow sends its metrics anywhere."""
    if not are_on():
        return
    for each in look.queues:
        if each.overview.kind == "queue":
            tags = {"conn_id": tag(conn_id), "queue": tag(name_of(each.overview.table))}
            stats.gauge(f"{PREFIX}backlog.messages", each.overview.rows, tags=tags)
            if (oldest := each.overview.oldest) is not None:
                age = max(0.0, time.time() - oldest.timestamp())
                stats.gauge(f"{PREFIX}backlog.oldest_seconds", age, tags=tags)
