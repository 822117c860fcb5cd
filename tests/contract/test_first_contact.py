"""First contact with a server: basic statements, one by one, from the simplest on.

The tests of other files say more of each. These say at once where a server differs from what its documentation says.
No connection can kill the server after a few numbers of an identity: ``tests/faults`` do that, with fakemssql.
"""

from __future__ import annotations

import threading
import uuid
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import pyodbc
import pytest

from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.base import PartPlan
from airflow_sqlqueue.drain.stages.staging_table import MessageTable
from airflow_sqlqueue.errors import LockTimeoutError, QueueNotFoundError, SqlQueueError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.row import row_of
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import hold
from airflow_sqlqueue.queue.copies import CopyTable, QueueCopy
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.queue_table import FIRST, LAST
from airflow_sqlqueue.queue.send_ledger import SendLedger
from airflow_sqlqueue.queue.window import Window
from fakemssql import FakeServer
from tests.contract.conftest import Connect, ignores_case, run_sql

MANY = 20_000


@pytest.fixture
def ledger(queue: QueueTable) -> Ledger:
    ledger = Ledger(queue.session, queue.address.catalog)
    ledger.create()
    return ledger


def commit(queue: QueueTable, ledger: Ledger, path: str | None) -> uuid.UUID:
    batch_id = uuid.uuid4()
    ledger.open(batch_id, queue.address.canonical, LAST)
    queue.session.begin()
    (row,) = queue.delete_first_rows(1, Window(0), 1000)
    version = row_of(row).row_version
    ledger.commit_part(
        batch_id,
        Part(uuid.uuid4(), path, messages=1, bytes=1, min_row_version=version, max_row_version=version),
        "worker",
    )
    queue.session.committed()
    return batch_id


def test_1_rows_are_deleted_by_a_common_table_expression_that_adds_up_their_bytes(queue: QueueTable) -> None:
    queue.send(Message(body=b"x" * 100) for _ in range(5))
    with queue.session.transaction():
        taken = queue.delete_first_rows(5, Window(0), 250)
    assert 1 <= len(taken) < 5
    assert depth(queue).messages == 5 - len(taken)


def test_1_rows_are_deleted_into_the_table_of_staged_messages(queue: QueueTable, ledger: Ledger) -> None:
    queue.send(Message(body=b"x") for _ in range(5))
    table = MessageTable(queue.session, queue.address.catalog)
    with queue.session.transaction():
        plan = PartPlan(queue, DrainOptions(keep_expired=True), uuid.uuid4(), uuid.uuid4(), "batch", Window(0))
        taken = table.take(plan, 3, plan.window)
    assert taken is not None
    assert depth(queue).messages == 2


def test_2_a_part_is_committed_by_the_statement_that_enters_it(queue: QueueTable, ledger: Ledger) -> None:
    queue.send([Message(body=b"a"), Message(body=b"b")])
    assert [part.path for part in ledger.parts(commit(queue, ledger, "file:///part"))] == ["file:///part"]
    assert depth(queue).messages == 1


def test_3_a_part_without_a_file_is_committed_with_its_rows(queue: QueueTable, ledger: Ledger) -> None:
    queue.send([Message(body=b"a"), Message(body=b"b")])
    assert [part.path for part in ledger.parts(commit(queue, ledger, None))] == [None]
    assert depth(queue).messages == 1


def test_4_a_none_that_cannot_be_described_loses_no_transaction_in_silence(queue: QueueTable) -> None:
    """Whether the server keeps the transaction or not, later statements never commit by themselves."""
    queue.send([Message(body=b"a")])
    session, kept = queue.session, True
    try:
        with session.transaction():
            queue.receive(1)
            session.enlisted_connection().execute("SELECT ?", None)
            queue.send([Message(body=b"b")])
    except SqlQueueError:
        kept = False
    assert [message.body for message in queue.peek(5)] == [b"b" if kept else b"a"]


def test_5_statements_pass_over_what_others_have_locked(queue: QueueTable, connect: Connect) -> None:
    """As READPAST does whether READ_COMMITTED_SNAPSHOT is on or off."""
    queue.send(Message(body=b"%d" % n) for n in range(10))
    with connect() as other:
        elsewhere = QueueTable(other, queue.address)
        with other.transaction():
            assert [message.body for message in elsewhere.receive(3)] == [b"0", b"1", b"2"]
            with queue.session.lock_timeout(1):
                assert depth(queue).messages == 7
                assert queue.peek(1)[0].body == b"3"
                assert queue.ends() == (4, 10)
                assert [message.body for message in queue.receive(1)] == [b"3"]


def test_6_two_sendings_with_other_ids_do_not_wait_for_each_other(queue: QueueTable, connect: Connect) -> None:
    """Also while the table of sendings is empty, where a lock of a missing key reaches to its end."""
    ledger = SendLedger(queue.session, queue.address.catalog)
    ledger.create()
    begun, done = threading.Event(), threading.Event()

    def slow() -> list[Message]:
        begun.set()
        assert done.wait(60)
        return [Message(body=b"slow")]

    def send() -> None:
        with connect() as session:
            messages = (message for each in (slow,) for message in each())
            SendLedger(session, queue.address.catalog).send(QueueTable(session, queue.address), uuid.uuid4(), messages)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        assert begun.wait(60)
        with queue.session.lock_timeout(2):
            assert ledger.send(queue, uuid.uuid4(), [Message(body=b"quick")]).messages == 1
    finally:
        done.set()
        thread.join(60)
    assert {message.body for message in queue.peek(5)} == {b"slow", b"quick"}


def test_7_a_count_of_a_large_queue_does_not_wait_for_a_receiver(queue: QueueTable, connect: Connect) -> None:
    """Were page locks taken for it, READPAST would not pass over them."""
    queue.send(Message(body=b"x") for _ in range(MANY))
    with connect() as other, other.transaction():
        assert len(QueueTable(other, queue.address).receive(10)) == 10
        with queue.session.lock_timeout(1):
            assert depth(queue).messages == MANY - 10


def test_8_no_row_or_table_is_left(queue: QueueTable, ledger: Ledger, connect: Connect) -> None:
    """No transaction, and no application lock: another connection opens the same batch at once."""
    batch_id = uuid.uuid4()
    ledger.open(batch_id, queue.address.canonical, LAST)
    with connect() as other, other.lock_timeout(1):
        Ledger(other, queue.address.catalog).open(batch_id, queue.address.canonical, LAST)
    assert run_sql(queue.session, "SELECT @@TRANCOUNT")[0][0] == 0


def test_9_statements_pass_over_uncommitted_rows(queue: QueueTable, connect: Connect) -> None:
    """Optimized locking locks transactions in the place of rows: ``scripts/contract.py --optimized-locking``."""
    CopyTable(queue.session, queue.address.catalog).create()
    queue.send(Message(body=b"%d" % n) for n in range(6))
    copy = QueueCopy(queue, "first contact")
    with connect() as other, other.transaction(), queue.session.lock_timeout(1):
        beside = QueueTable(other, queue.address)
        assert [message.body for message in beside.receive(2)] == [b"0", b"1"]
        beside.send([Message(body=b"uncommitted")])
        seen = [message.row_version for message in queue.peek(10)]
        assert len(seen) == 4
        with queue.session.transaction():
            copy.advance(copy.lock(), seen, None)
        assert copy.in_gaps(10, LAST) == {}
        assert [message.body for message in queue.receive(1)] == [b"2"]
    with queue.session.transaction():
        new = copy.count(10)
    assert new is not None
    assert new.total == 1


@pytest.mark.parametrize("writes", ["INSERT", "DELETE", "UPDLOCK"])
def test_10_a_copy_has_no_proof_while_a_transaction_may_write(
    queue: QueueTable, connect: Connect, server: Any, writes: str
) -> None:
    """A locked row has an intent lock on its table as well; fakemssql locks the row alone."""
    queue.send([Message(), Message()])
    write = {
        "INSERT": lambda table: table.send([Message()]),
        "DELETE": lambda table: len(table.receive(1)),
        "UPDLOCK": lambda table: len(hold(table, 1)),
    }[writes]
    passes = writes == "UPDLOCK" and isinstance(server, FakeServer)
    expects: Any = nullcontext() if passes else pytest.raises(LockTimeoutError)
    with connect() as other:
        other.begin()
        assert write(QueueTable(other, queue.address)) == 1
        with queue.session.lock_timeout(0), expects:
            queue.rows("copies.no_writers", FIRST)
        other.roll_back()
    with queue.session.lock_timeout(0):
        assert queue.rows("copies.no_writers", FIRST) == []


def test_11_a_count_of_new_messages_locks_no_table(queue: QueueTable, connect: Connect) -> None:
    """A statement with 5,000 locks would try for one on the table, for which senders and receivers wait."""
    CopyTable(queue.session, queue.address.catalog).create()
    queue.send(Message(body=b"x") for _ in range(MANY))
    copy = QueueCopy(queue, "counted")
    with queue.session.transaction():
        copy.advance(copy.lock(), [message.row_version for message in queue.peek(10)], None)
    locks = (
        "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE resource_type = 'OBJECT' AND request_mode IN ('S', 'X') "
        f"AND resource_associated_entity_id = OBJECT_ID(N'{queue.address.qualified_name}')"
    )
    counts: list[int | None] = []

    def count() -> None:
        for _ in range(3):
            counts.append(getattr(copy.count(10_000), "total", None))

    thread = threading.Thread(target=count)
    thread.start()
    with connect() as other:
        while thread.is_alive():
            assert run_sql(other, locks)[0][0] == 0
    thread.join(60)
    assert len(counts) == 3
    assert all(number is not None and number >= 10_000 for number in counts)


def test_12_a_limit_of_rows_ends_no_send(queue: QueueTable) -> None:
    """fakemssql takes no limit; the session lifts it in any case."""
    with suppress(pyodbc.Error):
        queue.session.enlisted_connection().execute("SET ROWCOUNT 3")
    with queue.session.transaction():
        queue.send(Message() for _ in range(10))
    assert depth(queue).messages == 10


def test_13_two_spellings_are_one_table_where_the_collation_ignores_case(queue: QueueTable) -> None:
    upper = replace(queue.address, table=queue.address.table.upper())
    if ignores_case(queue.session):
        assert QueueTable(queue.session, upper).layout.table == queue.layout.table
    else:
        with pytest.raises(QueueNotFoundError):
            depth(QueueTable(queue.session, upper))
