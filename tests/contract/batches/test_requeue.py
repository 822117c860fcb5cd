"""Batches that are put back into their queue, over a real connection, on any server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.drain import batch_reader
from airflow_sqlqueue.drain.batches import batches
from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.ledger import Ledger, LedgerEntry
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.requeue import RequeueResult, requeue
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchError, BatchMismatchError, BatchNotFoundError, LockTimeoutError, StagingError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import browse
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql.columns import row_columns
from tests.contract.batches.conftest import SCHEMA, SMALL_PARTS, DrainIt, open_batch, worker_of
from tests.contract.conftest import Connect, run_sql
from tests.forks import kill_where_it_halts


def rows(queue: QueueTable) -> list[tuple[object, ...]]:
    """Rows of the queue, in its order, without the RowVersion."""
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
    batch = Drain(connect, queue.address, stage, DrainRequest(options=SMALL_PARTS)).run().batch
    assert rows(queue) == []
    queue.send([Message(body=b"came meanwhile")])
    done = requeue(Ledger(queue.session, queue.address.catalog), uuid.UUID(batch.batch_id))
    assert done == RequeueResult(replace(batch, state="requeued"), repeated=False)
    first, *rest = rows(queue)
    assert first[6] == b"came meanwhile"
    assert rest == before


@pytest.mark.parametrize("change", ["datetime2", "datetimeoffset", "without legacy columns", "with a trigger"])
def test_a_queue_altered_meanwhile_gets_the_columns_it_has(
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
        requeue(Ledger(session, queue.address.catalog), uuid.UUID(batch.batch_id))
        received = QueueTable(session, queue.address).receive(100)
    assert [message.body for message in received] == [b"x", *(b"body %d" % n for n in range(30))]
    assert (received[0].headers, received[0].body) == (headers, body)
    assert received[0].expires == expires.replace(tzinfo=timezone.utc)


def test_parts_that_interleave_come_back_in_the_order_of_the_queue(
    connect: Connect, queue: QueueTable, ledger: Ledger, stage: Stage
) -> None:
    """A worker that stepped over locked rows leaves a part that stands inside another."""
    queue.send(Message({}, b"%d" % n) for n in range(60))
    first = browse(queue, 1)[0].row_version
    batch_id = uuid.uuid4()
    ledger.open(batch_id, queue.address.canonical, queue.ends()[1], stage.name)
    worker = worker_of(queue, batch_id, stage)
    with connect() as other, other.transaction():
        QueueTable(other, queue.address).take([first + n for n in range(0, 60, 3)])
        while worker.drain_part(Window(), None):
            pass
        other.roll_back()
        other.begin()
    while worker.drain_part(Window(), None):
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
    assert depth(queue).messages == 10
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
    assert depth(queue).messages == 0


def test_a_batch_whose_files_differ_from_the_ledger_stays_sealed(
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
        assert depth(queue).messages == 0

    pq.write_table(pq.read_table(last).slice(1), last)
    refused(BatchMismatchError, "has 9 messages, the ledger says 10")
    last.write_bytes(whole[: len(whole) // 2])
    refused(StagingError, "is damaged")
    last.unlink()
    refused(StagingError, "cannot be read")
    last.write_bytes(whole)
    refused(StagingError, "name the folder it was drained to", StagingFolder.of(tmp_path / "other"))
    requeue(ledger, batch_id)
    assert depth(queue).messages == 30


def test_of_several_at_once_one_puts_the_batch_back(
    connect: Connect, queue: QueueTable, ledger: Ledger, drain: DrainIt
) -> None:
    batch = drain(300)

    def put_back(_: int) -> bool:
        with connect() as session:
            return requeue(Ledger(session, queue.address.catalog), uuid.UUID(batch.batch_id)).repeated

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(put_back, range(4))) == [False, True, True, True]
    assert depth(queue).messages == 300


def test_a_batch_that_is_sealed_meanwhile_is_put_back(
    connect: Connect, queue: QueueTable, ledger: Ledger, staging: StagingFolder
) -> None:
    """Between the statement that marks the batch and the look at what it is instead."""
    queue.send([Message(body=b"x")])
    batch_id = open_batch(queue, ledger, staging, 1)

    class Overtaken(Ledger):
        sealed = False

        def find(self, batch_id: uuid.UUID) -> LedgerEntry:
            if not self.sealed:
                with connect() as session:
                    Ledger(session, queue.address.catalog).seal(batch_id)
                self.sealed = True
            return super().find(batch_id)

    assert not requeue(Overtaken(queue.session, queue.address.catalog), batch_id).repeated
    assert depth(queue).messages == 1


def test_a_batch_that_cannot_be_marked_raises(queue: QueueTable, ledger: Ledger, staging: StagingFolder) -> None:
    queue.send([Message(body=b"x")])
    batch_id = open_batch(queue, ledger, staging, 1)

    class Ahead(Ledger):
        def find(self, batch_id: uuid.UUID) -> LedgerEntry:
            return replace(super().find(batch_id), state="sealed")

    with pytest.raises(LockTimeoutError, match="nothing was put back"):
        requeue(Ahead(queue.session, queue.address.catalog), batch_id)
    assert depth(queue).messages == 0


def test_a_consume_waits_for_a_requeue_and_loses(
    connect: Connect, queue: QueueTable, ledger: Ledger, drain: DrainIt
) -> None:
    batch = drain(10)
    with connect() as session, ThreadPoolExecutor(1) as pool:
        with ledger.session.transaction():
            requeue(ledger, uuid.UUID(batch.batch_id))
            consuming = pool.submit(Ledger(session, queue.address.catalog).consume, batch)
            with pytest.raises(FutureTimeoutError):
                consuming.result(0.3)
        with pytest.raises(BatchError, match="put back"):
            consuming.result(30)
    assert depth(queue).messages == 10


def requeue_and_halt(halt: Callable[[], None], url: str, catalog: str, schema: str, batch_id: uuid.UUID) -> None:
    in_order = batch_reader.rows_in_order

    def halting(*arguments: Any) -> Iterator[Any]:
        for number, row in enumerate(in_order(*arguments)):
            if number == 300:
                halt()
            yield row

    with patch.object(batch_reader, "rows_in_order", halting), Session(ConnectionSettings.from_url(url)) as session:
        requeue(Ledger(session, catalog, schema), batch_id)


def test_a_requeue_killed_in_the_middle_loses_and_duplicates_nothing(
    server_url: str, queue: QueueTable, ledger: Ledger, drain: DrainIt
) -> None:
    batch = drain(400)
    kill_where_it_halts(requeue_and_halt, server_url, queue.address.catalog, SCHEMA, uuid.UUID(batch.batch_id))
    # Waits for the lock of the killed one, whose transaction the server rolls back.
    assert ledger.manifest(uuid.UUID(batch.batch_id)) == batch
    assert queue.count_left(2**62, wait=10) == 0
    requeue(ledger, uuid.UUID(batch.batch_id))
    assert [message.body for message in queue.receive(1000)] == [b"body %d" % n for n in range(400)]


def test_a_batch_whose_rows_differ_from_the_ledger_stays_sealed(
    queue: QueueTable, ledger: Ledger, drain: DrainIt
) -> None:
    """The part at the head of the queue loses its first row; the order of the commits does not matter."""
    batch = drain(30, staging=TableStage())
    head, _ = ledger.parts(uuid.UUID(batch.batch_id))
    first = f"[PartId] = '{head.id}' AND [RowVersion] = {head.min_row_version}"
    run_sql(queue.session, f"DELETE FROM [{SCHEMA}].[BatchMessage] WHERE [BatchId] = '{batch.batch_id}' AND {first}")
    with pytest.raises(BatchMismatchError, match=f"has {head.messages - 1} messages, the ledger says {head.messages}"):
        requeue(ledger, uuid.UUID(batch.batch_id))
    assert ledger.manifest(uuid.UUID(batch.batch_id)).state == "sealed"
    assert depth(queue).messages == 0
