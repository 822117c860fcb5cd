"""The drain: nothing lost and nothing doubled, over a real connection, on any server."""

from __future__ import annotations

import itertools
import socket
import threading
import uuid
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions, batch_id_for
from airflow_sqlqueue.drain.progress import Progress
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.worker import Worker, WorkPlan
from airflow_sqlqueue.errors import BatchError, BatchMismatchError, BatchNotFoundError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.row import drained_row_schema
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.sql import Query, query
from tests.contract.conftest import Connect
from tests.drains import SMALL_PARTS, drain, file_bodies, fill, numbered_bodies, read_files


def test_a_worker_on_a_host_with_a_long_name(
    connect: Connect, queue: QueueTable, staging: StagingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger keeps what fits its column."""
    monkeypatch.setattr(socket, "gethostname", lambda: "h" * 300)
    fill(queue, 3)
    assert drain(connect, queue, staging).batch.messages == 3


def test_every_row_is_in_the_files_once(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    fill(queue, 105)
    result = drain(connect, queue, staging)
    assert result.batch.state == "sealed"
    assert (result.batch.messages, result.batch.expired, result.locked) == (105, 0, 0)
    assert result.batch.parts == 6
    assert file_bodies(result.batch) == Counter(numbered_bodies(105))
    assert queue.count_left(2**62) == 0


def test_files_have_the_schema_and_the_raw_row(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    identity = uuid.uuid4()
    lifetime = timedelta(days=1)
    queue.send([Message({"NServiceBus.CorrelationId": "c"}, b"\0\xff", lifetime, identity), Message("not json é", b"")])
    table = read_files(drain(connect, queue, staging).batch)
    assert table.schema.equals(drained_row_schema())
    first, second = table.to_pylist()
    assert first["Id"] == str(identity)
    assert (first["CorrelationId"], first["Body"], first["Expired"]) == ("c", b"\0\xff", False)
    assert first["Expires"].utcoffset() == timedelta(0)
    assert second["Headers"] == "not json é"
    assert second["Expires"] is None


def test_the_default_options_make_one_part(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    fill(queue, 3000)
    result = drain(connect, queue, staging, options=DrainOptions())
    assert result.batch.parts == 1
    assert file_bodies(result.batch) == Counter(numbered_bodies(3000))


def test_an_empty_queue_is_an_empty_batch(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    batch = drain(connect, queue, staging).batch
    assert (batch.state, batch.paths, batch.messages) == ("sealed", (), 0)


def test_expired_messages_are_dropped_and_counted(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    fill(queue, 30)
    queue.send(Message(body=b"late", time_to_be_received=timedelta(seconds=-1)) for _ in range(25))
    batch = drain(connect, queue, staging).batch
    assert (batch.messages, batch.expired) == (30, 25)
    assert file_bodies(batch) == Counter(numbered_bodies(30))
    assert batch.parts < 4, "a part of which all has expired has no file"


def test_expired_messages_are_kept_on_request(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    queue.send([Message(body=b"late", time_to_be_received=timedelta(seconds=-1)), Message(body=b"fine")])
    batch = drain(connect, queue, staging, options=DrainOptions(keep_expired=True)).batch
    assert {row["Body"]: row["Expired"] for row in read_files(batch).to_pylist()} == {b"late": True, b"fine": False}
    assert (batch.messages, batch.expired) == (2, 0)


def test_the_same_id_returns_the_sealed_batch(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    batch_id = batch_id_for("dag", "run", "task")
    batch_id = uuid.uuid5(batch_id, queue.address.table)
    fill(queue, 10)
    first = drain(connect, queue, staging, batch_id=batch_id)
    fill(queue, 10, start=10)
    again = drain(connect, queue, staging, batch_id=batch_id)
    assert again.batch == first.batch
    assert (again.resumed, again.locked) == (True, 0)
    assert depth(queue).messages == 10


def test_a_batch_belongs_to_one_queue(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    batch = drain(connect, queue, staging).batch
    with connect() as session:
        ledger = Ledger(session, queue.address.catalog)
        with pytest.raises(BatchError, match="ask for a new batch"):
            ledger.open(uuid.UUID(batch.batch_id), "other", None)


def test_an_interrupted_batch_is_resumed(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    fill(queue, 100)
    batch_id = uuid.uuid4()

    def interrupt(progress: Progress) -> None:
        if progress.messages >= 40:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        Drain(
            connect, queue.address, staging, DrainRequest(batch_id=batch_id, options=SMALL_PARTS), on_progress=interrupt
        ).run()
    fill(queue, 5, start=100)
    result = drain(connect, queue, staging, batch_id=batch_id)
    assert result.resumed
    assert file_bodies(result.batch) == Counter(numbered_bodies(100)), (
        "the batch ends at the mark taken when it was opened"
    )
    assert depth(queue).messages == 5


@pytest.mark.parametrize(("limit", "messages"), [({"max_messages": 50}, 50), ({"max_bytes": 1}, 7)])
def test_a_limit_is_kept_over_tries(
    connect: Connect, queue: QueueTable, staging: StagingFolder, limit: dict[str, Any], messages: int
) -> None:
    fill(queue, 100)
    batch_id = uuid.uuid4()
    options = DrainOptions(rows_per_statement=7, rows_per_part=20, locked_wait_seconds=0, **limit)

    def interrupt(_: Progress) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Drain(
            connect, queue.address, staging, DrainRequest(batch_id=batch_id, options=options), on_progress=interrupt
        ).run()
    batch = drain(connect, queue, staging, options, batch_id=batch_id).batch
    assert file_bodies(batch) == Counter(numbered_bodies(messages))
    assert depth(queue).messages == 100 - messages


def test_a_part_that_comes_after_the_seal_is_undone(
    connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    """A zombie that wakes up after the seal must not commit a part that no reader would open."""
    fill(queue, 30)
    batch_id = uuid.uuid4()
    with connect() as session, connect() as driver_session:
        ledger = Ledger(session, queue.address.catalog)
        ledger.create()
        ledger.open(batch_id, queue.address.canonical, queue.ends()[1])
        zombie = Worker(session, WorkPlan(batch_id, queue.address, FileStage(staging), SMALL_PARTS))
        assert zombie.drain_part(Window(), None) is not None
        sealed = Ledger(driver_session, queue.address.catalog).seal(batch_id)
        with pytest.raises(BatchError, match="was sealed meanwhile"):
            zombie.drain_part(Window(), None)
    assert sealed.messages == 20
    assert depth(queue).messages == 10
    assert len(list(Path(staging.root).rglob("*.parquet"))) == 2, "the undone part's file is an orphan"
    assert file_bodies(sealed) + Counter(message.body for message in queue.receive(100)) == Counter(numbered_bodies(30))


def test_messages_that_others_hold_are_reported(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    fill(queue, 20)
    with connect() as session, session.transaction():
        held = QueueTable(session, queue.address).receive(3)
        result = drain(connect, queue, staging)
        assert file_bodies(result.batch) == Counter(numbered_bodies(17, start=3))
        assert result.locked >= 1
        session.roll_back()
        session.begin()
    assert len(held) == 3
    assert depth(queue).messages == 3


def test_a_batch_is_consumed_once_and_for_good(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    fill(queue, 3)
    batch = drain(connect, queue, staging).batch
    with connect() as session:
        ledger = Ledger(session, queue.address.catalog)
        ledger.consume(batch)
        ledger.consume(batch)
        assert ledger.manifest(uuid.UUID(batch.batch_id)).state == "consumed"
        with pytest.raises(BatchNotFoundError):
            ledger.manifest(uuid.uuid4())


def test_an_edited_manifest_does_not_mark_the_real_batch_consumed(
    connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    fill(queue, 5)
    batch = drain(connect, queue, staging).batch
    with connect() as session:
        ledger = Ledger(session, queue.address.catalog)
        for path in (batch.paths[0] + "x", f"{staging.uri}/{batch.folder}/part-{uuid.uuid4()}.parquet"):
            with pytest.raises(BatchMismatchError, match="does not name the files that the ledger lists"):
                ledger.consume(replace(batch, paths=(path, *batch.paths[1:])))
        assert ledger.find(uuid.UUID(batch.batch_id)).state == "sealed"
        ledger.consume(batch)
        assert ledger.find(uuid.UUID(batch.batch_id)).state == "consumed"


def test_an_open_batch_cannot_be_consumed_or_listed(connect: Connect, queue: QueueTable) -> None:
    batch_id = uuid.uuid4()
    with connect() as session:
        ledger = Ledger(session, queue.address.catalog)
        ledger.create()
        ledger.open(batch_id, queue.address.canonical, None)
        with pytest.raises(BatchError, match="still open"):
            ledger.manifest(batch_id)
        with pytest.raises(BatchError, match="cannot be marked consumed"):
            ledger.consume(Batch(str(batch_id), queue.address.canonical, "sealed", (), 0))


def test_a_ledger_that_went_back_in_time_is_noticed(
    connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    from airflow_sqlqueue.server.sql import Query

    fill(queue, 30)
    batch = drain(connect, queue, staging).batch
    with connect() as session:
        text = f"DELETE TOP (1) FROM [{queue.address.catalog}].[sqlqueue].[Part] WHERE BatchId = ?"
        session.run(Query("lose", "lose a part", text), batch.batch_id)
        words = f"sealed with {batch.parts} parts and 30 messages, but the ledger lists {batch.parts - 1} and"
        with pytest.raises(BatchMismatchError, match=words):
            Ledger(session, queue.address.catalog).manifest(uuid.UUID(batch.batch_id))


SIDE_BY_SIDE = DrainOptions(workers=4, rows_per_statement=50, rows_per_part=100, locked_wait_seconds=5)


def test_workers_side_by_side_take_every_row_once(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    """While somebody else receives, and rolls back every second time."""
    count = 4_000
    fill(queue, count)
    received: Counter[bytes] = Counter()
    drained = threading.Event()

    def receive() -> None:
        with connect() as session:
            own = QueueTable(session, queue.address)
            for turn in itertools.takewhile(lambda _: not drained.is_set(), itertools.count(1)):
                session.begin()
                taken = [message.body for message in own.receive(5)]
                if turn % 2:
                    session.roll_back()
                    continue
                session.run(query("session.commit"))
                session.committed()
                received.update(taken)

    other = threading.Thread(target=receive)
    other.start()
    try:
        done = drain(connect, queue, staging, options=SIDE_BY_SIDE)
    finally:
        drained.set()
        other.join(60)
    left = Counter(message.body for message in queue.receive(2000))
    assert file_bodies(done.batch) + received + left == Counter(numbered_bodies(count))
    assert sum(left.values()) <= done.locked
    assert done.batch.parts * SIDE_BY_SIDE.rows_per_part >= done.batch.messages


@pytest.mark.parametrize("limit", [1, 250, 999])
def test_a_limit_is_kept_by_workers_together(
    connect: Connect, queue: QueueTable, staging: StagingFolder, limit: int
) -> None:
    fill(queue, 1_000)
    batch_id = uuid.uuid4()
    options = replace(SIDE_BY_SIDE, max_messages=limit)
    for _ in range(2):
        assert drain(connect, queue, staging, options, batch_id=batch_id).batch.messages == limit
    assert depth(queue).messages == 1_000 - limit


def test_gaps_in_row_versions_cost_nothing(
    connect: Connect, queue: QueueTable, staging: StagingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one old row before a gap in the identity, the number of searches for a window stays that of the windows."""
    window_end, looks = QueueTable.window_end, []

    def noted(queue: QueueTable, rows: int, after: int, up_to: int) -> int | None:
        looks.append(after)
        return window_end(queue, rows, after, up_to)

    monkeypatch.setattr(QueueTable, "window_end", noted)
    fill(queue, 1)
    moved = f"DBCC CHECKIDENT ('{queue.address.qualified_name}', RESEED, 9000000000000)"
    queue.session.run(Query("test", "move the identity", moved))
    fill(queue, 300, start=1)
    done = drain(connect, queue, staging, options=SIDE_BY_SIDE)
    assert file_bodies(done.batch) == Counter(numbered_bodies(301))
    assert 1 <= len(looks) <= 301 // SIDE_BY_SIDE.rows_per_part + 2
