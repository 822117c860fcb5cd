"""Delayed messages: stored, listed, cancelled and moved when they are due, over a real connection, on any server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import islice

import pytest

from airflow_sqlqueue.errors import ConfigurationError, MessageError, NotAQueueError, QueueNotFoundError
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue.delayed import table as delayed_table
from airflow_sqlqueue.queue.delayed.table import DelayedTable, delayed_name
from airflow_sqlqueue.queue.tables.create import create, create_queue, delayed_definition, subscription_definition
from airflow_sqlqueue.server.session import Session
from tests.contract.conftest import HEADERS, Connect, run_sql

DUE_NOW = timedelta(0)


@pytest.fixture
def delayed(connect: Connect, table: ResolvedAddress) -> Iterator[DelayedTable]:
    """An empty table of delayed messages, through a connection of its own."""
    address = replace(table, table=f"{table.table}.Delayed")
    with connect() as session:
        create(session, delayed_definition(address))
        yield DelayedTable(session, address)
        run_sql(session, f"DROP TABLE IF EXISTS {address.qualified_name}")


def test_the_table_of_a_queue_is_named_after_it() -> None:
    assert delayed_name("Sales") == "Sales.Delayed"
    assert delayed_name("Sales@[my schema]@[nsb]") == "Sales.Delayed@[my schema]@[nsb]"
    assert delayed_name("Sales@WEB01") == "Sales.Delayed@WEB01"


@pytest.mark.parametrize("delay", [timedelta(0), timedelta(milliseconds=1500), timedelta(days=40), timedelta(36_500)])
def test_a_delay_of_any_length_is_by_the_servers_clock(delayed: DelayedTable, delay: timedelta) -> None:
    before = run_sql(delayed.session, "SELECT GETUTCDATE()")[0][0].replace(tzinfo=timezone.utc)
    assert delayed.store([Message(HEADERS, b"a")], delay=delay) == 1
    after = run_sql(delayed.session, "SELECT GETUTCDATE()")[0][0].replace(tzinfo=timezone.utc)
    (message,) = delayed.peek()
    tick = timedelta(milliseconds=4)
    assert before + delay - tick <= message.due <= after + delay + tick
    assert decode_headers(message.headers).values == HEADERS


def test_a_time_in_any_zone_is_kept_to_the_columns_ticks(delayed: DelayedTable) -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    due = datetime(2031, 7, 1, 12, 0, 0, 123_456, tzinfo=zone)
    delayed.store([Message(body=b"a")], due=due)
    (message,) = delayed.peek()
    assert message.due.utcoffset() == timedelta(0)
    assert abs(message.due - due) <= timedelta(milliseconds=2)


def test_a_time_in_the_past_is_due_at_once(delayed: DelayedTable) -> None:
    delayed.store([Message()], due=datetime(1999, 1, 1, tzinfo=timezone.utc))
    count = delayed.count()
    assert (count.messages, count.due) == (1, 1)


@pytest.mark.parametrize(
    ("message", "when", "says"),
    [
        (Message(), {"due": datetime(2031, 1, 1)}, "without a time zone"),  # noqa: DTZ001
        (Message(), {"due": datetime(1700, 1, 1, tzinfo=timezone.utc)}, "1753 to 9999"),
        (Message(), {"delay": timedelta(seconds=-1)}, "below zero"),
        (Message(), {"delay": timedelta.max}, "beyond the year 9999"),
        (Message(time_to_be_received=timedelta(1)), {"delay": timedelta(1)}, "time to be received cannot be delayed"),
    ],
)
def test_a_message_that_cannot_be_delayed_is_refused(
    delayed: DelayedTable, message: Message, when: dict[str, object], says: str
) -> None:
    with pytest.raises(MessageError, match=says):
        delayed.store([message], **when)  # type: ignore[arg-type]
    assert delayed.count().messages == 0


@pytest.mark.parametrize("when", [{}, {"delay": DUE_NOW, "due": datetime.now(timezone.utc)}])
def test_a_delay_or_a_time_not_both(delayed: DelayedTable, when: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="one of the two"):
        delayed.store([Message()], **when)  # type: ignore[arg-type]


def test_a_forward_destination_is_a_header_with_the_canonical_address(
    delayed: DelayedTable, table: ResolvedAddress
) -> None:
    delayed.store([Message({"a": "1", HeaderNames.FORWARD_DESTINATION: "old"})], delay=DUE_NOW, forward_to=table)
    assert decode_headers(delayed.peek()[0].headers).values == {
        "a": "1",
        HeaderNames.FORWARD_DESTINATION: table.canonical,
    }
    with pytest.raises(MessageError, match="whose headers are text cannot be forwarded"):
        delayed.store([Message("{}")], delay=DUE_NOW, forward_to=table)


def test_a_list_is_by_due_in_pages_without_bodies(delayed: DelayedTable) -> None:
    delayed.store([Message(body=b"late")], delay=timedelta(days=2))
    for _ in range(3):  # Each statement's rows share a moment, and pages end within them.
        delayed.store((Message({"n": str(n)}) for n in range(700)), delay=timedelta(days=1))
    everything = list(delayed.scan())
    assert sorted(message.row_version for message in everything) == list(range(1, 2102))
    assert everything[-1].row_version == 1
    assert [message.due for message in everything] == sorted(message.due for message in everything)
    assert delayed.peek(3) == everything[:3]
    assert delayed.next_due() == everything[0].due


def test_a_page_goes_on_beyond_large_messages_of_one_moment(
    delayed: DelayedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delayed_table, "PAGE_BYTES", 1_000)
    delayed.store((Message({"n": "x" * 700}) for _ in range(7)), delay=timedelta(days=1))
    assert [message.row_version for message in islice(delayed.scan(), 20)] == list(range(1, 8))


def test_an_empty_table_has_nothing_to_list_or_cancel(delayed: DelayedTable) -> None:
    assert (delayed.peek(), delayed.next_due(), delayed.cancel([1]), delayed.cancel_message("m")) == ([], None, 0, 0)


def test_cancel_by_row_version(delayed: DelayedTable) -> None:
    delayed.store((Message({"n": str(n)}) for n in range(1_200)), delay=timedelta(days=1))
    wanted = [message.row_version for message in delayed.scan()]
    assert delayed.cancel([*wanted[1:], wanted[1], 2**62]) == 1_199
    assert delayed.cancel(wanted[1:]) == 0
    with pytest.raises(ConfigurationError, match="give a list of whole numbers"):
        delayed.cancel(str(wanted[0]))  # type: ignore[arg-type]
    assert [message.row_version for message in delayed.peek()] == wanted[:1]


def test_cancel_by_message_id_reads_headers_as_json(delayed: DelayedTable) -> None:
    def identified(value: str) -> Message:
        return Message({HeaderNames.MESSAGE_ID: value})

    delayed.store([identified("m/1"), identified("m/2"), identified("m/1 ")], delay=timedelta(days=1))
    escaped = Message('{"NServiceBus.MessageId" : "m\\/1", "note": "\\"NServiceBus.MessageId\\": \\"m/2\\""}')
    delayed.store([escaped, Message("m/1"), Message("")], delay=timedelta(days=1))
    assert delayed.cancel_message("m/1") == 2
    assert delayed.cancel_message("m/1") == 0
    assert delayed.count().messages == 4


def test_a_locked_message_is_neither_shown_nor_cancelled(connect: Connect, delayed: DelayedTable) -> None:
    delayed.store([Message(), Message()], delay=timedelta(days=1))
    first, second = delayed.peek()
    with connect() as session, session.transaction():
        assert DelayedTable(session, delayed.address).cancel([first.row_version]) == 1
        assert delayed.peek() == [second]
        assert delayed.cancel([first.row_version, second.row_version]) == 1
    assert delayed.count().messages == 0


@pytest.mark.parametrize("due", ["datetime2", "datetimeoffset", "smalldatetime"])
def test_a_table_whose_due_is_another_type(delayed: DelayedTable, due: str) -> None:
    table = delayed.address.qualified_name
    run_sql(
        delayed.session, f"DROP INDEX [Index_Due] ON {table}; ALTER TABLE {table} ALTER COLUMN [Due] {due} NOT NULL"
    )
    delayed.store((Message() for _ in range(600)), delay=timedelta(days=1))
    moment = datetime(2031, 1, 31, 12, 30, tzinfo=timezone.utc)
    delayed.store([Message()], due=moment)
    found = list(delayed.scan())
    assert len(found) == 601
    assert found[-1].due == moment


def test_a_missing_table_and_one_of_another_kind_are_refused(session: Session, table: ResolvedAddress) -> None:
    with pytest.raises(QueueNotFoundError, match="create it with 'sqlqueue create <queue> --delayed'"):
        DelayedTable(session, table).count()
    create_queue(session, table)
    right = "create the right one with 'sqlqueue create <queue> --delayed'"
    with pytest.raises(
        NotAQueueError, match=f"is not a delayed table .* drop it with 'sqlqueue drop <table>', and {right}"
    ):
        DelayedTable(session, table).store([Message()], delay=DUE_NOW)


def test_a_table_that_cannot_be_dropped_as_a_queue_is_not_said_to_be(session: Session, table: ResolvedAddress) -> None:
    create(session, subscription_definition(table))
    with pytest.raises(NotAQueueError, match=r"is not a delayed table \(.*\): check the address\.$"):
        DelayedTable(session, table).count()


def test_storing_is_part_of_the_sessions_transaction(delayed: DelayedTable) -> None:
    def store_and_fail() -> None:
        with delayed.session.transaction():
            delayed.store([Message()], delay=DUE_NOW)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        store_and_fail()
    assert delayed.count().messages == 0


def test_settings_of_the_delayed_tables_own_name_apply(address_of: AddressResolver) -> None:
    resolver = replace(address_of, queue_schemas={"Sales.Delayed": "later", "Sales": "now"})
    assert resolver.resolve(delayed_name("Sales")).schema == "later"
