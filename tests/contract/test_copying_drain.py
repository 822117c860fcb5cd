"""A drain that copies: messages that stay in the queue are in the batch once."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_sqlqueue.drain.batches import batches
from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import SweepOptions
from airflow_sqlqueue.drain.progress import Progress
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.requeue import abandon, requeue
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.sweep import sweep
from airflow_sqlqueue.errors import BatchError, ConfigurationError, DeadlockError, WrongBatchError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import MessageFilter, QueueTable
from airflow_sqlqueue.queue.browsing import browse
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query
from tests.contract.conftest import Connect, run_sql
from tests.drains import SMALL_PARTS, batch_bodies, drain, fill


def test_the_messages_stay(connect: Connect, any_queue: QueueTable, staging: StagingFolder) -> None:
    expected = fill(any_queue, 105)
    any_queue.send([Message(body=b"late", time_to_be_received=timedelta(seconds=-5))])
    done = drain(connect, any_queue, staging, copy=True)
    assert (done.batch.kept, done.batch.state, done.batch.parts, done.batch.expired) == (True, "sealed", 6, 1)
    assert batch_bodies(connect, any_queue, done.batch) == expected
    assert Batch.from_dict(done.batch.to_dict()) == done.batch
    assert (depth(any_queue).messages, depth(any_queue).expired) == (105, 1)


def test_a_copy_goes_to_a_table_too(connect: Connect, any_queue: QueueTable) -> None:
    expected = fill(any_queue, 45)
    any_queue.send([Message(body=b"late", time_to_be_received=timedelta(seconds=-5))])
    done = drain(connect, any_queue, TableStage(), copy=True)
    assert (done.batch.kept, done.batch.messages, done.batch.expired) == (True, 45, 1)
    assert batch_bodies(connect, any_queue, done.batch) == expected
    assert depth(any_queue).messages == 45


def test_large_bodies_are_copied_in_their_place(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    bodies = [b"%d" % n * (1_000 if n % 4 == 1 else 1) for n in range(20)]
    queue.send(Message(body=body) for body in bodies)
    done = drain(connect, queue, staging, copy=True, options=replace(SMALL_PARTS, inline_body_bytes=500))
    assert batch_bodies(connect, queue, done.batch) == bodies
    assert depth(queue).messages == 20


def test_a_retry_goes_on_where_the_last_part_ended(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    expected, batch_id = fill(queue, 100), uuid.uuid4()

    def stop(done: Progress) -> None:
        if done.messages >= 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drain(connect, queue, staging, copy=True, batch_id=batch_id, on_progress=stop)
    fill(queue, 10)
    with pytest.raises(WrongBatchError, match="give copy=True"):
        Drain(connect, queue.address, staging, DrainRequest(batch_id=batch_id)).run()
    done = drain(connect, queue, staging, copy=True, batch_id=batch_id)
    assert done.resumed
    assert batch_bodies(connect, queue, done.batch) == expected, "what came after the mark is not in it"
    assert depth(queue).messages == 110


def test_two_tries_at_once_copy_each_message_once(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    """A try that was believed dead continues: the first one at the end seals the batch."""
    expected, batch_id = fill(queue, 300), uuid.uuid4()
    refused: list[BatchError] = []

    def another() -> None:
        try:
            drain(connect, queue, staging, copy=True, batch_id=batch_id)
        except BatchError as error:
            refused.append(error)

    threads = [threading.Thread(target=another) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) < 3
    done = drain(connect, queue, staging, copy=True, batch_id=batch_id)
    assert batch_bodies(connect, queue, done.batch) == expected


@pytest.mark.parametrize("goes_to_table", [False, True])
def test_messages_held_for_a_while_are_copied(
    connect: Connect, queue: QueueTable, staging: StagingFolder, goes_to_table: bool
) -> None:
    expected, stage = fill(queue, 50), TableStage() if goes_to_table else staging
    with connect() as other:
        other.begin()
        assert len(QueueTable(other, queue.address).receive(1)) == 1
        timer = threading.Timer(0.2, other.roll_back)
        timer.start()
        done = drain(connect, queue, stage, copy=True, options=replace(SMALL_PARTS, locked_wait_seconds=30))
        timer.join()
    assert done.locked == 0
    assert batch_bodies(connect, queue, done.batch) == expected


@pytest.mark.parametrize("times", [1, 20])
def test_a_deadlock_with_a_receiver_is_as_a_lock_that_lasts(
    connect: Connect, queue: QueueTable, staging: StagingFolder, times: int
) -> None:
    """A reader keeps the key of a row that it waits for, and the receiver that has the row waits for the key."""
    expected = fill(queue, 50)
    sessions, deadlocks = list[Session](), list[str]()

    class Deadlocked(Session):
        def results(self, statement: Query, *values: Any, **options: Any) -> Any:
            waits = statement.name == "queue.peek_page" and "WITH (ROWLOCK" in statement.text
            if waits and len(deadlocks) < times:
                deadlocks.append(statement.name)
                self.doom()
                raise DeadlockError("Could not look at the queue: the server chose it to break a deadlock.")
            return super().results(statement, *values, **options)

    def session() -> Session:
        sessions.append(Deadlocked(queue.session.settings))
        return sessions[-1]

    done = drain(session, queue, staging, copy=True, options=replace(SMALL_PARTS, locked_wait_seconds=30))
    assert batch_bodies(connect, queue, done.batch) == expected
    assert (len(deadlocks), len(sessions)) == (times, 1), "no connection is opened anew"


@pytest.mark.parametrize("goes_to_table", [False, True])
def test_messages_held_for_long_are_left_out_and_reported(
    connect: Connect, queue: QueueTable, staging: StagingFolder, goes_to_table: bool
) -> None:
    expected, stage = fill(queue, 50), TableStage() if goes_to_table else staging
    with connect() as other, other.transaction():
        assert len(QueueTable(other, queue.address).receive(1)) == 1
        done = drain(connect, queue, stage, copy=True)
        assert done.locked == 1
        assert batch_bodies(connect, queue, done.batch) == expected[1:]


def test_receivers_skip_no_message(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    """Between two statements of a part, whose transaction is open, every message of it can be received."""
    expected, received = fill(queue, 60), []

    def on_progress(done: Progress) -> None:
        received.extend(message.body for message in queue.receive(10))

    done = drain(connect, queue, staging, copy=True, on_progress=on_progress)
    assert received == expected[:30]
    assert batch_bodies(connect, queue, done.batch) == expected


def test_a_copy_is_not_put_back_and_is_swept(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    expected = fill(queue, 10)
    batch = drain(connect, queue, staging, copy=True).batch
    batch_id = uuid.UUID(batch.batch_id)
    with connect() as session, BatchLocks(connect, queue.address.catalog) as locks:
        ledger = Ledger(session, queue.address.catalog)
        (info,) = batches(ledger, batch_id=batch_id)
        assert (info.kept, info.state) == (True, "sealed")
        with pytest.raises(BatchError, match="is a copy"):
            requeue(ledger, batch_id)
        with pytest.raises(BatchError, match="is a copy"):
            abandon(ledger, locks, batch_id)
        assert ledger.find(batch_id).state == "sealed"
        ledger.consume(batch)
        swept = sweep(ledger, staging, SweepOptions(retain=timedelta(0), grace=timedelta(0)))
        assert swept.batches >= 1
        assert batches(ledger, batch_id=batch_id) == []
    assert [message.body for message in queue.peek(100)] == expected


def test_messages_that_no_file_can_keep_are_left_out_and_counted(
    connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    fill(queue, 3)
    first = browse(queue, 1)[0].row_version
    text = "REPLACE([Headers], N'}', N',\"a\":\"' + NCHAR(55357) + N'\"}')"
    table = queue.address.qualified_name
    run_sql(queue.session, f"UPDATE {table} SET [Headers] = {text} WHERE [RowVersion] = {first}")
    done = drain(connect, queue, staging, copy=True)
    assert (done.batch.messages, done.batch.quarantined) == (2, 1)
    assert depth(queue).messages == 3


def test_options_that_do_not_fit_a_copy_are_refused(
    connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    fill(queue, 1)
    with pytest.raises(ConfigurationError, match="leave out the filter"):
        drain(connect, queue, staging, copy=True, where=MessageFilter(endpoint="Sales"))
    with pytest.raises(ConfigurationError, match="one worker"):
        drain(connect, queue, staging, copy=True, engine=object())
