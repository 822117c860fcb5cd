"""Copies of new messages beside senders whose transactions commit out of order: each message once over all runs.

The short form has hundreds of messages and transactions of up to a third of a second; ``SQLQUEUE_FAULTS=long`` has
200,000 messages and transactions of up to five seconds.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.errors import BatchNotFoundError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable, copies
from airflow_sqlqueue.queue.copies import CopyTable, QueueCopy
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import query
from tests.contract.conftest import Connect, run_sql
from tests.drains import batch_bodies
from tests.faults.conftest import LONG
from tests.faults.mortal import Killed, Mortal

log = logging.getLogger(__name__)

NAME = "late commits"
GIVEN_UP = 1800 if LONG else 60
"""Seconds after which the senders end in any case."""
WRITERS = 10 if LONG else 5
MESSAGES, LONGEST, SENDS, KILLS = (200_000, 5.0, 200, 100) if LONG else (200, 0.3, 6, 3)
OPTIONS = DrainOptions(
    rows_per_statement=500 if LONG else 50, rows_per_part=2_000 if LONG else 100, locked_wait_seconds=0
)


@pytest.fixture
def copies_of_queue(connect: Connect, queue: QueueTable) -> Iterator[CopyTable]:
    """The table of copies; the copy of the test's queue is forgotten at the end."""
    Ledger(queue.session, queue.address.catalog).create()
    table = CopyTable(queue.session, queue.address.catalog)
    table.create()
    yield table
    table.forget(NAME, queue.address.canonical)


def commit(session: Session) -> None:
    session.run(query("session.commit"))
    session.committed()


class Senders:
    """Senders whose transactions last 0 to ``LONGEST`` seconds; some roll back."""

    def __init__(self, connect: Connect, queue: QueueTable) -> None:
        self._connect, self._address = connect, queue.address
        self._lock = threading.Lock()
        self.committed = Counter[bytes]()
        self.received = Counter[bytes]()
        self.rolled_back = 0
        self.ended = threading.Event()
        self.runs, self.begun = threading.Condition(), 0

    def send(self, writer: int) -> None:
        """Send until the end. A transaction has three statements, with pauses between them."""
        chance, number = random.Random(writer), 0
        with self._connect() as session:
            queue = QueueTable(session, self._address)
            while not self.ended.is_set():
                sent, seconds = list[bytes](), chance.uniform(0, LONGEST)
                session.begin()
                for _ in range(3):
                    bodies = [b"%d %d" % (writer, number + n) for n in range(chance.randint(1, SENDS))]
                    queue.send(Message(body=body) for body in bodies)
                    number += len(bodies)
                    sent += bodies
                    # The length of the transaction is the subject of the test.
                    self.ended.wait(seconds / 3)
                if chance.random() < 0.3:
                    self._wait_for_runs()
                self._end(session, sent, rolled_back=chance.random() < 0.15)

    def _wait_for_runs(self) -> None:
        """Stay open during a run of the copy, on a machine of any speed."""
        with self.runs:
            begun = self.begun
            self.runs.wait_for(lambda: self.begun >= begun + 2 or self.ended.is_set(), timeout=10 * LONGEST)

    def note_run(self) -> None:
        """Note that a run of the copy begins."""
        with self.runs:
            self.begun += 1
            self.runs.notify_all()

    def _end(self, session: Session, sent: list[bytes], *, rolled_back: bool) -> None:
        if rolled_back:
            session.roll_back()
        else:
            commit(session)
        with self._lock:
            self.rolled_back += len(sent) if rolled_back else 0
            self.committed.update([] if rolled_back else sent)

    def receive(self) -> None:
        """Receive a message now and then, for good, before or after it is copied."""
        chance = random.Random(1)
        with self._connect() as session:
            while not self.ended.is_set():
                with session.transaction():
                    found = QueueTable(session, self._address).receive(1)
                self.received.update(message.body for message in found)
                self.ended.wait(chance.uniform(0, LONGEST / 2))

    def hold(self) -> None:
        """Receive messages and put them back, as a handler that fails."""
        chance = random.Random(0)
        with self._connect() as session:
            while not self.ended.is_set():
                session.begin()
                QueueTable(session, self._address).receive(chance.randint(1, 5))
                self.ended.wait(chance.uniform(0, LONGEST / 5))
                session.roll_back()


class Dying(Session):
    """A session of a process that is killed at its n-th statement: its connection ends, and nothing runs after."""

    left: int | None = None

    def run(self, *arguments: Any, **sizes: Any) -> list[Any]:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.close()
                raise Killed
        return super().run(*arguments, **sizes)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("stage", ["files"], indirect=True)
def test_each_message_is_copied_once_despite_late_commits_and_kills(
    settings: ConnectionSettings,
    connect: Connect,
    queue: QueueTable,
    stage: Stage,
    copies_of_queue: CopyTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copies, "CLOSING_SECONDS", 5)
    senders, chance = Senders(connect, queue), random.Random(7)
    batches, kills, started = [uuid.uuid4()], 0, time.monotonic()

    def copy(statements: int | None) -> None:
        def dying() -> Session:
            session = Dying(settings)
            session.left = statements
            return session

        senders.note_run()
        request = DrainRequest(batch_id=batches[-1], copy=True, incremental=NAME, options=OPTIONS)
        Drain(dying, queue.address, stage, request).run()

    def has_shown_little() -> bool:
        few = sum(senders.committed.values()) < MESSAGES or kills < KILLS
        return few or late_parts(queue) < KILLS

    copy(None)
    with ThreadPoolExecutor(WRITERS + 2) as pool:
        work = [*(pool.submit(senders.send, writer) for writer in range(WRITERS)), pool.submit(senders.hold)]
        work.append(pool.submit(senders.receive))
        try:
            while has_shown_little() and time.monotonic() < started + GIVEN_UP:
                try:
                    copy(chance.choice((None, chance.randint(1, 50))))
                    batches.append(uuid.uuid4())
                except Killed:
                    kills += 1
                    if kills % 3 == 0:
                        # Its batch is never resumed: what is in it counts as copied.
                        batches.append(uuid.uuid4())
        finally:
            senders.ended.set()
        for each in work:
            each.result()
    monkeypatch.setattr(copies, "CLOSING_SECONDS", 0)
    for _ in range(3):
        batches.append(uuid.uuid4())
        copy(None)
    copied = bodies_of(connect, queue, batches)
    log.info(
        "%d messages, %d rolled back, %d batches, %d late parts, %d kills, %.0f s",
        *(sum(senders.committed.values()), senders.rolled_back, len(batches), late_parts(queue), kills),
        time.monotonic() - started,
    )
    assert sum((senders.committed - copied - senders.received).values()) == 0, "lost"
    assert sum((copied - senders.committed).values()) == 0, "doubled or made up"
    assert senders.received
    assert not has_shown_little()
    with connect() as session:
        assert QueueCopy(QueueTable(session, queue.address), NAME).state().gaps == 0, "nobody can fill one any more"


def bodies_of(connect: Connect, queue: QueueTable, batches: list[uuid.UUID]) -> Counter[bytes]:
    """The bodies of the batches that the ledger has, sealed."""
    copied = Counter[bytes]()
    for batch_id in batches:
        with connect() as session:
            try:
                batch = Ledger(session, queue.address.catalog).seal(batch_id)
            except BatchNotFoundError:
                continue
        copied.update(batch_bodies(connect, queue, batch))
    return copied


def late_parts(queue: QueueTable) -> int:
    """Number of parts with a RowVersion below those of a part that was committed before."""
    text = (
        "SELECT p.[MinRowVersion], p.[MaxRowVersion] FROM [sqlqueue].[Part] AS p JOIN [sqlqueue].[Batch] AS b "
        f"ON b.[BatchId] = p.[BatchId] WHERE b.[Queue] = N'{queue.address.canonical}' ORDER BY p.[CommittedAt]"
    )
    late, highest = 0, 0
    for low, high in run_sql(queue.session, text):
        late += low < highest
        highest = max(highest, high)
    return late


@pytest.mark.parametrize(
    ("stage", "after"),
    [("files", False), ("table", True), *([("files", True), ("table", False)] if LONG else [])],
    indirect=["stage"],
)
def test_a_copy_that_dies_at_every_statement(
    connect: Connect,
    queue: QueueTable,
    stage: Stage,
    copies_of_queue: CopyTable,
    monkeypatch: pytest.MonkeyPatch,
    after: bool,
) -> None:
    """At statements of a run that has messages above the watermark, late ones, and gaps to close: at length at each."""
    monkeypatch.setattr(copies, "CLOSING_SECONDS", 0)
    mortal, batches, sent = Mortal(monkeypatch), list[uuid.UUID](), 0
    options = DrainOptions(rows_per_statement=2, rows_per_part=3, locked_wait_seconds=0)
    step = 1 if LONG else 8
    statement, ended = 1 + int(after) * step // 2 - step, 0

    def run(lives: int | None) -> None:
        mortal.born(lives, after=after)
        try:
            request = DrainRequest(batch_id=batches[-1], copy=True, incremental=NAME, options=options)
            Drain(connect, queue.address, stage, request).run()
        finally:
            mortal.born(None)

    while ended < 2:
        statement += step
        batches.append(uuid.uuid4())
        with connect() as late:
            late.begin()
            QueueTable(late, queue.address).send(Message(body=b"%d" % n) for n in range(sent, sent + 2))
            queue.send(Message(body=b"%d" % n) for n in range(sent + 2, sent + 5))
            sent += 5
            run(None)
            commit(late)
        queue.send([Message(body=b"%d" % sent)])
        sent += 1
        batches.append(uuid.uuid4())
        try:
            run(statement)
            ended += 1
        except Killed:
            ended = 0
    batches.append(uuid.uuid4())
    run(None)
    assert statement > 30
    copied = bodies_of(connect, queue, batches)
    assert copied == Counter(b"%d" % n for n in range(sent))
