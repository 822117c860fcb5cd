"""Notifiers: messages about tasks and DAG runs."""

from __future__ import annotations

from airflow_sqlqueue.notifications.notifier import SqlQueueNotifier

__all__ = ["SqlQueueNotifier"]
