"""Triggers on queues."""

from __future__ import annotations

from airflow_sqlqueue.triggers.depth import SqlQueueDepthEventTrigger, SqlQueueDepthTrigger
from airflow_sqlqueue.triggers.message import SqlQueueMessageEventTrigger
from airflow_sqlqueue.triggers.reply import SqlQueueReplyTrigger
from airflow_sqlqueue.triggers.stranded import SqlQueueStrandedBatchTrigger

__all__ = [
    "SqlQueueDepthEventTrigger",
    "SqlQueueDepthTrigger",
    "SqlQueueMessageEventTrigger",
    "SqlQueueReplyTrigger",
    "SqlQueueStrandedBatchTrigger",
]
