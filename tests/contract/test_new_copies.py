"""A drain that copies what is new: each message is in one batch of the copy, whenever its transaction commits."""

from __future__ import annotations

import itertools
import random
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings as examples

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain import copying as drain_copying
from airflow_sqlqueue.drain.drain import Drain, DrainResult
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.progress import Progress
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import ConfigurationError, CopyError, WrongBatchError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable, copies
from airflow_sqlqueue.queue.copies import CopyState, CopyTable, QueueCopy
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import query
from tests.contract.conftest import Connect, run_sql
from tests.drains import SMALL_PARTS, batch_bodies, drain, fill, numbered_bodies

NAME = "daily"


class Copying:
    """Runs of one copy of a queue, and what they have copied."""

    def __init__(self, connect: Connect, queue: QueueTable, stage: StagingFolder | Stage) -> None:
        self._connect, self._queue, self._stage = connect, queue, stage
        self.batches: list[uuid.UUID] = []

    def run(self, **request: object) -> list[bytes]:
        """Copy what is new; the bodies of the batch."""
        done = self.drain(**request)
        return batch_bodies(self._connect, self._queue, done.batch)

    def drain(self, **request: object) -> DrainResult:
        return drain(self._connect, self._queue, self._stage, copy=True, incremental=NAME, **request)  # type: ignore[arg-type]

    @property
    def state(self) -> CopyState:
        with self._connect() as session:
            return QueueCopy(QueueTable(session, self._queue.address), NAME).state()

    @contextmanager
    def late(self, connect: Connect, bodies: list[bytes]) -> Iterator[None]:
        """Messages whose transaction commits at the end of the block."""
        with connect() as other, other.transaction():
            QueueTable(other, self._queue.address).send(Message(body=body) for body in bodies)
            yield


@pytest.fixture
def copying(
    request: pytest.FixtureRequest, connect: Connect, queue: QueueTable, staging: StagingFolder
) -> Iterator[Copying]:
    """A copy to files, or to the table for the tests that :data:`TO_EACH_STAGE` marks."""
    yield Copying(connect, queue, TableStage() if getattr(request, "param", "") == "table" else staging)
    CopyTable(queue.session, queue.address.catalog).forget(NAME, queue.address.canonical)


TO_EACH_STAGE = pytest.mark.parametrize("copying", ["files", "table"], indirect=True)


@pytest.fixture
def closing_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps may be closed by the run after the one that saw them."""
    monkeypatch.setattr(copies, "CLOSING_SECONDS", 0)


def leave_gap(queue: QueueTable) -> None:
    """Use up a number: of a send that is rolled back."""
    queue.session.begin()
    queue.send([Message(body=b"rolled back")])
    queue.session.roll_back()


def test_each_run_copies_what_is_new(connect: Connect, any_queue: QueueTable, staging: StagingFolder) -> None:
    copying = Copying(connect, any_queue, staging)
    first = fill(any_queue, 45)
    assert copying.run() == first
    assert copying.run() == []
    second = fill(any_queue, 10, 45)
    assert copying.run() == second
    assert depth(any_queue).messages == 55


@pytest.mark.usefixtures("closing_at_once")
@pytest.mark.parametrize("name", ["c", "g", "m", "q"])
def test_a_queue_may_be_called_as_an_alias_of_a_statement(
    connect: Connect, queue: QueueTable, staging: StagingFolder, name: str
) -> None:
    named = QueueTable(queue.session, replace(queue.address, table=name))
    create_queue(queue.session, named.address)
    copying = Copying(connect, named, staging)
    try:
        with copying.late(connect, [b"late"]):
            fill(named, 3)
            assert copying.run() == numbered_bodies(3)
        assert QueueCopy(named, NAME).count(10).messages == 1
        assert [copying.run() for _ in range(3)] == [[b"late"], [], []]
        assert copying.state.gaps == 0
    finally:
        CopyTable(queue.session, named.address.catalog).forget(NAME, named.address.canonical)
        run_sql(queue.session, f"DROP TABLE {named.address.qualified_name}")


@TO_EACH_STAGE
def test_a_message_that_commits_late_is_copied_once(connect: Connect, copying: Copying, queue: QueueTable) -> None:
    fill(queue, 3)
    with copying.late(connect, [b"late 1", b"late 2"]):
        fill(queue, 3, 3)
        assert copying.run() == numbered_bodies(6), "the later messages, committed earlier"
        assert copying.run() == []
    assert copying.run() == [b"late 1", b"late 2"]
    assert copying.run() == []


def test_a_message_that_commits_during_the_run_is_in_it(
    connect: Connect, copying: Copying, queue: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(queue, 1)
    copying.run()
    held, copy = ExitStack(), drain_copying.NewMessagesCopy._copy

    def commit_behind_the_new_ones(self: drain_copying.NewMessagesCopy, *given: Any, late: bool) -> None:
        copy(self, *given, late=late)
        if not late:
            held.close()

    held.enter_context(copying.late(connect, [b"late"]))
    fill(queue, 1, 1)
    monkeypatch.setattr(drain_copying.NewMessagesCopy, "_copy", commit_behind_the_new_ones)
    assert sorted(copying.run()) == sorted([*numbered_bodies(1, 1), b"late"])


def test_a_message_that_others_hold_comes_with_a_later_run(
    connect: Connect, copying: Copying, queue: QueueTable
) -> None:
    fill(queue, 5)
    with connect() as other:
        other.begin()
        assert QueueTable(other, queue.address).receive(1)[0].body == b"body 0"
        assert copying.run() == numbered_bodies(4, 1)
        other.roll_back()
    assert copying.run() == [b"body 0"]


def test_each_copy_has_its_own_watermark(connect: Connect, copying: Copying, queue: QueueTable) -> None:
    expected = fill(queue, 5)
    assert copying.run() == expected
    assert copying.run() == []
    with_another_name = drain(connect, queue, TableStage(), copy=True, incremental="another").batch
    assert batch_bodies(connect, queue, with_another_name) == expected


def test_gaps_close_when_no_transaction_writes(
    connect: Connect, copying: Copying, queue: QueueTable, closing_at_once: None
) -> None:
    for start in range(0, 6, 2):
        fill(queue, 2, start)
        leave_gap(queue)
    assert len(copying.run()) == 6
    assert copying.state.gaps == 3, "before the first message, and the numbers that were rolled back between others"
    assert copying.run() == []
    assert copying.state.gaps == 0
    assert copying.state.closing_up_to is None
    fill(queue, 2, 6)
    assert copying.run() == numbered_bodies(2, 6)


def test_gaps_close_in_a_table_without_an_index_on_row_version(
    connect: Connect, queue: QueueTable, staging: StagingFolder, closing_at_once: None
) -> None:
    """The lock is then on a read of the first row: a search for a number would read the whole table under it."""
    run_sql(queue.session, f"DROP INDEX [Index_RowVersion] ON {queue.address.qualified_name}")
    copying = Copying(connect, queue, staging)
    with connect() as other:
        other.begin()
        QueueTable(other, queue.address).send([Message(body=b"rolled back")])
        fill(queue, 2)
        assert copying.run() == numbered_bodies(2)
        assert copying.run() == []
        assert copying.state.gaps == 1
        other.roll_back()
    assert copying.run() == []
    assert copying.state.gaps == 0


def test_gaps_stay_while_a_transaction_is_open(
    connect: Connect, copying: Copying, queue: QueueTable, closing_at_once: None
) -> None:
    with copying.late(connect, [b"late"]):
        fill(queue, 2)
        assert copying.run() == numbered_bodies(2)
        for _ in range(2):
            assert copying.run() == []
        assert copying.state.gaps > 0
    assert copying.run() == [b"late"]
    assert copying.run() == []
    assert copying.state.gaps == 0


def test_gaps_close_where_the_transaction_ends_during_the_wait(
    connect: Connect, copying: Copying, queue: QueueTable, closing_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect() as other:
        other.begin()
        QueueTable(other, queue.address).send([Message(body=b"rolled back")])
        fill(queue, 2)
        assert copying.run() == numbered_bodies(2)
        assert copying.run() == []
        assert copying.state.gaps > 0
        monkeypatch.setattr(copies, "CLOSING_WAIT", 60)
        asks, check = threading.Event(), QueueCopy._check_no_writers

        def check_and_tell(self: QueueCopy) -> None:
            asks.set()
            check(self)

        monkeypatch.setattr(QueueCopy, "_check_no_writers", check_and_tell)
        with ThreadPoolExecutor(1) as pool:
            run = pool.submit(copying.run)
            assert asks.wait(60)
            other.roll_back()
            assert run.result() == []
        assert copying.state.gaps == 0


def test_gaps_close_by_their_age_where_somebody_always_writes(
    connect: Connect, settings: ConnectionSettings, copying: Copying, queue: QueueTable
) -> None:
    """A person vouches for the longest transaction; the proof of the server is not needed then."""
    client, address, hour = QueueClient(settings), queue.address.canonical, timedelta(hours=1)
    with pytest.raises(CopyError, match="There is no copy"):
        client.copies.close_gaps(NAME, address, longest_transaction=hour)
    with connect() as busy:
        busy.begin()
        QueueTable(busy, queue.address).send([Message(body=b"late")])
        fill(queue, 2)
        assert copying.run() == numbered_bodies(2)
        assert copying.run() == []
        assert client.copies.close_gaps(NAME, address, longest_transaction=hour) == 0, "seen a moment ago"
        seen = (
            "UPDATE [sqlqueue].[Copy] SET [ClosingSince] = DATEADD(minute, -{}, SYSUTCDATETIME()) WHERE [Queue] = N'{}'"
        )
        run_sql(queue.session, seen.format(59, address))
        assert client.copies.close_gaps(NAME, address, longest_transaction=hour) == 0
        assert copying.run() == [], "nor by the proof"
        gaps = copying.state.gaps
        run_sql(queue.session, seen.format(61, address))
        assert client.copies.close_gaps(NAME, address, longest_transaction=hour) == gaps > 0
        assert copying.state.gaps == 0
        busy.roll_back()


def test_gaps_that_hold_a_message_close_neither_by_proof_nor_by_their_age(
    connect: Connect, settings: ConnectionSettings, copying: Copying, queue: QueueTable, closing_at_once: None
) -> None:
    with copying.late(connect, [b"late"]):
        fill(queue, 2)
        copying.run()
    with connect() as session:
        assert not QueueCopy(QueueTable(session, queue.address), NAME).close_gaps()
    aged = "UPDATE [sqlqueue].[Copy] SET [ClosingSince] = DATEADD(day, -9, SYSUTCDATETIME()) WHERE [Queue] = N'{}'"
    run_sql(queue.session, aged.format(queue.address.canonical))
    closing = QueueClient(settings).copies.close_gaps
    assert closing(NAME, queue.address.canonical, longest_transaction=timedelta(days=1)) == 0
    assert copying.run() == [b"late"]


def test_many_gaps_are_deleted_few_at_a_time(
    connect: Connect, copying: Copying, queue: QueueTable, closing_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "MAX_ROWS_PER_STATEMENT", 2)
    for start in range(5):
        fill(queue, 1, start)
        leave_gap(queue)
    copying.run()
    assert copying.state.gaps == 5
    with connect() as session:
        assert QueueCopy(QueueTable(session, queue.address), NAME).close_gaps() == 5
    table = CopyTable(queue.session, queue.address.catalog)
    fill(queue, 1, 5)
    copying.run()
    gaps = "SELECT COUNT(*) FROM [sqlqueue].[CopyGap] WHERE [CopyId] = '{}'"
    left = gaps.format(copying.state.id)
    assert run_sql(queue.session, left)[0][0] == copying.state.gaps == 1
    assert table.forget(NAME, queue.address.canonical)
    assert run_sql(queue.session, left)[0][0] == 0


def test_gaps_stay_while_a_message_in_them_is_being_received(
    connect: Connect, copying: Copying, queue: QueueTable, closing_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver begins after the proof that no transaction writes, and rolls back after the gaps were closed."""
    with copying.late(connect, [b"late"]):
        fill(queue, 2)
        copying.run()
    with connect() as other, connect() as session:
        copy, run = QueueCopy(QueueTable(session, queue.address), NAME), QueueCopy._run

        def then_receive(self: QueueCopy, name: str, *values: object) -> list[object]:
            found = run(self, name, *values)
            if name == "copies.no_writers":
                other.begin()
                assert QueueTable(other, queue.address).receive(1)[0].body == b"late"
            return found

        monkeypatch.setattr(QueueCopy, "_run", then_receive)
        assert not copy.close_gaps()
        monkeypatch.setattr(QueueCopy, "_run", run)
        assert copying.state.gaps > 0
        other.roll_back()
    assert copying.run() == [b"late"]


def test_gaps_are_not_closed_soon_after_they_were_seen(connect: Connect, copying: Copying, queue: QueueTable) -> None:
    fill(queue, 2)
    for _ in range(2):
        copying.run()
    assert copying.state.gaps == 1
    assert copying.state.closing_up_to == copying.state.high


def test_no_other_session_waits_for_the_copy(connect: Connect, copying: Copying, queue: QueueTable) -> None:
    """Every statement of a copy passes a transaction that has locked rows and holds them for long."""
    fill(queue, 10)
    with connect() as other, other.transaction():
        QueueTable(other, queue.address).receive(3)
        QueueTable(other, queue.address).send([Message(body=b"later")])
        with connect() as session, session.lock_timeout(0):
            QueueTable(session, queue.address).send([Message(body=b"another")])
        assert copying.run() == [*numbered_bodies(7, 3), b"another"]


def test_a_retry_resumes_its_batch(copying: Copying, queue: QueueTable) -> None:
    expected, batch_id = fill(queue, 100), uuid.uuid4()

    def stop(done: Progress) -> None:
        if done.messages >= 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copying.run(batch_id=batch_id, on_progress=stop)
    fill(queue, 10, 100)
    assert copying.run(batch_id=batch_id) == expected, "up to the mark of the batch"
    assert copying.run() == numbered_bodies(10, 100)


def test_a_batch_that_was_never_finished_counts_as_copied(
    connect: Connect, copying: Copying, queue: QueueTable
) -> None:
    expected, batch_id = fill(queue, 60), uuid.uuid4()

    def stop(done: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copying.run(batch_id=batch_id, on_progress=stop)
    rest = copying.run()
    with connect() as session:
        ledger = Ledger(session, queue.address.catalog)
        first = batch_bodies(connect, queue, ledger.seal(batch_id))
    assert first + rest == expected
    assert len(first) == 20


def test_runs_at_the_same_time_share_the_messages(connect: Connect, copying: Copying, queue: QueueTable) -> None:
    expected, found = fill(queue, 200), list[bytes]()
    threads = [threading.Thread(target=lambda: found.extend(copying.run())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(found) == Counter(expected)


@TO_EACH_STAGE
def test_limits_hold_over_several_runs(copying: Copying, queue: QueueTable) -> None:
    expected = fill(queue, 50)
    assert copying.run(options=replace(SMALL_PARTS, max_messages=13)) == expected[:13]
    found = copying.run(options=replace(SMALL_PARTS, max_bytes=100, bytes_per_statement=50))
    assert 0 < len(found) < 37
    assert found == expected[13 : 13 + len(found)]
    assert copying.run() == expected[13 + len(found) :]


@TO_EACH_STAGE
def test_expired_messages_are_looked_at_once(copying: Copying, queue: QueueTable) -> None:
    queue.send([Message(body=b"expired", time_to_be_received=timedelta(seconds=-5))])
    fill(queue, 2)
    done = copying.drain()
    assert (done.batch.messages, done.batch.expired) == (2, 1)
    done = copying.drain()
    assert (done.batch.messages, done.batch.expired) == (0, 0)


@TO_EACH_STAGE
def test_a_message_that_spark_cannot_read_is_left_out_once(copying: Copying, queue: QueueTable) -> None:
    fill(queue, 3)
    text = "REPLACE([Headers], N'}', N',\"a\":\"' + NCHAR(55357) + N'\"}')"
    run_sql(queue.session, f"UPDATE TOP (1) {queue.address.qualified_name} SET [Headers] = {text}")
    done = copying.drain()
    assert (done.batch.messages, done.batch.quarantined) == (2, 1)
    assert depth(queue).messages == 3
    assert copying.drain().batch.quarantined == 0


def test_large_bodies_are_copied_in_their_place(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    copying = Copying(connect, queue, staging)
    options = replace(SMALL_PARTS, inline_body_bytes=500)
    bodies = [b"%d" % n * (1_000 if n % 4 == 1 else 1) for n in range(20)]
    with copying.late(connect, bodies[:10]):
        queue.send(Message(body=body) for body in bodies[10:])
        assert copying.run(options=options) == bodies[10:]
    assert copying.run(options=options) == bodies[:10]


def test_a_table_that_was_made_anew_is_copied_from_its_head(copying: Copying, queue: QueueTable) -> None:
    fill(queue, 5)
    copying.run()
    run_sql(queue.session, f"DROP TABLE {queue.address.qualified_name}")
    create_queue(queue.session, queue.address)
    expected = fill(queue, 3, 100)
    assert copying.run() == expected
    assert copying.run() == []


def test_a_table_that_is_made_anew_during_a_part_is_refused(connect: Connect, queue: QueueTable) -> None:
    """The part has read the old table, and its RowVersions say nothing about the new one."""
    fill(queue, 2)
    CopyTable(queue.session, queue.address.catalog).create()
    copy = QueueCopy(queue, NAME)
    with queue.session.transaction():
        state = copy.lock()
        run_sql(queue.session, f"DROP TABLE {queue.address.qualified_name}")
        create_queue(queue.session, queue.address)
        with pytest.raises(CopyError, match="was made anew during the copy"):
            copy.advance(state, [1, 2], None)


@pytest.mark.parametrize("change", ["TRUNCATE TABLE {0}", "DELETE {0}; DBCC CHECKIDENT ('{0}', RESEED, 1)"])
def test_a_table_whose_numbers_began_again_is_refused(copying: Copying, queue: QueueTable, change: str) -> None:
    fill(queue, 5)
    copying.run()
    run_sql(queue.session, change.format(queue.address.qualified_name))
    fill(queue, 1)
    with pytest.raises(
        CopyError, match=r"has seen RowVersion 5, and the table has given \d at most.*copies --queue .* --reset"
    ):
        copying.run()
    table = CopyTable(queue.session, queue.address.catalog)
    assert table.forget(NAME, queue.address.canonical)
    assert not table.forget(NAME, queue.address.canonical)
    assert copying.run() != []


@pytest.mark.parametrize("change", ["TRUNCATE TABLE {0}", "DBCC CHECKIDENT ('{0}', RESEED, 0)"])
def test_a_table_that_has_grown_again_is_refused(copying: Copying, queue: QueueTable, change: str) -> None:
    """Its last number is above the watermark, but another message has the watermark's number."""
    fill(queue, 10)
    copying.run()
    run_sql(queue.session, change.format(queue.address.qualified_name))
    expected = fill(queue, 12, 100)
    for _ in range(2):
        with pytest.raises(CopyError, match=r"has seen RowVersion 10, and another message has it now.*--reset"):
            copying.run()
    assert CopyTable(queue.session, queue.address.catalog).forget(NAME, queue.address.canonical)
    if depth(queue).messages == 12:
        assert copying.run() == expected


def test_numbers_that_are_skipped_are_a_gap(copying: Copying, queue: QueueTable) -> None:
    fill(queue, 3)
    copying.run()
    run_sql(queue.session, f"DBCC CHECKIDENT ('{queue.address.qualified_name}', RESEED, 10000)")
    fill(queue, 2, 3)
    assert copying.run() == numbered_bodies(2, 3)
    assert copying.state.gaps == 2


def test_a_message_at_the_watermark_may_be_held_or_gone(
    connect: Connect, queue: QueueTable, staging: StagingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver that rolls back brings the same message back: it is no sign of other numbers."""
    copying = Copying(connect, queue, staging)
    fill(queue, 2)
    advance = QueueCopy.advance
    with connect() as other:

        def hold_first(self: QueueCopy, *given: Any) -> None:
            other.begin()
            QueueTable(other, queue.address).receive(2)
            advance(self, *given)

        with monkeypatch.context() as patched:
            patched.setattr(QueueCopy, "advance", hold_first)
            assert copying.run() == numbered_bodies(2)
        other.roll_back()
    fill(queue, 1, 2)
    assert copying.run() == numbered_bodies(1, 2)
    with connect() as other:
        other.begin()
        QueueTable(other, queue.address).receive(3)
        fill(queue, 1, 3)
        assert copying.run() == numbered_bodies(1, 3)
        other.roll_back()
    queue.receive(4)
    assert copying.run() == []
    fill(queue, 1, 4)
    assert copying.run() == numbered_bodies(1, 4)


@pytest.mark.parametrize("another", ["", ", [Number] int IDENTITY(1, 1)"], ids=["none", "of another column"])
def test_a_table_whose_numbers_are_no_identity_is_refused(
    connect: Connect, queue: QueueTable, staging: StagingFolder, another: str
) -> None:
    name = queue.address.qualified_name
    run_sql(queue.session, f"DROP TABLE {name}")
    columns = "[Id] uniqueidentifier NOT NULL, [Expires] datetime NULL, [Headers] nvarchar(max) NOT NULL, "
    columns += f"[Body] varbinary(max), [RowVersion] bigint NOT NULL{another}"
    run_sql(queue.session, f"CREATE TABLE {name} ({columns})")
    run_sql(queue.session, f"INSERT INTO {name} VALUES (NEWID(), NULL, N'{{}}', 0x01, 7)")
    with pytest.raises(CopyError, match="has no IDENTITY, so that a number may come again: copy its messages without"):
        Copying(connect, queue, staging).run()
    assert len(batch_bodies(connect, queue, drain(connect, queue, staging, copy=True).batch)) == 1


@pytest.mark.parametrize("seed", range(examples().max_examples // 20))
def test_each_message_once_whatever_happens_to_the_queue(
    connect: Connect, queue: QueueTable, staging: StagingFolder, closing_at_once: None, seed: int
) -> None:
    """A model: after any events a run copies exactly what is committed, not locked, and not copied yet."""
    chance, copying, number = random.Random(seed), Copying(connect, queue, staging), itertools.count()
    table, name = CopyTable(queue.session, queue.address.catalog), queue.address.qualified_name
    live, copied, waiting = set[bytes](), set[bytes](), set[bytes]()
    with ExitStack() as stack:
        late, receiver = stack.enter_context(connect()), stack.enter_context(connect())

        def send(session: Session, least: int) -> set[bytes]:
            bodies = [b"%d" % next(number) for _ in range(least + chance.randrange(4))]
            QueueTable(session, queue.address).send(Message(body=body) for body in bodies)
            return set(bodies)

        def run(held: set[bytes]) -> None:
            found = copying.run()
            assert sorted(found) == sorted(live - copied - held)
            copied.update(found)

        for event in [*chance.choices(EVENTS, k=30), "end", "run", "run"]:
            if event == "send":
                live |= send(queue.session, 1)
            elif event == "begin" and not waiting:
                late.begin()
                waiting = send(late, 1)
            elif event == "end" and waiting:
                if chance.random() < 0.5:
                    late.run(query("session.commit"))
                    late.committed()
                    live |= waiting
                else:
                    late.roll_back()
                waiting = set()
            elif event == "receive":
                live -= {message.body for message in queue.receive(2)}
            elif event == "run":
                run(set())
            elif event == "hold":
                receiver.begin()
                run({message.body for message in QueueTable(receiver, queue.address).receive(2)})
                receiver.roll_back()
            elif event == "skip":
                last = run_sql(queue.session, f"SELECT IDENT_CURRENT('{name}')")[0][0]
                run_sql(queue.session, f"DBCC CHECKIDENT ('{name}', RESEED, {int(last) + chance.randint(1, 5)})")
            elif event == "anew" and not waiting:
                run_sql(queue.session, f"DROP TABLE {name}")
                create_queue(queue.session, queue.address)
                live.clear()
            elif event == "truncate" and not waiting and table.exists():
                high = copying.state.high
                run_sql(queue.session, f"TRUNCATE TABLE {name}")
                live = set() if high == FIRST else send(queue.session, high + 1)
                if high != FIRST:
                    with pytest.raises(CopyError, match="was truncated or reseeded"):
                        copying.run()
                    assert table.forget(NAME, queue.address.canonical)
    table.forget(NAME, queue.address.canonical)


EVENTS = ["send", "send", "begin", "end", "receive", "run", "run", "hold", "skip", "anew", "truncate"]


def test_too_many_gaps_are_refused_until_they_close(
    connect: Connect, copying: Copying, queue: QueueTable, monkeypatch: pytest.MonkeyPatch, closing_at_once: None
) -> None:
    monkeypatch.setattr(copies, "MAX_GAPS", 1)
    with copying.late(connect, [b"late"]):
        fill(queue, 1)
        copying.run()
        fill(queue, 1, 1)
        with pytest.raises(CopyError, match=r"has 1 gaps, which close by themselves only while .* --close"):
            copying.run()
    assert copying.run() == [b"late", *numbered_bodies(1, 1)]


def test_a_retry_for_another_copy_is_refused(
    connect: Connect, queue: QueueTable, staging: StagingFolder, copying: Copying
) -> None:
    fill(queue, 3)
    done = drain(connect, queue, staging, copy=True, incremental=NAME)
    batch_id = uuid.UUID(done.batch.batch_id)
    for other in (None, "another"):
        request = DrainRequest(batch_id=batch_id, copy=True, incremental=other)
        with pytest.raises(WrongBatchError, match="give it the same copy and incremental"):
            Drain(connect, queue.address, staging, request).run()


def test_names_and_options_that_do_not_fit_are_refused() -> None:
    for name in ("", " ", "x" * 221):
        with pytest.raises(ConfigurationError, match="The name of a copy has 1 to 220 characters"):
            DrainRequest(copy=True, incremental=name)


def test_a_copy_with_a_plain_watermark_misses_messages(
    connect: Connect, copying: Copying, queue: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above can fail: without gaps a message that commits late is never copied."""
    monkeypatch.setattr(copies, "gaps_between", lambda after, seen: [])
    with copying.late(connect, [b"late"]):
        fill(queue, 1)
        copying.run()
    assert copying.run() == []


def test_copies_are_listed_and_reset(settings: ConnectionSettings, copying: Copying, queue: QueueTable) -> None:
    client = QueueClient(settings)
    fill(queue, 4)
    copying.run()
    address = queue.address.canonical
    (info,) = client.copies.list(address)
    assert (info.name, info.queue, info.messages, info.gaps) == (NAME, address, 4, 1)
    assert (NAME, address) in [(each.name, each.queue) for each in client.copies.list()]
    assert client.copies.reset(NAME, address)
    assert client.copies.list(address) == []
    assert len(copying.run()) == 4
