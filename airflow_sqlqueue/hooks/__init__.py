"""The Airflow hook, and the retry policy of its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sqlqueue.exports import lazy_exports

if TYPE_CHECKING:
    from airflow_sqlqueue.hooks.retry_policy import TransientRetryPolicy
    from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

__all__ = ["SqlQueueHook", "TransientRetryPolicy"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "retry_policy": "TransientRetryPolicy",
        "sqlqueue": "SqlQueueHook",
    },
)
