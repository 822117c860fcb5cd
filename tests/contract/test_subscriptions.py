"""Subscriptions, and publishing to them, over a real connection, on any server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import AddressError, ConfigurationError, MessageError, NotAQueueError, QueueNotFoundError
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.publishing.subscriptions import Subscription, SubscriptionTable, publish, topic_of
from airflow_sqlqueue.queue.tables.create import create, create_queue, subscription_definition
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import Connect, run_sql

PLACED = "Shop.OrderPlaced"


@pytest.fixture
def subscriptions(session: Session, table: ResolvedAddress) -> SubscriptionTable:
    """An empty subscription table of the test's own."""
    create(session, subscription_definition(table))
    return SubscriptionTable(session, table)


@pytest.fixture
def make_queue(session: Session, table: ResolvedAddress) -> Iterator[Callable[..., QueueTable]]:
    """Makes queues that are dropped afterwards."""
    made: list[ResolvedAddress] = []

    def make(name: str, layout: str = "modern") -> QueueTable:
        address = replace(table, table=f"{table.table}.{name}")
        create_queue(session, address, layout=layout)
        made.append(address)
        return QueueTable(session, address)

    yield make
    for address in made:
        run_sql(session, f"DROP TABLE IF EXISTS {address.qualified_name}")


@pytest.mark.parametrize(
    ("type_name", "topic"),
    [
        (PLACED, PLACED),
        ("Shop.OrderPlaced, Shop, Version=1.0.0.0, Culture=neutral", PLACED),
        ("Shop.Outer+Inner , Shop", "Shop.Outer+Inner"),
        ("Shop.Of`1[[Shop.A, Shop]], Shop", "Shop.Of`1[[Shop.A, Shop]]"),
        ("Shop.Of`2[[Shop.A, Shop],[Shop.B[], Shop]], Shop", "Shop.Of`2[[Shop.A, Shop],[Shop.B[], Shop]]"),
    ],
)
def test_a_topic_is_the_full_name_without_the_assembly(type_name: str, topic: str) -> None:
    assert topic_of(type_name) == topic


@pytest.mark.parametrize("type_name", ["", " ", ", Shop", "Shop.A;Shop.B"])
def test_names_that_are_not_one_type(type_name: str) -> None:
    with pytest.raises(MessageError, match="is not the name of one type"):
        topic_of(type_name)


def test_subscribe_move_and_unsubscribe(subscriptions: SubscriptionTable) -> None:
    sales, moved = (ResolvedAddress(name, "dbo", "nsb") for name in ("Sales", "Sales2"))
    assert subscriptions.subscribe(f"{PLACED}, Shop", "Sales", sales) is True
    assert subscriptions.subscribe(PLACED, "Sales", sales) is False
    assert subscriptions.subscribe(PLACED, "Sales", moved) is True
    assert subscriptions.subscribe("Shop.Billed", "Sales", sales) is True
    assert subscriptions.subscriptions() == [
        Subscription("Shop.Billed", "Sales", "Sales@[dbo]@[nsb]"),
        Subscription(PLACED, "Sales", "Sales2@[dbo]@[nsb]"),
    ]
    assert subscriptions.unsubscribe(f"{PLACED}, Shop", "Sales") is True
    assert subscriptions.unsubscribe(PLACED, "Sales") is False
    assert [found.topic for found in subscriptions.subscriptions()] == ["Shop.Billed"]


@pytest.mark.parametrize(
    ("type_name", "endpoint", "queue", "says"),
    [
        ("T" * 201, "Sales", "q", "topic 'T+'... is longer than the 200"),
        (PLACED, "😀" * 101, "q", "endpoint '😀+'... is longer than the 200"),
        (PLACED, "Sales", "]" * 128, "queue address .* is longer than the 200"),
        (PLACED, " ", "q", "endpoint of a subscription is blank"),
    ],
)
def test_values_too_long_for_their_columns_are_refused(
    subscriptions: SubscriptionTable, type_name: str, endpoint: str, queue: str, says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        subscriptions.subscribe(type_name, endpoint, ResolvedAddress(queue, "s" * 70, "nsb"))
    assert subscriptions.subscriptions() == []


@pytest.mark.parametrize(("type_name", "endpoint"), [("T\ud800", "Sales"), (PLACED, "Sales\udfff")])
def test_values_that_are_not_text_are_refused(subscriptions: SubscriptionTable, type_name: str, endpoint: str) -> None:
    with pytest.raises(MessageError, match="is not text"):
        subscriptions.subscribe(type_name, endpoint, ResolvedAddress("q", "dbo", "nsb"))
    assert subscriptions.subscriptions() == []


def test_a_subscription_that_moves_to_another_schema_is_warned_of(
    subscriptions: SubscriptionTable, caplog: pytest.LogCaptureFixture
) -> None:
    """Endpoints of one name in two schemas share a subscription: the last one to subscribe gets the events."""

    def subscribe(table: str, schema: str) -> list[str]:
        caplog.clear()
        subscriptions.subscribe(PLACED, "Office", ResolvedAddress(table, schema, "nsb"))
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    assert subscribe("Office", "sales") == []
    assert subscribe("Office", "SALES") == []
    assert subscribe("Office.New", "sales") == [], "another queue in the same schema"
    (warning,) = subscribe("Office", "stocktake")
    assert "'Office' to 'Shop.OrderPlaced' moves from 'Office.New@[sales]@[nsb]'" in warning
    assert "'Office@[stocktake]@[nsb]', in another schema" in warning
    assert subscribe("Office", "stocktake") == []
    table = subscriptions.address.qualified_name
    for unknown in ("Office", "@"):
        run_sql(subscriptions.session, f"UPDATE {table} SET [QueueAddress] = N'{unknown}'")
        assert subscribe("Office", "sales") == []


def test_values_as_long_as_their_columns_are_kept_whole(subscriptions: SubscriptionTable) -> None:
    queue = ResolvedAddress("q" * 128, "s" * 62, "nsb")
    assert len(queue.canonical) == 199
    assert subscriptions.subscribe("T" * 200, "😀" * 100, queue)
    assert subscriptions.subscriptions() == [Subscription("T" * 200, "😀" * 100, queue.canonical)]


def test_many_subscribe_at_once_and_each_subscription_is_there_once(
    connect: Connect, subscriptions: SubscriptionTable
) -> None:
    start = threading.Barrier(4)

    def work(number: int) -> None:
        with connect() as session:
            table = SubscriptionTable(session, subscriptions.address)
            start.wait(60)
            for topic in range(10):
                table.subscribe(f"T{topic}", f"E{number % 2}", ResolvedAddress("q", "dbo", "nsb"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(subscriptions.subscriptions()) == 20


@pytest.mark.parametrize("layout", ["v1", "v3.0", "v4", "modern"])
def test_events_arrive_whole_in_every_layout(
    subscriptions: SubscriptionTable, make_queue: Callable[..., QueueTable], address_of: AddressResolver, layout: str
) -> None:
    queue = make_queue("a", layout)
    subscriptions.subscribe(PLACED, "A", queue.address)
    headers = {HeaderNames.MESSAGE_ID: "m-1", HeaderNames.MESSAGE_INTENT: "Send", "Grüße": "☃"}
    types = [f"{PLACED}, Shop", "Shop.IEvent"]
    published = publish(subscriptions, address_of, [Message(headers, b"one"), Message(body=b"two")], types)
    assert (published.messages, published.queues, published.copies) == (2, (queue.address.canonical,), 2)
    first, second = queue.receive(5)
    assert (first.body, second.body) == (b"one", b"two")
    assert decode_headers(first.headers).values == {
        **headers,
        HeaderNames.MESSAGE_INTENT: "Publish",
        HeaderNames.ENCLOSED_MESSAGE_TYPES: f"{PLACED}, Shop;Shop.IEvent",
    }


def test_each_queue_gets_one_copy(
    subscriptions: SubscriptionTable, make_queue: Callable[..., QueueTable], address_of: AddressResolver
) -> None:
    a, b, c = map(make_queue, "abc")
    subscriptions.subscribe(PLACED, "A", a.address)
    subscriptions.subscribe("Shop.IEvent", "A", a.address)
    subscriptions.subscribe("System.Object", "B", b.address)
    subscriptions.subscribe("Shop.Other", "C", c.address)
    table = subscriptions.address.qualified_name
    run_sql(subscriptions.session, f"INSERT INTO {table} VALUES (N'{a.address.table}', N'D', N'{PLACED}')")
    published = publish(subscriptions, address_of, [Message()], [PLACED, "Shop.IEvent, Shop"])
    assert sorted(published.queues) == sorted([a.address.canonical, b.address.canonical])
    copies = [[decode_headers(copy.headers).values for copy in queue.receive(5)] for queue in (a, b, c)]
    assert list(map(len, copies)) == [1, 1, 0]
    assert copies[0][0][HeaderNames.MESSAGE_ID] == copies[1][0][HeaderNames.MESSAGE_ID]


def test_an_event_without_subscribers_goes_nowhere(
    subscriptions: SubscriptionTable, address_of: AddressResolver
) -> None:
    published = publish(subscriptions, address_of, [Message()], [PLACED])
    assert (published.messages, published.queues, published.copies) == (1, (), 0)


def test_a_missing_queue_is_named_before_any_send(
    subscriptions: SubscriptionTable, make_queue: Callable[..., QueueTable], address_of: AddressResolver
) -> None:
    a = make_queue("a")
    missing = replace(a.address, table=f"{a.address.table}.missing")
    for endpoint, address in (("A", a.address), ("B", missing)):
        subscriptions.subscribe(PLACED, endpoint, address)
    with pytest.raises(QueueNotFoundError) as raised:
        publish(subscriptions, address_of, [Message()], [PLACED])
    assert f"The queue {missing.canonical} of a subscriber does not exist" in str(raised.value)
    table = subscriptions.address.canonical
    command = f"sqlqueue unsubscribe B {PLACED} --table '{table}'"
    assert str(raised.value).endswith(f": create it, or end its subscriptions with '{command}'.")
    assert depth(a).messages == 0


def test_an_endpoint_that_is_no_plain_name_is_in_no_command(
    subscriptions: SubscriptionTable, make_queue: Callable[..., QueueTable], address_of: AddressResolver
) -> None:
    missing = replace(make_queue("a").address, table="missing")
    subscriptions.subscribe(PLACED, "$(reboot)", missing)
    with pytest.raises(QueueNotFoundError) as raised:
        publish(subscriptions, address_of, [Message()], [PLACED])
    assert "reboot" not in str(raised.value)
    assert str(raised.value).endswith("with 'sqlqueue unsubscribe <endpoint> <type>'.")


def test_a_queue_that_refuses_inserts_undoes_the_rest(
    subscriptions: SubscriptionTable, make_queue: Callable[..., QueueTable], address_of: AddressResolver
) -> None:
    a, b = make_queue("a"), make_queue("b")
    run_sql(subscriptions.session, f"ALTER TABLE {b.address.qualified_name} ADD [Tenant] int NOT NULL")
    for endpoint, queue in (("A", a), ("B", b)):
        subscriptions.subscribe(PLACED, endpoint, queue.address)
    with pytest.raises(NotAQueueError, match="'Tenant' takes no NULL"):
        publish(subscriptions, address_of, [Message()], [PLACED])
    assert depth(a).messages == 0


def test_publishing_joins_the_sessions_transaction(
    subscriptions: SubscriptionTable, make_queue: Callable[..., QueueTable], address_of: AddressResolver
) -> None:
    a = make_queue("a")
    subscriptions.subscribe(PLACED, "A", a.address)

    def publish_and_fail() -> None:
        with subscriptions.session.transaction():
            assert publish(subscriptions, address_of, [Message()], [PLACED]).copies == 1
            raise InterruptedError

    with pytest.raises(InterruptedError):
        publish_and_fail()
    assert depth(a).messages == 0


@pytest.mark.parametrize(("message", "types"), [(Message("{}"), [PLACED]), (Message(), [])])
def test_headers_as_text_and_no_type_make_no_event(
    subscriptions: SubscriptionTable, address_of: AddressResolver, message: Message, types: list[str]
) -> None:
    with pytest.raises(MessageError, match="An event"):
        publish(subscriptions, address_of, [message], types)


@pytest.mark.parametrize("count", [1, 7, 127])
def test_an_event_has_up_to_127_types(
    subscriptions: SubscriptionTable, make_queue: Callable[..., QueueTable], address_of: AddressResolver, count: int
) -> None:
    a = make_queue("a")
    subscriptions.subscribe(f"T{count - 1}", "A", a.address)
    assert publish(subscriptions, address_of, [Message()], [f"T{n}" for n in range(count)]).copies == 1
    with pytest.raises(ConfigurationError, match="at most 127"):
        publish(subscriptions, address_of, [Message()], [f"T{n}" for n in range(128)])


def test_a_missing_table_and_one_of_another_kind_are_refused(session: Session, table: ResolvedAddress) -> None:
    with pytest.raises(QueueNotFoundError, match="'sqlqueue create <endpoint> --subscriptions' makes is Subscription"):
        SubscriptionTable(session, table).subscriptions()
    create_queue(session, table)
    with pytest.raises(NotAQueueError, match=r"is not a subscription table .* drop it with 'sqlqueue drop <table>'"):
        SubscriptionTable(session, table).subscribers([PLACED])


def test_events_go_to_no_subscriber_in_another_database_unless_it_is_allowed(
    session: Session,
    subscriptions: SubscriptionTable,
    make_queue: Callable[..., QueueTable],
    address_of: AddressResolver,
    other_catalog: str,
    schema: str,
) -> None:
    """Every endpoint may write the subscription table, and the publisher's login may reach more than it does."""
    sales, payments = make_queue("sales"), ResolvedAddress("payments", "dbo", other_catalog)
    create_queue(session, payments)
    synonym = f"[{schema}].[innocent]"
    run_sql(session, f"CREATE SYNONYM {synonym} FOR {payments.qualified_name}")
    subscriptions.subscribe(PLACED, "Sales", sales.address)
    for address in (payments, replace(sales.address, table="innocent", schema=schema)):
        subscriptions.subscribe(PLACED, "Payments", address)
        with pytest.raises(
            AddressError, match=r"outside of the allowed .* nothing was published.*unsubscribe Payments"
        ):
            publish(subscriptions, address_of, [Message()], [PLACED])
        assert depth(sales).messages == depth(QueueTable(session, payments)).messages == 0
    allowed = replace(address_of, allowed_catalogs=[sales.address.catalog, other_catalog])
    assert publish(subscriptions, allowed, [Message()], [PLACED]).copies == 2
    assert depth(QueueTable(session, payments)).messages == 1
    run_sql(session, f"DROP SYNONYM {synonym}")


def test_tables_of_an_endpoint_are_made_with_the_clients_subscription_table(
    settings: ConnectionSettings, resolver: AddressResolver, caplog: pytest.LogCaptureFixture
) -> None:
    client = QueueClient(settings, replace(resolver, subscription_table="Routes"))
    made = client.tables.create("Sales", subscriptions=True)
    assert [result.table.table for result in made] == ["Sales", "Routes"]
    assert client.subscriptions.subscribe("Sales", [PLACED]) == 1
    assert "There is no queue" not in caplog.text
    client.subscriptions.subscribe("Slaes", ["Shop.Other"])
    assert "There is no queue 'Slaes@[" in caplog.text
    assert client.subscriptions.publish([PLACED], [Message(body=b"placed")]).copies == 1
    assert [message.body for message in client.queue("Sales").receive(10)] == [b"placed"]
    for result in made:
        client.run_sql(f"DROP TABLE {result.table.qualified_name}")
