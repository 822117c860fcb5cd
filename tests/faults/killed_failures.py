"""Work on failed messages in processes of their own, each of which kills itself at one of its statements."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.errorqueue.chunked_work import ErrorQueueOptions, ErrorQueueResult
from airflow_sqlqueue.errorqueue.return_to_source import ReturnOptions
from airflow_sqlqueue.session import Session

BEFORE, AFTER = "before", "after"
"""The statement has not been sent; the server has run it, and the process does not learn of it."""

_ALL: Any = {"all_messages": True}
_CHUNK = 4
_OPTIONS: Any = {"options": ErrorQueueOptions(rows_per_transaction=_CHUNK)}
_RETURNED: Any = {"options": ReturnOptions(rows_per_transaction=_CHUNK)}

ACTIONS: dict[str, Callable[[QueueClient], ErrorQueueResult]] = {
    "return": lambda client: client.errors.return_to_source(**_ALL, **_RETURNED),
    "archive": lambda client: client.errors.archive(**_ALL, **_OPTIONS),
    "park": lambda client: client.errors.park("parked", **_ALL, **_OPTIONS),
    "delete": lambda client: client.errors.delete(**_ALL, **_OPTIONS, confirm=True),
    "restore": lambda client: client.errors.archived.restore(**_ALL, **_OPTIONS),
    "delete archived": lambda client: client.errors.archived.delete(**_ALL, **_OPTIONS, confirm=True),
}

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["__main__", "tests.faults.killed_failures", "pyodbc"])


def client_of(url: str, schema: str) -> QueueClient:
    """A client whose queues and ledgers are in one schema."""
    client = QueueClient.from_url(url, ledger_schema=schema)
    return QueueClient(client.settings, replace(client.resolver, default_schema=schema), ledger_schema=schema)


def act(url: str, schema: str, action: str, statement: int = 0, moment: str = BEFORE) -> bool:
    """Run an action on all messages in a process; return whether it was killed at that statement."""
    process: Any = _context.Process(target=_act, args=(url, schema, action, statement, moment), daemon=True)
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return bool(process.exitcode)


def _act(url: str, schema: str, action: str, statement: int, moment: str) -> None:
    execute, seen = Session._execute, 0

    def counted(session: Session, *arguments: Any) -> list[Any]:
        nonlocal seen
        seen += 1
        if (seen, moment) == (statement, BEFORE):
            os.kill(os.getpid(), signal.SIGKILL)
        found = execute(session, *arguments)
        if (seen, moment) == (statement, AFTER):
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    with patch.object(Session, "_execute", counted):
        ACTIONS[action](client_of(url, schema))
