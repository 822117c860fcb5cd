"""A queue table and what can be done with it."""

from __future__ import annotations

from airflow_sqlqueue.queue.browsing import Filter, MessageHead
from airflow_sqlqueue.queue.depth import Backlog, Depth
from airflow_sqlqueue.queue.fitted import MAX_ROWS_PER_STATEMENT
from airflow_sqlqueue.queue.purge import Purged, PurgeOptions
from airflow_sqlqueue.queue.queue_table import QueueTable

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
