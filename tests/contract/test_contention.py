"""Statements beside others' locks: waits, skipped rows, and repetitions.

Source: docs/transport/transactions.md, "Isolation and READPAST", "Transient errors" and "Purges beside receivers".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import DeadlockError, LockTimeoutError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import PurgeOptions, QueueTable
from airflow_sqlqueue.queue.browsing import browse
from airflow_sqlqueue.queue.delayed.table import DelayedTable, delayed_name
from airflow_sqlqueue.queue.depth import backlog, depth
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.scan import show_error, window_of
from airflow_sqlqueue.queue.publishing.conversation import Polling, wait_for_reply
from airflow_sqlqueue.queue.purge import purge
from airflow_sqlqueue.queue.quarantine import Quarantine
from airflow_sqlqueue.queue.send_ledger import SendLedger
from airflow_sqlqueue.queue.table_access import LAST
from airflow_sqlqueue.queue.tables.create import create, delayed_definition
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from fakemssql import FakeServer
from tests.contract.conftest import Connect, drop_schema, run_sql

OLD = PurgeOptions(older_than=timedelta(0), dry_run=True)
EVERY = PurgeOptions(all_messages=True, dry_run=True)
SCHEMA = f"contention_{uuid.uuid4().hex[:10]}"
"""A ledger of this module's own: others' rows and locks would matter here."""

HELD = uuid.uuid4()
"""The id of a message that another has received."""

READS: dict[str, Callable[[QueueTable], Any]] = {
    "depth": lambda queue: depth(queue),
    "depth up to": lambda queue: depth(queue, limit=10),
    "quick depth": lambda queue: depth(queue, "quick"),
    "backlog": lambda queue: backlog(queue, "quick"),
    "browse": lambda queue: browse(queue, 10),
    "peek": lambda queue: queue.peek(10),
    "ids": lambda queue: queue.take(ids=[HELD]),
    "a purge of expired messages": lambda queue: purge(queue, PurgeOptions(dry_run=True)),
    "a purge of all": lambda queue: purge(queue, EVERY),
    "a purge by age": lambda queue: purge(queue, OLD),
    "a reply": lambda queue: wait_for_reply(queue, "c", Polling(timeout=5)),
    "an error": lambda queue: show_error(queue, message_id="m", with_body=True),
}
"""Reads of a queue that never wait for a receiver."""


@pytest.fixture
def filled(queue: QueueTable) -> QueueTable:
    queue.send([Message(body=b"%d" % n, id=HELD if n == 0 else None) for n in range(5)])
    queue.send([Message({"NServiceBus.CorrelationId": "c", "NServiceBus.MessageId": "m"})])
    queue.send([Message(time_to_be_received=timedelta(seconds=-5))])
    return queue


@pytest.fixture(scope="session")
def settings(settings: ConnectionSettings) -> ConnectionSettings:
    return replace(settings, ledger_schema=SCHEMA)


@pytest.fixture(scope="module", autouse=True)
def ledger_schema(settings: ConnectionSettings) -> Iterator[None]:
    """Drop the ledger afterwards."""
    yield
    with Session(settings) as session:
        drop_schema(session, SCHEMA)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reads_of_a_queue_step_over_rows_where_pages_could_be_locked(
    fake: FakeServer, connect: Connect, filled: QueueTable, read: Callable[[QueueTable], Any]
) -> None:
    with filled.session.transaction():
        assert filled.receive(1)[0].body == b"0"
        run_sql(filled.session, f"DELETE FROM {filled.address.qualified_name} WHERE [Expires] < GETUTCDATE()")
        with fake.switched(page_locks=True), connect() as session, session.lock_timeout(0):
            read(QueueTable(session, filled.address))


def test_so_do_those_of_delayed_messages(
    fake: FakeServer, connect: Connect, queue: QueueTable, address_of: AddressResolver
) -> None:
    address = address_of.resolve(delayed_name(queue.address.table))
    create(queue.session, delayed_definition(address))
    held = DelayedTable(queue.session, address)
    held.store([Message(), Message()], delay=timedelta(0))
    (first, *_) = held.peek()
    try:
        with queue.session.transaction():
            assert held.cancel([first.row_version]) == 1
            with fake.switched(page_locks=True), connect() as session, session.lock_timeout(0):
                table = DelayedTable(session, address)
                assert table.count().messages == 1
                assert len(table.peek()) == 1
                assert table.next_due() is not None
                assert backlog(QueueTable(session, queue.address), delayed=address).delayed == 1
    finally:
        run_sql(queue.session, f"DROP TABLE {address.qualified_name}")


def test_reading_the_quarantine_waits_for_no_part(connect: Connect, queue: QueueTable) -> None:
    Ledger(queue.session, queue.address.catalog).create()
    queue.send([Message(), Message()])
    first, second = (message.row_version for message in queue.peek())
    quarantine = Quarantine(queue.session, queue.address.catalog)
    assert quarantine.move(queue, uuid.uuid4(), {first: "no text"}) == 1
    with queue.session.transaction(), connect() as session, session.lock_timeout(0):
        assert quarantine.move(queue, uuid.uuid4(), {second: "no text"}) == 1
        ((seen),) = Quarantine(session, queue.address.catalog).messages(queue.address)
        assert seen.row_version == first


DIRTY: dict[str, Callable[[QueueTable], Any]] = {
    "windows": lambda queue: queue.window_end(10, 0, LAST),
    "sizes": lambda queue: queue.mean_bytes(),
    "what is left": lambda queue: queue.count_left(LAST),
    "the end of an error queue": lambda queue: window_of(queue, ErrorFilter()).up_to,
    "what a purge leaves": lambda queue: purge(queue, PurgeOptions(dry_run=True)).remaining,
    "a purge": lambda queue: purge(queue, PurgeOptions(all_messages=True, confirm=True)).deleted,
}
"""Reads of a queue under NOLOCK, each with a result above 0."""


@pytest.mark.parametrize("read", DIRTY.values(), ids=DIRTY)
def test_a_read_without_locks_is_repeated_where_rows_were_moved_under_it(
    fake: FakeServer, connect: Connect, filled: QueueTable, read: Callable[[QueueTable], Any]
) -> None:
    with fake.switched(failing_dirty_reads=2), connect() as session:
        assert read(QueueTable(session, filled.address)) > 0


def test_a_drain_goes_on(fake: FakeServer, connect: Connect, filled: QueueTable, tmp_path: Path) -> None:
    options, folder = DrainOptions(workers=2, locked_wait_seconds=0), StagingFolder.of(tmp_path)
    with fake.switched(failing_dirty_reads=2):
        batch = Drain(connect, filled.address, folder, DrainRequest(options=options)).run().batch
    assert (batch.messages, batch.expired) == (6, 1)


def test_sends_of_different_ids_do_not_wait_for_each_other(connect: Connect, queue: QueueTable) -> None:
    """Also in an empty ledger, where there is one gap for all of them."""
    ledger = SendLedger(queue.session, queue.address.catalog)
    ledger.create()
    send_id = uuid.uuid4()
    with queue.session.transaction(), connect() as session, session.lock_timeout(0):
        ledger.send(queue, send_id, [Message()])
        other, others_queue = SendLedger(session, queue.address.catalog), QueueTable(session, queue.address)
        assert not other.send(others_queue, uuid.uuid4(), [Message()]).repeated
        with pytest.raises(LockTimeoutError, match="lock of the send: another holds it for too long"):
            other.send(others_queue, send_id, [Message()])
    assert SendLedger(queue.session, queue.address.catalog).send(queue, send_id, [Message()]).repeated
    assert depth(queue).messages == 2


def test_batches_are_opened_beside_one_that_is_locked(connect: Connect, queue: QueueTable) -> None:
    ledger = Ledger(queue.session, queue.address.catalog)
    ledger.create()
    locked, opened = uuid.UUID(int=2**127), uuid.UUID(int=2**127 - 1)
    ledger.open(locked, "q", None)
    with queue.session.transaction(), connect() as session, session.lock_timeout(0):
        ledger.seal(locked)
        entry = Ledger(session, queue.address.catalog).open(opened, "q", None)
        assert (entry.state, entry.up_to) == ("open", None)


def test_unfinished_batches_are_found_beside_one_that_is_locked(connect: Connect, queue: QueueTable) -> None:
    ledger = Ledger(queue.session, queue.address.catalog)
    ledger.create()
    owner, (locked, other) = uuid.uuid4(), sorted(uuid.uuid4() for _ in range(2))
    for batch_id in (locked, other):
        ledger.open(batch_id, "q", None, request=DrainRequest(owner=owner))
    with queue.session.transaction(), connect() as session, session.lock_timeout(0):
        ledger.seal(locked)
        assert Ledger(session, queue.address.catalog).unfinished(owner) == [other]
    assert set(ledger.unfinished(owner)) == {locked, other}


def test_a_deadlock_of_application_locks_is_one_of_ours(queue: QueueTable) -> None:
    victim = Query("lock", "take the lock", "DECLARE @resource nvarchar(255) = ?; SELECT -3;")
    with pytest.raises(DeadlockError, match="run it again"):
        queue.session.take_lock(victim, "resource")


PRIORITY = "SELECT deadlock_priority FROM sys.dm_exec_sessions WHERE session_id = @@SPID"


@pytest.mark.parametrize("fails", [False, True])
def test_dropping_expired_messages_yields_to_endpoints(
    queue: QueueTable, caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    caplog.set_level("DEBUG", "airflow_sqlqueue")
    queue.send([Message(time_to_be_received=timedelta(seconds=-5))] * 3 + [Message()])
    assert run_sql(queue.session, PRIORITY)[0][0] == 0
    seen = []

    class Watched(QueueTable):
        def query(self, name: str, **fragments: Any) -> Any:
            if name == "queue.purge_expired":
                seen.append(run_sql(self.session, PRIORITY)[0][0])
                if fails:
                    run_sql(self.session, "THROW 50000, N'The test is over.', 1")
            return super().query(name, **fragments)

    watched = Watched(queue.session, queue.address)
    if fails:
        with pytest.raises(Exception, match="50000"), queue.session.transaction():
            watched.receive(2)
    else:
        with queue.session.transaction():
            assert len(watched.receive(2)) == 1
    assert ("Dropped 3 expired messages of" in caplog.text) is not fails
    assert seen == [-5]
    assert run_sql(queue.session, PRIORITY)[0][0] == 0
    assert depth(queue).total == (4 if fails else 0)
