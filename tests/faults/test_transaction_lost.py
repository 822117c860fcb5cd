"""The server ends a transaction without a word: no statement after it is committed on its own.

Each statement of a transaction begins by making sure of it. Without that beginning the same faults lose and double
messages, which the last test shows.
"""

from __future__ import annotations

import random
import threading
import uuid
from contextlib import closing
from unittest.mock import patch

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.errors import StatementError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from fakemssql import FakeServer
from tests.conftest import Server
from tests.contract.conftest import Connect
from tests.drains import drain
from tests.faults.account import Account
from tests.faults.conftest import LONG
from tests.faults.processes import SEALED, Draining

OPTIONS = DrainOptions(rows_per_statement=7, rows_per_part=20, locked_wait_seconds=20, workers=1)
LOSSES = 2
KILLS = 50 if LONG else 3

SECOND_DELETE, COMMIT = 5, 7
STATEMENTS = range(1, 16) if LONG else (1, 2, 4, SECOND_DELETE, COMMIT, 11)
OF_EACH = {"files": (1, 4, SECOND_DELETE, COMMIT), "table": (2, SECOND_DELETE, COMMIT, 11)}
"""Opening the batch is three statements, a part of 20 messages three and the one with COMMIT, on one connection."""


@pytest.fixture
def fake(server: Server) -> FakeServer:
    if not isinstance(server, FakeServer):
        pytest.skip("only fakemssql can be told to lose a transaction")
    return server


class Losing:
    """Opens sessions; the first ones lose a transaction before the statement of that number."""

    def __init__(self, fake: FakeServer, connect: Connect, statement: int) -> None:
        self._fake, self._connect, self._statement = fake, connect, statement
        self._lock = threading.Lock()
        self.opened = 0

    def __call__(self) -> Session:
        with self._lock:
            self.opened += 1
            if self.opened > LOSSES:
                return self._connect()
            with self._fake.switched(lose_transaction_at=self._statement):
                return self._connect()


@pytest.mark.parametrize(
    ("statement", "stage"),
    [(each, stage) for each in STATEMENTS for stage in ("files", "table") if LONG or each in OF_EACH[stage]],
    indirect=["stage"],
)
def test_a_drain_loses_and_duplicates_nothing(
    fake: FakeServer,
    connect: Connect,
    queue: QueueTable,
    stage: Stage,
    account: Account,
    batch_id: uuid.UUID,
    statement: int,
) -> None:
    account.send(60)
    losing = Losing(fake, connect, statement)
    result = drain(losing, queue, stage, OPTIONS, batch_id=batch_id)
    # The second one may lose its transaction just before a ROLLBACK, where nobody misses it.
    assert losing.opened > 1, "the first connection was given up"
    assert (result.batch.state, result.locked) == ("sealed", 0)
    account.check(batch_id)
    assert account.queued() == 0


@pytest.mark.parametrize("statement", range(1, 5))
def test_an_endpoint_loses_and_duplicates_nothing(
    fake: FakeServer, settings: ConnectionSettings, queues: dict[str, str], statement: int
) -> None:
    """Behind BEGIN and the receive, which are one, a message is a send and the COMMIT."""
    orders, billing, error = map(QueueClient(settings).queue, queues.values())
    orders.send(Message(body=b"%d" % n) for n in range(3))
    retries = {"immediate_retries": 1, "delayed_retries": 0}
    options = ConsumeOptions(max_handlers=1, error_queue=error.address.canonical, **retries)
    with fake.switched(lose_transaction_at=statement):
        done = orders.consume(lambda message: billing.send([Message(body=message.body)]), options)
    assert (done.handled, done.rolled_back, done.failed) == (3, 1, 0)
    assert [message.body for message in billing.peek()] == [b"0", b"1", b"2"]
    assert orders.depth().messages == error.depth().messages == 0


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stage", ["files", "table"] if LONG else ["table"], indirect=True)
def test_processes_that_are_killed_and_lose_transactions_lose_and_duplicate_nothing(
    fake: FakeServer, server_url: str, queue: QueueTable, stage: Stage, account: Account
) -> None:
    """Every connection loses a transaction, after a part or more; the process is killed and resumed.

    The largest part, with bodies that are read in pieces, is less than 40 statements.
    """
    chance, kills, batch_id, outcome = random.Random(3), 0, uuid.uuid4(), None
    account.send(150)
    while outcome is None:
        with (
            fake.switched(lose_transaction_at=chance.randint(40, 60)),
            closing(Draining(server_url, queue.address, stage, batch_id)) as process,
        ):
            process.started()
            if kills == KILLS or process.ended(within=chance.uniform(0, 0.5)):
                outcome = process.outcome()
            else:
                process.kill()
                kills += 1
        account.check(batch_id)
    assert outcome == SEALED
    assert account.queued() == 0


@pytest.mark.parametrize(
    ("stage", "statement"), [("table", SECOND_DELETE), ("table", COMMIT), ("files", COMMIT)], indirect=["stage"]
)
def test_without_the_guard_the_account_does_not_balance(
    fake: FakeServer,
    connect: Connect,
    queue: QueueTable,
    stage: Stage,
    account: Account,
    batch_id: uuid.UUID,
    statement: int,
) -> None:
    account.send(60)
    # What ends the drain comes too late: a COMMIT that finds no transaction.
    with patch.object(Session, "guarded", lambda _, text: text), pytest.raises(StatementError, match="3902"):
        drain(Losing(fake, connect, statement), queue, stage, OPTIONS, batch_id=batch_id)
    # A DELETE was committed on its own, or a part is in the ledger whose messages are in the queue again.
    with pytest.raises((AssertionError, FileNotFoundError)):
        account.check(batch_id)
