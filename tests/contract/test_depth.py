"""Depth in its three kinds, and what goes with it, on any server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from airflow_sqlqueue.errors import NotAQueueError
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import Depth, backlog, depth
from airflow_sqlqueue.queue.tables.create import create, create_queue, delayed_address, delayed_definition
from airflow_sqlqueue.queue.tables.discovery import find_queue
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Fragment, Query
from tests.contract.conftest import Connect, run_sql

LATE = timedelta(seconds=-5)


def sent(seconds_ago: float, lives: timedelta | None = None) -> Message:
    moment = datetime.now(timezone.utc) - timedelta(seconds=seconds_ago)
    return Message({"NServiceBus.TimeSent": format_time(moment)}, b"x", lives)


def test_the_three_kinds_of_depth_agree(any_queue: QueueTable) -> None:
    assert [depth(any_queue, kind).messages for kind in ("exact", "quick", "catalog")] == [0, 0, 0]
    any_queue.send([Message(), Message(time_to_be_received=LATE), Message(), Message()])
    assert depth(any_queue) == Depth(3, 1)
    assert depth(any_queue, "quick") == Depth(4, None, "quick")
    assert depth(any_queue, "catalog") == Depth(4, None, "catalog")


@pytest.mark.parametrize(
    ("layout", "change", "name"),
    [
        ("modern", "", "queue.depth_by_indexes"),
        ("v4", "", "queue.depth_by_indexes"),
        ("v3.0", "", "queue.depth"),
        ("v1", "", "queue.depth"),
        ("modern", "ALTER INDEX [Index_Expires] ON {table} DISABLE", "queue.depth"),
    ],
)
def test_messages_are_counted_by_narrow_indexes_where_there_are_such(
    session: Session, table: ResolvedAddress, layout: str, change: str, name: str
) -> None:
    create_queue(session, table, layout=layout)
    if change:
        run_sql(session, change.format(table=table.qualified_name))
    asked = []

    class Watched(QueueTable):
        def query(self, name: str, **fragments: Fragment) -> Query:
            asked.append(name)
            return super().query(name, **fragments)

    queue = Watched(session, table)
    queue.send([Message(), Message(time_to_be_received=LATE), Message(time_to_be_received=-LATE)])
    assert depth(queue) == Depth(2, 1)
    assert asked[-1] == name


@pytest.mark.parametrize("layout", ["v1", "modern"])
def test_the_head_is_counted_up_to_a_limit(session: Session, table: ResolvedAddress, layout: str) -> None:
    """Wherever what has expired stands: of the head alone, and of no more rows than asked for."""
    create_queue(session, table, layout=layout)
    asked: list[str] = []

    class Watched(QueueTable):
        def query(self, name: str, **fragments: Fragment) -> Query:
            asked.append(name)
            return super().query(name, **fragments)

    queue = Watched(session, table)
    lives = [None, LATE, None, -LATE, LATE, None, None, LATE, LATE]
    queue.send([Message(time_to_be_received=life) for life in lives])
    for limit in range(1, 12):
        asked.clear()
        expired = sum(life == LATE for life in lives[:limit])
        assert depth(queue, limit=limit) == Depth(len(lives[:limit]) - expired, expired)
        by_indexes = ["queue.depth_up_to_by_indexes"] if layout == "modern" else []
        certain = layout == "modern" and limit > lives.count(LATE)
        assert asked == [*by_indexes, *([] if certain else ["queue.depth_up_to"])]
    assert depth(queue, limit=11) == depth(queue)


def test_each_kind_of_depth_has_its_error(connect: Connect, any_queue: QueueTable) -> None:
    numbers = any_queue.send_numbered([Message()] * 5)
    any_queue.take(numbers[1:4])
    assert depth(any_queue).messages == 2
    assert depth(any_queue, after=numbers[0]).messages == 1
    assert depth(any_queue, "quick").messages == 5
    with connect() as other, other.transaction():
        QueueTable(other, any_queue.address).send([Message()])
        QueueTable(other, any_queue.address).take(numbers[:1])
        assert depth(any_queue).messages == 1
        assert depth(any_queue, "quick").messages == 1
    assert depth(any_queue, "catalog").messages == 2


def test_a_span_of_row_versions_may_exceed_an_int(queue: QueueTable) -> None:
    table = queue.address.qualified_name
    queue.send([Message()])
    run_sql(queue.session, f"DBCC CHECKIDENT (N'{table}', RESEED, 5000000000)")
    queue.send([Message()])
    assert depth(queue, "quick").messages == 5_000_000_001
    assert depth(queue).messages == 2


def test_the_ages_of_the_oldest_and_the_newest_by_the_servers_clock(any_queue: QueueTable) -> None:
    assert backlog(any_queue).oldest_seconds is None
    any_queue.send([sent(500, LATE), sent(100), sent(200)])
    found = backlog(any_queue)
    assert found.oldest_seconds is not None
    assert found.newest_seconds is not None
    assert 95 < found.oldest_seconds < 160
    assert found.newest_seconds - found.oldest_seconds == pytest.approx(100, abs=5)


@pytest.mark.parametrize(
    "message", [Message(), Message("{broken"), Message({"NServiceBus.TimeSent": "x"}), Message({"a": None})]
)
def test_a_head_without_a_sending_time_has_no_age(queue: QueueTable, message: Message) -> None:
    queue.send([message, sent(100)])
    assert backlog(queue).oldest_seconds is None
    assert backlog(queue).newest_seconds is not None


def test_a_sender_whose_clock_is_ahead(queue: QueueTable) -> None:
    queue.send([sent(-1000)])
    assert backlog(queue).oldest_seconds == 0.0


def test_the_backlog_counts_all_rows_ever_inserted(any_queue: QueueTable) -> None:
    assert backlog(any_queue).inserted == 0
    any_queue.send([Message()])
    assert backlog(any_queue).inserted == 1
    any_queue.send([Message()] * 4)
    any_queue.receive(5)
    assert backlog(any_queue).inserted == 5


def test_a_message_that_comes_back_is_a_row_inserted_again(queue: QueueTable) -> None:
    queue.send([Message()])
    (message,) = queue.receive(1)
    queue.send([Message(message.headers, message.body, id=message.id)])
    assert (depth(queue).messages, backlog(queue).inserted) == (1, 2)


def test_a_rolled_back_send_counts_among_the_rows_ever_inserted(queue: QueueTable) -> None:
    def send_and_fail() -> None:
        with queue.session.transaction():
            queue.send([Message()] * 3)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        send_and_fail()
    assert backlog(queue).inserted == 3


@pytest.fixture
def delayed(session: Session, address_of: AddressResolver, queue: QueueTable) -> Iterator[ResolvedAddress]:
    address = delayed_address(address_of, queue.address.table)
    create(session, delayed_definition(address))
    yield address
    run_sql(session, f"DROP TABLE {address.qualified_name}")


@pytest.mark.parametrize("kind", ["exact", "quick", "catalog"])
def test_delayed_messages_are_counted_apart(queue: QueueTable, delayed: ResolvedAddress, kind: str) -> None:
    queue.send([Message()] * 2)
    run_sql(
        queue.session,
        f"INSERT INTO {delayed.qualified_name} ([Headers], [Body], [Due]) VALUES (N'{{}}', 0x01, GETUTCDATE()), "
        "(N'{}', NULL, GETUTCDATE()), (N'{}', NULL, GETUTCDATE())",
    )
    found = backlog(queue, kind, delayed=delayed)
    assert (found.depth.messages, found.delayed) == (2, 3)


def test_a_backlog_without_a_delayed_table_has_no_delayed_count(session: Session, queue: QueueTable) -> None:
    nowhere = replace(queue.address, table=f"{queue.address.table}.nowhere")
    assert backlog(queue, delayed=nowhere).delayed is None
    assert backlog(queue, delayed=queue.address).delayed is None
    assert backlog(queue).delayed is None


def test_the_table_of_delayed_messages_is_routed_by_its_own_name(session: Session, queue: QueueTable) -> None:
    database, name = queue.address.catalog, queue.address.table
    resolver = AddressResolver("dbo", database, queue_schemas={f"{name}.Delayed": "later"})
    assert delayed_address(resolver, name) == ResolvedAddress(f"{name}.Delayed", "later", database)
    assert delayed_address(resolver, "other@[a]@[b]") == ResolvedAddress("other.Delayed", "a", "b")
    found = find_queue(session, resolver, f"{name}@WEB01")
    assert delayed_address(resolver, f"{name}@WEB01", found).schema == "later"


def test_a_synonym_is_counted_at_its_base(session: Session, queue: QueueTable) -> None:
    queue.send([Message()] * 3)
    synonym = replace(queue.address, table=f"{queue.address.table}.synonym")
    run_sql(session, f"CREATE SYNONYM [{synonym.schema}].[{synonym.table}] FOR {queue.address.qualified_name}")
    try:
        found = backlog(QueueTable(session, synonym), "catalog")
        assert (found.depth.messages, found.inserted) == (3, 3)
    finally:
        run_sql(session, f"DROP SYNONYM [{synonym.schema}].[{synonym.table}]")


@pytest.mark.parametrize("kind", ["exact", "quick", "catalog"])
def test_no_kind_counts_another_table(session: Session, table: ResolvedAddress, kind: str) -> None:
    run_sql(session, f"CREATE TABLE {table.qualified_name} ([Id] int NOT NULL)")
    with pytest.raises(NotAQueueError):
        depth(QueueTable(session, table), kind)
