"""Hook of the server, and readers of Airflow connections to the server and to Spark.

Importing this package imports no hook: Python loads ``SqlQueueHook`` at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

__all__ = ["SqlQueueHook"]


def __getattr__(name: str) -> Any:
    if name != "SqlQueueHook":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

    return SqlQueueHook
