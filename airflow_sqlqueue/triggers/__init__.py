"""Triggers on queues."""

from __future__ import annotations

from airflow_sqlqueue.triggers.depth import SqlQueueDepthEventTrigger, SqlQueueDepthTrigger

__all__ = ["SqlQueueDepthEventTrigger", "SqlQueueDepthTrigger"]
