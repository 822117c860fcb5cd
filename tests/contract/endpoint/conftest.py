"""An endpoint in Python with its tables, in a schema of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.endpoint.options import ConsumeOptions, ConsumeResult
from airflow_sqlqueue.endpoint.recoverability import RecoverabilityOptions
from airflow_sqlqueue.messages.message import HeaderNames, Message, ReceivedMessage, decode_headers
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue.tables.create import definitions_for
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.conftest import make_tables

ONCE = RecoverabilityOptions(immediate_retries=0, delayed_retries=0)
"""Every failure goes to the error queue."""

AT_ONCE = RecoverabilityOptions(immediate_retries=2, delayed_retries=0)


def options(recoverability: RecoverabilityOptions = ONCE, **settings: Any) -> ConsumeOptions:
    """Options with one handler by default, so that messages come in the order of the queue."""
    return ConsumeOptions(**{"max_handlers": 1, **vars(recoverability), **settings})


def numbered(count: int) -> list[Message]:
    return [Message({HeaderNames.MESSAGE_ID: f"id-{n}"}, b"%d" % n) for n in range(count)]


def headers(message: ReceivedMessage) -> dict[str, str | None]:
    """Return the headers without the time of the send."""
    values = decode_headers(message.headers).values
    return {name: value for name, value in values.items() if name != HeaderNames.TIME_SENT}


class Seen:
    """Handler that records its messages and then calls ``does``."""

    def __init__(self, does: Callable[[Any], Any] = lambda message: None) -> None:
        self.bodies: list[bytes] = []
        self._does = does

    def __call__(self, message: Any) -> None:
        self.bodies.append(message.body)
        self._does(message)


def failing(fails: Callable[[int], bool]) -> Seen:
    """Handler whose attempts of these numbers fail, from 1 on."""

    def work(message: Any) -> None:
        if fails(len(seen.bodies)):
            raise ValueError("the database is down")

    seen = Seen(work)
    return seen


@pytest.fixture
def client(settings: ConnectionSettings, session: Session, resolver: AddressResolver) -> QueueClient:
    """Of the test's own schema, with the queues ``orders``, which has delayed messages, ``billing`` and ``error``."""
    for name in ("orders", "billing", "error"):
        make_tables(session, *definitions_for(resolver, name, delayed=name == "orders"))
    return QueueClient(settings, resolver, lock_timeout=10)


@pytest.fixture
def orders(client: QueueClient) -> Queue:
    return client.queue("orders")


@pytest.fixture
def billing(client: QueueClient) -> Queue:
    return client.queue("billing")


@pytest.fixture
def error(client: QueueClient) -> Queue:
    return client.queue("error")


Consume = Callable[..., ConsumeResult]


@pytest.fixture
def consume(orders: Queue) -> Consume:
    """Consumes the orders with one handler."""

    def run(handle: Any, recoverability: RecoverabilityOptions = ONCE, **settings: Any) -> ConsumeResult:
        return orders.consume(handle, options(recoverability, **settings))

    return run
