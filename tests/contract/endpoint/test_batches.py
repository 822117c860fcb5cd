"""Batches: several messages in one call and one transaction, and each alone after a failure."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.endpoint import handler
from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.endpoint.options import SLOW_DOWN
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.queue import MessageFilter, QueueTable
from tests.conftest import Connect
from tests.contract.conftest import run_sql
from tests.contract.endpoint.conftest import AT_ONCE, Consume, headers, numbered, options
from tests.drains import bodies
from tests.endpoint import PEEK

TRANSACTIONAL = ["sends_atomic_with_receive", "receive_only"]
WAIT = 60


class Batches:
    """Batch function that records the bodies of its lists and then calls ``does``."""

    def __init__(self, does: Any = lambda messages: None) -> None:
        self.lists: list[list[bytes]] = []
        self._does = does

    def __call__(self, messages: list[Envelope]) -> None:
        self.lists.append([message.body for message in messages])
        self._does(messages)

    def of(self, *types: str, **limits: Any) -> MessageHandlers:
        handlers = MessageHandlers()
        handlers.batch(*types, **limits)(self)
        return handlers


@pytest.mark.parametrize("mode", TRANSACTIONAL)
def test_messages_come_in_lists_in_the_order_of_the_queue(orders: Queue, consume: Consume, mode: str) -> None:
    orders.send(numbered(25))
    seen = Batches()
    done = consume(seen.of(max_messages=10), transaction_mode=mode)
    numbers = [b"%d" % n for n in range(25)]
    assert seen.lists == [numbers[:10], numbers[10:20], numbers[20:]]
    assert (done.handled, done.messages, done.rolled_back, bodies(orders)) == (25, 25, 0, [])


def test_a_limit_of_messages_ends_a_batch(orders: Queue, consume: Consume) -> None:
    orders.send(numbered(25))
    seen = Batches()
    done = consume(seen.of(max_messages=10), max_messages=13)
    assert ([len(each) for each in seen.lists], done.handled, len(bodies(orders))) == ([10, 3], 13, 12)


@pytest.mark.parametrize("mode", TRANSACTIONAL)
def test_after_a_failure_each_message_is_tried_alone(
    orders: Queue, billing: Queue, error: Queue, consume: Consume, mode: str
) -> None:
    orders.send(numbered(6))

    def bill(messages: list[Envelope]) -> None:
        billing.send([Message({}, message.body) for message in messages])
        if any(message.body == b"2" for message in messages):
            raise ValueError("not this one")

    seen = Batches(bill)
    done = consume(seen.of(max_messages=4), AT_ONCE, transaction_mode=mode)
    alone = [body for bodies in seen.lists if len(bodies) == 1 for body in bodies]
    assert seen.lists[0] == [b"0", b"1", b"2", b"3"]
    assert [b"4", b"5"] in seen.lists
    # The bad one has its three attempts alone, besides that of the batch.
    assert sorted(alone) == [b"0", b"1", b"2", b"2", b"2", b"3"]
    assert (done.handled, done.failed, done.rolled_back) == (5, 1, 4)
    assert bodies(error) == [b"2"]
    billed = bodies(billing)
    assert set(billed) >= {b"0", b"1", b"3", b"4", b"5"}
    if mode == "sends_atomic_with_receive":
        assert sorted(billed) == [b"0", b"1", b"3", b"4", b"5"]


def test_a_failed_batch_is_one_failure_in_a_row(orders: Queue, consume: Consume) -> None:
    orders.send(numbered(3))

    def fail_at_first(messages: list[Envelope]) -> None:
        if len(messages) > 1:
            raise ValueError("together")

    done = consume(Batches(fail_at_first).of(), max_consecutive_failures=2)
    assert (done.handled, done.rolled_back) == (3, 1)


def test_a_slow_consumer_makes_lists_of_one(orders: Queue, consume: Consume) -> None:
    orders.send(numbered(6))

    def fail_for_the_first(messages: list[Envelope]) -> None:
        if messages[0].body < b"2":
            raise ValueError("the database is down")

    seen = Batches(fail_for_the_first)
    slow = {"max_consecutive_failures": 1, "on_consecutive_failures": SLOW_DOWN, "slow_down_seconds": 0.001}
    done = consume(seen.of(max_messages=2), AT_ONCE, max_handlers=1, **slow)
    assert [each for each in seen.lists if each[0] >= b"2"] == [[b"2"], [b"3", b"4"], [b"5"]]
    assert (done.handled, done.failed) == (4, 2)


def test_a_batch_has_messages_of_its_own_types_alone(client: QueueClient, orders: Queue, consume: Consume) -> None:
    kinds = ["Shop.Placed", "Shop.Shipped", "Shop.Placed", None, "Shop.Placed"]
    orders.send(
        Message({} if kind is None else {HeaderNames.ENCLOSED_MESSAGE_TYPES: kind}, b"%d" % n)
        for n, kind in enumerate(kinds)
    )
    placed, others = Batches(), []
    handlers = placed.of("Shop.Placed")
    handlers.default(lambda message: others.append(message.body))
    done = consume(handlers)
    assert placed.lists == [[b"0", b"2", b"4"]]
    assert (others, done.handled) == ([b"1", b"3"], 5)


def test_an_event_whose_type_is_in_its_body_goes_to_the_function_of_its_type(orders: Queue, consume: Consume) -> None:
    """The search for further messages of a batch reads no body."""
    event = b'{"specversion": "1.0", "id": "1", "source": "shop", "type": "Shop.Placed", "data": {}}'
    cloud_event = Message({HeaderNames.CONTENT_TYPE: "application/cloudevents+json"}, event)
    orders.send([*numbered(1), cloud_event, *numbered(1)])
    others, placed = Batches(), list[bytes]()
    handlers = others.of()
    handlers.handles("Shop.Placed")(lambda message: placed.append(message.body))
    consume(handlers)
    assert (others.lists, placed) == ([[b"0", b"0"]], [event])
    orders.send([*numbered(1), cloud_event])
    others = Batches()
    consume(others.of())
    assert others.lists == [[b"0", event]]


def test_malformed_and_forwarded_messages_are_in_no_batch(
    client: QueueClient, orders: Queue, billing: Queue, error: Queue, consume: Consume
) -> None:
    forwarded = {HeaderNames.FORWARD_DESTINATION: "billing"}
    orders.send([Message({}, b"0"), Message("{", b"1"), Message(forwarded, b"2"), Message({}, b"3")])
    seen = Batches()
    done = consume(seen.of())
    assert seen.lists == [[b"0", b"3"]]
    assert (done.handled, done.failed, done.forwarded) == (2, 1, 1)
    assert (bodies(billing), bodies(error)) == ([b"2"], [b"1"])


def test_a_filter_holds_for_batches(orders: Queue, consume: Consume) -> None:
    orders.send(Message({"tenant": "7" if n % 2 else "8"}, b"%d" % n) for n in range(8))
    seen = Batches()
    done = consume(seen.of(), where=MessageFilter.of({"headers": {"tenant": "7"}}))
    assert sorted(body for bodies in seen.lists for body in bodies) == [b"1", b"3", b"5", b"7"]
    assert (done.handled, bodies(orders)) == (4, [b"0", b"2", b"4", b"6"])


@pytest.mark.parametrize("where", [None, {"tenant": "7"}], ids=["types", "filter"])
def test_messages_that_stay_out_of_a_batch_are_free_while_it_is_handled(
    orders: Queue, connect: Connect, consume: Consume, where: dict[str, str] | None
) -> None:
    """An endpoint that counts a message also receives it: it would otherwise count and look for it without a pause."""
    other = {"tenant": "8"} if where else {HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.Other"}
    joining = where or {HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.Order"}
    orders.send([Message(joining, b"1"), Message(other, b"2"), Message(joining, b"3"), Message(other, b"4")])
    free: list[tuple[int, list[bytes]]] = []

    def handle(messages: list[Envelope]) -> None:
        with connect() as session, session.transaction(), orders.open() as table:
            beside = QueueTable(session, table.address)
            (counted,) = run_sql(session, PEEK.format(table.address.qualified_name))[0]
            free.append((counted, [message.body for message in beside.receive(10)]))

    seen = Batches(handle)
    handlers = seen.of() if where else seen.of("Shop.Order")
    consume(handlers, where=where and MessageFilter.of({"headers": where}))
    assert seen.lists == [[b"1", b"3"]]
    assert free == [(3, [b"2", b"4"])]


def test_bodies_limit_a_batch(orders: Queue, consume: Consume, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "BATCH_BYTES", 1_000)
    for size, lengths in ((300, {4, 2}), (250, {4, 2}), (500, {2})):
        orders.send(Message({}, b"x" * size) for _ in range(10))
        seen = Batches()
        assert consume(seen.of()).handled == 10
        assert {len(each) for each in seen.lists} == lengths, "it ends with the message that reaches the limit"


def test_a_batch_waits_for_further_messages(orders: Queue, consume: Consume) -> None:
    """It ends as soon as it is full: the time would be a minute."""
    orders.send(numbered(1))
    collecting = threading.Event()

    def send_later() -> None:
        assert collecting.wait(WAIT)
        orders.send(numbered(2))

    sender = threading.Thread(target=send_later)
    sender.start()
    handlers, seen = MessageHandlers(), Batches()
    handlers.batch(max_messages=3, max_seconds=60)(seen)
    find = handlers.find
    bound = handlers.bind()
    bound.find = lambda message: (collecting.set(), find(message))[1]  # type: ignore[method-assign]
    bound.bind = lambda **values: bound  # type: ignore[method-assign]
    done = consume(bound, max_messages=3)
    sender.join()
    assert [len(each) for each in seen.lists] == [3]
    assert done.handled == 3


def test_a_stop_ends_the_wait_for_further_messages(orders: Queue) -> None:
    orders.send(numbered(1))
    stop, seen, handlers = threading.Event(), Batches(), MessageHandlers()
    handlers.batch(max_seconds=60)(seen)
    find = handlers.find
    bound = handlers.bind()
    bound.find = lambda message: (stop.set(), find(message))[1]  # type: ignore[method-assign]
    bound.bind = lambda **values: bound  # type: ignore[method-assign]
    done = orders.consume(bound, options(until_empty=False), stop=stop)
    assert (seen.lists, done.handled, done.seconds < 30) == ([[b"0"]], 1, True)


def test_every_message_of_a_batch_is_copied_and_one_can_be_given_up(
    client: QueueClient, orders: Queue, error: Queue, consume: Consume
) -> None:
    client.tables.create("audit")
    orders.send(numbered(3))
    done = consume(
        Batches(lambda messages: client.errors.fail(messages[1], ValueError("no"))).of(), audit_queue="audit"
    )
    assert (done.handled, done.failed) == (2, 1)
    assert bodies(error) == [b"1"]
    copies = client.queue("audit").receive(10)
    assert [copy.body for copy in copies] == [b"0", b"2"]
    assert all("NServiceBus.ProcessingEnded" in headers(copy) for copy in copies)


def test_sends_of_a_batch_have_no_single_cause(orders: Queue, billing: Queue, consume: Consume) -> None:
    orders.send(numbered(2))
    consume(Batches(lambda messages: billing.send([Message({}, b"bill")])).of())
    (bill,) = billing.receive(5)
    assert HeaderNames.RELATED_TO not in headers(bill)


def test_several_handlers_share_the_queue(orders: Queue) -> None:
    orders.send(numbered(300))
    seen = Batches()
    done = orders.consume(seen.of(max_messages=20), options(max_handlers=4))
    assert done.handled == 300
    assert sorted(body for bodies in seen.lists for body in bodies) == sorted(b"%d" % n for n in range(300))


def test_without_a_transaction_there_is_no_batch(consume: Consume) -> None:
    with pytest.raises(ConfigurationError, match="A batch is one transaction"):
        consume(Batches().of(), transaction_mode="none")
