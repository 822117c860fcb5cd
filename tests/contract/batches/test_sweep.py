"""Sweeps of stages and ledger, on any server."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import ANY

import pytest

from airflow_sqlqueue.drain.batches import batches
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import SweepOptions
from airflow_sqlqueue.drain.requeue import requeue
from airflow_sqlqueue.drain.stages.part_file import PartFile
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.sweep import SweepResult, sweep
from airflow_sqlqueue.errors import (
    BatchError,
    BatchMismatchError,
    BatchNotFoundError,
    ConfigurationError,
    TransactionError,
)
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.send_ledger import SendLedger
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.session import Session
from tests.contract.batches.conftest import NOW, SCHEMA, DrainIt, open_batch, worker_of
from tests.contract.conftest import drop_schema, run_sql


@pytest.fixture(params=["local disk", "memory"])
def any_staging(request: pytest.FixtureRequest, tmp_path: Path) -> StagingFolder:
    name = f"memory://{uuid.uuid4().hex}/staging" if request.param == "memory" else tmp_path / "staging"
    return StagingFolder.of(name)


def staged(staging: StagingFolder) -> set[str]:
    """The URIs of all that lies in the folder."""
    found = staging.filesystem.find(staging.root)
    return {staging.uri + path.removeprefix(staging.root) for path in found}


def put(staging: StagingFolder, folder: str, name: str = "") -> str:
    """A file of a batch that no ledger lists."""
    path = f"/{folder}/{name or f'part-{uuid.uuid4()}.parquet'}"
    staging.filesystem.makedirs(f"{staging.root}/{folder}", exist_ok=True)
    staging.filesystem.pipe_file(staging.root + path, b"12345")
    return staging.uri + path


def test_orphans_are_removed_and_listed_files_stay(
    queue: QueueTable, ledger: Ledger, drain: DrainIt, any_staging: StagingFolder
) -> None:
    sealed, consumed = drain(30, staging=any_staging), drain(30, staging=any_staging)
    ledger.consume(consumed)
    listed = {*sealed.paths, *consumed.paths}
    orphans = {put(any_staging, sealed.folder), put(any_staging, consumed.folder)}
    foreign = {put(any_staging, sealed.folder, "notes.txt"), put(any_staging, "others")}
    keep = timedelta(days=1)
    young = sweep(ledger, any_staging, SweepOptions(retain=keep, grace=keep))
    assert young == SweepResult() == sweep(ledger, any_staging, SweepOptions(retain=keep, grace=timedelta.max))
    assert staged(any_staging) == listed | orphans | foreign
    would = sweep(ledger, any_staging, SweepOptions(retain=keep, grace=timedelta(0), dry_run=True))
    assert would == SweepResult(files=2, bytes=10, orphans=2, dry_run=True)
    assert staged(any_staging) == listed | orphans | foreign
    assert sweep(ledger, any_staging, SweepOptions(retain=keep, grace=timedelta(0))) == replace(would, dry_run=False)
    assert staged(any_staging) == listed | foreign
    assert ledger.manifest(uuid.UUID(sealed.batch_id)) == sealed


def test_files_of_an_open_batch_are_not_touched(queue: QueueTable, ledger: Ledger, staging: StagingFolder) -> None:
    """A worker that was stopped between its file and its COMMIT may wake up and commit: the file must be there."""
    queue.send(Message({}, b"%d" % n) for n in range(40))
    batch_id = open_batch(queue, ledger, staging, 1)
    close, swept = PartFile.close, []

    class Stopped(PartFile):
        def close(self) -> None:
            close(self)
            with Session(ledger.session.settings) as session:
                swept.append(sweep(Ledger(session, ledger.catalog), staging, replace(NOW, unknown=True)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_sqlqueue.drain.stages.files.PartFile", Stopped)
        assert worker_of(queue, batch_id, staging).drain_part(Window(), None) is not None
    assert swept == [SweepResult()]
    batch = ledger.seal(batch_id)
    assert sweep(ledger, staging, NOW) == SweepResult()
    assert staged(staging) == set(batch.paths)
    requeue(ledger, batch_id)
    assert depth(queue).messages == 40


def test_a_zombies_file_is_an_orphan_once_the_batch_is_sealed(
    queue: QueueTable, ledger: Ledger, staging: StagingFolder
) -> None:
    queue.send(Message({}, b"%d" % n) for n in range(40))
    batch_id = open_batch(queue, ledger, staging, 1)
    with Session(ledger.session.settings) as session:
        batch = Ledger(session, ledger.catalog).seal(batch_id)
    with pytest.raises(BatchError, match="sealed meanwhile"):
        worker_of(queue, batch_id, staging).drain_part(Window(), None)
    assert len(staged(staging)) == 2
    assert sweep(ledger, staging, NOW).orphans == 1
    assert staged(staging) == set(batch.paths)


def test_finished_batches_leave_disk_and_ledger_after_their_retention(
    queue: QueueTable, ledger: Ledger, drain: DrainIt, any_staging: StagingFolder
) -> None:
    consumed, requeued, empty = drain(30, staging=any_staging), drain(25, staging=any_staging), drain()
    sealed = drain(5, staging=any_staging)
    ledger.consume(consumed)
    ledger.consume(empty)
    requeue(ledger, uuid.UUID(requeued.batch_id), any_staging)
    put(any_staging, consumed.folder)
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
        assert [path.name for path in Path(any_staging.root).iterdir()] == [sealed.folder]


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


def test_ledgers_with_the_same_batch_ids_share_a_staging_folder(
    queue: QueueTable, ledger: Ledger, drain: DrainIt, staging: StagingFolder
) -> None:
    """As two databases of two environments with the same DAGs; here two schemas stand for them."""
    batch_id, other = uuid.uuid4(), replace(ledger.session.settings, ledger_schema=f"{SCHEMA}_other")
    mine = drain(5, staging=staging, batch_id=batch_id)
    try:
        theirs = drain(7, staging=staging, batch_id=batch_id, settings=other)
        assert (mine.messages, theirs.messages) == (5, 7)
        assert sweep(ledger, staging, NOW) == SweepResult(unknown=theirs.parts)
        ledger.consume(mine)
        swept = sweep(ledger, staging, NOW)
        assert (swept.files, swept.orphans, swept.batches, swept.unknown) == (mine.parts, 0, 1, theirs.parts)
        assert staged(staging) == set(theirs.paths)
        with Session(other) as session:
            requeue(Ledger(session, ledger.catalog), batch_id, staging)
        assert depth(queue).messages == 7
    finally:
        drop_schema(ledger.session, other.ledger_schema)


@pytest.mark.parametrize("is_found", [False, True])
def test_a_batch_that_another_sweep_forgets_meanwhile_stops_no_sweep(
    ledger: Ledger, drain: DrainIt, staging: StagingFolder, monkeypatch: pytest.MonkeyPatch, is_found: bool
) -> None:
    batch, folder = drain(5), Ledger.folder
    ledger.consume(batch)

    def forgotten(self: Ledger, batch_id: uuid.UUID) -> str:
        monkeypatch.undo()
        name = folder(self, batch_id) if is_found else None
        with Session(ledger.session.settings) as session:
            assert sweep(Ledger(session, ledger.catalog), staging, NOW).batches == 1
        return name or folder(self, batch_id)

    monkeypatch.setattr(Ledger, "folder", forgotten)
    assert sweep(ledger, staging, NOW).unknown == (0 if is_found else batch.parts)
    assert staged(staging) == set()


@pytest.mark.parametrize("name", ["..", f"{uuid.UUID(int=7)}-01234567", "{}-0123456g", "{}/../x"])
def test_a_ledger_that_names_a_folder_elsewhere_is_refused(
    ledger: Ledger, drain: DrainIt, staging: StagingFolder, name: str
) -> None:
    batch = drain(5)
    changed = f"UPDATE [{SCHEMA}].[Batch] SET [Folder] = '{name.format(batch.batch_id)}' WHERE [BatchId] = "
    run_sql(ledger.session, f"{changed}'{batch.batch_id}'")
    with pytest.raises(BatchMismatchError, match="a name in the ledger that no drain gave it"):
        ledger.folder(batch.uuid)
    with pytest.raises(BatchMismatchError, match="a name in the ledger that no drain gave it"):
        drain(batch_id=batch.uuid)
    assert sweep(ledger, staging, NOW) == SweepResult(unknown=batch.parts)
    assert staged(staging) == set(batch.paths)


def test_the_next_sweep_completes_one_that_died_between_files_and_ledger(
    ledger: Ledger, drain: DrainIt, staging: StagingFolder
) -> None:
    batch = drain(30)
    ledger.consume(batch)
    for path in batch.paths:
        Path(path.removeprefix("file://")).unlink()
    assert sweep(ledger, staging, NOW).files == 0
    assert batches(ledger, batch_id=uuid.UUID(batch.batch_id)) == []


def test_files_of_unknown_batches_stay_unless_unknown_is_given(
    queue: QueueTable, drain: DrainIt, staging: StagingFolder, schema: str
) -> None:
    """Two databases may stage in one folder: a batch unknown to one may be a sealed batch of the other."""
    batch = drain(30, staging=staging)
    other = Ledger(queue.session, queue.address.catalog, schema)
    assert sweep(other, staging, NOW) == SweepResult(unknown=2)
    with pytest.raises(BatchNotFoundError, match=r"no ledger .* or the login may not see it: nothing was done"):
        sweep(other, staging, replace(NOW, unknown=True))
    assert staged(staging) == set(batch.paths)
    other.create()
    assert sweep(other, staging, replace(NOW, unknown=True, grace=timedelta(days=1))) == SweepResult()
    assert sweep(other, staging, replace(NOW, unknown=True)).orphans == 2
    assert staged(staging) == set()


def test_a_sweep_forgets_old_sends(queue: QueueTable, ledger: Ledger, staging: StagingFolder) -> None:
    catalog = queue.address.catalog
    send_id, sent = uuid.uuid4(), SendLedger(queue.session, catalog)
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
    monkeypatch.setattr("airflow_sqlqueue.drain.stages.staging_table.MAX_ROWS_PER_STATEMENT", 7)
    table = TableStage()
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
    assert listed == {uuid.UUID(sealed.batch_id): "sealed", uuid.UUID(files.batch_id): "consumed", opened: "open"}
    assert sweep(ledger, staging, NOW) == SweepResult(files=1, bytes=ANY, batches=1)


def test_a_sweep_inside_a_transaction_or_with_a_negative_grace_is_refused(
    ledger: Ledger, staging: StagingFolder
) -> None:
    with pytest.raises(TransactionError, match="outside the transaction"), ledger.session.transaction():
        sweep(ledger, staging)
    with pytest.raises(ConfigurationError, match="grace must be 0s or more"):
        SweepOptions(grace=timedelta(seconds=-1))


def test_a_sweep_of_a_path_that_is_no_folder_finds_nothing(ledger: Ledger, tmp_path: Path) -> None:
    assert sweep(ledger, StagingFolder.of(tmp_path / "missing")).files == 0
    (tmp_path / "file").write_text("no folder")
    assert sweep(ledger, StagingFolder.of(tmp_path / "file"), SweepOptions()).files == 0
