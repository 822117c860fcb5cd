"""Ends of a drain, and the next try of the same task."""

from __future__ import annotations

import logging
import uuid
from pathlib import Path

import pytest

from airflow_sqlqueue.drain.drain import Drain, DrainResult
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.options import DrainOptions, batch_after
from airflow_sqlqueue.drain.progress import Progress
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.requeue import requeue
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import (
    BatchNotFoundError,
    ConfigurationError,
    ConnectionLostError,
    ServerUnreachableError,
    StagingError,
    WrongBatchError,
)
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import browse
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.server.session import Session
from tests.contract.conftest import Connect, run_sql
from tests.drains import fill


def test_a_drain_until_empty_takes_what_comes_meanwhile(
    connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    fill(queue, 10)
    more = [7, 0, 3]

    def send(_: Progress) -> None:
        if more:
            fill(queue, more.pop())

    options = DrainOptions(until_empty=True, rows_per_part=5)
    result = Drain(connect, queue.address, staging, DrainRequest(options=options), on_progress=send).run()
    assert (result.batch.messages, result.locked) == (20, 0)
    assert depth(queue).total == 0


def test_a_drain_ends_at_a_row_version(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    fill(queue, 10)
    seen: list[Progress] = []
    options = DrainOptions(up_to=browse(queue, 10)[5].row_version, rows_per_part=2)
    result = Drain(connect, queue.address, staging, DrainRequest(options=options), on_progress=seen.append).run()
    assert (result.batch.messages, depth(queue).messages) == (6, 4)
    assert seen[-1].share == 1, "of what there is up to there"


def test_a_drain_that_gets_no_message_leaves_no_file(
    connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    fill(queue, 3)
    with connect() as other, other.transaction():
        assert len(QueueTable(other, queue.address).receive(3)) == 3
        done = Drain(connect, queue.address, staging, DrainRequest(options=DrainOptions(locked_wait_seconds=0))).run()
    assert (done.batch.messages, done.locked) == (0, 3)
    assert list(Path(staging.root).rglob("*.parquet")) == []


def test_a_batch_that_was_opened_on_an_empty_queue_stays_empty(
    connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    """Messages that came since belong to the next batch, even where the first try died before it sealed this one."""
    request = DrainRequest(batch_id=uuid.uuid4())
    with connect() as session:
        ledger = Ledger(session, queue.address.catalog)
        ledger.create()
        ledger.open(request.batch_id, queue.address.canonical, None)
    fill(queue, 3)
    result = Drain(connect, queue.address, staging, request).run()
    assert (result.batch.messages, depth(queue).messages) == (0, 3)


def test_a_drain_until_empty_stops_at_its_limit_on_a_busy_queue(
    connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    fill(queue, 10)
    options = DrainOptions(until_empty=True, rows_per_part=5, max_messages=50)
    result = Drain(
        connect, queue.address, staging, DrainRequest(options=options), on_progress=lambda _: fill(queue, 6)
    ).run()
    assert result.batch.messages == 50
    assert depth(queue).total > 0


@pytest.mark.parametrize("workers", [1, 4])
def test_time_counts_from_the_opening_of_the_batch(
    connect: Connect, queue: QueueTable, staging: StagingFolder, workers: int
) -> None:
    """A try that comes when the time is over takes nothing more, and hands on what earlier tries took."""
    fill(queue, 200)
    batch_id = uuid.uuid4()
    options = DrainOptions(rows_per_part=10, workers=workers, max_seconds=60)

    def interrupt(_: Progress) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Drain(
            connect, queue.address, staging, DrainRequest(batch_id=batch_id, options=options), on_progress=interrupt
        ).run()
    with connect() as session:
        ledger = Ledger(session, queue.address.catalog)
        taken = sum(part.messages for part in ledger.parts(batch_id))
        assert 10 <= taken < 200
        table = f"[{queue.address.catalog}].[sqlqueue].[Batch]"
        earlier = "[OpenedAt] = DATEADD(second, -61, [OpenedAt])"
        run_sql(session, f"UPDATE {table} SET {earlier} WHERE [BatchId] = '{batch_id}'")
    batch = Drain(connect, queue.address, staging, DrainRequest(batch_id=batch_id, options=options)).run().batch
    assert (batch.state, batch.messages) == ("sealed", taken)
    assert depth(queue).total == 200 - taken


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_drain_of_no_seconds_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="max_seconds must be more than 0"):
        DrainOptions(max_seconds=seconds)


def test_a_new_batch_is_drained_when_it_is_asked_for(
    connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    """Only once the last one is done with: a sealed one is handed on again."""
    batch_id = uuid.uuid4()

    def drain(renew: bool) -> DrainResult:
        fill(queue, 3)
        return Drain(connect, queue.address, staging, DrainRequest(batch_id=batch_id, renew=renew)).run()

    first = drain(renew=True)
    assert drain(renew=True).batch == first.batch
    with connect() as session:
        ledger = Ledger(session, queue.address.catalog)
        ledger.consume(first.batch)
        assert drain(renew=False).batch.state == "consumed"
        second = drain(renew=True)
        assert second.batch.batch_id == str(batch_after(batch_id))
        assert (second.batch.messages, second.resumed) == (9, False)
        assert drain(renew=True).batch == second.batch
        requeue(ledger, uuid.UUID(second.batch.batch_id))
    third = drain(renew=True)
    assert third.batch.messages == 15
    with pytest.raises(WrongBatchError, match="put back"):
        Drain(connect, queue.address, staging, DrainRequest(batch_id=batch_after(batch_id))).run()


@pytest.mark.parametrize("first", [True, False])
def test_a_server_that_comes_back_is_waited_for(
    connect: Connect, queue: QueueTable, staging: StagingFolder, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """From the first connection on: connections may be refused while a server is restarted."""
    monkeypatch.setattr("airflow_sqlqueue.server.reconnecting.pause_after", lambda _: 0)
    fill(queue, 20)
    answers = iter([first, False, False, True])

    def flaky() -> Session:
        if next(answers, True):
            return connect()
        raise ServerUnreachableError("Nothing answers.")

    cuts = [ConnectionLostError("The connection broke.")]

    def cut(_: Progress) -> None:
        if cuts:
            raise cuts.pop()

    options = DrainOptions(rows_per_part=10, workers=1)
    result = Drain(flaky, queue.address, staging, DrainRequest(options=options), on_progress=cut).run()
    assert result.batch.messages == 20
    assert next(answers, None) is None, "it was refused twice on the way"


def test_progress_in_figures() -> None:
    done = Progress(messages=80, expired=15, quarantined=5, bytes=2**21, seconds=10, share=0.25)
    assert (done.rows, done.rate, done.seconds_left) == (100, 10, 30)
    assert str(done) == "80 messages, 2.0 MiB, 15 expired, 5 in quarantine; 10 a second, about 30 s left"
    assert Progress(0.0, None).seconds_left is None


def test_progress_ends_at_the_mark(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    fill(queue, 40)
    told: list[Progress] = []
    options = DrainOptions(rows_per_part=10, workers=1)
    Drain(connect, queue.address, staging, DrainRequest(options=options), on_progress=told.append).run()
    assert [round(done.share or 0, 2) for done in told] == [0.25, 0.5, 0.75, 1.0]
    assert [done.messages for done in told] == [10, 20, 30, 40]


def test_a_resumed_drain_logs_the_parts_that_were_there(
    connect: Connect, queue: QueueTable, staging: StagingFolder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fill(queue, 40)
    options, batch_id = DrainOptions(rows_per_part=10, workers=1), uuid.uuid4()

    def interrupt(_: Progress) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Drain(
            connect, queue.address, staging, DrainRequest(batch_id=batch_id, options=options), on_progress=interrupt
        ).run()
    assert f"Draining {queue.address.canonical} into batch {batch_id}" in caplog.text
    assert "Resuming" not in caplog.text
    told: list[Progress] = []
    Drain(
        connect, queue.address, staging, DrainRequest(batch_id=batch_id, options=options), on_progress=told.append
    ).run()
    assert f"Resuming batch {batch_id}: 10 messages in 1 part" in caplog.text
    assert [(done.messages, done.earlier) for done in told] == [(n, 10) for n in (10, 20, 30, 40)]


def test_a_staging_folder_that_cannot_be_written_opens_no_batch(
    connect: Connect, queue: QueueTable, tmp_path: Path
) -> None:
    """Of an empty queue either."""
    (tmp_path / "file").touch()
    batch_id = uuid.uuid4()
    with pytest.raises(StagingError, match=r"cannot be written .*name another"):
        Drain(connect, queue.address, StagingFolder.of(tmp_path / "file"), DrainRequest(batch_id=batch_id)).run()
    with connect() as session, pytest.raises(BatchNotFoundError):
        Ledger(session, queue.address.catalog).find(batch_id)
