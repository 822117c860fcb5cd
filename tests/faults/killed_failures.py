"""Work on failed messages, as functions that a process of its own can run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.queue.errors.bulk_action import ErrorQueueOptions, ErrorQueueResult

_ALL: Any = {"all_messages": True}
_CHUNK = 4
_OPTIONS: Any = {"options": ErrorQueueOptions(rows_per_transaction=_CHUNK)}

ACTIONS: dict[str, Callable[[QueueClient], ErrorQueueResult]] = {
    "return": lambda client: client.errors.return_to_source(**_ALL, **_OPTIONS),
    "archive": lambda client: client.errors.archive(**_ALL, **_OPTIONS),
    "park": lambda client: client.errors.park("parked", **_ALL, **_OPTIONS),
    "delete": lambda client: client.errors.delete(**_ALL, **_OPTIONS, confirm=True),
    "restore": lambda client: client.errors.archived.restore(**_ALL, **_OPTIONS),
    "delete archived": lambda client: client.errors.archived.delete(**_ALL, **_OPTIONS, confirm=True),
}


def client_of(url: str, schema: str) -> QueueClient:
    """A client whose queues and ledgers are in one schema."""
    client = QueueClient.from_url(url, ledger_schema=schema)
    return QueueClient(client.settings, replace(client.resolver, default_schema=schema))


def act(url: str, schema: str, action: str) -> None:
    """Run an action on all messages."""
    ACTIONS[action](client_of(url, schema))
