"""Triggers on queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sqlqueue.exports import lazy_exports

if TYPE_CHECKING:
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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "depth": "SqlQueueDepthEventTrigger SqlQueueDepthTrigger",
        "message": "SqlQueueMessageEventTrigger",
        "reply": "SqlQueueReplyTrigger",
        "stranded": "SqlQueueStrandedBatchTrigger",
    },
)
