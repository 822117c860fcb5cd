"""Copies of new messages beside senders whose transactions commit out of order: each message once over all runs.

The short form has a few thousand messages and transactions of up to half a second; ``SQLQUEUE_FAULTS=long`` has 200,000
messages and transactions of up to five seconds.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.errors import BatchNotFoundError
from airflow_sqlqueue.message import Message
from airflow_sqlqueue.queue import QueueTable, copies
from airflow_sqlqueue.queue.copies import CopyTable, QueueCopy
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import query
from tests.contract.conftest import Connect
from tests.drains import batch_bodies
from tests.faults.conftest import LONG
from tests.faults.mortal import Killed, Mortal
from tests.faults.processes import SEALED, Draining

NAME = "late commits"
WRITERS = 10
MESSAGES, LONGEST, SENDS = (200_000, 5.0, 200) if LONG else (2_500, 0.5, 10)
OPTIONS = DrainOptions(rows_per_statement=2_000 if LONG else 20, rows_per_part=20_000 if LONG else 50, settle_seconds=0)


@pytest.fixture
def copies_of_queue(connect: Connect, queue: QueueTable) -> Iterator[CopyTable]:
    """The table of copies; the copy of the test's queue is forgotten at the end."""
    Ledger(queue.session, queue.address.catalog).create()
    table = CopyTable(queue.session, queue.address.catalog)
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
        self.rolled_back = 0
        self.ended = threading.Event()

    @property
    def enough(self) -> bool:
        return sum(self.committed.values()) >= MESSAGES

    def send(self, writer: int) -> None:
        """Send until there are enough messages. A transaction has three statements, with pauses between them."""
        chance, number = random.Random(writer), 0
        with self._connect() as session:
            queue = QueueTable(session, self._address)
            while not self.enough:
                sent, seconds = list[bytes](), chance.uniform(0, LONGEST)
                session.begin()
                for _ in range(3):
                    bodies = [b"%d %d" % (writer, number + n) for n in range(chance.randint(1, SENDS))]
                    queue.send(Message(body=body) for body in bodies)
                    number += len(bodies)
                    sent += bodies
                    # The length of the transaction is the subject of the test.
                    time.sleep(seconds / 3)
                self._end(session, sent, rolled_back=chance.random() < 0.15)

    def _end(self, session: Session, sent: list[bytes], *, rolled_back: bool) -> None:
        if rolled_back:
            session.roll_back()
        else:
            commit(session)
        with self._lock:
            self.rolled_back += len(sent) if rolled_back else 0
            self.committed.update([] if rolled_back else sent)

    def hold(self) -> None:
        """Receive messages and put them back, as a handler that fails."""
        chance = random.Random(0)
        with self._connect() as session:
            while not self.ended.is_set():
                session.begin()
                QueueTable(session, self._address).receive(chance.randint(1, 5))
                self.ended.wait(chance.uniform(0, LONGEST / 5))
                session.roll_back()


@pytest.mark.timeout(3600)
def test_each_message_once_whenever_it_commits_and_whoever_is_killed(
    server_url: str,
    connect: Connect,
    queue: QueueTable,
    stage: Stage,
    copies_of_queue: CopyTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if LONG and stage.name == "table":
        pytest.skip("the long form takes minutes: it runs for files")
    senders, chance = Senders(connect, queue), random.Random(7)
    batches, kills, started = [uuid.uuid4()], 0, time.monotonic()
    with ThreadPoolExecutor(WRITERS + 1) as pool:
        writing = [pool.submit(senders.send, writer) for writer in range(WRITERS)]
        holding = pool.submit(senders.hold)
        try:
            while not all(each.done() for each in writing):
                with closing(
                    Draining(
                        server_url,
                        queue.address,
                        stage,
                        batches[-1],
                        OPTIONS,
                        closing_seconds=1,
                        keep=True,
                        only_new=NAME,
                    )
                ) as process:
                    process.started()
                    if process.ended(within=chance.uniform(0, 6 * LONGEST / 5)):
                        assert process.outcome() == SEALED
                        batches.append(uuid.uuid4())
                    else:
                        process.kill()
                        kills += 1
                        if chance.random() < 0.3:
                            # Its batch is never resumed; what is in it counts as copied.
                            batches.append(uuid.uuid4())
        finally:
            senders.ended.set()
        for each in (*writing, holding):
            each.result()
    monkeypatch.setattr(copies, "CLOSING_SECONDS", 0)
    for _ in range(3):
        request = DrainRequest(batch_id=batches[-1], keep=True, only_new=NAME, options=OPTIONS)
        Drain(connect, queue.address, stage, request).run()
        batches.append(uuid.uuid4())
    copied = bodies_of(connect, queue, batches)
    print(
        f"\n{sum(senders.committed.values()):,} messages, {senders.rolled_back:,} rolled back, {len(batches)} batches, "
        f"{kills} kills, {time.monotonic() - started:.0f} s"
    )
    assert kills >= 3
    assert senders.committed - copied == Counter(), "lost"
    assert copied - senders.committed == Counter(), "doubled or made up"
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


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_copy_that_dies_at_every_statement(
    connect: Connect,
    queue: QueueTable,
    stage: Stage,
    copies_of_queue: CopyTable,
    monkeypatch: pytest.MonkeyPatch,
    after: bool,
) -> None:
    """At statements of a run that has messages above the watermark, late ones, and gaps to close: at length at each."""
    if not LONG and (stage.name == "table") != after:
        pytest.skip("the long form has both stages with both moments")
    monkeypatch.setattr(copies, "CLOSING_SECONDS", 0)
    mortal, batches, sent = Mortal(monkeypatch), list[uuid.UUID](), 0
    options = DrainOptions(rows_per_statement=2, rows_per_part=3, settle_seconds=0)
    step = 1 if LONG else 3
    statement, ended = 1 + int(after) - step, 0

    def run(lives: int | None) -> None:
        mortal.born(lives, after=after)
        try:
            request = DrainRequest(batch_id=batches[-1], keep=True, only_new=NAME, options=options)
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
