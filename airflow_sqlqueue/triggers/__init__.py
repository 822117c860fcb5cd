"""Triggers on queues."""

from __future__ import annotations

from airflow_sqlqueue.triggers.depth import SqlQueueDepthEventTrigger, SqlQueueDepthTrigger
from airflow_sqlqueue.triggers.reply import SqlQueueReplyTrigger

__all__ = ["SqlQueueDepthEventTrigger", "SqlQueueDepthTrigger", "SqlQueueReplyTrigger"]
