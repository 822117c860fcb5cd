"""Staging folders that are full or hang."""

from __future__ import annotations

import gc
import resource
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from airflow_sqlqueue.drain.drain import Drain, DrainResult
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.part_file import PartFile
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchError, LockTimeoutError, StagingError
from airflow_sqlqueue.queue import QueueTable
from tests.contract.conftest import Connect, run_sql
from tests.faults.account import Account
from tests.faults.filesystems import DeafStore, HangingStore, Store

SMALL_PARTS = DrainOptions(rows_per_statement=7, inline_body_bytes=8000, rows_per_part=20, settle_seconds=10)


def drain(connect: Connect, queue: QueueTable, staging: StagingFolder, batch_id: uuid.UUID) -> DrainResult:
    return Drain(connect, queue.address, staging, batch_id=batch_id, origin="test", options=SMALL_PARTS).run()


@pytest.mark.parametrize("room", [0, 3, 100, 50_000, 100_000])
def test_a_full_store_loses_nothing(connect: Connect, queue: QueueTable, batch_id: uuid.UUID, room: int) -> None:
    """What was taken for the part that did not fit is in the queue again, and a later try goes on from there."""
    store = Store(room)
    account = Account(connect, queue.address, store.staging)
    account.send(60)
    with pytest.raises(StagingError, match="No space left on device"):
        drain(connect, queue, store.staging, batch_id)
    account.check(batch_id)
    store.room = 2**62
    assert drain(connect, queue, store.staging, batch_id).batch.state == "sealed"
    account.check(batch_id)
    assert account.queued() == 0


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """What a disk that is full does to this process, without privileges: writes beyond ``size`` fail (EFBIG)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [2, 1000, 12_000])
def test_a_full_disk_loses_nothing(
    connect: Connect, queue: QueueTable, staging: StagingFolder, account: Account, batch_id: uuid.UUID, size: int
) -> None:
    account.send(60)
    with no_file_longer_than(size), pytest.raises(StagingError, match="File too large"):
        drain(connect, queue, staging, batch_id)
    account.check(batch_id)
    assert drain(connect, queue, staging, batch_id).batch.state == "sealed"
    account.check(batch_id)
    assert account.queued() == 0


@pytest.fixture
def store() -> Iterator[HangingStore]:
    store = HangingStore()
    yield store
    store.released.set()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def hanging(
    pool: ThreadPoolExecutor, connect: Connect, queue: QueueTable, store: HangingStore, batch_id: uuid.UUID
) -> Future[DrainResult]:
    """A drain whose first file hangs."""
    draining = pool.submit(drain, connect, queue, store.staging, batch_id)
    assert store.hangs.wait(30)
    return draining


def test_a_store_that_hangs_past_the_lock_timeout_of_others_loses_nothing(
    connect: Connect, queue: QueueTable, store: HangingStore, pool: ThreadPoolExecutor, batch_id: uuid.UUID
) -> None:
    """Whoever passes over locked rows goes on meanwhile, whoever waits for them gives up, and the part commits."""
    account = Account(connect, queue.address, store.staging)
    account.send(60)
    draining = hanging(pool, connect, queue, store, batch_id)
    account.send(20, seed=1)
    with connect() as other:
        table = QueueTable(other, queue.address)
        assert table.count_left(2**62) >= 1
        with other.lock_timeout(0.2), pytest.raises(LockTimeoutError):
            run_sql(other, f"SELECT COUNT(*) FROM {queue.address.qualified_name} WITH (READCOMMITTEDLOCK)")
        received = table.receive(3)
        assert len(received) == 3
        account.received(received)
    store.released.set()
    assert draining.result(60).batch.state == "sealed"
    account.check(batch_id)


def test_a_worker_that_wakes_up_after_the_seal_is_undone(
    connect: Connect, queue: QueueTable, store: HangingStore, pool: ThreadPoolExecutor, batch_id: uuid.UUID
) -> None:
    """Its part is undone: its rows are in the queue, and its file is one that the sealed batch does not list."""
    account = Account(connect, queue.address, store.staging)
    account.send(60)
    zombie = hanging(pool, connect, queue, store, batch_id)
    impatient = DrainOptions(rows_per_statement=7, inline_body_bytes=8000, rows_per_part=20, settle_seconds=0)
    result = Drain(connect, queue.address, store.staging, batch_id=batch_id, options=impatient).run()
    assert result.batch.state == "sealed"
    assert result.locked >= 1
    store.released.set()
    with pytest.raises(BatchError, match="was sealed meanwhile"):
        zombie.result(60)
    account.check(batch_id)
    assert account.queued() > 0
    assert set(result.batch.paths) < {path.replace("bucket", "store://bucket") for path in store.files}
    with connect() as session:
        assert Ledger(session, queue.address.catalog).manifest(batch_id) == result.batch


def test_rows_are_free_before_a_store_is_asked_to_cancel(
    connect: Connect, queue: QueueTable, pool: ThreadPoolExecutor, batch_id: uuid.UUID
) -> None:
    store = DeafStore()
    account = Account(connect, queue.address, store.staging)
    account.send(20)
    draining = pool.submit(drain, connect, queue, store.staging, batch_id)
    try:
        assert store.hangs.wait(30)
        assert not draining.done()
        assert account.queued() == 20
        account.check(batch_id)
    finally:
        store.released.set()
    with pytest.raises(StagingError, match="No space left on device"):
        draining.result(60)


def test_an_abandoned_file_is_let_go_in_silence(staging: StagingFolder, batch_id: uuid.UUID) -> None:
    """An exception of a finalizer would stand in the task's log without a reason; pytest makes an error of it."""
    for folder in (staging, Store().staging):
        file = PartFile(folder, batch_id, uuid.uuid4())
        file.write([(uuid.uuid4(), None, None, True, None, "{}", b"x", 1, False)])
        file.abandon()
        del file
    gc.collect()
