"""Sends and SQL of a handler in each transaction mode, after success and after failure."""

from __future__ import annotations

import threading
import uuid
from contextvars import Context, copy_context
from datetime import timedelta
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.endpoint import handler_pool
from airflow_sqlqueue.endpoint.consumer import Consumer
from airflow_sqlqueue.endpoint.recoverability import RecoverabilityOptions
from airflow_sqlqueue.errors import ConfigurationError, LockTimeoutError, QueueNotFoundError
from airflow_sqlqueue.messages.envelope import Envelope, reply
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.server import reconnecting
from tests.contract.conftest import Connect, run_sql
from tests.contract.endpoint.conftest import AT_ONCE, Consume, Seen, headers, numbered, options
from tests.drains import bodies

MODES = ["sends_atomic_with_receive", "receive_only", "none"]


@pytest.mark.parametrize("mode", MODES)
def test_every_message_is_handled_once_in_the_order_of_the_queue(orders: Queue, consume: Consume, mode: str) -> None:
    orders.send(numbered(20))
    seen = Seen()
    done = consume(seen, transaction_mode=mode)
    assert seen.bodies == [b"%d" % n for n in range(20)]
    assert (done.handled, done.messages, done.rolled_back, done.handlers) == (20, 20, 0, 1)
    assert bodies(orders) == []


def test_the_handler_gets_an_envelope(orders: Queue, consume: Consume) -> None:
    sent = {HeaderNames.CONTENT_TYPE: "application/json", HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder, Shop"}
    orders.send([Message(sent, b'{"order": 1}')])
    envelopes: list[Envelope] = []
    consume(envelopes.append)
    (envelope,) = envelopes
    assert envelope.content.message_type == "Shop.PlaceOrder"
    assert envelope.json() == {"order": 1}
    # Without the header, the row's Id is the message id, for whatever is made of the message.
    assert envelope.headers[HeaderNames.MESSAGE_ID] == str(envelope.row_id)


@pytest.mark.parametrize(
    ("mode", "attempts_sent", "failed"), [("sends_atomic_with_receive", 1, 0), ("receive_only", 2, 0), ("none", 1, 1)]
)
def test_a_failure_undoes_sends_by_the_mode(
    client: QueueClient, orders: Queue, billing: Queue, consume: Consume, mode: str, attempts_sent: int, failed: int
) -> None:
    orders.send(numbered(1))

    def bill(message: Envelope) -> None:
        billing.send([Message(body=message.body)])
        billing.send_once(uuid.uuid4(), [Message(body=message.body)])
        if len(seen.bodies) == 1:
            raise ValueError("the first attempt fails")

    seen = Seen(bill)
    done = consume(seen, AT_ONCE, transaction_mode=mode)
    assert bodies(billing) == [b"0"] * 2 * attempts_sent
    assert (done.handled, done.failed) == (1 - failed, failed)
    assert done.rolled_back == (0 if mode == "none" else 1)
    assert len(bodies(client.queue("error"))) == failed


def test_a_receive_of_a_handler_is_in_the_transaction_of_its_message(orders: Queue, consume: Consume) -> None:
    orders.send(numbered(2))
    taken: list[bytes] = []

    def take(message: Envelope) -> None:
        with orders.open() as queue:
            taken.extend(each.body for each in queue.receive(1))
        if len(taken) == 1:
            raise ValueError("the first attempt fails")

    done = consume(take, AT_ONCE, transaction_mode="receive_only", max_handlers=1)
    assert (taken, done.handled, bodies(orders)) == ([b"1", b"1"], 1, [])


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_outlives_its_message_is_part_of_no_other(
    orders: Queue, billing: Queue, consume: Consume, mode: str
) -> None:
    """As a task of asyncio that nobody waits for: it has the context of its message."""
    orders.send(numbered(2))
    contexts: list[Context] = []

    def bill(message: Envelope) -> None:
        if message.body == b"0":
            contexts.append(copy_context())
            return
        contexts.pop().run(billing.send, [Message(body=b"late")])
        raise LookupError

    done = consume(bill, RecoverabilityOptions(immediate_retries=0, delayed_retries=0), transaction_mode=mode)
    assert (done.handled, done.failed, bodies(billing)) == (1, 1, [b"late"])


def test_sent_messages_are_invisible_until_the_message_is_handled(
    client: QueueClient, orders: Queue, billing: Queue, consume: Consume
) -> None:
    orders.send(numbered(1))
    found: dict[str, list[bytes]] = {}

    def look(name: str) -> None:
        found[name] = bodies(billing)

    def bill(message: Envelope) -> None:
        billing.send([Message(body=message.body)])
        # A thread of its own takes no part in the transaction.
        other = threading.Thread(target=look, args=("meanwhile",))
        other.start()
        other.join()

    consume(bill)
    assert found == {"meanwhile": []}
    assert bodies(billing) == [b"0"]


def test_statements_and_batches_of_sends_are_part_of_it(
    client: QueueClient, orders: Queue, billing: Queue, consume: Consume
) -> None:
    schema = client.resolver.default_schema
    client.run_sql(f"CREATE TABLE [{schema}].[Archive] ([Body] varbinary(max) NOT NULL)")
    orders.send(numbered(2))

    def archive(message: Envelope) -> None:
        client.run_sql(f"INSERT INTO [{schema}].[Archive] ([Body]) VALUES (CONVERT(varbinary(max), ?))", message.body)
        billing.send(numbered(3))
        if message.body == b"1":
            raise ValueError

    done = consume(archive)
    assert [bytes(body) for (body,) in client.run_sql(f"SELECT [Body] FROM [{schema}].[Archive]")] == [b"0"]
    assert len(bodies(billing)) == 3
    assert (done.handled, done.failed) == (1, 1)


@pytest.mark.parametrize("mode", MODES)
def test_an_isolation_level_that_a_handler_sets_is_gone_with_its_message(
    client: QueueClient, orders: Queue, consume: Consume, mode: str
) -> None:
    orders.send(numbered(5))
    levels = {b"0": "READ UNCOMMITTED", b"1": "READ UNCOMMITTED"}

    def set_level(message: Envelope) -> None:
        client.run_sql(f"SET TRANSACTION ISOLATION LEVEL {levels.get(message.body, 'SERIALIZABLE')}")

    seen = Seen(set_level)
    done = consume(seen, transaction_mode=mode)
    assert (done.handled, done.failed, len(seen.bodies), bodies(orders)) == (5, 0, 5, [])


@pytest.mark.parametrize("mode", ["sends_atomic_with_receive", "receive_only"])
def test_a_transaction_that_a_handler_leaves_open_fails_its_message_alone(
    client: QueueClient, orders: Queue, consume: Consume, mode: str
) -> None:
    orders.send(numbered(3))

    def leave_open(message: Envelope) -> None:
        if message.body == b"1":
            client.run_sql("BEGIN TRANSACTION")

    done = consume(leave_open, transaction_mode=mode)
    assert (done.handled, done.failed, bodies(orders)) == (2, 1, [])
    assert bodies(client.queue("error")) == [b"1"]


def test_a_handler_replies(client: QueueClient, orders: Queue, billing: Queue, consume: Consume) -> None:
    address = client.resolve("billing").canonical
    asked = {HeaderNames.MESSAGE_ID: "question", HeaderNames.REPLY_TO_ADDRESS: address}
    orders.send([Message(asked, b"?")])

    def answer(message: Envelope) -> None:
        to, message_back = reply(message, {"answer": 42}, endpoint="orders")
        client.queue(to).send([message_back])

    assert consume(answer).handled == 1
    (received,) = billing.receive()
    assert received.body == b'{"answer":42}'
    assert headers(received)[HeaderNames.CORRELATION_ID] == "question"


def test_an_expired_message_is_dropped(orders: Queue, consume: Consume) -> None:
    orders.send([Message(body=b"late", time_to_be_received=timedelta(seconds=-5)), *numbered(1)])
    seen = Seen()
    assert consume(seen).messages == 1
    assert seen.bodies == [b"0"]


def test_a_consumer_without_an_error_queue_receives_nothing(client: QueueClient, orders: Queue) -> None:
    orders.send(numbered(1))
    for name, error in (("missing", QueueNotFoundError), ("orders", ConfigurationError)):
        with pytest.raises(error):
            orders.consume(print, options(RecoverabilityOptions(error_queue=name)))
    with pytest.raises(QueueNotFoundError):
        client.queue("missing").consume(print, options())
    assert bodies(orders) == [b"0"]


async def asynchronous(message: Envelope) -> None:
    raise AssertionError("nobody awaits it")


def generator(message: Envelope) -> Any:
    yield message


@pytest.mark.parametrize("mode", MODES)
def test_a_function_that_would_not_run_loses_nothing(orders: Queue, consume: Consume, mode: str) -> None:
    orders.send(numbered(1))
    for handle in (asynchronous, generator, lambda message: generator(message)):
        with pytest.raises(ConfigurationError, match="asynchronous or a generator"):
            consume(handle, transaction_mode=mode)
        assert bodies(orders) == [b"0"]


@pytest.mark.parametrize("mode", MODES)
def test_an_exception_that_is_meant_for_the_process_ends_consuming(orders: Queue, consume: Consume, mode: str) -> None:
    orders.send(numbered(2))

    def leave(message: Envelope) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        consume(leave, transaction_mode=mode)
    assert sorted(bodies(orders)) == [b"0", b"1"]


@pytest.mark.parametrize("ends", ["stop", "max_seconds", "put back", "lost"])
def test_a_message_that_is_in_no_queue_is_finished_after_the_end(
    client: QueueClient,
    connect: Connect,
    resolver: AddressResolver,
    orders: Queue,
    error: Queue,
    ends: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The error queue is locked until the end, by a stop or a limit, or for longer than a stop waits for it."""
    orders.send(numbered(2))
    stop, now = threading.Event(), [0.0]
    impatient = QueueClient(client.settings, resolver, lock_timeout=0.1)
    is_released = ends in ("stop", "max_seconds")
    if not is_released:
        monkeypatch.setattr(handler_pool, "MAX_SECONDS", 0.0)
    with connect() as other:
        other.begin()

        def lock_and_fail(message: Envelope) -> None:
            for queue in [error, *([orders] if ends == "lost" else [])]:
                run_sql(other, f"SELECT COUNT(*) FROM {queue.address.qualified_name} WITH (TABLOCKX, HOLDLOCK)")
            raise ValueError

        def on_contact(reached: bool) -> None:
            if not reached:
                now.append(2.0) if ends == "max_seconds" else stop.set()
                if is_released:
                    other.roll_back()

        settings = options(transaction_mode="none", max_seconds=1)
        names = impatient.session, resolver, "orders", lock_and_fail, settings
        done = Consumer(*names, stop=stop, on_contact=on_contact, clock=lambda: now[-1]).run()
    failed, left = {"lost": (0, 1), "put back": (0, 2)}.get(ends, (1, 1))
    assert (done.failed, done.messages, len(bodies(error)), len(bodies(orders))) == (failed, failed, failed, left)
    assert ("a message that is in no queue is lost" in caplog.text) is (ends == "lost")


def test_a_failed_message_comes_back_whose_error_queue_is_locked_for_too_long(
    client: QueueClient, connect: Connect, resolver: AddressResolver, orders: Queue, error: Queue, monkeypatch: Any
) -> None:
    monkeypatch.setattr(reconnecting, "MAX_FAILURES", 0)
    orders.send(numbered(2))
    impatient = QueueClient(client.settings, resolver, lock_timeout=0.1)
    with connect() as other, other.transaction():

        def lock_and_fail(message: Envelope) -> None:
            run_sql(other, f"SELECT COUNT(*) FROM {error.address.qualified_name} WITH (TABLOCKX, HOLDLOCK)")
            raise ValueError

        with pytest.raises(LockTimeoutError):
            impatient.queue("orders").consume(lock_and_fail, options(transaction_mode="none"))
    assert (bodies(error), sorted(bodies(orders))) == ([], [b"0", b"1"])
