"""Queue tables: send, receive, browse, count, purge, forward."""

from __future__ import annotations

from airflow_sqlqueue.queue.browsing import MessageHead as MessageHead
from airflow_sqlqueue.queue.condition import ConditionResult as ConditionResult
from airflow_sqlqueue.queue.condition import QueueCondition as QueueCondition
from airflow_sqlqueue.queue.depth import Backlog as Backlog
from airflow_sqlqueue.queue.depth import Depth as Depth
from airflow_sqlqueue.queue.filters import MessageFilter as MessageFilter
from airflow_sqlqueue.queue.purge import PurgeOptions as PurgeOptions
from airflow_sqlqueue.queue.purge import PurgeResult as PurgeResult
from airflow_sqlqueue.queue.queue_table import QueueTable as QueueTable
from airflow_sqlqueue.queue.table_access import MAX_ROWS_PER_STATEMENT as MAX_ROWS_PER_STATEMENT
