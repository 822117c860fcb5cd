"""Airflow connections turned into what the package works with: the server's and Spark's.

Importing this package imports neither; the hook is loaded when it is first asked for.
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
