"""Consuming with functions by message type: their choice, and the treatment of types without a function."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.server.transactions import MODES
from tests.contract.endpoint.conftest import AT_ONCE, Consume
from tests.drains import bodies


def typed(*kinds: str | None) -> list[Message]:
    """Messages of these types, numbered."""
    types = [{HeaderNames.ENCLOSED_MESSAGE_TYPES: kind} if kind else {} for kind in kinds]
    return [Message({HeaderNames.MESSAGE_ID: f"id-{n}", **kind}, b"%d" % n) for n, kind in enumerate(types)]


@pytest.mark.parametrize("mode", MODES)
def test_each_type_goes_to_its_function(client: QueueClient, orders: Queue, consume: Consume, mode: str) -> None:
    handlers, seen = MessageHandlers(), []

    @handlers.handles("Shop.OrderPlaced")
    def placed(message: Envelope, client: Any) -> None:
        seen.append(("placed", message.body))
        client.queue("billing").send([Message({}, message.body)])

    @handlers.default
    def other(message: Envelope) -> None:
        seen.append(("other", message.body))

    orders.send(typed("Shop.OrderPlaced, Shop", "Shop.OrderShipped, Shop", None))
    done = consume(handlers.bind(client=client), transaction_mode=mode)
    assert seen == [("placed", b"0"), ("other", b"1"), ("other", b"2")]
    assert (done.handled, bodies(client.queue("billing"))) == (3, [b"0"])


@pytest.mark.parametrize("mode", MODES)
def test_a_type_without_a_function_fails_at_once(
    client: QueueClient, orders: Queue, error: Queue, consume: Consume, mode: str
) -> None:
    handlers = MessageHandlers()
    handlers.handles("Shop.OrderPlaced")(lambda message: None)
    orders.send(typed("Shop.OrderShipped, Shop", "Shop.OrderPlaced", None))
    done = consume(handlers, AT_ONCE, transaction_mode=mode)
    assert (done.handled, done.failed, done.rolled_back) == (1, 2, 0 if mode == "none" else 2)
    first, second = map(Envelope.of, error.receive(5))
    assert (first.failure.exception_type or "").endswith("NoHandlerError")
    assert "'Shop.OrderShipped'" in (first.headers[HeaderNames.EXCEPTION_MESSAGE] or "")
    assert "a message without a type" in (second.headers[HeaderNames.EXCEPTION_MESSAGE] or "")


@pytest.mark.parametrize("mode", MODES)
def test_types_without_a_function_can_be_discarded(orders: Queue, error: Queue, consume: Consume, mode: str) -> None:
    handlers = MessageHandlers(unhandled="discard")
    handlers.handles("Shop.OrderPlaced")(lambda message: None)
    orders.send(typed("Shop.OrderShipped, Shop", "Shop.OrderPlaced", None))
    done = consume(handlers, transaction_mode=mode, max_messages=3)
    assert (done.handled, done.discarded, done.failed, done.messages) == (1, 2, 0, 3)
    assert bodies(orders) == bodies(error) == []


@pytest.mark.parametrize("registered", [True, False])
def test_an_unbound_parameter_is_an_error_before_anything_is_received(
    orders: Queue, consume: Consume, registered: bool
) -> None:
    def handle(message: Envelope, client: QueueClient) -> None:
        raise AssertionError("it is not called")

    handlers = MessageHandlers()
    handlers.default(handle)
    orders.send(typed(None))
    with pytest.raises(ConfigurationError, match="missing a required argument: 'client'"):
        consume(handlers if registered else handle)
    assert len(bodies(orders)) == 1
