"""Purges, on any server."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_sqlqueue.errors import ConfigurationError, LockTimeoutError, TransactionError
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import browse
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.purge import PurgeOptions, PurgeResult, purge
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import Connect, run_sql
from tests.drains import bodies

LATE = timedelta(seconds=-5)
EVERY = PurgeOptions(all_messages=True, confirm=True)


def sent(days_ago: float, body: bytes = b"") -> Message:
    moment = datetime.now(timezone.utc) - timedelta(days=days_ago)
    return Message({"NServiceBus.TimeSent": format_time(moment)}, body)


def test_purge_of_expired(any_queue: QueueTable) -> None:
    any_queue.send([*[Message(time_to_be_received=LATE)] * 25, Message(body=b"alive")])
    purged = purge(any_queue)
    assert purged == PurgeResult(25, remaining=0, complete=True, seconds=purged.seconds, locked=0, undated=0)
    assert purged.seconds > 0
    assert bodies(any_queue) == [b"alive"]


def test_purge_of_all(any_queue: QueueTable) -> None:
    any_queue.send(Message(body=b"%d" % n, time_to_be_received=LATE if n % 2 else None) for n in range(30))
    counted = purge(any_queue, PurgeOptions(all_messages=True, dry_run=True))
    assert (counted.deleted, counted.remaining, counted.complete) == (0, 30, False)
    limited = purge(any_queue, PurgeOptions(all_messages=True, dry_run=True, max_messages=10))
    assert limited.remaining == 10, "what the purge below deletes"
    some = purge(any_queue, PurgeOptions(all_messages=True, confirm=True, chunk=4, max_messages=10))
    assert (some.deleted, some.remaining, some.complete) == (10, 20, False)
    rest = purge(any_queue, PurgeOptions(all_messages=True, confirm=True, chunk=7, pause=0.001, max_messages=20))
    assert (rest.deleted, rest.remaining, rest.complete) == (20, 0, True)
    empty = purge(any_queue, EVERY)
    assert empty == PurgeResult(0, remaining=0, complete=True, seconds=empty.seconds, locked=0, undated=0)


def test_a_purge_pauses_between_chunks(any_queue: QueueTable, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("airflow_sqlqueue.queue.purge.time", SimpleNamespace(sleep=pauses.append))
    any_queue.send([Message()] * 6)
    done = purge(any_queue, PurgeOptions(all_messages=True, confirm=True, chunk=2, pause=0.5))
    assert (done.deleted, done.complete) == (6, True)
    assert pauses == [0.5, 0.5], "none after the last chunk"


def test_a_purge_of_all_leaves_what_comes_meanwhile(any_queue: QueueTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def send(seconds: float) -> None:
        any_queue.send([Message(body=b"new")] * 2)

    monkeypatch.setattr("airflow_sqlqueue.queue.purge.time", SimpleNamespace(sleep=send))
    any_queue.send([Message()] * 3)
    done = purge(any_queue, PurgeOptions(all_messages=True, confirm=True, chunk=2, pause=0.5))
    assert (done.deleted, bodies(any_queue)) == (3, [b"new"] * 2)


def test_purge_by_age(any_queue: QueueTable) -> None:
    undated = [Message(body=b"?"), Message("{broken", b"??"), Message({"NServiceBus.TimeSent": "soon"}, b"???")]
    any_queue.send([sent(9, b"9"), sent(1, b"1"), *undated, sent(8, b"8"), sent(0, b"0"), sent(7.5, b"7")])
    week = timedelta(days=7)
    counted = purge(any_queue, PurgeOptions(older_than=week, dry_run=True))
    assert (counted.deleted, counted.remaining, counted.undated, counted.locked) == (0, 3, 3, 0)
    assert purge(any_queue, PurgeOptions(older_than=timedelta.max, dry_run=True)).remaining == 0
    stopped = purge(any_queue, PurgeOptions(older_than=week, dry_run=True, max_seconds=1e-9))
    assert (stopped.remaining, stopped.complete, stopped.locked) == (None, False, 0)
    some = purge(any_queue, PurgeOptions(older_than=week, confirm=True, max_messages=2))
    assert (some.deleted, some.remaining, some.complete) == (2, None, False)
    rest = purge(any_queue, PurgeOptions(older_than=week, confirm=True))
    assert (rest.deleted, rest.remaining, rest.undated, rest.complete) == (1, 0, 3, True)
    assert bodies(any_queue) == [b"1", b"?", b"??", b"???", b"0"]


def test_purge_by_age_goes_through_the_whole_queue(queue: QueueTable) -> None:
    queue.send(sent(0 if n % 3 else 9, b"%d" % n) for n in range(2_500))
    purged = purge(queue, PurgeOptions(older_than=timedelta(days=7), confirm=True, chunk=100))
    assert (purged.deleted, purged.complete) == (834, True)
    assert depth(queue).messages == 1_666


@pytest.mark.parametrize("options", [EVERY, PurgeOptions(older_than=timedelta(days=7), confirm=True)])
def test_locked_messages_stay_and_are_reported(connect: Connect, queue: QueueTable, options: PurgeOptions) -> None:
    queue.send(sent(9, b"%d" % n) for n in range(5))
    second = browse(queue, 2)[1].row_version
    with connect() as other, other.transaction():
        both = f"{queue.address.qualified_name} WITH (XLOCK, ROWLOCK)"
        run_sql(other, f"SELECT 1 FROM {both} WHERE [RowVersion] <= {second}")
        run_sql(other, f"UPDATE {both} SET [Recoverable] = 1 WHERE [RowVersion] <= {second}")
        purged = purge(queue, options)
        assert (purged.deleted, purged.remaining, purged.undated) == (3, 0, 0)
        if options.all_messages:
            assert purged.locked == 2
    assert bodies(queue) == [b"0", b"1"]


def test_a_purge_of_all_ends_at_the_last_message_of_its_start(connect: Connect, queue: QueueTable) -> None:
    """Messages sent during a purge stay, so that the purge of a busy queue ends."""
    queue.send([Message(body=b"old")] * 6)

    class Busy(QueueTable):
        def query(self, name: str, **fragments: Any) -> Any:
            if name == "queue.purge_range":
                with connect() as other:
                    QueueTable(other, self.address).send([Message(body=b"new")])
            return super().query(name, **fragments)

    purged = purge(Busy(queue.session, queue.address), PurgeOptions(all_messages=True, confirm=True, chunk=2))
    assert (purged.deleted, purged.remaining, purged.complete) == (6, 0, True)
    assert bodies(queue) == [b"new"] * 3


def test_a_budget_of_no_seconds_deletes_nothing(queue: QueueTable) -> None:
    queue.send([Message()] * 3)
    purged = purge(queue, PurgeOptions(all_messages=True, confirm=True, max_seconds=1e-9))
    assert (purged.deleted, purged.remaining, purged.complete) == (0, 3, False)


def test_a_lock_on_the_whole_table_ends_it(connect: Connect, settings: ConnectionSettings, queue: QueueTable) -> None:
    queue.send([Message()] * 3)
    with connect() as other, other.transaction():
        run_sql(other, f"SELECT TOP (1) 1 FROM {queue.address.qualified_name} WITH (TABLOCKX, HOLDLOCK)")
        with Session(settings) as third, pytest.raises(LockTimeoutError, match="hold the locks"):
            purge(QueueTable(third, queue.address), PurgeOptions(lock_timeout=0.05))
    assert purge(queue, EVERY).deleted == 3


def test_every_statement_waits_as_long_as_the_options_say(queue: QueueTable) -> None:
    queue.send([Message()] * 3)
    before = run_sql(queue.session, "SELECT @@LOCK_TIMEOUT")[0][0]
    seen = {}

    class Watched(QueueTable):
        def query(self, name: str, **fragments: Any) -> Any:
            seen[name] = run_sql(self.session, "SELECT @@LOCK_TIMEOUT")[0][0]
            return super().query(name, **fragments)

    purge(
        Watched(queue.session, queue.address),
        PurgeOptions(all_messages=True, confirm=True, max_messages=1, lock_timeout=0.5),
    )
    assert seen == dict.fromkeys(
        ["queue.high_water", "queue.purge_range", "queue.count_up_to", "queue.count_left"], 500
    )
    assert run_sql(queue.session, "SELECT @@LOCK_TIMEOUT")[0][0] == before == 10_000


def test_no_purge_inside_a_transaction(queue: QueueTable) -> None:
    with pytest.raises(TransactionError, match="outside the transaction"), queue.session.transaction():
        purge(queue)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"all_messages": True}, "confirm that they may be lost"),
        ({"older_than": timedelta(days=1)}, "confirm that they may be lost"),
        ({"all_messages": True, "older_than": timedelta(days=1), "confirm": True}, "choose one"),
        ({"older_than": timedelta(seconds=-1), "confirm": True}, "not below zero"),
        ({"chunk": 2_001}, "locks never escalate"),
        ({"pause": -1}, "pause must be 0 or more"),
        ({"max_messages": 0}, "max_messages must be more than 0"),
    ],
)
def test_contradicting_and_unsafe_options_are_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        PurgeOptions(**wrong)
