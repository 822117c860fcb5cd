"""Endpoints in Python that are killed, again and again, while they handle messages."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.server.session import Session
from tests.contract.conftest import run_sql
from tests.faults.conftest import KILLS, SEED
from tests.faults.consuming import Consuming, consuming_client

BATCH = 40


@pytest.fixture
def client(server_url: str, schema: str) -> QueueClient:
    """The queues, each in the test's own schema, and a table of the handlers'."""
    client = consuming_client(server_url, schema)
    for name in ("orders", "billing", "error"):
        client.tables.create(name, delayed=name == "orders")
    client.run_sql(f"CREATE TABLE [{schema}].[Archive] ([Number] int NOT NULL)")
    return client


class Orders:
    """The account of what was sent: where each message is, and whether its effects are there."""

    def __init__(self, client: QueueClient, session: Session, schema: str) -> None:
        self._client, self._session, self._schema = client, session, schema
        self.sent = 0

    def send(self) -> None:
        numbers = range(self.sent, self.sent + BATCH)
        self._client.queue("orders").send(Message({"NServiceBus.MessageId": f"id-{n}"}, b"%d" % n) for n in numbers)
        self.sent += BATCH

    def check(self) -> None:
        """Assert that each message is in one place, with its effects where it was handled, and only there.

        Locking reads: they wait until the server has noticed that a dead process holds rows no more. What is in its
        last transaction has locked a row of one of the first two, and is at rest when both have been read.
        """
        self.left()
        found = {name: self._in(name) for name in ("orders", "orders.Delayed", "billing", "error")}
        everywhere = Counter(number for numbers in found.values() for number in numbers)
        assert [number for number, times in everywhere.items() if times > 1] == [], "doubled"
        assert everywhere.keys() == set(range(self.sent)), "lost or made up"
        assert sorted(self._archived()) == sorted(found["billing"]), "not committed together"
        assert {number % 7 == 3 for number in found["error"]} <= {True}, "given up without a reason"

    def left(self) -> int:
        return len(self._in("orders")) + len(self._in("orders.Delayed"))

    def failed(self) -> list[str | None]:
        return [Envelope.of(message).failure.exception_type for message in self._client.queue("error").peek(2_000)]

    def _in(self, name: str) -> list[int]:
        table = self._client.resolve(name).qualified_name
        rows = run_sql(self._session, f"SELECT [Body] FROM {table} WITH (READCOMMITTEDLOCK)")
        return [int(bytes(body)) for (body,) in rows]

    def _archived(self) -> list[int]:
        text = f"SELECT [Number] FROM [{self._schema}].[Archive] WITH (READCOMMITTEDLOCK)"
        return [number for (number,) in run_sql(self._session, text)]


@pytest.fixture
def orders(client: QueueClient, schema: str) -> Iterator[Orders]:
    with client.session() as session:
        yield Orders(client, session, schema)


@pytest.mark.timeout(7200)
def test_sigkill_loses_and_duplicates_nothing(orders: Orders, server_url: str, schema: str) -> None:
    """Every other process is killed in the middle of a handler, which has sent and written; the others by chance."""
    chance = random.Random(f"{SEED} consume")
    kills = 0
    while kills < KILLS:
        if orders.left() < BATCH // 2:
            orders.send()
        with closing(Consuming(server_url, schema, halts=kills % 2 == 0)) as process:
            if process.handles() and not (kills % 2 and process.ended(within=chance.uniform(0, 0.3))):
                process.kill()
                kills += 1
        orders.check()
    while orders.left():
        with closing(Consuming(server_url, schema, halts=False)) as process:
            assert process.handles()
            assert process.ended(120)
        orders.check()
    assert set(orders.failed()) == {"LookupError"}
    assert len(orders.failed()) == len([n for n in range(orders.sent) if n % 7 == 3])
