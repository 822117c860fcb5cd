"""Endpoints in Python in processes of their own, each of which kills itself at one statement of its handler."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from typing import Any
from unittest.mock import patch

from airflow_sqlqueue.consuming.options import ConsumeOptions
from airflow_sqlqueue.consuming.recoverability import RecoverabilityOptions
from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.message import Message
from airflow_sqlqueue.session import Session
from tests.faults.consuming import consuming_client

BEFORE, AFTER = "before", "after"
"""The statement has not been sent; the server has run it, and the process does not learn of it."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["__main__", "tests.faults.killed_handlers", "pyodbc"])


def handle_two(url: str, schema: str, mode: str, statement: int = 0, moment: str = BEFORE) -> bool:
    """Handle two messages of ``orders`` in a process; return whether it was killed at that statement.

    Each message becomes a bill, a row of an archive and a copy for ``audit``. Odd ones fail at their first attempt.
    """
    process: Any = _context.Process(target=_handle, args=(url, schema, mode, statement, moment), daemon=True)
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return bool(process.exitcode)


def _handle(url: str, schema: str, mode: str, statement: int, moment: str) -> None:
    client = consuming_client(url, schema)
    execute, seen, attempts = Session._execute, 0, set[int]()

    def counted(session: Session, *arguments: Any) -> list[Any]:
        nonlocal seen
        if not threading.current_thread().name.startswith("message handler"):
            return execute(session, *arguments)
        seen += 1
        if (seen, moment) == (statement, BEFORE):
            os.kill(os.getpid(), signal.SIGKILL)
        found = execute(session, *arguments)
        if (seen, moment) == (statement, AFTER):
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    def handle(message: Envelope) -> None:
        number = int(message.body)
        client.queue("billing").send([Message(body=message.body)])
        client.run_sql(f"INSERT INTO [{schema}].[Archive] ([Number]) VALUES (?)", number)
        if number % 2 and number not in attempts:
            attempts.add(number)
            raise ValueError("not yet")

    options = ConsumeOptions(
        max_handlers=1,
        max_messages=2,
        transaction_mode=mode,
        audit_queue="audit",
        recoverability=RecoverabilityOptions(1, 0),
    )
    with patch.object(Session, "_execute", counted):
        client.queue("orders").consume(handle, options)
