"""Endpoints in Python in processes of their own, each of which kills itself at one statement of its handler."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.consuming.message_handlers import MessageHandlers
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
    return _killed(_handle, url, schema, mode, statement, moment)


def handle_copies(
    url: str, schema: str, mode: str, statement: int = 0, moment: str = BEFORE, *, in_batches: bool = False
) -> bool:
    """Handle four messages as :func:`handle_two`, with an inbox, one by one or in batches."""
    return _killed(_handle_with_inbox, url, schema, mode, statement, moment, in_batches)


def _killed(target: Callable[..., None], *arguments: Any) -> bool:
    process: Any = _context.Process(target=target, args=arguments, daemon=True)
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return bool(process.exitcode)


def _handle(url: str, schema: str, mode: str, statement: int, moment: str) -> None:
    client = consuming_client(url, schema)
    handle = Effects(client, schema)
    options = ConsumeOptions(
        max_handlers=1,
        max_messages=2,
        transaction_mode=mode,
        audit_queue="audit",
        recoverability=RecoverabilityOptions(1, 0),
    )
    with _killing(statement, moment):
        client.queue("orders").consume(handle, options)


def _handle_with_inbox(url: str, schema: str, mode: str, statement: int, moment: str, in_batches: bool) -> None:
    client = consuming_client(url, schema)
    effects, handlers = Effects(client, schema), MessageHandlers()
    if in_batches:

        @handlers.batch()
        def handle_all(messages: list[Envelope]) -> None:
            for message in messages:
                effects(message)

    else:
        handlers.default(effects)
    options = ConsumeOptions(
        max_handlers=1, max_messages=4, transaction_mode=mode, inbox=True, recoverability=RecoverabilityOptions(1, 0)
    )
    with _killing(statement, moment):
        client.queue("orders").consume(handlers, options)


class Effects:
    """Handler that sends a bill and writes a row of an archive. The first attempt of an odd number fails."""

    def __init__(self, client: QueueClient, schema: str) -> None:
        self._client, self._schema, self._attempts = client, schema, set[int]()

    def __call__(self, message: Envelope) -> None:
        number = int(message.body)
        self._client.queue("billing").send([Message(body=message.body)])
        self._client.run_sql(f"INSERT INTO [{self._schema}].[Archive] ([Number]) VALUES (?)", number)
        if number % 2 and number not in self._attempts:
            self._attempts.add(number)
            raise ValueError("not yet")


@contextmanager
def _killing(statement: int, moment: str) -> Iterator[None]:
    """Kill this process at a statement of its handlers, counted from 1, during the block."""
    execute, seen = Session._execute, 0

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

    with patch.object(Session, "_execute", counted):
        yield
