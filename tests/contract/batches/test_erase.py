"""Erasure of single messages from staged batches, in files and in the table."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.bodies.redaction.redactor import Redactor
from airflow_sqlqueue.drain.batch_reader import batch_rows
from airflow_sqlqueue.drain.batches import batches, recorded_batch
from airflow_sqlqueue.drain.erase import EraseRequest, EraseResult, erase
from airflow_sqlqueue.drain.erased_parts import FileEraser
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.drain.manifest import LISTED_BYTES, Batch
from airflow_sqlqueue.drain.options import DrainOptions, SweepOptions
from airflow_sqlqueue.drain.requeue import requeue
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.sweep import SweepResult, sweep
from airflow_sqlqueue.errors import (
    BatchError,
    BatchMismatchError,
    BatchNotFoundError,
    ConfigurationError,
    StagingError,
    TransactionError,
)
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.queue import QueueTable
from tests.conftest import Connect
from tests.contract.conftest import run_sql
from tests.drains import bodies, drain

KEY = "a key of 16 bytes or more"
PARTS = DrainOptions(rows_per_statement=5, rows_per_part=10, inline_body_bytes=300, locked_wait_seconds=0)


@pytest.fixture(params=["files", "table"])
def stage(request: pytest.FixtureRequest, staging: StagingFolder) -> Any:
    return staging if request.param == "files" else TableStage()


@pytest.fixture
def ledger(queue: QueueTable) -> Ledger:
    return Ledger(queue.session, queue.address.catalog)


@pytest.fixture
def locks(connect: Connect, queue: QueueTable) -> Iterator[BatchLocks]:
    with BatchLocks(connect, queue.address.catalog) as locks:
        yield locks


Erase = Callable[..., EraseResult]


@pytest.fixture
def erased(ledger: Ledger, locks: BatchLocks) -> Erase:
    def run(batch: Batch | None = None, **request: Any) -> EraseResult:
        ids = None if batch is None else [uuid.UUID(batch.batch_id)]
        return erase(ledger, locks, EraseRequest(**{"batch_ids": ids, **request}))

    return run


def message(number: int, person: str, note: str = "") -> Message:
    body = json.dumps({"Id": number, "Customer": {"Email": f"{person}@shop"}, "Note": note}).encode()
    headers = {HeaderNames.MESSAGE_ID: f"m{number}", "Person": person, HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.Order"}
    return Message(headers, body)


def send(queue: QueueTable, count: int = 30) -> None:
    """Send messages of a, b and c in turn; every tenth has a large body."""
    queue.send(message(n, "abc"[n % 3], "x" * 400 if n % 10 == 0 else "") for n in range(count))


def numbers(connect: Connect, ledger: Ledger, batch: Batch) -> list[int]:
    with connect() as session:
        there = Ledger(session, ledger.catalog)
        rows = batch_rows(there, uuid.UUID(batch.batch_id), batch.stage)
        return sorted(json.loads(row.body or b"")["Id"] for row in rows)


def files(staging: StagingFolder) -> set[str]:
    return {str(file) for file in Path(staging.root).rglob("*") if file.is_file()}


WITHOUT_B = [n for n in range(30) if n % 3 != 1]


@pytest.mark.parametrize(
    ("stage", "condition"),
    [
        ("files", {"headers": {"person": "b"}}),
        ("table", {"fields": {"Customer.Email": "b@shop"}}),
        ("files", {"message_ids": [f"m{n}" for n in range(1, 30, 3)]}),
    ],
    indirect=["stage"],
)
def test_messages_that_meet_a_condition_are_erased(
    connect: Connect,
    queue: QueueTable,
    ledger: Ledger,
    stage: Any,
    staging: StagingFolder,
    erased: Erase,
    condition: Any,
) -> None:
    send(queue)
    before = drain(connect, queue, stage, PARTS).batch
    counted = erased(before, **condition, dry_run=True)
    assert (counted.messages, counted.batches, counted.files) == (10, [uuid.UUID(before.batch_id)], 0)
    assert numbers(connect, ledger, before) == list(range(30))
    done = erased(before, **condition)
    assert (done.messages, done.unread, done.skipped) == (10, 0, {})
    batch = ledger.manifest(uuid.UUID(before.batch_id))
    assert numbers(connect, ledger, batch) == WITHOUT_B
    assert (batch.messages, batch.erased, batch.state) == (20, 10, "sealed")
    assert files(staging) >= {path.removeprefix("file://") for path in batch.paths}
    for file in files(staging):
        assert b"b@shop" not in Path(file).read_bytes()
    with connect() as session:
        (size,) = (sum(part.bytes for part in ledger.parts(uuid.UUID(batch.batch_id))),)
        rows = list(batch_rows(Ledger(session, ledger.catalog), uuid.UUID(batch.batch_id), batch.stage))
    factor = 2 if batch.stage == "table" else 1
    assert batch.bytes == size == sum(factor * len(row.headers) + len(row.body or b"") for row in rows)
    assert erased(batch, **condition).messages == 0


def test_a_whole_part_and_a_whole_batch_are_erased(
    connect: Connect, queue: QueueTable, ledger: Ledger, stage: Any, staging: StagingFolder, erased: Erase
) -> None:
    queue.send(message(n, "a" if n < 10 else "b") for n in range(20))
    batch_id = uuid.UUID(drain(connect, queue, stage, replace(PARTS, workers=1)).batch.batch_id)
    assert erased(headers={"Person": "a"}, batch_ids=[batch_id]).messages == 10
    batch = ledger.manifest(batch_id)
    assert numbers(connect, ledger, batch) == list(range(10, 20))
    assert erased(headers={"Person": "b"}, batch_ids=[batch_id]).messages == 10
    batch = ledger.manifest(batch_id)
    assert (batch.messages, batch.bytes, batch.paths, batch.erased) == (0, 0, (), 20)
    assert files(staging) == set()
    ledger.consume(batch)


@pytest.mark.parametrize(("stage", "state"), [("files", "consumed"), ("table", "requeued")], indirect=["stage"])
def test_finished_batches_are_erased_as_well(
    connect: Connect, queue: QueueTable, ledger: Ledger, stage: Any, erased: Erase, state: str
) -> None:
    send(queue, 6)
    batch = drain(connect, queue, stage, PARTS).batch
    if state == "consumed":
        ledger.consume(batch)
    else:
        requeue(ledger, uuid.UUID(batch.batch_id))
    assert erased(batch, headers={"Person": "b"}).messages == 2
    after = ledger.manifest(uuid.UUID(batch.batch_id))
    assert (after.state, numbers(connect, ledger, after)) == (state, [0, 2, 3, 5])


def test_an_erased_batch_goes_back_without_the_erased_messages(
    connect: Connect, queue: QueueTable, ledger: Ledger, stage: Any, erased: Erase
) -> None:
    send(queue, 6)
    batch = drain(connect, queue, stage, PARTS).batch
    erased(batch, headers={"Person": "b"})
    assert requeue(ledger, uuid.UUID(batch.batch_id)).batch.messages == 4
    assert sorted(json.loads(body)["Id"] for body in bodies(queue)) == [0, 2, 3, 5]


def test_a_reader_of_the_earlier_list_cannot_mark_it_consumed(
    connect: Connect, queue: QueueTable, ledger: Ledger, stage: Any, erased: Erase
) -> None:
    send(queue, 6)
    batch = drain(connect, queue, stage, PARTS).batch
    erased(batch, headers={"Person": "b"})
    with pytest.raises((BatchMismatchError, BatchError)):
        ledger.consume(batch)
    read_again = recorded_batch(ledger.session, batch.to_reference())
    assert read_again.messages == 4
    with pytest.raises(BatchMismatchError):
        recorded_batch(ledger.session, {**batch.to_reference(), "erased": 3})
    ledger.consume(read_again)


def test_an_open_batch_is_skipped_or_refused(
    connect: Connect, queue: QueueTable, ledger: Ledger, erased: Erase
) -> None:
    batch_id = uuid.uuid4()
    ledger.create()
    ledger.open(batch_id, queue.address.canonical, 1)
    with pytest.raises(BatchError, match="still open"):
        erased(headers={"Person": "b"}, batch_ids=[batch_id])
    assert erased(headers={"Person": uuid.uuid4().hex}, dry_run=True).skipped[batch_id] == "it is open"
    with pytest.raises(BatchNotFoundError):
        erased(headers={"Person": "b"}, batch_ids=[uuid.uuid4()])


def test_a_batch_whose_files_are_gone_keeps_nothing_in_the_others(
    connect: Connect, queue: QueueTable, staging: StagingFolder, erased: Erase
) -> None:
    drained = []
    for _ in range(2):
        send(queue, 3)
        drained.append(drain(connect, queue, staging, batch_id=uuid.uuid4()).batch)
    for path in drained[0].paths:
        Path(path.removeprefix("file://")).unlink()
    gone, kept = (uuid.UUID(batch.batch_id) for batch in drained)
    with pytest.raises((BatchMismatchError, StagingError)):
        erased(headers={"Person": "a"}, batch_ids=[gone], dry_run=True)
    result = erased(headers={"Person": "a"}, dry_run=True)
    assert result.skipped[gone] == "its files cannot be read"
    assert kept in result.batches


def test_a_batch_that_a_task_works_on_is_skipped(connect: Connect, queue: QueueTable, erased: Erase) -> None:
    send(queue, 6)
    batch = drain(connect, queue, TableStage(), PARTS).batch
    with BatchLocks(connect, queue.address.catalog) as others:
        assert others.take(uuid.UUID(batch.batch_id))
        done = erased(batch, headers={"Person": "b"})
    assert (done.messages, done.skipped) == (0, {uuid.UUID(batch.batch_id): "a task works on it"})
    assert erased(batch, headers={"Person": "b"}).messages == 2


def test_a_batch_that_is_being_put_back_is_skipped(
    connect: Connect, queue: QueueTable, staging: StagingFolder, erased: Erase
) -> None:
    person = uuid.uuid4().hex
    queue.send(message(n, person) for n in range(2))
    first, second = (drain(connect, queue, staging, replace(PARTS, max_messages=1)).batch.uuid for _ in range(2))
    with connect() as session, session.transaction():
        requeue(Ledger(session, queue.address.catalog), first)
        done = erased(headers={"Person": person})
    assert (done.batches, done.skipped[first]) == ([second], "others have locked it")


def test_hashed_values_are_found_with_the_key(
    connect: Connect, queue: QueueTable, ledger: Ledger, staging: StagingFolder, erased: Erase
) -> None:
    send(queue, 6)
    rules = [{"message_type": "*", "headers": {"Person": "hash"}, "fields": {"Customer.Email": "hash"}}]
    batch = drain(connect, queue, staging, PARTS, redaction=Redactor.of(rules, KEY)).batch
    assert erased(batch, headers={"Person": "a"}, dry_run=True).messages == 0
    assert erased(batch, headers={"Person": "a"}, key=KEY).messages == 2
    assert erased(batch, fields={"Customer.Email": "b@shop"}, key=KEY).messages == 2
    assert numbers(connect, ledger, ledger.manifest(uuid.UUID(batch.batch_id))) == [2, 5]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_batch_may_have_been_drained_to_another_folder(
    connect: Connect,
    queue: QueueTable,
    staging: StagingFolder,
    ledger: Ledger,
    locks: BatchLocks,
    tmp_path: Path,
    elsewhere: bool,
) -> None:
    send(queue, 6)
    batch = drain(connect, queue, staging, PARTS).batch
    batch_id = uuid.UUID(batch.batch_id)
    given = StagingFolder.of(tmp_path / "other") if elsewhere else staging
    for person, count, left in (("a", 2, [1, 2, 4, 5]), ("b", 2, [2, 5]), ("c", 2, []), ("a", 0, [])):
        ids = iter(["no message's"])
        request = EraseRequest(headers={"Person": person}, message_ids=ids, batch_ids=[batch_id])  # type: ignore[arg-type]
        assert request.message_ids == ("no message's",), "a generator serves more than once"
        assert erase(ledger, locks, request, given).messages == count
        assert numbers(connect, ledger, ledger.manifest(batch_id)) == left


def test_a_row_that_names_a_file_outside_of_its_batch_is_refused(
    connect: Connect, queue: QueueTable, staging: StagingFolder, erased: Erase, tmp_path: Path
) -> None:
    """Others may write where the parts are: a file of theirs is not read as a body."""
    send(queue, 1)
    batch = drain(connect, queue, staging, PARTS).batch
    secret = tmp_path / "secret"
    secret.write_bytes(b'{"Customer": {"Email": "b@shop"}}')
    (path,) = (path.removeprefix("file://") for path in batch.paths)
    rows = pq.read_table(path)
    assert rows["BodyFile"].to_pylist() != [None]
    place = rows.schema.get_field_index("BodyFile")
    pq.write_table(rows.set_column(place, rows.schema.field(place), [[f"file://{secret}"]]), path)
    with pytest.raises(BatchMismatchError, match="The file of a body"):
        erased(batch, fields={"Customer.Email": "b@shop"}, dry_run=True)


def test_a_field_may_have_several_values_or_none(
    connect: Connect, queue: QueueTable, ledger: Ledger, erased: Erase
) -> None:
    lists = [[{"Email": "a@shop"}, {"Email": "b@shop"}], [{"Email": "a@shop"}], [], None]
    queue.send(Message({}, json.dumps({"Id": n, "Customer": each}).encode()) for n, each in enumerate(lists))
    batch = drain(connect, queue, TableStage(), PARTS).batch
    assert erased(batch, fields={"Customer.Email": "b@shop"}).messages == 1
    assert numbers(connect, ledger, ledger.manifest(uuid.UUID(batch.batch_id))) == [1, 2, 3]


def test_messages_that_cannot_be_parsed_stay_and_are_counted(
    connect: Connect, queue: QueueTable, staging: StagingFolder, erased: Erase
) -> None:
    queue.send([message(1, "a"), Message({"A": "b"}, b"{"), Message("{", b'{"Customer": {"Email": "a@shop"}}')])
    batch = drain(connect, queue, staging, PARTS).batch
    done = erased(batch, fields={"Customer.Email": "a@shop"})
    assert (done.messages, done.unread) == (2, 1)


def test_a_large_batch_gets_a_new_manifest_file(
    connect: Connect, queue: QueueTable, ledger: Ledger, staging: StagingFolder, erased: Erase
) -> None:
    count = LISTED_BYTES // 100
    queue.send(message(n, "b" if n == 7 else "a") for n in range(count))
    batch = drain(connect, queue, staging, DrainOptions(rows_per_statement=1, rows_per_part=1, workers=1)).batch
    assert not batch.is_listed
    assert erased(batch, headers={"Person": "b"}).messages == 1
    after = ledger.manifest(uuid.UUID(batch.batch_id))
    assert after.manifest_path != batch.manifest_path
    there = [file for file in files(staging) if "manifest-" in file]
    assert there == [after.manifest_path.removeprefix("file://")]
    assert recorded_batch(ledger.session, batch.to_reference()).paths == after.paths


def test_other_batches_and_files_of_others_stay(
    connect: Connect, queue: QueueTable, ledger: Ledger, staging: StagingFolder, erased: Erase
) -> None:
    send(queue, 6)
    first = drain(connect, queue, staging, PARTS).batch
    send(queue, 6)
    second = drain(connect, queue, staging, PARTS).batch
    foreign = Path(staging.root, first.folder, "notes.txt")
    foreign.write_text("a file of others")
    assert erased(first, headers={"Person": "b"}).files == 1
    assert numbers(connect, ledger, second) == list(range(6))
    assert foreign.exists()


def test_a_batch_that_changes_meanwhile_is_left_as_it_was(
    connect: Connect, queue: QueueTable, ledger: Ledger, staging: StagingFolder, erased: Erase, monkeypatch: Any
) -> None:
    send(queue, 6)
    batch = drain(connect, queue, staging, PARTS).batch
    rewrite = FileEraser.rewrite

    def consumed_meanwhile(*arguments: Any) -> Any:
        ledger.consume(batch)
        return rewrite(*arguments)

    monkeypatch.setattr(FileEraser, "rewrite", consumed_meanwhile)
    with pytest.raises(BatchError, match="changed meanwhile"):
        erased(batch, headers={"Person": "b"})
    assert numbers(connect, ledger, batch) == list(range(6))
    monkeypatch.undo()
    done = erased(batch, headers={"Person": "b"})
    assert (done.messages, done.files) == (2, 2), "the file of the failed call, and the old one"


def test_a_sweep_beside_an_erasure_leaves_the_files_that_it_will_list(
    connect: Connect, queue: QueueTable, ledger: Ledger, staging: StagingFolder, erased: Erase, monkeypatch: Any
) -> None:
    send(queue, 6)
    batch = drain(connect, queue, staging, PARTS).batch
    rewrite, now = FileEraser.rewrite, SweepOptions(grace=timedelta(0))

    def swept_meanwhile(*arguments: Any) -> Any:
        written = rewrite(*arguments)
        with connect() as session:
            assert sweep(Ledger(session, ledger.catalog), staging, now) == SweepResult()
        return written

    monkeypatch.setattr(FileEraser, "rewrite", swept_meanwhile)
    assert erased(batch, headers={"Person": "b"}).messages == 2
    assert numbers(connect, ledger, batch) == [0, 2, 3, 5]
    assert sweep(ledger, staging, now).files == 0


def test_an_erasure_needs_a_condition() -> None:
    empty = ({"message_ids": ["m1", ""]}, {"headers": {"A": ""}}, {"fields": {"A": ""}})
    others = ({"message_ids": [uuid.UUID(int=1)]}, {"headers": {"A": 5}}, {"fields": {"A": 5}}, {"headers": "A"})
    others += ({"message_ids": ["m1"], "batch_ids": "m1"},)
    for request in ({}, {"message_ids": "m1"}, {"fields": {"A..B": "x"}}, *empty, *others):
        with pytest.raises(ConfigurationError):
            EraseRequest(**request)  # type: ignore[arg-type]
    assert "b@shop" not in repr(EraseRequest(fields={"Email": "b@shop"}, key=KEY))


def test_an_erasure_without_a_ledger_is_refused(queue: QueueTable, locks: BatchLocks) -> None:
    """Otherwise a login that may not see the ledger is told that there is nothing to erase."""
    ledger = Ledger(queue.session, queue.address.catalog, "no ledger here")
    with pytest.raises(BatchNotFoundError, match="or the login may not see it: nothing was done"):
        erase(ledger, locks, EraseRequest(message_ids=["m"]))


def test_an_erasure_is_no_part_of_a_transaction(ledger: Ledger, erased: Erase) -> None:
    with ledger.session.transaction(), pytest.raises(TransactionError, match="erase outside the transaction"):
        erased(message_ids=["m1"])


def test_the_ledger_lists_what_was_erased(connect: Connect, queue: QueueTable, ledger: Ledger, erased: Erase) -> None:
    send(queue, 3)
    batch = drain(connect, queue, TableStage(), PARTS).batch
    erased(batch, message_ids=["m1"])
    (info,) = batches(ledger, batch_id=uuid.UUID(batch.batch_id))
    assert (info.messages, info.erased) == (2, 1)
    assert run_sql(
        queue.session, f"SELECT [Erased] FROM {ledger.address.qualified_name} WHERE [BatchId] = '{batch.batch_id}'"
    )


def test_a_batch_with_payloads_of_the_data_bus_is_skipped(
    connect: Connect, queue: QueueTable, ledger: Ledger, staging: StagingFolder, erased: Erase
) -> None:
    send(queue, 6)
    batch = drain(connect, queue, staging, PARTS).batch
    payloads = [
        Path(staging.root, batch.folder, name) for name in ("payloads.json", f"payloads-{uuid.uuid4()}.parquet")
    ]
    for file in payloads:
        file.write_text("payloads")
    assert erased(batch, headers={"Person": "of no message"}).skipped == {}
    done = erased(batch, headers={"Person": "b"})
    assert (done.messages, list(done.skipped)) == (0, [uuid.UUID(batch.batch_id)])
    assert numbers(connect, ledger, batch) == list(range(6))
    for file in payloads:
        file.unlink()
    assert erased(batch, headers={"Person": "b"}).messages == 2
