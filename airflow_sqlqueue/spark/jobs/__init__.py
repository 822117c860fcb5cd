"""Jobs on drained messages, in plain PySpark: each is a function of a DataFrame, and a program of the same name.

Call the function in a notebook or in a task with a session, start the module with ``python -m``, or pass its file to
``spark-submit``. A program prints numbers only: no body and no header's value reaches a log.

=================== ==================================================================================
:mod:`.audit`       a batch into a table that is partitioned by batch and day
:mod:`.processing`  processing times of each endpoint, or by other columns
:mod:`.failures`    groups of failures over time
:mod:`.causes`      causes of messages: a table of edges, and a picture
:mod:`.replay`      replay of messages from the lake to a queue, each once
=================== ==================================================================================
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_sqlqueue.spark.jobs.audit import audit_rows, audit_table
    from airflow_sqlqueue.spark.jobs.causes import caused_messages, conversation_graph, message_flow
    from airflow_sqlqueue.spark.jobs.failures import failure_groups
    from airflow_sqlqueue.spark.jobs.processing import processing_times
    from airflow_sqlqueue.spark.jobs.replay import replay_messages

__all__ = [
    "audit_rows",
    "audit_table",
    "caused_messages",
    "conversation_graph",
    "failure_groups",
    "message_flow",
    "processing_times",
    "replay_messages",
]

# Loaded on first use: Python warns of a program (python -m) that its own package has already loaded.
_MODULES = {
    "audit": ("audit_rows", "audit_table"),
    "causes": ("caused_messages", "conversation_graph", "message_flow"),
    "failures": ("failure_groups",),
    "processing": ("processing_times",),
    "replay": ("replay_messages",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
