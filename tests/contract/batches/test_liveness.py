"""The locks on batches: the living hold them, and the dead lose them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain import locks
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchError, BatchNotFoundError, SqlQueueError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import query
from tests.conftest import Connect
from tests.contract.batches.conftest import SCHEMA, open_batch, worker_of
from tests.forks import CONTEXT, fork


@pytest.fixture(autouse=True)
def no_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test beats by itself."""
    monkeypatch.setattr(locks, "BEAT_SECONDS", 3600)


@pytest.fixture
def client(server_url: str) -> QueueClient:
    return QueueClient.from_url(server_url, ledger_schema=SCHEMA)


@pytest.fixture
def others(client: QueueClient) -> Iterator[BatchLocks]:
    with client.batches.locks() as locks:
        yield locks


def test_a_batch_has_one_owner_at_a_time(client: QueueClient, others: BatchLocks) -> None:
    batch_id = uuid.uuid4()
    with client.batches.locks() as locks:
        assert locks.take(batch_id)
        assert locks.take(batch_id), "it has it"
        assert not others.take(batch_id)
        assert others.take(uuid.uuid4())
        locks.release(batch_id)
        assert others.take(batch_id)
        others.release(batch_id)
        assert locks.take(batch_id)
    assert others.take(batch_id), "at the end of the block the lock is gone"


def _live(url: str, schema: str, batch_id: uuid.UUID, reports: Any) -> None:
    with QueueClient.from_url(url, ledger_schema=schema).batches.locks() as locks:
        reports.send(locks.take(batch_id))
        reports.recv()


def test_a_process_that_is_killed_lets_go(server_url: str, others: BatchLocks) -> None:
    batch_id = uuid.uuid4()
    reports, child = CONTEXT.Pipe()
    process = fork(_live, server_url, SCHEMA, batch_id, child)
    assert reports.poll(60)
    assert reports.recv() is True
    assert not others.take(batch_id)
    process.kill()
    process.join()
    assert others.take(batch_id, wait=30)


class Opened(list[Session]):
    """Sessions that locks have opened, in their order."""

    def __init__(self, connect: Connect) -> None:
        super().__init__()
        self._connect = connect

    def locks(self) -> BatchLocks:
        return BatchLocks(self._open, opened_catalog(self._connect))

    def _open(self) -> Session:
        self.append(self._connect())
        return self[-1]


@pytest.fixture
def opened(connect: Connect) -> Opened:
    return Opened(connect)


def test_a_lost_connection_is_replaced_and_its_locks_are_taken_again(opened: Opened, others: BatchLocks) -> None:
    batch_id = uuid.uuid4()
    with opened.locks() as locks:
        assert locks.take(batch_id)
        opened[0].close()
        locks.beat()
        locks.beat()
        assert len(opened) == 2
        assert not others.take(batch_id)
    with pytest.raises(SqlQueueError):
        opened[1].run(query("session.ping"))


def test_a_lost_connection_is_replaced_by_itself(
    opened: Opened, others: BatchLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.01)
    batch_id = uuid.uuid4()
    with opened.locks() as own:
        assert own.take(batch_id)
        opened[0].close()
        beaten = own._thread
        assert beaten is not None
        while len(opened) == 1 or not own._held[batch_id]:
            beaten.join(0.01)
            assert beaten.is_alive()
        assert not others.take(batch_id)


def opened_catalog(connect: Connect) -> str:
    with connect() as session:
        return session.settings.database


def test_a_lock_is_taken_when_its_holder_is_gone(client: QueueClient, others: BatchLocks) -> None:
    batch_id = uuid.uuid4()
    with client.batches.locks() as zombie:
        assert zombie.take(batch_id)
        assert not others.hold(batch_id)
        others.beat()
    others.beat()
    with client.batches.locks() as third:
        assert not third.take(batch_id)


def test_locks_are_held_on_time_by_themselves(client: QueueClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread beats as long as the block lasts."""
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.01)
    batch_id = uuid.uuid4()
    with client.batches.locks() as first, client.batches.locks() as second:
        assert first.take(batch_id)
        assert not second.hold(batch_id)
        first.release(batch_id)
        beaten = second._thread
        assert beaten is not None
        assert beaten.daemon, "a process that ends does not wait for it"
        while not second._held[batch_id]:
            beaten.join(0.01)
            assert beaten.is_alive()
    assert not beaten.is_alive()


def test_batches_with_a_worker_are_not_stranded(
    client: QueueClient, queue: QueueTable, ledger: Ledger, staging: StagingFolder, queue_name: str
) -> None:
    queue.send([Message({}, b"x")])
    batch_ids = [open_batch(queue, ledger, staging, 0) for _ in range(2)]
    with client.batches.locks() as locks:
        assert locks.take(batch_ids[0])
        assert [info.batch_id for info in client.batches.stranded(queue_name)] == batch_ids[1:]
    assert [info.batch_id for info in client.batches.stranded(queue_name)] == batch_ids
    assert client.batches.stranded(queue_name, states=["sealed"]) == []


def test_an_open_batch_is_abandoned_and_its_rows_go_back(
    client: QueueClient, drain: Any, queue: QueueTable, ledger: Ledger, staging: StagingFolder
) -> None:
    queue.send(Message({}, b"%d" % n) for n in range(50))
    batch_id = open_batch(queue, ledger, staging, 2)
    assert depth(queue).messages == 10
    with client.batches.locks() as task:
        assert task.take(batch_id)
        with pytest.raises(BatchError, match="is being worked on: stop its task first"):
            client.batches.abandon(batch_id)
    done = client.batches.abandon(batch_id)
    assert (done.batch.state, done.batch.messages, depth(queue).messages) == ("requeued", 40, 50)
    assert client.batches.abandon(batch_id).repeated
    sealed: Batch = drain()
    with pytest.raises(BatchError, match="put it back with 'sqlqueue requeue "):
        client.batches.abandon(uuid.UUID(sealed.batch_id))
    with pytest.raises(BatchNotFoundError):
        client.batches.abandon(uuid.uuid4())


def test_a_zombie_adds_nothing_to_a_batch_that_was_abandoned(
    client: QueueClient, queue: QueueTable, ledger: Ledger, staging: StagingFolder, connect: Connect
) -> None:
    queue.send(Message({}, b"%d" % n) for n in range(50))
    batch_id = open_batch(queue, ledger, staging, 1)
    with connect() as session:
        zombie = worker_of(QueueTable(session, queue.address), batch_id, staging)
        client.batches.abandon(batch_id)
        with pytest.raises(BatchError, match="was sealed meanwhile"):
            zombie.drain_part(Window(), None)
    assert depth(queue).messages == 50
