"""Queue tables: send, receive, browse, count, purge, forward."""

from __future__ import annotations

from airflow_sqlqueue.queue.browsing import MessageHead
from airflow_sqlqueue.queue.condition import ConditionResult, QueueCondition
from airflow_sqlqueue.queue.depth import Backlog, Depth
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.purge import PurgeOptions, PurgeResult
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.table_access import MAX_ROWS_PER_STATEMENT

__all__ = [
    "MAX_ROWS_PER_STATEMENT",
    "Backlog",
    "ConditionResult",
    "Depth",
    "MessageFilter",
    "MessageHead",
    "PurgeOptions",
    "PurgeResult",
    "QueueCondition",
    "QueueTable",
]
