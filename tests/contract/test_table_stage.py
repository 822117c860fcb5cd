"""Staging in a table beside the queue, on any server: nothing lost, nothing doubled, nothing changed."""

from __future__ import annotations

import pickle
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.base import PartPlan
from airflow_sqlqueue.drain.stages.factory import stage_of
from airflow_sqlqueue.drain.stages.staging_table import MessageTable
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.worker import Worker, WorkPlan
from airflow_sqlqueue.errors import BatchError, ConfigurationError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.row import Row
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.delayed.table import DelayedTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.quarantine import Quarantine
from airflow_sqlqueue.queue.redacting import RedactedRow, redact_rows
from airflow_sqlqueue.queue.tables.create import create, delayed_definition
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query
from tests.contract.conftest import Connect, run_sql, staged_rows
from tests.drains import SMALL_PARTS, drain, fill, numbered_bodies


def staged_bodies(connect: Connect, queue: QueueTable, batch: Batch) -> list[bytes]:
    return [row["Body"] for row in staged_rows(connect, queue.address, batch)]


def test_every_row_is_in_the_table_once(connect: Connect, queue: QueueTable) -> None:
    fill(queue, 105)
    result = drain(connect, queue, TableStage())
    batch = result.batch
    assert (batch.state, batch.stage, batch.paths) == ("sealed", "table", ())
    assert (batch.messages, batch.expired, batch.parts, result.locked) == (105, 0, 6, 0)
    rows = staged_rows(connect, queue.address, batch)
    assert [row["Body"] for row in rows] == numbered_bodies(105)
    assert batch.bytes == sum(2 * len(row["Headers"]) + len(row["Body"]) for row in rows)
    assert queue.count_left(2**62) == 0


def test_several_workers_take_every_row_once(connect: Connect, queue: QueueTable) -> None:
    fill(queue, 2_000)
    options = DrainOptions(workers=4, rows_per_statement=50, rows_per_part=100)
    batch = drain(connect, queue, TableStage(), options=options).batch
    assert Counter(staged_bodies(connect, queue, batch)) == Counter(numbered_bodies(2_000))
    assert Batch.from_dict(batch.to_dict()) == batch


def test_expired_messages_are_dropped_or_kept(connect: Connect, queue: QueueTable) -> None:
    late = [Message(body=b"late", time_to_be_received=timedelta(seconds=-1))]
    queue.send([*late * 25, Message(body=b"fine"), *late])
    batch = drain(connect, queue, TableStage()).batch
    assert (batch.messages, batch.expired, batch.parts, batch.bytes) == (1, 26, 1, len(b"fine") + 4)
    assert staged_bodies(connect, queue, batch) == [b"fine"]
    run_sql(queue.session, f"DELETE FROM {queue.address.qualified_name}")
    queue.send([*late, Message(body=b"fine")])
    batch = drain(connect, queue, TableStage(), options=DrainOptions(keep_expired=True)).batch
    assert (batch.messages, batch.expired) == (2, 0)
    kept = staged_rows(connect, queue.address, batch)
    assert [(row["Body"], row["Expired"]) for row in kept] == [(b"late", True), (b"fine", False)]


def test_a_statement_is_bounded_by_bytes(queue: QueueTable) -> None:
    """So that the transaction log need not hold more than a part is meant to have."""
    queue.send(Message({}, bytes(10_000)) for _ in range(12))
    Ledger(queue.session, queue.address.catalog).create()
    table, options = MessageTable(queue.session, queue.address.catalog), DrainOptions(bytes_per_statement=25_000)
    plan = PartPlan(queue, options, uuid.uuid4(), uuid.uuid4(), "batch", Window())
    taken = table.take(plan, 7, plan.window)
    assert taken is not None
    first, _ = taken
    assert (first.rows, first.bytes) == (3, 3 * 10_004), "and what begins below the limit"
    taken = table.take(plan, 7, Window(first.max_row_version))
    assert taken is not None
    second, _ = taken
    assert (second.rows, second.min_row_version) == (3, first.max_row_version + 1)
    assert depth(queue).messages == 6


def test_a_page_is_bounded_and_parts_no_equal_row_versions(connect: Connect, queue: QueueTable) -> None:
    fill(queue, 15)
    batch_id = uuid.UUID(drain(connect, queue, TableStage()).batch.batch_id)
    with connect() as session:
        table = MessageTable(session, queue.address.catalog)
        (part,) = Ledger(session, queue.address.catalog).parts(batch_id)
        first = part.min_row_version
        text = f"UPDATE {table.address.qualified_name} SET [RowVersion] = {first + 4} WHERE [PartId] = '{part.id}' "
        run_sql(session, text + f"AND [RowVersion] BETWEEN {first + 4} AND {first + 7}")
        pages = list(table.pages(batch_id, part.id, page_bytes=50))
    size = 2 * len('{"n":"1"}') + len(b"body 1")
    assert [len(page) for page in pages[:2]] == [50 // size + 1, 5]
    assert Counter(bytes(row[6]) for page in pages for row in page) == Counter(numbered_bodies(15))


def test_an_interrupted_batch_is_resumed(connect: Connect, queue: QueueTable) -> None:
    fill(queue, 100)
    batch_id = uuid.uuid4()

    def interrupt(_: Any) -> None:
        raise InterruptedError

    first = Drain(
        connect,
        queue.address,
        TableStage(),
        DrainRequest(batch_id=batch_id, options=SMALL_PARTS),
        on_progress=interrupt,
    )
    with pytest.raises(InterruptedError):
        first.run()
    assert depth(queue).messages < 100
    result = drain(connect, queue, TableStage(), batch_id=batch_id)
    assert result.resumed
    assert sorted(staged_bodies(connect, queue, result.batch)) == sorted(numbered_bodies(100))
    assert drain(connect, queue, TableStage(), batch_id=batch_id).batch == result.batch


def test_a_part_that_comes_after_the_seal_is_undone(connect: Connect, queue: QueueTable) -> None:
    fill(queue, 30)
    batch_id = uuid.uuid4()
    with connect() as session, connect() as driver_session:
        ledger = Ledger(session, queue.address.catalog)
        ledger.create()
        ledger.open(batch_id, queue.address.canonical, queue.ends()[1], "table")
        zombie = Worker(session, WorkPlan(batch_id, queue.address, TableStage(), SMALL_PARTS))
        assert zombie.drain_part(Window(), None) is not None
        sealed = Ledger(driver_session, queue.address.catalog).seal(batch_id)
        with pytest.raises(BatchError, match="was sealed meanwhile"):
            zombie.drain_part(Window(), None)
        everything = f"SELECT COUNT(*) FROM [sqlqueue].[BatchMessage] WHERE [BatchId] = '{batch_id}'"
        assert run_sql(session, everything)[0][0] == sealed.messages == 20
    assert depth(queue).messages == 10


POISON = "N'secret ' + NCHAR(0xD83D)"


def test_messages_that_spark_cannot_read_go_to_quarantine(connect: Connect, queue: QueueTable) -> None:
    """Among texts that look like it: the server tells which may be poison, and only those rows are looked at."""
    queue.send([Message({}, b"ascii"), Message('{"a":"😀 é\t"}', b"other")])
    for headers in (POISON, "NCHAR(0xDE00) + NCHAR(0xD83D)", "N''"):
        run_sql(
            queue.session,
            f"INSERT INTO {queue.address.qualified_name} ([Id], [Recoverable], [Headers], [Body]) "
            f"VALUES (NEWID(), 1, {headers}, 0xFF)",
        )
    batch = drain(connect, queue, TableStage()).batch
    assert (batch.messages, batch.quarantined) == (3, 2)
    assert staged_bodies(connect, queue, batch) == [b"ascii", b"other", b"\xff"]
    assert batch.bytes == len('{}{"a":"😀 é\t"}'.encode("utf-16-le")) + len(b"asciiother\xff")
    with connect() as session:
        aside = Quarantine(session, queue.address.catalog).messages(queue.address)
    assert [(one.reason, one.body_bytes) for one in aside] == [("a text holds half a surrogate pair", 1)] * 2
    assert {str(one.batch_id) for one in aside} == {batch.batch_id}


@pytest.mark.parametrize("stage", ["files", "table"])
def test_null_where_a_queue_has_none_goes_into_quarantine(
    connect: Connect, queue: QueueTable, tmp_path: Any, stage: str
) -> None:
    table = queue.address.qualified_name
    run_sql(queue.session, f"ALTER TABLE {table} ALTER COLUMN [Headers] nvarchar(max) NULL")
    fill(queue, 1)
    run_sql(queue.session, f"INSERT INTO {table} ([Id], [Recoverable]) VALUES (NEWID(), 1)")
    place = stage_of(stage, StagingFolder.of(tmp_path) if stage == "files" else None)
    batch = Drain(connect, queue.address, place, DrainRequest(options=SMALL_PARTS)).run().batch
    assert (batch.messages, batch.quarantined) == (1, 1)


def test_a_trigger_on_the_queue_runs(connect: Connect, queue: QueueTable) -> None:
    table = queue.address.qualified_name
    run_sql(queue.session, f"CREATE TRIGGER [{queue.address.table}_t] ON {table} AFTER DELETE AS SELECT 1 AS [x]")
    fill(queue, 30)
    assert staged_bodies(connect, queue, drain(connect, queue, TableStage()).batch) == numbered_bodies(30)


def test_a_batch_is_of_one_stage(connect: Connect, queue: QueueTable, tmp_path: Any) -> None:
    batch_id = uuid.uuid4()
    drain(connect, queue, TableStage(), batch_id=batch_id)
    with pytest.raises(BatchError, match="is staged as table, not as files"):
        Drain(connect, queue.address, StagingFolder.of(tmp_path), DrainRequest(batch_id=batch_id)).run()


def test_stages_by_their_names(tmp_path: Any) -> None:
    assert stage_of("table", None) == TableStage()
    assert pickle.loads(pickle.dumps(TableStage())) == TableStage()
    assert stage_of("files", StagingFolder.of(tmp_path)).name == "files"
    for stage, staging, match in [
        ("files", None, "needs a staging folder"),
        ("table", StagingFolder.of(tmp_path), "leave out the staging folder"),
        ("tables", None, "choose one of files, table"),
    ]:
        with pytest.raises(ConfigurationError, match=match):
            stage_of(stage, staging)


def test_any_number_of_rows_takes_few_texts(queue: QueueTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server keeps a plan for each text."""
    session, texts = queue.session, Counter[str]()
    table = MessageTable(session, queue.address.catalog)
    Ledger(session, queue.address.catalog).create()
    delayed = delayed_definition(replace(queue.address, table=f"{queue.address.table}.Delayed"))
    create(session, delayed)
    run = Session._execute

    def noted(self: Session, statement: Query, text: str, values: Any, sizes: Any) -> Any:
        texts[text] += 1
        return run(self, statement, text, values, sizes)

    monkeypatch.setattr(Session, "_execute", noted)
    row = Row(str(uuid.uuid4()), None, None, None, None, "{}", b"", 1, False)
    works: list[Callable[[int], Any]] = [
        lambda number: table.erase(uuid.uuid4(), uuid.uuid4(), [(n, str(uuid.uuid4())) for n in range(number)]),
        lambda number: redact_rows(table, "PartId", (str(uuid.uuid4()),) * 2, [RedactedRow(row, row)] * number),
        lambda number: DelayedTable(session, delayed.table).cancel(range(number)),
    ]
    for work in works:
        texts.clear()
        for number in (1, 2, 3, 15, 16, 17, 40, 99, 100):
            work(number)
        assert len([text for text in texts if "@given" in text or "DELETE FROM" in text]) <= 4
