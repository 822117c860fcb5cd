"""A queue table and what can be done with it."""

from __future__ import annotations

from airflow_sqlqueue.queue.queue_table import (
    MAX_ROWS_PER_STATEMENT,
    Backlog,
    Depth,
    Filter,
    MessageHead,
    Purged,
    PurgeOptions,
    QueueTable,
)

__all__ = [
    "MAX_ROWS_PER_STATEMENT",
    "Backlog",
    "Depth",
    "Filter",
    "MessageHead",
    "PurgeOptions",
    "Purged",
    "QueueTable",
]
