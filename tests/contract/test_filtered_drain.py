"""Draining what matches a filter: exactly once beside others, whatever comes back, in time that is linear."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.drain import worker
from airflow_sqlqueue.drain.drain import DrainResult
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.progress import Progress
from airflow_sqlqueue.drain.stages.factory import stage_of
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import ConfigurationError, DeadlockError, WrongBatchError
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.queue import MessageFilter, QueueTable, browsing
from airflow_sqlqueue.queue.browsing import browse, find
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query
from tests.contract.conftest import Connect, run_sql
from tests.drains import SMALL_PARTS, batch_bodies, drain

SALES = MessageFilter(endpoint="Sales")


@pytest.fixture
def staging(request: pytest.FixtureRequest, tmp_path: Path) -> StagingFolder | None:
    """A folder, or None for the table, where a test asks for it: the search is the same."""
    return StagingFolder.of(tmp_path / "staging") if getattr(request, "param", "files") == "files" else None


TO_EACH_STAGE = pytest.mark.parametrize("staging", ["files", "table"], indirect=True)


def message(number: int, endpoint: str = "Sales", size: int = 0) -> Message:
    return Message({HeaderNames.ORIGINATING_ENDPOINT: endpoint}, b"%d" % number + b"." * size)


def send_some_matching(queue: QueueTable, count: int, every: int = 3) -> list[bytes]:
    """Send messages of which every third, or ``every``-th, matches; return the bodies of those."""
    queue.send(message(n, "Sales" if n % every == 0 else "Billing") for n in range(count))
    return [b"%d" % n for n in range(0, count, every)]


def drain_matching(
    connect: Any,
    queue: QueueTable,
    staging: StagingFolder | None,
    where: MessageFilter | None = SALES,
    options: DrainOptions = SMALL_PARTS,
    **further: Any,
) -> DrainResult:
    stage = stage_of("table" if staging is None else "files", staging)
    return drain(connect, queue, stage, options, where=where, **further)


@TO_EACH_STAGE
def test_only_matching_messages_leave_the_queue(
    connect: Connect, queue: QueueTable, staging: StagingFolder | None
) -> None:
    expected = send_some_matching(queue, 300)
    queue.send([replace(message(0), time_to_be_received=timedelta(seconds=-5))])
    done = drain_matching(connect, queue, staging)
    assert (done.batch.messages, done.batch.expired, done.locked, done.batch.parts) == (100, 1, 0, 5)
    assert batch_bodies(connect, queue, done.batch) == expected
    assert depth(queue).messages == 200
    assert find(queue, SALES) == []


@TO_EACH_STAGE
def test_large_bodies_that_match(connect: Connect, queue: QueueTable, staging: StagingFolder | None) -> None:
    queue.send(message(n, "Sales" if n % 2 else "Billing", 2_000 if n % 3 == 0 else 10) for n in range(40))
    options = replace(SMALL_PARTS, inline_body_bytes=1_000)
    done = drain_matching(connect, queue, staging, options=options)
    assert sorted(int(body.rstrip(b".")) for body in batch_bodies(connect, queue, done.batch)) == list(range(1, 40, 2))
    assert depth(queue).messages == 20


@TO_EACH_STAGE
def test_limits_count_matching_messages(connect: Connect, queue: QueueTable, staging: StagingFolder | None) -> None:
    expected, batch_id = send_some_matching(queue, 200), uuid.uuid4()
    done = drain_matching(connect, queue, staging, options=replace(SMALL_PARTS, max_messages=31), batch_id=batch_id)
    assert batch_bodies(connect, queue, done.batch) == expected[:31]
    assert len(find(queue, SALES, 1_000)) == 67 - 31


@TO_EACH_STAGE
def test_a_part_that_is_full_of_bytes_leaves_the_rest_to_the_next(
    connect: Connect, queue: QueueTable, staging: StagingFolder | None
) -> None:
    queue.send(message(n, "Sales" if n % 2 else "Billing", 1_000) for n in range(60))
    options = DrainOptions(bytes_per_part=5_000, bytes_per_statement=2_500)
    done = drain_matching(connect, queue, staging, options=options)
    assert (done.batch.messages, depth(queue).messages) == (30, 30)
    assert done.batch.parts > 4


def test_a_filtered_drain_waits_for_held_messages(
    connect: Connect, queue: QueueTable, staging: StagingFolder | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They roll back at different times, the last one's messages when the drain is through with the queue."""
    monkeypatch.setattr(worker, "LONGEST_WAIT", 0.1)
    expected = send_some_matching(queue, 90)
    rolled_back = threading.Event()

    def on_progress(done: Progress) -> None:
        if done.messages >= 20 and not rolled_back.is_set():
            first.roll_back()
            rolled_back.set()
        elif done.messages == 29:
            second.roll_back()

    with connect() as first, connect() as second:
        for holder, count in ((first, 2), (second, 2)):
            holder.begin()
            assert len(QueueTable(holder, queue.address).receive(count)) == count
        options = replace(SMALL_PARTS, locked_wait_seconds=30)
        done = drain_matching(connect, queue, staging, options=options, on_progress=on_progress)
        assert (done.locked, rolled_back.is_set()) == (0, True)
    assert batch_bodies(connect, queue, done.batch) == expected


def test_a_deadlock_with_a_receiver_is_as_a_lock_that_lasts(connect: Connect, queue: QueueTable) -> None:
    """A reader keeps the key of a row that it waits for, and the receiver that has the row waits for the key."""
    expected, deadlocks = send_some_matching(queue, 60), list[str]()

    class Deadlocked(Session):
        def results(self, statement: Query, *values: Any, **options: Any) -> Any:
            if statement.name == "queue.search" and "WITH (ROWLOCK" in statement.text:
                deadlocks.append(statement.name)
                raise DeadlockError("Could not look for messages: the server chose it to break a deadlock.")
            return super().results(statement, *values, **options)

    with connect() as other, Deadlocked(queue.session.settings) as session:
        search, found = browsing.Search(SALES), []
        other.begin()
        assert len(QueueTable(other, queue.address).receive(1)) == 1
        while (page := search.page(QueueTable(session, queue.address), wait=0.1)) is not None:
            found += [head for head in page if SALES.matches(head.id, head.decoded)]
        other.roll_back()
    assert len(found) == len(expected) - 1
    assert len(search.passed) == len(deadlocks) >= 1, "what was passed over is looked at again"


def test_messages_held_to_the_end_are_reported(
    connect: Connect, queue: QueueTable, staging: StagingFolder | None
) -> None:
    expected = send_some_matching(queue, 30)
    with connect() as other, other.transaction():
        assert len(QueueTable(other, queue.address).receive(1)) == 1
        done = drain_matching(connect, queue, staging)
        assert done.locked >= 1
        assert batch_bodies(connect, queue, done.batch) == expected[1:]


@TO_EACH_STAGE
@pytest.mark.parametrize("received", [True, False])
def test_messages_received_between_the_search_and_the_delete(
    connect: Connect, queue: QueueTable, staging: StagingFolder | None, received: bool
) -> None:
    """A message that was found may be received meanwhile, for good or not."""
    expected = send_some_matching(queue, 60)
    with connect() as other:
        holder = QueueTable(other, queue.address)

        class Raced(Session):
            def begin(self) -> None:
                # From then on the timer's thread alone has the other connection.
                if not self.raced and holder.session.value(holder.query("queue.high_water"), 0):
                    Raced.raced = True
                    other.begin()
                    assert [m.body for m in holder.receive(1)] == [b"0"]
                    if received:
                        other.run(Query("c", "commit", "COMMIT TRANSACTION"))
                        other.committed()
                    else:
                        threading.Timer(0.3, other.roll_back).start()
                super().begin()

            raced = False

        def raced() -> Session:
            return Raced(queue.session.settings, lock_timeout=10)

        done = drain_matching(raced, queue, staging, options=replace(SMALL_PARTS, locked_wait_seconds=30))
    assert done.locked == 0
    assert batch_bodies(connect, queue, done.batch) == (expected[1:] if received else expected)


def test_a_retry_goes_on_with_the_same_filter(
    connect: Connect, queue: QueueTable, staging: StagingFolder | None
) -> None:
    expected, batch_id = send_some_matching(queue, 300), uuid.uuid4()

    def stop(done: Progress) -> None:
        if done.messages >= 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drain_matching(connect, queue, staging, batch_id=batch_id, on_progress=stop)
    send_some_matching(queue, 30)
    for other in (None, MessageFilter(endpoint="Billing")):
        with pytest.raises(WrongBatchError, match="another filter"):
            drain_matching(connect, queue, staging, other, batch_id=batch_id)
    done = drain_matching(connect, queue, staging, batch_id=batch_id)
    assert done.resumed
    assert batch_bodies(connect, queue, done.batch) == expected
    assert len(find(queue, SALES)) == 10, "what came after the mark stays"
    assert drain_matching(connect, queue, staging, batch_id=batch_id).batch == done.batch


def test_the_work_is_linear(
    connect: Connect, queue: QueueTable, staging: StagingFolder | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few messages match, and each part begins where the last one ended: no stretch is read twice."""
    monkeypatch.setattr(browsing, "STRETCH", 10)
    expected = send_some_matching(queue, 400, every=25)
    read_to: list[int] = []

    class Watched(Session):
        def run(self, statement: Any, *values: Any, **options: Any) -> list[Any]:
            if statement.name.startswith("queue.search"):
                read_to.append(values[2])
            return super().run(statement, *values, **options)

    done = drain_matching(
        lambda: Watched(queue.session.settings), queue, staging, options=replace(SMALL_PARTS, rows_per_part=2)
    )
    assert batch_bodies(connect, queue, done.batch) == expected
    assert done.batch.parts == 8
    assert read_to == sorted(set(read_to)), "a stretch was read again"
    assert len(read_to) <= 400 / 10 + 1


def test_an_engine_is_refused(connect: Connect, queue: QueueTable) -> None:
    with pytest.raises(ConfigurationError, match="one worker"):
        drain_matching(connect, queue, None, engine=object())


@TO_EACH_STAGE
def test_messages_that_no_file_can_keep_go_to_quarantine(
    connect: Connect, queue: QueueTable, staging: StagingFolder | None
) -> None:
    queue.send([message(1), message(2), message(3)])
    first = browse(queue, 1)[0]
    text = "REPLACE([Headers], N'}', N',\"a\":\"' + NCHAR(55357) + N'\"}')"
    table = queue.address.qualified_name
    run_sql(queue.session, f"UPDATE {table} SET [Headers] = {text} WHERE [RowVersion] = {first.row_version}")
    done = drain_matching(connect, queue, staging)
    assert (done.batch.messages, done.batch.quarantined, done.locked) == (2, 1, 0)
