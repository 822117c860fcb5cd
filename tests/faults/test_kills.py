"""Drains, requeues, movers, streams, writers and creations of tables, killed before and after their statements.

Each message is in one place afterwards, and the next run goes on from there.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_sqlqueue.drain.batch_reader import batch_rows
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.errors import BatchNotFoundError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.server.session import Session
from tests.contract.conftest import run_sql
from tests.faults import killed_work
from tests.faults.killed_failures import client_of
from tests.faults.killing import Life, endure, live

pytestmark = pytest.mark.timeout(7200)


class Orders:
    """The account of numbered messages in the queues of a schema of its own."""

    def __init__(self, url: str, schema: str, session: Session) -> None:
        self.url, self.schema, self.session = url, schema, session
        self.client, self.sent = client_of(url, schema), 0

    def create(self, *, ledger: bool = True) -> None:
        self.client.tables.create("orders", delayed=True, ledger=ledger)
        self.client.tables.create("billing")

    def numbers(self, table: str) -> Counter[int]:
        """Numbers in a table, once the server has rolled back what a dead process held."""
        text = f"SELECT [Body] FROM [{self.schema}].[{table}] WITH (READCOMMITTEDLOCK)"
        return Counter(int(bytes(body)) for (body,) in run_sql(self.session, text))

    def next(self, count: int) -> list[Message]:
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        return [Message({"NServiceBus.MessageId": f"id-{number}"}, b"%d" % number) for number in numbers]

    def check(self, found: Counter[int]) -> None:
        assert found == Counter(range(self.sent)), "lost or duplicated"


@pytest.fixture
def orders(server_url: str, schema: str) -> Iterator[Orders]:
    client = client_of(server_url, schema)
    with client.session() as session:
        yield Orders(server_url, schema, session)


class Batches:
    """Batches of ``orders``: the present one is drained, and goes back where it is to be requeued."""

    def __init__(self, orders: Orders, folder: str | None) -> None:
        self.orders, self.folder = orders, folder
        self.batch_id, self.ended = uuid.uuid4(), Counter[int]()

    def drained(self) -> tuple[str, Counter[int]]:
        """State of the present batch, and the numbers in it."""
        ledger = Ledger(self.orders.session, self.orders.client.settings.database, self.orders.schema)
        try:
            batch = ledger.find(self.batch_id)
        except BatchNotFoundError:
            return "missing", Counter()
        if batch.state == "requeued":
            return batch.state, Counter()
        return batch.state, Counter(int(row.body or b"") for row in batch_rows(ledger, self.batch_id, batch.stage))

    def check(self) -> str:
        """Assert that each message is in the queue or in a batch; return the state of the present one."""
        queued = self.orders.numbers("orders")
        state, drained = self.drained()
        self.orders.check(queued + drained + self.ended)
        return state

    def renew(self) -> None:
        """Begin another batch where the present one has come to its end."""
        state, drained = self.drained()
        if state not in ("missing", "open"):
            self.batch_id, self.ended = uuid.uuid4(), self.ended + drained
            self.orders.client.queue("orders").send(self.orders.next(15))


@pytest.mark.parametrize("stage", ["files", "table"])
def test_drains(orders: Orders, tmp_path: Path, stage: str) -> None:
    orders.create()
    batches = Batches(orders, str(tmp_path) if stage == "files" else None)
    orders.client.queue("orders").send(orders.next(15))

    def run(statement: int, moment: str) -> Life:
        given = orders.url, orders.schema, batches.folder, batches.batch_id
        return live(killed_work.drain, *given, statement=statement, moment=moment)

    endure(f"drain to {stage}", run, batches.renew, batches.check)
    assert batches.check() == "sealed"
    assert not orders.numbers("orders")


@pytest.mark.parametrize("stage", ["files", "table"])
def test_requeues(orders: Orders, tmp_path: Path, stage: str) -> None:
    orders.create()
    batches = Batches(orders, str(tmp_path) if stage == "files" else None)
    orders.client.queue("orders").send(orders.next(20))

    def top_up() -> None:
        state, _ = batches.drained()
        if state != "sealed":
            batches.batch_id = uuid.uuid4()
            killed_work.drain(orders.url, orders.schema, batches.folder, batches.batch_id)

    def run(statement: int, moment: str) -> Life:
        given = orders.url, orders.schema, batches.batch_id
        return live(killed_work.requeue, *given, statement=statement, moment=moment)

    def check() -> None:
        state = batches.check()
        assert len(orders.numbers("orders")) == (0 if state == "sealed" else 20), "requeued in part"

    endure(f"requeue of {stage}", run, top_up, check)
    assert batches.check() == "requeued"


def test_movers(orders: Orders) -> None:
    orders.create(ledger=False)

    def top_up() -> None:
        """Ten messages for each run: a longer one would seldom come to the statements at its end."""
        missing = 10 - orders.numbers("orders.Delayed").total()
        orders.client.delayed("orders").send(orders.next(missing - missing // 3), delay=timedelta(0))
        orders.client.delayed("billing").send(orders.next(missing // 3), delay=timedelta(0), through="orders")

    def run(statement: int, moment: str) -> Life:
        return live(killed_work.move, orders.url, orders.schema, statement=statement, moment=moment)

    def check() -> None:
        orders.check(orders.numbers("orders.Delayed") + orders.numbers("orders") + orders.numbers("billing"))

    endure("mover", run, top_up, check)
    assert not orders.numbers("orders.Delayed")


def test_streams(orders: Orders, tmp_path: Path) -> None:
    orders.create()
    name = f"c {uuid.uuid4()}"

    def run(statement: int, moment: str) -> Life:
        given = orders.url, orders.schema, name, str(tmp_path)
        return live(killed_work.stream, *given, statement=statement, moment=moment)

    def check() -> None:
        found = Counter(killed_work.read_sink(tmp_path))
        assert set(found.values()) <= {1}, "doubled"
        claimed = run_sql(orders.session, f"SELECT [Body] FROM [{orders.schema}].[BatchMessage]")
        there = found.keys() | orders.numbers("orders").keys() | {int(bytes(body)) for (body,) in claimed}
        assert there == set(range(orders.sent)), "lost"

    endure("stream", run, lambda: orders.client.queue("orders").send(orders.next(6)), check)
    assert Counter(killed_work.read_sink(tmp_path)) == Counter(range(orders.sent))
    assert not orders.numbers("orders")


def test_writers(orders: Orders) -> None:
    """A job that is killed runs again with its send id."""
    orders.create()
    job = [uuid.uuid4(), 0]

    def top_up() -> None:
        """A job that was done is followed by another one."""
        if orders.numbers("orders").total() == orders.sent:
            job[:] = uuid.uuid4(), orders.sent
            orders.sent += 10

    def run(statement: int, moment: str) -> Life:
        return live(killed_work.write, orders.url, orders.schema, *job, 10, statement=statement, moment=moment)

    def check() -> None:
        found, before = orders.numbers("orders"), Counter(range(orders.sent - 10))
        assert found in (before, Counter(range(orders.sent))), "sent in part, or twice"

    endure("writer", run, top_up, check)
    orders.check(orders.numbers("orders"))


def test_creations_of_tables(orders: Orders) -> None:
    """A table is there as a whole or not at all; the next run creates those that are missing."""

    def drop() -> None:
        for (name,) in run_sql(
            orders.session, f"SELECT [name] FROM sys.tables WHERE [schema_id] = SCHEMA_ID(N'{orders.schema}')"
        ):
            run_sql(orders.session, f"DROP TABLE [{orders.schema}].[{name}]")

    def run(statement: int, moment: str) -> Life:
        return live(killed_work.create, orders.url, orders.schema, statement=statement, moment=moment)

    def check() -> None:
        killed_work.create(orders.url, orders.schema)
        assert orders.client.tables.inspect("orders").findings == ()
        orders.client.queue("orders").send([Message()])
        assert len(orders.client.queue("orders").receive()) == 1

    endure("creation of tables", run, drop, check)
