"""Endpoints in Python in processes of their own, which can be killed in the middle of a handler."""

from __future__ import annotations

from multiprocessing.connection import Connection

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import Message
from tests.forks import CONTEXT, fork

HANDLING, ENDED = "handling", "ended"

OPTIONS = ConsumeOptions(
    max_handlers=2, immediate_retries=1, delayed_retries=2, delayed_retry_seconds=0.0, unrecoverable=(LookupError,)
)
"""Rounds follow one another at once: a killed process leaves messages in every state that there is."""


class Consuming:
    """A process that consumes ``orders``: each becomes a bill and a row of an archive, some fail at first, some always.

    :param halts: whether it reports, and waits to be killed, in the middle of a handler, when all is done but the end.
    """

    def __init__(self, url: str, schema: str, *, halts: bool) -> None:
        self._reports, child = CONTEXT.Pipe()
        self._process = fork(_consume, url, schema, halts, child)
        child.close()

    def handles(self) -> bool:
        """Wait until a message is being handled; False where the process ended without."""
        assert self._reports.poll(120), "the process says nothing"
        return bool(self._reports.recv() == HANDLING)

    def ended(self, within: float) -> bool:
        self._process.join(within)
        return self._process.exitcode is not None

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def close(self) -> None:
        self.kill()
        self._reports.close()


def _consume(url: str, schema: str, halts: bool, reports: Connection[str, str]) -> None:
    client = consuming_client(url, schema)
    attempts: dict[str | None, int] = {}
    told = False

    def handle(message: Envelope) -> None:
        nonlocal told
        number, message_id = int(message.body), message.identity.message_id
        client.queue("billing").send([Message({"NServiceBus.MessageId": message_id}, message.body)])
        client.run_sql(f"INSERT INTO [{schema}].[Archive] ([Number]) VALUES (?)", number)
        if not told:
            told = True
            reports.send(HANDLING)
            if halts:
                reports.recv()
        attempts[message_id] = attempts.get(message_id, 0) + 1
        if number % 7 == 3:
            raise LookupError("never")
        if number % 5 == 2 and attempts[message_id] == 1:
            raise ValueError("not yet")

    client.queue("orders").consume(handle, OPTIONS)
    reports.send(ENDED)


def consuming_client(url: str, schema: str) -> QueueClient:
    """The client of the endpoint's queues."""
    client = QueueClient.from_url(url)
    return QueueClient(client.settings, client.resolver.__class__(schema, client.settings.database))
