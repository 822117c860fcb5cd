"""Batches after the drain: listed, put back, swept. Over a real connection, on any server."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import ANY

import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.drain.batches import BatchInfo, batches
from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.requeue import RequeueResult, requeue
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.stages.part_file import PartFile
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.sweep import SweepOptions, SweepResult, sweep
from airflow_sqlqueue.drain.worker import DrainTask, Worker
from airflow_sqlqueue.errors import (
    BatchError,
    BatchMismatchError,
    BatchNotFoundError,
    ConfigurationError,
    StagingError,
    TransactionError,
)
from airflow_sqlqueue.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.send_ledger import SendLedger
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql.columns import row_columns
from tests.contract.conftest import Connect, run_sql

SMALL_PARTS = DrainOptions(rows_per_statement=7, rows_per_part=20, settle_seconds=0)

SCHEMA = f"batches_{uuid.uuid4().hex[:10]}"
"""A ledger of this module's own: a sweep takes whatever is past its retention."""

NOW = SweepOptions(retain=timedelta(0), grace=timedelta(0))

DrainIt = Callable[..., Batch]


@pytest.fixture(scope="module", autouse=True)
def ledger_schema(settings: ConnectionSettings) -> Iterator[None]:
    """Drop the ledger afterwards."""
    yield
    with Session(settings) as session:
        tables = ("Batch", "Part", "BatchMessage", "Quarantine", "Send")
        run_sql(session, "; ".join(f"DROP TABLE IF EXISTS [{SCHEMA}].[{name}]" for name in tables))
        run_sql(session, f"DROP SCHEMA IF EXISTS [{SCHEMA}]")


@pytest.fixture
def staging(tmp_path: Path) -> StagingFolder:
    return StagingFolder.of(tmp_path / "staging")


@pytest.fixture(params=["files", "table"])
def stage(
    request: pytest.FixtureRequest, queue_name: str, settings: ConnectionSettings, staging: StagingFolder
) -> Iterator[Stage]:
    """Each of the stages; what is done with in the table goes afterwards, as no folder keeps it from other sweeps."""
    yield FileStage(staging) if request.param == "files" else TableStage(SCHEMA)
    with Session(settings) as session:
        sweep(Ledger(session, settings.database, SCHEMA), None, NOW)


@pytest.fixture
def ledger(queue: QueueTable) -> Ledger:
    ledger = Ledger(queue.session, queue.address.catalog, SCHEMA)
    ledger.create()
    return ledger


@pytest.fixture
def drain(connect: Connect, queue: QueueTable, staging: StagingFolder) -> DrainIt:
    """Send so many messages, each with its number for a body, and drain them."""

    def run(count: int = 0, *, staging: StagingFolder | Stage = staging, batch_id: uuid.UUID | None = None) -> Batch:
        queue.send(Message({"n": f"{n}"}, b"body %d" % n) for n in range(count))
        return (
            Drain(
                connect,
                queue.address,
                staging,
                batch_id=batch_id,
                origin="test",
                options=SMALL_PARTS,
                ledger_schema=SCHEMA,
            )
            .run()
            .batch
        )

    return run


def worker_of(queue: QueueTable, batch_id: uuid.UUID, staging: StagingFolder | Stage) -> Worker:
    stage = FileStage(staging) if isinstance(staging, StagingFolder) else staging
    return Worker(queue.session, DrainTask(batch_id, queue.address, stage, SMALL_PARTS, SCHEMA))


def open_batch(queue: QueueTable, ledger: Ledger, staging: StagingFolder | Stage, parts: int) -> uuid.UUID:
    """A batch that was interrupted after so many parts."""
    batch_id = uuid.uuid4()
    name = "files" if isinstance(staging, StagingFolder) else staging.name
    ledger.open(batch_id, queue.address.canonical, "test", queue.ends()[1], name)
    worker = worker_of(queue, batch_id, staging)
    for _ in range(parts):
        assert worker.drain_part(-1, 2**62, None) is not None
    return batch_id


# The list


def test_each_state_is_listed_with_its_times_and_figures(
    queue: QueueTable, ledger: Ledger, drain: DrainIt, staging: StagingFolder
) -> None:
    sealed, consumed = drain(30), drain(5)
    ledger.consume(consumed)
    queue.send(Message({}, b"12345") for _ in range(45))
    opened = open_batch(queue, ledger, staging, 2)
    found = batches(ledger, queue=queue.address.canonical)
    assert [(info.state, info.parts, info.messages) for info in found] == [
        ("sealed", 2, 30),
        ("consumed", 1, 5),
        ("open", 2, 40),
    ]
    assert [str(info.batch_id) for info in found] == [sealed.batch_id, consumed.batch_id, str(opened)]
    assert [info.bytes for info in found] == [sealed.bytes, consumed.bytes, 40 * len("12345{}")]
    assert {(info.queue, info.origin) for info in found} == {(queue.address.canonical, "test")}
    first, second, third = found
    assert first.sealed is not None
    assert second.consumed is not None
    assert first.opened <= first.sealed <= second.consumed <= third.opened
    assert first.opened.tzinfo == timezone.utc
    assert (first.consumed, third.sealed, third.requeued) == (None, None, None)


def test_the_list_is_filtered_by_state_queue_id_and_age(queue: QueueTable, ledger: Ledger, drain: DrainIt) -> None:
    sealed, consumed = drain(1), drain(1)
    ledger.consume(consumed)

    def ids(**filters: object) -> list[str]:
        found = batches(ledger, queue=queue.address.canonical, **filters)  # type: ignore[arg-type]
        return [str(info.batch_id) for info in found]

    assert ids(states=["sealed"]) == [sealed.batch_id]
    assert ids(states=["sealed", "consumed"]) == ids() == [sealed.batch_id, consumed.batch_id]
    assert ids(batch_id=uuid.UUID(consumed.batch_id)) == [consumed.batch_id]
    assert ids(older_than=timedelta(0)) == ids()
    assert ids(older_than=timedelta(hours=1)) == []
    assert batches(ledger, queue="another") == []
    with pytest.raises(ConfigurationError, match="choose one of open, sealed"):
        batches(ledger, states=["done"])


def test_a_database_without_a_ledger_has_no_batches(queue: QueueTable) -> None:
    assert batches(Ledger(queue.session, queue.address.catalog, "no ledger here")) == []


def test_a_batch_as_json_values() -> None:
    opened, age = datetime(2026, 3, 5, 7, tzinfo=timezone.utc), timedelta(minutes=1)
    info = BatchInfo(uuid.UUID(int=1), "q", "o", "open", "files", age, opened, None, None, None, 1, 2, 3, 0, 4)
    assert info.to_dict() == {
        "batch_id": "00000000-0000-0000-0000-000000000001",
        "queue": "q",
        "origin": "o",
        "state": "open",
        "stage": "files",
        "age_seconds": 60.0,
        "opened": "2026-03-05T07:00:00.000+00:00",
        "sealed": None,
        "consumed": None,
        "requeued": None,
        "parts": 1,
        "messages": 2,
        "expired": 3,
        "quarantined": 0,
        "bytes": 4,
    }


# Requeue


def rows(queue: QueueTable) -> list[tuple[object, ...]]:
    """What stands in the queue, in its order, without the RowVersion."""
    columns = row_columns(queue.layout.types)
    found = run_sql(queue.session, f"SELECT {columns} FROM {queue.address.qualified_name} ORDER BY [RowVersion]")
    return [(*row[:7],) for row in found]


def test_a_requeued_batch_is_in_the_queue_as_it_was(any_queue: QueueTable, connect: Connect, stage: Stage) -> None:
    queue, legacy = any_queue, "CorrelationId" in any_queue.layout.types
    lifetime = timedelta(days=3, seconds=7)
    headers = {"NServiceBus.CorrelationId": "c", "NServiceBus.ReplyToAddress": "r"}
    queue.send(Message(headers if n % 2 else {}, b"\0%d\xff" % n, lifetime if n % 3 else None) for n in range(50))
    queue.send([Message('{"not json'), Message('{"a":"\\u00e9"}', b"")])
    table = queue.address.qualified_name
    run_sql(queue.session, f"UPDATE {table} SET [Body] = NULL WHERE [RowVersion] % 7 = 0")
    # As an endpoint may have left it in a varchar column: of the code page, and not escaped.
    text = '{"n":"Grüße"}'
    run_sql(queue.session, f"UPDATE {table} SET [Headers] = N'{text}' WHERE [RowVersion] % 11 = 0")
    if legacy:
        changes = "[CorrelationId] = '', [ReplyToAddress] = 'x ', [Recoverable] = 0"
        run_sql(queue.session, f"UPDATE {table} SET {changes} WHERE [RowVersion] % 5 = 0")
    before = rows(queue)
    batch = Drain(connect, queue.address, stage, options=SMALL_PARTS, ledger_schema=SCHEMA).run().batch
    assert rows(queue) == []
    queue.send([Message(body=b"came meanwhile")])
    done = requeue(Ledger(queue.session, queue.address.catalog, SCHEMA), uuid.UUID(batch.batch_id))
    assert done == RequeueResult(replace(batch, state="requeued"), repeated=False)
    first, *rest = rows(queue)
    assert first[6] == b"came meanwhile"
    assert rest == before


@pytest.mark.parametrize("change", ["datetime2", "datetimeoffset", "without legacy columns", "with a trigger"])
def test_a_queue_that_was_altered_meanwhile_gets_what_fits(
    queue: QueueTable, ledger: Ledger, drain: DrainIt, change: str
) -> None:
    table = queue.address.qualified_name
    queue.send([Message({"NServiceBus.CorrelationId": "c"}, b"x", timedelta(days=1))])
    ((*_, expires, headers, body),) = (row for row in rows(queue))
    batch = drain(30)
    if change.startswith("datetime"):
        run_sql(queue.session, f"DROP INDEX IF EXISTS [Index_Expires] ON {table}")
        run_sql(queue.session, f"ALTER TABLE {table} ALTER COLUMN [Expires] {change} NULL")
    elif change == "with a trigger":
        run_sql(queue.session, f"CREATE TRIGGER [{queue.address.table}_t] ON {table} AFTER INSERT AS SELECT 1")
    else:
        run_sql(queue.session, f"ALTER TABLE {table} DROP COLUMN [CorrelationId], [ReplyToAddress], [Recoverable]")
    with Session(queue.session.settings) as session:
        requeue(Ledger(session, queue.address.catalog, SCHEMA), uuid.UUID(batch.batch_id))
        received = QueueTable(session, queue.address).receive(100)
    assert [message.body for message in received] == [b"x", *(b"body %d" % n for n in range(30))]
    assert (received[0].headers, received[0].body) == (headers, body)
    assert received[0].expires == expires.replace(tzinfo=timezone.utc)


def test_parts_that_interleave_come_back_in_the_order_of_the_queue(
    connect: Connect, queue: QueueTable, ledger: Ledger, stage: Stage
) -> None:
    """A worker that stepped over locked rows leaves a part that stands inside another."""
    queue.send(Message({}, b"%d" % n) for n in range(60))
    first = queue.browse(1)[0].row_version
    batch_id = uuid.uuid4()
    ledger.open(batch_id, queue.address.canonical, "test", queue.ends()[1], stage.name)
    worker = worker_of(queue, batch_id, stage)
    with connect() as other, other.transaction():
        QueueTable(other, queue.address).take([first + n for n in range(0, 60, 3)])
        while worker.drain_part(-1, 2**62, None):
            pass
        other.roll_back()
        other.begin()
    while worker.drain_part(-1, 2**62, None):
        pass
    assert ledger.seal(batch_id).parts == 3
    requeue(ledger, batch_id)
    assert [message.body for message in queue.receive(100)] == [b"%d" % n for n in range(60)]


def test_a_requeued_batch_is_done_with(queue: QueueTable, ledger: Ledger, drain: DrainIt, stage: Stage) -> None:
    batch_id = uuid.uuid4()
    batch = drain(10, batch_id=batch_id, staging=stage)
    requeue(ledger, batch_id)
    assert requeue(ledger, batch_id) == RequeueResult(replace(batch, state="requeued"), repeated=True)
    assert ledger.manifest(batch_id).state == "requeued"
    with pytest.raises(BatchError, match="ask for a new batch"):
        drain(batch_id=batch_id, staging=stage)
    with pytest.raises(BatchError, match="it was put back into"):
        ledger.consume(batch)
    assert queue.depth().messages == 10
    (info,) = batches(ledger, batch_id=batch_id)
    assert (info.state, info.stage, info.messages) == ("requeued", stage.name, 10)
    assert info.requeued is not None
    assert drain().messages == 10, "a new batch takes them"


def test_an_open_a_consumed_and_an_unknown_batch_are_refused(
    queue: QueueTable, ledger: Ledger, drain: DrainIt, staging: StagingFolder
) -> None:
    consumed = drain(5)
    ledger.consume(consumed)
    queue.send([Message(body=b"x")])
    opened = open_batch(queue, ledger, staging, 1)
    with pytest.raises(BatchError, match="run its drain to the end first"):
        requeue(ledger, opened)
    with pytest.raises(BatchError, match="was consumed"):
        requeue(ledger, uuid.UUID(consumed.batch_id))
    with pytest.raises(BatchNotFoundError):
        requeue(ledger, uuid.uuid4())
    with pytest.raises(BatchNotFoundError, match="no ledger"):
        requeue(Ledger(queue.session, queue.address.catalog, "no ledger here"), uuid.uuid4())
    assert queue.depth().messages == 0


def test_a_batch_whose_files_are_not_what_the_ledger_says_stays_sealed(
    queue: QueueTable, ledger: Ledger, drain: DrainIt, staging: StagingFolder, tmp_path: Path
) -> None:
    batch = drain(30)
    batch_id = uuid.UUID(batch.batch_id)
    _, last = (Path(path.removeprefix("file://")) for path in batch.paths)
    whole = last.read_bytes()

    def refused(error: type[Exception], match: str, staging: StagingFolder | None = None) -> None:
        with pytest.raises(error, match=match):
            requeue(ledger, batch_id, staging)
        assert ledger.manifest(batch_id).state == "sealed"
        assert queue.depth().messages == 0

    pq.write_table(pq.read_table(last).slice(1), last)
    refused(BatchMismatchError, "has 9 messages, the ledger says 10")
    last.write_bytes(whole[: len(whole) // 2])
    refused(StagingError, "is damaged")
    last.unlink()
    refused(StagingError, "cannot be read")
    last.write_bytes(whole)
    refused(StagingError, "name the folder it was drained to", StagingFolder.of(tmp_path / "other"))
    requeue(ledger, batch_id)
    assert queue.depth().messages == 30


def test_of_several_at_once_one_puts_the_batch_back(
    connect: Connect, queue: QueueTable, ledger: Ledger, drain: DrainIt
) -> None:
    batch = drain(300)

    def put_back(_: int) -> bool:
        with connect() as session:
            return requeue(Ledger(session, queue.address.catalog, SCHEMA), uuid.UUID(batch.batch_id)).repeated

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(put_back, range(4))) == [False, True, True, True]
    assert queue.depth().messages == 300


def test_a_consume_waits_for_a_requeue_and_loses(
    connect: Connect, queue: QueueTable, ledger: Ledger, drain: DrainIt
) -> None:
    batch = drain(10)
    with connect() as session, ThreadPoolExecutor(1) as pool:
        with ledger.session.transaction():
            requeue(ledger, uuid.UUID(batch.batch_id))
            consuming = pool.submit(Ledger(session, queue.address.catalog, SCHEMA).consume, batch)
            with pytest.raises(FutureTimeoutError):
                consuming.result(0.3)
        with pytest.raises(BatchError, match="put back"):
            consuming.result(30)
    assert queue.depth().messages == 10


_REQUEUE_AND_HANG = """
import sys, uuid
from airflow_sqlqueue.drain import requeue as module
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.session import Session

settings = ConnectionSettings.from_url(sys.argv[1])
in_order = module.rows_in_order

def hang(*arguments):
    for number, row in enumerate(in_order(*arguments)):
        if number == 300:
            print("half", flush=True)
            sys.stdin.readline()
        yield row

module.rows_in_order = hang
with Session(settings) as session:
    module.requeue(Ledger(session, sys.argv[2], sys.argv[3]), uuid.UUID(sys.argv[4]))
"""


def test_a_requeue_killed_in_the_middle_loses_and_doubles_nothing(
    server_url: str, queue: QueueTable, ledger: Ledger, drain: DrainIt
) -> None:
    batch = drain(400)
    command = [sys.executable, "-c", _REQUEUE_AND_HANG, server_url, queue.address.catalog, SCHEMA, batch.batch_id]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        process.kill()
    # Waits for the lock of the killed one, whose transaction the server rolls back.
    assert ledger.manifest(uuid.UUID(batch.batch_id)) == batch
    assert queue.count_left(2**62, wait=10) == 0
    requeue(ledger, uuid.UUID(batch.batch_id))
    assert [message.body for message in queue.receive(1000)] == [b"body %d" % n for n in range(400)]


# Sweep


@pytest.fixture(params=["local disk", "memory"])
def any_staging(request: pytest.FixtureRequest, tmp_path: Path) -> StagingFolder:
    name = f"memory://{uuid.uuid4().hex}/staging" if request.param == "memory" else tmp_path / "staging"
    return StagingFolder.of(name)


def staged(staging: StagingFolder) -> set[str]:
    """The URIs of all that lies in the folder."""
    found = staging.filesystem.find(staging.root)
    return {staging.uri + path.removeprefix(staging.root) for path in found}


def put(staging: StagingFolder, batch_id: object, name: str = "") -> str:
    """A file of a batch that no ledger lists."""
    path = f"/{batch_id}/{name or f'part-{uuid.uuid4()}.parquet'}"
    staging.filesystem.makedirs(f"{staging.root}/{batch_id}", exist_ok=True)
    staging.filesystem.pipe_file(staging.root + path, b"12345")
    return staging.uri + path


def test_orphans_go_and_what_is_listed_stays(
    queue: QueueTable, ledger: Ledger, drain: DrainIt, any_staging: StagingFolder
) -> None:
    sealed, consumed = drain(30, staging=any_staging), drain(30, staging=any_staging)
    ledger.consume(consumed)
    listed = {*sealed.paths, *consumed.paths}
    orphans = {put(any_staging, sealed.batch_id), put(any_staging, consumed.batch_id)}
    foreign = {put(any_staging, sealed.batch_id, "notes.txt"), put(any_staging, "others")}
    keep = timedelta(days=1)
    young = sweep(ledger, any_staging, SweepOptions(retain=keep, grace=keep))
    assert young == SweepResult()
    assert staged(any_staging) == listed | orphans | foreign
    would = sweep(ledger, any_staging, SweepOptions(retain=keep, grace=timedelta(0), dry_run=True))
    assert would == SweepResult(files=2, bytes=10, orphans=2, dry_run=True)
    assert staged(any_staging) == listed | orphans | foreign
    assert sweep(ledger, any_staging, SweepOptions(retain=keep, grace=timedelta(0))) == replace(would, dry_run=False)
    assert staged(any_staging) == listed | foreign
    assert ledger.manifest(uuid.UUID(sealed.batch_id)) == sealed


def test_nothing_of_an_open_batch_is_touched(queue: QueueTable, ledger: Ledger, staging: StagingFolder) -> None:
    """A worker that was stopped between its file and its COMMIT may wake up and commit: the file must be there."""
    queue.send(Message({}, b"%d" % n) for n in range(40))
    batch_id = open_batch(queue, ledger, staging, 1)
    close, swept = PartFile.close, []

    class Stopped(PartFile):
        def close(self) -> None:
            close(self)
            with Session(ledger.session.settings) as session:
                swept.append(sweep(Ledger(session, ledger.catalog, SCHEMA), staging, replace(NOW, unknown=True)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_sqlqueue.drain.stages.files.PartFile", Stopped)
        assert worker_of(queue, batch_id, staging).drain_part(-1, 2**62, None) is not None
    assert swept == [SweepResult()]
    batch = ledger.seal(batch_id)
    assert sweep(ledger, staging, NOW) == SweepResult()
    assert staged(staging) == set(batch.paths)
    requeue(ledger, batch_id)
    assert queue.depth().messages == 40


def test_a_zombies_file_is_an_orphan_once_the_batch_is_sealed(
    queue: QueueTable, ledger: Ledger, staging: StagingFolder
) -> None:
    queue.send(Message({}, b"%d" % n) for n in range(40))
    batch_id = open_batch(queue, ledger, staging, 1)
    with Session(ledger.session.settings) as session:
        batch = Ledger(session, ledger.catalog, SCHEMA).seal(batch_id)
    with pytest.raises(BatchError, match="sealed meanwhile"):
        worker_of(queue, batch_id, staging).drain_part(-1, 2**62, None)
    assert len(staged(staging)) == 2
    assert sweep(ledger, staging, NOW).orphans == 1
    assert staged(staging) == set(batch.paths)


def test_what_is_done_with_goes_after_its_retention_from_disk_and_ledger(
    queue: QueueTable, ledger: Ledger, drain: DrainIt, any_staging: StagingFolder
) -> None:
    consumed, requeued, empty = drain(30, staging=any_staging), drain(25, staging=any_staging), drain()
    sealed = drain(5, staging=any_staging)
    ledger.consume(consumed)
    ledger.consume(empty)
    requeue(ledger, uuid.UUID(requeued.batch_id), any_staging)
    put(any_staging, consumed.batch_id)
    swept = [any_staging.root + path.removeprefix(any_staging.uri) for path in (*consumed.paths, *requeued.paths)]
    size = sum(map(any_staging.filesystem.size, swept))
    would = sweep(ledger, any_staging, replace(NOW, dry_run=True))
    assert (would.files, would.orphans, would.bytes) == (5, 1, size + 5)
    assert would.batches == 3
    assert len(staged(any_staging)) == 6
    done = sweep(ledger, any_staging, NOW)
    assert done == replace(would, dry_run=False)
    assert staged(any_staging) == set(sealed.paths)
    assert [str(info.batch_id) for info in batches(ledger, queue=queue.address.canonical)] == [sealed.batch_id]
    assert ledger.parts(uuid.UUID(consumed.batch_id)) == []
    assert sweep(ledger, any_staging, NOW) == SweepResult()
    if any_staging.is_local:
        assert [path.name for path in Path(any_staging.root).iterdir()] == [sealed.batch_id]


def test_a_batch_in_another_folder_stays_in_the_ledger(
    ledger: Ledger, drain: DrainIt, staging: StagingFolder, tmp_path: Path
) -> None:
    batch = drain(5)
    ledger.consume(batch)
    sweep(ledger, StagingFolder.of(tmp_path / "another"), NOW)
    assert ledger.manifest(uuid.UUID(batch.batch_id)).state == "consumed"
    moved = StagingFolder.of(Path(staging.root).rename(tmp_path / "the same, mounted elsewhere"))
    assert sweep(ledger, moved, NOW).files == 1
    with pytest.raises(BatchNotFoundError):
        ledger.manifest(uuid.UUID(batch.batch_id))


def test_a_sweep_that_died_between_files_and_ledger_is_made_good(
    ledger: Ledger, drain: DrainIt, staging: StagingFolder
) -> None:
    batch = drain(30)
    ledger.consume(batch)
    for path in batch.paths:
        Path(path.removeprefix("file://")).unlink()
    assert sweep(ledger, staging, NOW).files == 0
    assert batches(ledger, batch_id=uuid.UUID(batch.batch_id)) == []


def test_files_of_another_ledger_stay_unless_there_is_none(
    queue: QueueTable, drain: DrainIt, any_staging: StagingFolder
) -> None:
    """Two databases may stage in one folder: what the one does not know, the other may have sealed."""
    batch = drain(30, staging=any_staging)
    other = Ledger(queue.session, queue.address.catalog, "no ledger here")
    assert sweep(other, any_staging, NOW) == SweepResult(unknown=2)
    assert staged(any_staging) == set(batch.paths)
    assert sweep(other, any_staging, replace(NOW, unknown=True, grace=timedelta(days=1))) == SweepResult()
    assert sweep(other, any_staging, replace(NOW, unknown=True)).orphans == 2
    assert staged(any_staging) == set()


def test_a_sweep_forgets_old_sendings(queue: QueueTable, ledger: Ledger, staging: StagingFolder) -> None:
    catalog = queue.address.catalog
    send_id, sent = uuid.uuid4(), SendLedger(queue.session, catalog, SCHEMA)
    sent.create()
    sent.send(queue, send_id, [Message()])
    assert sweep(ledger, staging, NOW).sends == 0
    assert sweep(ledger, staging, SweepOptions(forget_sent=timedelta(days=1))).sends == 0
    old = SweepOptions(forget_sent=timedelta(0))
    table = f"[{catalog}].[{SCHEMA}].[Send]"
    run_sql(queue.session, f"UPDATE {table} SET [SentAt] = '2020-01-01' WHERE [SendId] = '{send_id}'")
    assert sweep(ledger, staging, replace(old, dry_run=True)).sends == 1
    assert sent.send(queue, send_id, [Message()]).repeated
    assert sweep(ledger, staging, SweepOptions(forget_sent=timedelta(days=365))).sends == 1
    assert not sent.send(queue, send_id, [Message()]).repeated
    assert sweep(Ledger(queue.session, catalog, "no ledger here"), staging, old).sends == 0


def staged_rows(queue: QueueTable, batch: Batch) -> int:
    text = f"SELECT COUNT(*) FROM [{SCHEMA}].[BatchMessage] WHERE [BatchId] = '{batch.batch_id}'"
    return int(run_sql(queue.session, text)[0][0])


def test_staged_rows_go_with_a_batch_that_is_done_with(
    queue: QueueTable, ledger: Ledger, drain: DrainIt, staging: StagingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In chunks; a batch that is open or sealed keeps its rows, and one in files stays without its folder."""
    monkeypatch.setattr("airflow_sqlqueue.drain.stages.message_table.MAX_ROWS_PER_STATEMENT", 7)
    table = TableStage(SCHEMA)
    sealed, consumed, requeued = (drain(30, staging=table) for _ in range(3))
    files = drain(5)
    for batch in (consumed, files):
        ledger.consume(batch)
    requeue(ledger, uuid.UUID(requeued.batch_id))
    opened = open_batch(queue, ledger, table, 1)
    assert sweep(ledger).batches == 0, "the retention is not over"
    expected = SweepResult(rows=60, batches=2)
    assert sweep(ledger, None, replace(NOW, dry_run=True)) == replace(expected, dry_run=True)
    assert sweep(ledger, None, NOW) == expected
    assert sweep(ledger, None, NOW) == SweepResult()
    assert [staged_rows(queue, batch) for batch in (sealed, consumed, requeued)] == [30, 0, 0]
    listed = {info.batch_id: info.state for info in batches(ledger, queue=queue.address.canonical)}
    assert listed == {
        uuid.UUID(sealed.batch_id): "sealed",
        uuid.UUID(files.batch_id): "consumed",
        opened: "open",
    }
    assert sweep(ledger, staging, NOW) == SweepResult(files=1, bytes=ANY, batches=1)


def test_a_batch_whose_rows_are_not_what_the_ledger_says_stays_sealed(
    queue: QueueTable, ledger: Ledger, drain: DrainIt
) -> None:
    batch = drain(30, staging=TableStage(SCHEMA))
    run_sql(queue.session, f"DELETE TOP (1) FROM [{SCHEMA}].[BatchMessage] WHERE [BatchId] = '{batch.batch_id}'")
    with pytest.raises(BatchMismatchError, match="has 19 messages, the ledger says 20"):
        requeue(ledger, uuid.UUID(batch.batch_id))
    assert ledger.manifest(uuid.UUID(batch.batch_id)).state == "sealed"
    assert queue.depth().messages == 0


def test_sweeps_that_cannot_be(ledger: Ledger, staging: StagingFolder, tmp_path: Path) -> None:
    with pytest.raises(TransactionError, match="outside the transaction"), ledger.session.transaction():
        sweep(ledger, staging)
    with pytest.raises(ConfigurationError, match="grace is"):
        SweepOptions(grace=timedelta(seconds=-1))
    assert sweep(ledger, StagingFolder.of(tmp_path / "missing")).files == 0
    (tmp_path / "file").write_text("no folder")
    assert sweep(ledger, StagingFolder.of(tmp_path / "file"), SweepOptions()).files == 0
