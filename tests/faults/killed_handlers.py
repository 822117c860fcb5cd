"""Endpoints in Python, as functions that a process of its own can run."""

from __future__ import annotations

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import Message
from tests.faults.consuming import consuming_client

THREADS = "message handler"
"""Beginning of the names of threads whose statements count."""


def handle_two(url: str, schema: str, mode: str) -> None:
    """Handle two messages of ``orders``.

    Each message becomes a bill, a row of an archive and a copy for ``audit``. Odd ones fail at their first attempt.
    """
    client = consuming_client(url, schema)
    options = ConsumeOptions(
        max_handlers=1,
        max_messages=2,
        transaction_mode=mode,
        audit_queue="audit",
        immediate_retries=1,
        delayed_retries=0,
    )
    client.queue("orders").consume(Effects(client, schema), options)


def handle_copies(url: str, schema: str, mode: str, in_batches: bool) -> None:
    """Handle four messages as :func:`handle_two`, with an inbox, one by one or in batches."""
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
        max_handlers=1,
        max_messages=4,
        transaction_mode=mode,
        inbox=True,
        immediate_retries=1,
        delayed_retries=0,
    )
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
