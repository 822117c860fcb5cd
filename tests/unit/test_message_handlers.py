"""Registry of functions by message type: registration, choice by the enclosed types, and bound values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.errors import ConfigurationError, NoHandlerError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import HeaderNames


def of_types(*names: str) -> Envelope:
    return Envelope({HeaderNames.ENCLOSED_MESSAGE_TYPES: ";".join(f"{name}, Shop, Version=1.0.0.0" for name in names)})


def test_a_message_goes_to_the_function_of_its_most_derived_type() -> None:
    handlers = MessageHandlers()
    handlers.handles("Shop.Event", "Shop.Command")(lambda message: "base")
    handlers.handles("Shop.OrderPlaced")(lambda message: "derived")
    assert handlers(of_types("Shop.OrderPlaced", "Shop.Event")) == "derived"
    assert handlers(of_types("Shop.OrderCancelled", "Shop.Event")) == "base"
    assert handlers(of_types("Shop.Command")) == "base"


def test_generic_types_are_compared_with_their_arguments() -> None:
    handlers = MessageHandlers()
    handlers.handles("Shop.Changed`1[[Shop.Order, Shop]]")(lambda message: "orders")
    handlers.default(lambda message: "others")
    assert handlers(of_types("Shop.Changed`1[[Shop.Order, Shop]]")) == "orders"
    assert handlers(of_types("Shop.Changed`1[[Shop.Customer, Shop]]")) == "others"


@pytest.mark.parametrize("message", [Envelope(), of_types("Shop.Unknown"), of_types("shop.orderplaced")])
def test_other_messages_go_to_the_default(message: Envelope) -> None:
    handlers = MessageHandlers()
    handlers.handles("Shop.OrderPlaced")(lambda message: "placed")
    with pytest.raises(NoHandlerError, match="No function handles"):
        handlers(message)
    handlers.default(lambda message: "default")
    assert handlers(message) == "default"


def test_messages_without_a_function_can_be_discarded() -> None:
    handlers = MessageHandlers(unhandled="discard")
    handlers.handles("Shop.OrderPlaced")(lambda message: "placed")
    assert handlers(of_types("Shop.Unknown")) is None


def test_a_batch_function_gets_a_list() -> None:
    handlers = MessageHandlers()
    assert handlers.max_batch == 1
    handlers.batch("Shop.OrderPlaced", max_messages=7)(lambda messages: len(messages))
    assert handlers(of_types("Shop.OrderPlaced")) == 1
    assert (handlers.max_batch, handlers.has_batches) == (7, True)
    handlers.batch()(lambda messages: "others")
    assert handlers(Envelope()) == "others"
    assert handlers.max_batch == 100


def test_functions_get_the_bound_values_that_they_have_parameters_for() -> None:
    handlers = MessageHandlers()

    @handlers.handles("Shop.OrderPlaced")
    def placed(message: Envelope, client: str) -> Any:
        return client

    @handlers.default
    def other(message: Envelope, *, client: str, day: str = "today") -> Any:
        return client, day

    bound = handlers.bind(client="c", day="monday", unused=1)
    assert bound(of_types("Shop.OrderPlaced")) == "c"
    assert bound(Envelope()) == ("c", "monday")
    assert bound.bind()(Envelope()) == ("c", "monday")
    assert placed(Envelope(), "mine") == "mine", "the decorator gives the function back"
    with pytest.raises(ConfigurationError, match="missing a required argument: 'client'"):
        handlers.bind(day="monday")


def test_a_registry_without_functions_cannot_handle() -> None:
    with pytest.raises(ConfigurationError, match="have no function"):
        MessageHandlers().bind()


async def asynchronous(message: Envelope) -> None: ...


def generator(message: Envelope) -> Iterator[int]:
    yield 1


async def asynchronous_generator(message: Envelope) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [asynchronous, generator, asynchronous_generator, "placed"])
def test_a_plain_function_is_required(function: Any) -> None:
    handlers = MessageHandlers()
    register: list[Callable[[Any], Any]] = [handlers.handles("Shop.OrderPlaced"), handlers.default, handlers.batch()]
    for decorator in register:
        with pytest.raises(ConfigurationError, match="give a function"):
            decorator(function)


@pytest.mark.parametrize("name", ["", " ", "Shop.OrderPlaced, Shop", " Shop.OrderPlaced", 7, b"Shop.OrderPlaced"])
def test_a_full_name_of_a_type_is_required(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no message type: give the full name"):
        MessageHandlers().handles(name)(print)


def test_a_type_has_one_function() -> None:
    handlers = MessageHandlers()
    handlers.handles("Shop.OrderPlaced")(print)
    with pytest.raises(ConfigurationError, match="OrderPlaced' has a handler already"):
        handlers.batch("Shop.OrderPlaced")(print)
    handlers.default(print)
    with pytest.raises(ConfigurationError, match="a default handler already"):
        handlers.batch()(print)
    with pytest.raises(ConfigurationError, match="names no message type"):
        handlers.handles()


@pytest.mark.parametrize(
    "limits", [{"max_messages": 0}, {"max_messages": 1_001}, {"max_seconds": -1}, {"max_seconds": 61}]
)
def test_limits_of_a_batch(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"{next(iter(limits))} must be"):
        MessageHandlers().batch(**limits)


def test_treatments_of_unhandled_messages() -> None:
    with pytest.raises(ConfigurationError, match="unhandled is 'skip'"):
        MessageHandlers(unhandled="skip")
