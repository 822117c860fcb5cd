"""The list of batches, over a real connection, on any server."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone

import pytest

from airflow_sqlqueue.drain.batches import BatchInfo, batches
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.batches.conftest import DrainIt, open_batch


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


def test_a_batch_that_is_being_put_back_hides_no_other(
    queue: QueueTable, ledger: Ledger, drain: DrainIt, settings: ConnectionSettings
) -> None:
    """Its row is locked as long as that takes; where READ_COMMITTED_SNAPSHOT is off, a reader would wait for it."""
    kept, put_back = drain(1), drain(1)
    with Session(settings, lock_timeout=0.5) as session:
        beside = Ledger(session, ledger.catalog)
        ledger.session.begin()
        assert ledger.session.value(ledger.query("ledger.requeue"), put_back.batch_id) == 1
        for further in ({"states": ["sealed"]}, {"newest": 100}, {}):
            found = batches(beside, queue=queue.address.canonical, **further)  # type: ignore[arg-type]
            assert [str(info.batch_id) for info in found] == [kept.batch_id]
        assert "sealed" in {state for state, *_ in session.run(beside.query("ledger.unfinished_by_state"))}
        ledger.session.roll_back()
        assert len(batches(beside, queue=queue.address.canonical)) == 2


def test_a_database_without_a_ledger_has_no_batches(queue: QueueTable) -> None:
    assert batches(Ledger(queue.session, queue.address.catalog, "no ledger here")) == []


def test_a_batch_as_json_values() -> None:
    opened, age = datetime(2026, 3, 5, 7, tzinfo=timezone.utc), timedelta(minutes=1)
    info = BatchInfo(
        uuid.UUID(int=1), "q", "o", "open", "files", age, opened, None, None, None, 1, messages=2, expired=3, bytes=4
    )
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
        "kept": False,
        "redacted": None,
        "erased": 0,
    }
