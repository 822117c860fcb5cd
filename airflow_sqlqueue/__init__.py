"""SQL Server queue tables for Apache Airflow, and their messages for Spark.

This module has the package's public names. The other public names are in :mod:`airflow_sqlqueue.operators`,
:mod:`airflow_sqlqueue.sensors`, :mod:`airflow_sqlqueue.triggers` and :mod:`airflow_sqlqueue.errors`. Each name is
loaded on first use, so that Airflow, which imports this package in every process, pays nothing for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_sqlqueue.address import QueueAddress
    from airflow_sqlqueue.client import QueueClient
    from airflow_sqlqueue.consuming.options import ConsumeOptions, ConsumeResult
    from airflow_sqlqueue.consuming.recoverability import RecoverabilityOptions
    from airflow_sqlqueue.drain.batches import BatchInfo
    from airflow_sqlqueue.drain.drain import DrainResult
    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.drain.options import DrainOptions
    from airflow_sqlqueue.drain.request import DrainRequest
    from airflow_sqlqueue.drain.sweep import SweepOptions
    from airflow_sqlqueue.envelope import Envelope, Sender, reply
    from airflow_sqlqueue.errorqueue.filters import ErrorFilter
    from airflow_sqlqueue.errorqueue.return_to_source import ReturnOptions
    from airflow_sqlqueue.errors import SqlQueueError, TransientError
    from airflow_sqlqueue.hooks import SqlQueueHook
    from airflow_sqlqueue.message import HeaderNames, Message, ReceivedMessage
    from airflow_sqlqueue.queue import MessageFilter, PurgeOptions, QueueCondition
    from airflow_sqlqueue.routing import AddressResolver
    from airflow_sqlqueue.server.settings import ConnectionSettings
    from airflow_sqlqueue.spark import load_batch, read_batch, read_bodies, verify_count

__version__ = "0.1.0"

__all__ = [
    "AddressResolver",
    "Batch",
    "BatchInfo",
    "ConnectionSettings",
    "ConsumeOptions",
    "ConsumeResult",
    "DrainOptions",
    "DrainRequest",
    "DrainResult",
    "Envelope",
    "ErrorFilter",
    "HeaderNames",
    "Message",
    "MessageFilter",
    "PurgeOptions",
    "QueueAddress",
    "QueueClient",
    "QueueCondition",
    "ReceivedMessage",
    "RecoverabilityOptions",
    "ReturnOptions",
    "Sender",
    "SqlQueueError",
    "SqlQueueHook",
    "SweepOptions",
    "TransientError",
    "__version__",
    "load_batch",
    "read_batch",
    "read_bodies",
    "reply",
    "verify_count",
]

_MODULES = {
    "address": ("QueueAddress",),
    "client": ("QueueClient",),
    "consuming.options": ("ConsumeOptions", "ConsumeResult"),
    "consuming.recoverability": ("RecoverabilityOptions",),
    "drain.batches": ("BatchInfo",),
    "drain.drain": ("DrainResult",),
    "drain.manifest": ("Batch",),
    "drain.options": ("DrainOptions",),
    "drain.request": ("DrainRequest",),
    "drain.sweep": ("SweepOptions",),
    "envelope": ("Envelope", "Sender", "reply"),
    "errorqueue.filters": ("ErrorFilter",),
    "errorqueue.return_to_source": ("ReturnOptions",),
    "errors": ("SqlQueueError", "TransientError"),
    "hooks": ("SqlQueueHook",),
    "message": ("HeaderNames", "Message", "ReceivedMessage"),
    "queue": ("MessageFilter", "PurgeOptions", "QueueCondition"),
    "routing": ("AddressResolver",),
    "server.settings": ("ConnectionSettings",),
    "spark": ("load_batch", "read_batch", "read_bodies", "verify_count"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
