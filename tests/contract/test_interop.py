"""Endpoints and this package on the same tables: the endpoint's own statements on one side, ours on the other."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from airflow_sqlqueue import Envelope, MessageFilter, QueueClient
from airflow_sqlqueue.messages.message import Message, decode_headers
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.delayed.mover import MoveOptions, move_due
from airflow_sqlqueue.queue.delayed.table import DelayedCount, DelayedTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.publishing.subscriptions import SubscriptionTable, publish
from airflow_sqlqueue.queue.purge import purge
from airflow_sqlqueue.queue.tables.create import create, create_queue, delayed_definition, subscription_definition
from airflow_sqlqueue.queue.tables.reading import read_layout
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import Connect, run_sql
from tests.endpoint import PEEK, Endpoint

VERSIONS = [("v1", "2"), ("v3.0", "3"), ("v4", "4"), ("modern", "7"), ("clustered", "7"), ("v4", "7")]

OpenEndpoint = Callable[..., Endpoint]


@pytest.fixture
def endpoint(settings: ConnectionSettings, table: ResolvedAddress) -> OpenEndpoint:
    text = settings.odbc_connection_string()
    return lambda version="7": Endpoint(text, table.qualified_name, version)


def guarded(work: Callable[[], None], failed: list[BaseException]) -> None:
    """Run what a thread is to do and keep its error."""
    try:
        work()
    except BaseException as error:
        failed.append(error)


@pytest.mark.parametrize(("layout", "version"), VERSIONS)
def test_messages_of_an_endpoint_are_received(
    session: Session, table: ResolvedAddress, endpoint: OpenEndpoint, layout: str, version: str
) -> None:
    create_queue(session, table, layout=layout)
    headers: dict[str, str | None] = {"NServiceBus.MessageId": "1", "path": "a/b\\c", "help": None}
    if read_layout(session, table).types["Headers"] == "nvarchar":
        headers["name"] = "Jörg ☃ 😀"
    with endpoint(version) as sender:
        identity = sender.send(b"\x00\xff body", headers)
        sender.send(b"late", lives=-1000)
        sender.send(b"", "")
    first, late, empty = QueueTable(session, table).receive(10, keep_expired=True)
    assert (str(first.id), first.body, first.expired) == (identity, b"\x00\xff body", False)
    assert decode_headers(first.headers).values == headers
    assert (late.body, late.expired) == (b"late", True)
    assert (empty.body, decode_headers(empty.headers).values) == (b"", {})


@pytest.mark.parametrize(("layout", "version"), VERSIONS)
def test_an_endpoint_receives_our_messages(
    session: Session, table: ResolvedAddress, endpoint: OpenEndpoint, layout: str, version: str
) -> None:
    create_queue(session, table, layout=layout)
    headers: dict[str, str | None] = {"NServiceBus.MessageId": "1", "name": "Jörg ☃ 😀", "help": None}
    lives = [None, timedelta(seconds=-1), timedelta(days=20)]
    QueueTable(session, table).send(Message(headers, b"%d" % n, life) for n, life in enumerate(lives))
    with endpoint(version) as receiver:
        handled = receiver.receive_all()
    assert [message.body for message in handled] == [b"0", b"2"]
    assert [message.headers for message in handled] == [headers] * 2


def test_locks_are_respected_in_both_directions(
    session: Session, table: ResolvedAddress, endpoint: OpenEndpoint
) -> None:
    create_queue(session, table)
    queue = QueueTable(session, table)
    queue.send(Message(body=b"%d" % n) for n in range(4))
    with endpoint() as other:
        other.connection.autocommit = False
        first = other.receive()
        assert first is not None
        assert first.body == b"0"
        with session.transaction():
            assert [message.body for message in queue.receive()] == [b"1"]
            second = other.receive()
            assert second is not None
            assert second.body == b"2"
            assert [message.body for message in queue.peek()] == [b"3"]
            assert depth(queue).messages == 1
        other.connection.rollback()
        assert [message.body for message in queue.peek()] == [b"0", b"2", b"3"]


def test_both_sides_purge_expired_messages(session: Session, table: ResolvedAddress, endpoint: OpenEndpoint) -> None:
    create_queue(session, table)
    queue = QueueTable(session, table)
    with endpoint() as other:
        for _ in range(3):
            other.send(b"late", lives=-1000)
        other.send(b"alive", lives=600_000)
        assert purge(queue).deleted == 3
        queue.send([Message(body=b"late", time_to_be_received=timedelta(seconds=-1))])
        if queue.layout.read_committed_snapshot:
            pytest.skip("READPAST stands alone in what versions 4 and later run: error 650, as it is documented")
        other.purge_expired()
        assert [message.body for message in queue.peek()] == [b"alive"]


def test_all_create_one_queue(
    connect: Connect, session: Session, table: ResolvedAddress, endpoint: OpenEndpoint
) -> None:
    """Installers of endpoints and of ours start together, with the same application lock."""
    barrier = threading.Barrier(12)
    made: list[bool] = []
    failed: list[BaseException] = []

    def ours() -> None:
        with connect() as own:
            barrier.wait(60)
            made.append(create_queue(own, table).made)

    def theirs() -> None:
        with endpoint() as installer:
            barrier.wait(60)
            installer.create()

    threads = [threading.Thread(target=guarded, args=(work, failed)) for work in (ours, theirs) * 6]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == []
    assert len(made) == 6
    assert sum(made) <= 1
    assert read_layout(session, table).names[0] == "modern"


# Delayed messages and events

PAST = datetime(2020, 1, 1, tzinfo=timezone.utc)
HEADERS: dict[str, str | None] = {"NServiceBus.MessageId": "later", "name": "Jörg"}


@pytest.fixture
def delayed(session: Session, table: ResolvedAddress) -> Iterator[ResolvedAddress]:
    """An endpoint's table of delayed messages, beside its queue."""
    found = replace(table, table=f"{table.table}.Delayed")
    create(session, delayed_definition(found))
    yield found
    run_sql(session, f"DROP TABLE {found.qualified_name}")


@pytest.fixture
def subscriptions(session: Session, table: ResolvedAddress) -> Iterator[ResolvedAddress]:
    """A subscription table of the test's own."""
    found = replace(table, table=f"{table.table}.Subscriptions")
    create(session, subscription_definition(found))
    yield found
    run_sql(session, f"DROP TABLE {found.qualified_name}")


@pytest.mark.parametrize("layout", ["v1", "v3.0", "v4", "modern"])
def test_either_side_moves_delayed_messages_of_the_other(
    session: Session,
    table: ResolvedAddress,
    delayed: ResolvedAddress,
    endpoint: OpenEndpoint,
    address_of: AddressResolver,
    layout: str,
) -> None:
    create_queue(session, table, layout=layout)
    ours, queue = DelayedTable(session, delayed), QueueTable(session, table)
    with endpoint() as other:
        ours.store([Message(HEADERS, b"ours")], due=PAST)
        ours.store([Message(HEADERS, b"tomorrow")], delay=timedelta(days=1))
        other.move_due(delayed.qualified_name)
        (moved,) = other.receive_all()
        assert (moved.body, moved.headers) == (b"ours", HEADERS)
        other.delay(delayed.qualified_name, b"theirs", {"NServiceBus.MessageId": "later"}, ms=-1000)
        other.delay(delayed.qualified_name, b"in a month", {}, days=30)
        assert move_due(ours, queue, address_of).moved == 1
        (received,) = queue.receive(10)
        assert (received.body, decode_headers(received.headers).values) == (
            b"theirs",
            {"NServiceBus.MessageId": "later"},
        )
        assert received.recoverable is True
        assert ours.count() == DelayedCount(messages=2, due=0)


def test_two_kinds_of_movers_share_the_due_messages(
    connect: Connect,
    session: Session,
    table: ResolvedAddress,
    delayed: ResolvedAddress,
    endpoint: OpenEndpoint,
    address_of: AddressResolver,
) -> None:
    create_queue(session, table)
    count = 600
    DelayedTable(session, delayed).store((Message(body=b"%d" % n) for n in range(count)), due=PAST)
    barrier = threading.Barrier(2)
    failed: list[BaseException] = []

    def ours() -> None:
        with connect() as own:
            barrier.wait(60)
            while DelayedTable(own, delayed).count().due:
                move_due(DelayedTable(own, delayed), QueueTable(own, table), address_of, MoveOptions(chunk=20))

    def theirs() -> None:
        with endpoint() as mover, connect() as watcher:
            barrier.wait(60)
            while DelayedTable(watcher, delayed).count().due:
                mover.move_due(delayed.qualified_name, 20)

    threads = [threading.Thread(target=guarded, args=(work, failed)) for work in (ours, theirs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == []
    moved = [int(message.body) for message in QueueTable(session, table).receive(2000)]
    assert sorted(moved) == list(range(count))


def test_subscriptions_are_shared(
    session: Session,
    table: ResolvedAddress,
    subscriptions: ResolvedAddress,
    endpoint: OpenEndpoint,
    address_of: AddressResolver,
) -> None:
    create_queue(session, table)
    ours, name = SubscriptionTable(session, subscriptions), subscriptions.qualified_name
    with endpoint() as other:
        other.subscribe(name, "Billing", table.canonical, "Shop.OrderPlaced")
        other.subscribe(name, "Billing", table.canonical, "Shop.OrderPlaced")
        published = publish(ours, address_of, [Message({}, b"event")], ["Shop.OrderPlaced, Shop", "Shop.IEvent"])
        assert published.queues == (table.canonical,)
        (handled,) = other.receive_all()
        assert handled.body == b"event"
        assert handled.headers["NServiceBus.MessageIntent"] == "Publish"
        ours.subscribe("Shop.IEvent", "Sales", table)
        assert other.subscribers(name, "Shop.OrderPlaced", "Shop.IEvent") == [table.canonical]
        other.unsubscribe(name, "Billing", "Shop.OrderPlaced")
        assert [(found.endpoint, found.topic) for found in ours.subscriptions()] == [("Sales", "Shop.IEvent")]
        ours.unsubscribe("Shop.IEvent", "Sales")
        assert other.subscribers(name, "Shop.OrderPlaced", "Shop.IEvent") == []


def test_an_endpoint_peeks_at_our_messages(session: Session, table: ResolvedAddress, endpoint: OpenEndpoint) -> None:
    create_queue(session, table)
    queue = QueueTable(session, table)
    with endpoint() as other:
        assert other.run(PEEK)[0][0] == 0
        queue.send([Message()] * 3)
        assert other.run(PEEK)[0][0] == 3
        with session.transaction():
            queue.receive()
            assert other.run(PEEK)[0][0] == 2


def test_a_queue_of_wolverine_is_a_queue_like_others(settings: ConnectionSettings, table: ResolvedAddress) -> None:
    """Wolverine reads and writes queue tables too: its index on Expires includes no columns, its rows have few.

    Source: JasperFx/wolverine, folder ``Wolverine.SqlServer/Transport/NServiceBus``.
    """
    client, name, identity = QueueClient(settings), table.qualified_name, str(uuid.uuid4())
    headers = {
        "NServiceBus.MessageId": identity,
        "NServiceBus.MessageIntent": "Send",
        "NServiceBus.ContentType": "application/json",
        "NServiceBus.TimeSent": "2026-06-01 08:00:00:000000 Z",
        "NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder",
        "tenant_id": "7",
    }
    client.run_sql(
        f"CREATE TABLE {name} ([Id] uniqueidentifier NOT NULL, [CorrelationId] varchar(255) NULL,"
        " [ReplyToAddress] varchar(255) NULL, [Recoverable] bit NOT NULL, [Expires] datetime NULL,"
        " [Headers] nvarchar(max) NOT NULL, [Body] varbinary(max) NULL, [RowVersion] bigint IDENTITY NOT NULL)"
    )
    client.run_sql(f"CREATE CLUSTERED INDEX [Index_RowVersion] ON {name} ([RowVersion])")
    client.run_sql(f"CREATE INDEX [Index_Expires] ON {name} ([Expires]) WHERE [Expires] IS NOT NULL")
    sent = f"INSERT INTO {name} (Id, Recoverable, Expires, Headers, Body) VALUES (?, 1, NULL, ?, ?)"
    client.run_sql(sent, identity, json.dumps(headers), b'{"Id":1}')
    queue = client.queue(table.canonical)
    assert client.tables.inspect(table.canonical).findings == ()
    assert queue.depth().messages == 1
    assert [str(head.id) for head in queue.find(MessageFilter(headers={"tenant_id": "7"}))] == [identity]
    queue.send([Message({"NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder"}, b"{}")])
    theirs, ours = queue.receive(10)
    envelope = Envelope.of(theirs)
    assert (envelope.content.message_type, envelope.json()) == ("Shop.PlaceOrder", {"Id": 1})
    assert ours.body == b"{}"
