"""Content of an error queue: groups, filters, and one message in full, on any server."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from airflow_sqlqueue.errors import ConfigurationError, MessageNotFoundError, NotAQueueError, QueueNotFoundError
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.errors import scan, triage
from airflow_sqlqueue.queue.errors.failed_message import FAILED, MALFORMED, NO_FAILED_QUEUE
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.poison import dead_letter
from airflow_sqlqueue.queue.errors.scan import show_error
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.traffic import generate
from tests.contract.conftest import Connect, run_sql

NOON = datetime(2026, 3, 5, 12, tzinfo=timezone.utc)


def failure(exception: str, message_type: str = "Shop.PlaceOrder", minute: int = 0, message_id: str = "") -> Message:
    headers = {
        HeaderNames.MESSAGE_ID: message_id or str(uuid.uuid4()),
        HeaderNames.ENCLOSED_MESSAGE_TYPES: f"{message_type}, Shop, Version=1.0.0.0",
        HeaderNames.EXCEPTION_TYPE: exception,
        HeaderNames.EXCEPTION_MESSAGE: "It did not answer: größer als ☃.",
        HeaderNames.EXCEPTION_STACK_TRACE: "at Shop.Sales",
        HeaderNames.TIME_OF_FAILURE: format_time(NOON + timedelta(minutes=minute)),
        HeaderNames.PROCESSING_ENDPOINT: "Sales",
        HeaderNames.FAILED_Q: "Sales@[dbo]@[shop]",
    }
    return Message(headers, b"\xff body")


@pytest.fixture
def filled(queue: QueueTable) -> QueueTable:
    queue.send(failure("System.TimeoutException", minute=n * 50) for n in range(4))
    queue.send([failure("System.ArgumentException", "Shop.BillOrder"), Message(), Message('{"broken')])
    return queue


def test_failures_are_counted_in_groups(filled: QueueTable) -> None:
    found = triage.triage(scan.ErrorQueue(filled))
    assert (found.scanned, found.matched, found.complete) == (7, 7, True)
    rows = [message.row_version for message in filled.peek(10)]
    first, *others = found.groups
    assert first.values == {
        "kind": FAILED,
        "exception_type": "System.TimeoutException",
        "message_type": "Shop.PlaceOrder",
        "endpoint": "Sales",
    }
    assert (first.messages, first.first, first.last) == (4, NOON, NOON + timedelta(minutes=150))
    assert first.example == rows[3]
    assert {(group.values["kind"], group.messages, group.first) for group in others} == {
        (FAILED, 1, NOON),
        (NO_FAILED_QUEUE, 1, None),
        (MALFORMED, 1, None),
    }
    assert depth(filled).messages == 7


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        (["hour"], {("2026-03-05T12:00Z",): 3, ("2026-03-05T13:00Z",): 1, ("2026-03-05T14:00Z",): 1, (None,): 2}),
        (["day", "kind"], {("2026-03-05", FAILED): 5, (None, NO_FAILED_QUEUE): 1, (None, MALFORMED): 1}),
        (["failed_queue"], {("Sales@[dbo]@[shop]",): 5, (None,): 2}),
        ([], {(): 7}),
    ],
)
def test_groups_by_other_keys(filled: QueueTable, by: list[str], groups: dict[tuple[str | None, ...], int]) -> None:
    found = triage.triage(scan.ErrorQueue(filled), by)
    assert {tuple(group.values.values()): group.messages for group in found.groups} == groups


def test_a_filter_and_a_limit(filled: QueueTable) -> None:
    where = ErrorFilter(exception_type="System.TimeoutException", since=NOON + timedelta(minutes=1))
    found = triage.triage(scan.ErrorQueue(filled), ["kind"], where)
    assert [(group.messages, group.first) for group in found.groups] == [(3, NOON + timedelta(minutes=50))]
    assert (found.scanned, found.matched) == (7, 3)
    cut = triage.triage(scan.ErrorQueue(filled), ["kind"], limit=6)
    assert (cut.scanned, cut.matched, cut.complete) == (6, 6, False)
    assert triage.triage(scan.ErrorQueue(filled), limit=7).complete
    rows = [message.row_version for message in filled.peek(10)]
    some = triage.triage(
        scan.ErrorQueue(filled), ["kind"], ErrorFilter(row_versions=frozenset([rows[1], rows[3], 2**40]))
    )
    assert (some.scanned, some.matched) == (6, 2)


def test_pages_cover_all_messages(queue: QueueTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "FAILED_PAGE", 10)
    queue.send(generate(100, seed=3))
    queue.take([message.row_version for message in queue.peek(100)][15:38])
    window = scan.window_of(queue, ErrorFilter())
    sizes = [len(page) for page in scan.ErrorQueue(queue).pages(window)]
    assert sizes == [10] * 7 + [7]
    queue.send([Message()])
    assert [m.row_version for m in scan.scan(scan.ErrorQueue(queue), window)] == [m.row_version for m in queue.peek(77)]


def test_values_of_any_length_are_cut_but_are_groups_of_their_own(queue: QueueTable) -> None:
    texts = ["E" * 100_000 + end for end in "aab"]
    queue.send([Message({HeaderNames.EXCEPTION_TYPE: text}) for text in texts])
    found = triage.triage(scan.ErrorQueue(queue), ["exception_type"])
    assert [(group.values["exception_type"], group.messages) for group in found.groups] == [
        ("E" * 1_000 + "\u2026", 2),
        ("E" * 1_000 + "\u2026", 1),
    ]


def test_an_empty_queue_has_no_groups(queue: QueueTable) -> None:
    found = triage.triage(scan.ErrorQueue(queue))
    assert (found.groups, found.scanned, found.complete) == ((), 0, True)


def test_messages_that_others_hold_are_passed_over(connect: Connect, filled: QueueTable) -> None:
    with connect() as other, other.transaction():
        QueueTable(other, filled.address).receive(2)
        assert triage.triage(scan.ErrorQueue(filled)).scanned == 5


def test_unknown_keys_and_limits(queue: QueueTable) -> None:
    with pytest.raises(ConfigurationError, match="grouped by 'colour'"):
        triage.triage(scan.ErrorQueue(queue), ["kind", "colour"])
    with pytest.raises(ConfigurationError, match="1 message or more"):
        triage.triage(scan.ErrorQueue(queue), limit=0)


def test_a_message_is_shown_by_row_version_or_id(queue: QueueTable) -> None:
    queue.send([failure("A", message_id="m-1"), failure("B", message_id="m-2"), failure("C", message_id="m-2")])
    shown = show_error(queue, message_id="m-1")
    assert (shown.message.exception_type, shown.body) == ("A", None)
    assert shown.envelope.failure.exception_message == "It did not answer: größer als ☃."
    again = show_error(queue, row_version=shown.message.row_version, with_body=True)
    assert (again.message, again.body) == (shown.message, b"\xff body")
    assert "did not answer" not in repr(again)
    assert "body'" not in repr(again)
    with pytest.raises(ConfigurationError, match=r"2 messages have the id m-2: name one by RowVersion, \d+, \d+\."):
        show_error(queue, message_id="m-2")
    assert depth(queue).messages == 3


def test_poison_is_shown_as_it_is(queue: QueueTable) -> None:
    queue.send([Message('{"NServiceBus.MessageId": "m-1", "x": 1, "y": "☃"}'), Message("not JSON")])
    first, second = (message.row_version for message in queue.peek())
    shown = show_error(queue, row_version=first)
    assert (shown.message.kind, shown.message.problem) == (MALFORMED, "a header's value is not text")
    assert dict(shown.envelope.headers) == {"NServiceBus.MessageId": "m-1", "y": "☃"}
    assert shown.headers_text == '{"NServiceBus.MessageId": "m-1", "x": 1, "y": "☃"}'
    poison = show_error(queue, row_version=second, with_body=True)
    assert (poison.headers_text, dict(poison.envelope.headers), poison.body) == ("not JSON", {}, b"")


def test_a_message_that_is_missing_or_held_is_not_shown(connect: Connect, filled: QueueTable) -> None:
    (held, *_) = (message.row_version for message in filled.peek())
    with pytest.raises(MessageNotFoundError, match=f"RowVersion {2**40} is in the queue {filled.address.table}@"):
        show_error(filled, row_version=2**40)
    with pytest.raises(MessageNotFoundError, match="message id m-9"):
        show_error(filled, message_id="m-9")
    with connect() as other, other.transaction():
        QueueTable(other, filled.address).receive(1)
        with pytest.raises(MessageNotFoundError):
            show_error(filled, row_version=held)
    for arguments in ({}, {"row_version": 1, "message_id": "m"}):
        with pytest.raises(ConfigurationError, match="one of the two"):
            show_error(filled, **arguments)  # type: ignore[arg-type]


def test_a_missing_error_queue_is_named(session: Session, table: ResolvedAddress) -> None:
    with pytest.raises(QueueNotFoundError, match="create it"):
        triage.triage(scan.ErrorQueue(QueueTable(session, table)))
    with pytest.raises(QueueNotFoundError, match="create it"):
        show_error(QueueTable(session, table), row_version=1)
    run_sql(session, f"CREATE TABLE {table.qualified_name} ([Id] int NOT NULL)")
    with pytest.raises(NotAQueueError):
        triage.triage(scan.ErrorQueue(QueueTable(session, table)))


def test_a_null_body_and_no_legacy_columns(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table, legacy_columns=False)
    run_sql(session, f"INSERT INTO {table.qualified_name} ([Id], [Headers]) VALUES (NEWID(), '')")
    queue = QueueTable(session, table)
    (group,) = triage.triage(scan.ErrorQueue(queue), ["kind"]).groups
    assert (group.values, group.messages) == ({"kind": NO_FAILED_QUEUE}, 1)
    assert show_error(queue, row_version=group.example, with_body=True).body == b""


def test_a_message_that_is_set_aside_is_logged_once(
    session: Session, queue: QueueTable, caplog: pytest.LogCaptureFixture
) -> None:
    address = replace(queue.address, table=f"{queue.address.table}.error")
    create_queue(session, address)
    queue.send([Message(body=b"poison")])
    (message,) = queue.peek()
    try:
        assert dead_letter(queue, QueueTable(session, address), message.row_version, "it failed")
        assert [text for text in caplog.messages if f"is in {address.canonical} as it is: it failed" in text] != []
        caplog.clear()
        assert not dead_letter(queue, QueueTable(session, address), message.row_version, "it failed")
        assert caplog.messages == []
        assert [row.body for row in QueueTable(session, address).receive(5)] == [b"poison"]
    finally:
        run_sql(session, f"DROP TABLE {address.qualified_name}")
