"""Staging folders that are full or hang."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_sqlqueue.drain.drain import Drain, DrainResult
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.stages.part_file import PartFile
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchError, DeadlockError, LockTimeoutError, StagingError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from tests.contract.conftest import Connect, run_sql
from tests.drains import drain
from tests.faults.account import Account
from tests.faults.faulty import FaultyStage
from tests.faults.filesystems import DeafStore, HangingStore, Store

SMALL_PARTS = DrainOptions(rows_per_statement=7, inline_body_bytes=8000, rows_per_part=20, locked_wait_seconds=10)
STAYS = "; the messages of this part stay in the queue"


def unlisted(connect: Connect, queue: QueueTable, names: list[str], batch_id: uuid.UUID) -> list[str]:
    """The files of parts that are not in the ledger."""
    with connect() as session:
        parts = {str(part.id) for part in Ledger(session, queue.address.catalog).parts(batch_id)}
    return [name for name in names if not any(part in name for part in parts)]


def files_of(staging: StagingFolder) -> list[str]:
    return [path.name for path in Path(staging.root).rglob("*") if path.is_file()]


@pytest.mark.parametrize("room", [0, 3, 100, 50_000, 100_000])
def test_a_full_store_loses_nothing(connect: Connect, queue: QueueTable, batch_id: uuid.UUID, room: int) -> None:
    """Messages of the part that did not fit are in the queue again, and a later try continues from there."""
    store = Store(room)
    account = Account(connect, queue.address, store.staging)
    account.send(60)
    with pytest.raises(StagingError, match=f"No space left on device{STAYS}"):
        drain(connect, queue, store.staging, SMALL_PARTS, batch_id=batch_id)
    account.check(batch_id)
    assert unlisted(connect, queue, list(store.files), batch_id) == []
    store.room = 2**62
    assert drain(connect, queue, store.staging, SMALL_PARTS, batch_id=batch_id).batch.state == "sealed"
    account.check(batch_id)
    assert account.queued() == 0


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """Simulate a full disk for this process, without privileges: writes beyond ``size`` fail (EFBIG)."""
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
    with no_file_longer_than(size), pytest.raises(StagingError, match=f"File too large{STAYS}"):
        drain(connect, queue, staging, SMALL_PARTS, batch_id=batch_id)
    account.check(batch_id)
    assert unlisted(connect, queue, files_of(staging), batch_id) == []
    assert drain(connect, queue, staging, SMALL_PARTS, batch_id=batch_id).batch.state == "sealed"
    account.check(batch_id)
    assert account.queued() == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB, and nothing else in it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"Only root of the machine may make a file system: {done.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def room(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_bsize


@pytest.mark.parametrize(
    ("copy", "size"),
    [(False, 7_000), (False, 300_000), (True, 300_000)],
    ids=["draining rows", "draining bodies in files", "copying bodies in files"],
)
def test_a_disk_that_a_drain_has_filled_has_its_room_again(
    connect: Connect, queue: QueueTable, small_disk: Path, batch_id: uuid.UUID, size: int, *, copy: bool
) -> None:
    """Every try fails at the same place, others can use the disk meanwhile, and no message is lost."""
    staging = StagingFolder.of(small_disk / "staging")
    bodies = [os.urandom(size) for _ in range(1_400_000 // size)]
    queue.send([Message({}, body) for body in bodies])
    for _ in range(3):
        with pytest.raises(StagingError, match=f"No space left on device{STAYS}"):
            drain(connect, queue, staging, SMALL_PARTS, batch_id=batch_id, copy=copy)
        assert unlisted(connect, queue, files_of(staging), batch_id) == []
    with connect() as session:
        used = sum(part.bytes for part in Ledger(session, queue.address.catalog).parts(batch_id))
    assert room(small_disk) > 2**20 - used - 100_000
    (small_disk / "of others").write_bytes(bytes(room(small_disk) // 2))
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    batch = drain(connect, queue, staging, SMALL_PARTS, batch_id=batch_id, copy=copy).batch
    assert (batch.state, batch.messages) == ("sealed", len(bodies))
    assert depth(queue).messages == (len(bodies) if copy else 0)


class Interrupted(BaseException):
    """A signal's, as of a task that is ended."""


def interrupt() -> None:
    raise Interrupted


def lose_a_deadlock() -> None:
    raise DeadlockError("1205")


@pytest.mark.parametrize("fault", [interrupt, lose_a_deadlock])
@pytest.mark.parametrize("size", [100, 9000], ids=["rows", "bodies"])
def test_the_files_of_a_part_that_fails_before_its_commit_are_removed(
    connect: Connect,
    queue: QueueTable,
    staging: StagingFolder,
    tmp_path: Path,
    batch_id: uuid.UUID,
    fault: Callable[[], None],
    size: int,
) -> None:
    """They were durable; the ledger cannot name them any more."""
    count = 30
    queue.send([Message({}, bytes([n]) * size) for n in range(count)])
    seen: list[int] = []

    def fail() -> None:
        seen.append(len(unlisted(connect, queue, files_of(staging), batch_id)))
        fault()

    faulty = FaultyStage(FileStage(staging), tmp_path / "mark", fail)
    if fault is interrupt:
        with pytest.raises(Interrupted):
            drain(connect, queue, faulty, SMALL_PARTS, batch_id=batch_id)
    batch = drain(connect, queue, faulty, SMALL_PARTS, batch_id=batch_id).batch
    assert seen[0] > 0, "the part had files when it failed"
    assert unlisted(connect, queue, files_of(staging), batch_id) == []
    assert batch.messages == count
    assert len(files_of(staging)) == batch.parts + (count if size > 8000 else 0)


def test_the_files_of_a_part_whose_commit_was_sent_stay(
    connect: Connect, queue: QueueTable, staging: StagingFolder, tmp_path: Path, batch_id: uuid.UUID
) -> None:
    """Here the server says that it rolled the part back, but what it says may as well be lost: one rule for all."""
    queue.send([Message({}, bytes([n])) for n in range(60)])

    def seal() -> None:
        with connect() as session:
            Ledger(session, queue.address.catalog).seal(batch_id)

    stage, alone = FaultyStage(FileStage(staging), tmp_path / "mark", seal), replace(SMALL_PARTS, workers=1)
    with pytest.raises(BatchError, match="was sealed meanwhile"):
        Drain(connect, queue.address, stage, DrainRequest(batch_id=batch_id, options=alone)).run()
    assert len(unlisted(connect, queue, files_of(staging), batch_id)) == 1
    assert depth(queue).messages == 40


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
    draining = pool.submit(drain, connect, queue, store.staging, SMALL_PARTS, batch_id=batch_id)
    assert store.hangs.wait(30)
    return draining


def test_a_store_that_hangs_past_the_lock_timeout_of_others_loses_nothing(
    connect: Connect, queue: QueueTable, store: HangingStore, pool: ThreadPoolExecutor, batch_id: uuid.UUID
) -> None:
    """Meanwhile readers that skip locked rows continue, readers that wait for them give up, and the part commits."""
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
    impatient = DrainOptions(rows_per_statement=7, inline_body_bytes=8000, rows_per_part=20, locked_wait_seconds=0)
    result = Drain(connect, queue.address, store.staging, DrainRequest(batch_id=batch_id, options=impatient)).run()
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
    draining = pool.submit(drain, connect, queue, store.staging, SMALL_PARTS, batch_id=batch_id)
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
    """An exception of a finalizer would appear in the task's log without a reason; pytest makes it an error."""
    for folder in (staging, Store().staging):
        file = PartFile(folder, str(batch_id), uuid.uuid4())
        file.write([(uuid.uuid4(), None, None, True, None, "{}", b"x", 1, False)])
        file.abandon(remove=False)
        del file
    gc.collect()
