"""An error queue, and the way back from it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from airflow_sqlqueue.messages.message import HeaderNames, Message, ReceivedMessage, decode_headers
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.errors.actions import ACTIONS
from airflow_sqlqueue.queue.errors.archive import Archive
from airflow_sqlqueue.queue.errors.bulk_action import Clock, ErrorQueueOptions, ErrorQueueResult
from airflow_sqlqueue.queue.errors.effects import ErrorStore
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.traffic.shop import FAILURES, SALES

KEPT = {
    HeaderNames.MESSAGE_ID: "7e5ba2a3-0a5f-4a54-b3de-4d5a3c1f0a11",
    HeaderNames.CORRELATION_ID: "c-1",
    HeaderNames.CONVERSATION_ID: "v-1",
    HeaderNames.REPLY_TO_ADDRESS: "Storefront@[dbo]@[shop]",
    HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder, Shop",
    HeaderNames.ORIGINATING_MACHINE: "WEB-01",
    HeaderNames.PROCESSING_ENDPOINT: "Sales",
    HeaderNames.PROCESSING_MACHINE: "SALES-01",
    "Shop.Customer": "Åsa ☃ 😀",
    "Shop.Nothing": None,
}

HOUR = timedelta(hours=1)

Make = Callable[..., QueueTable]


def failed(failed_queue: str | None, body: bytes = b"\x00\xff", **changes: str | None) -> Message:
    """As an endpoint forwards it, with an expiry that an old version left."""
    failure = FAILURES[SALES][1].headers(SALES, "PlaceOrderHandler")
    headers = {
        **KEPT,
        **failure,
        HeaderNames.TIME_OF_FAILURE: "2026-03-05 14:30:00:000001 Z",
        "NServiceBus.Retries": "2",
        "NServiceBus.Retries.Timestamp": "2026-03-05 14:29:00:000001 Z",
        "NServiceBus.FLRetries": "4",
        **changes,
        HeaderNames.FAILED_Q: failed_queue,
    }
    return Message(headers, body, HOUR, uuid.uuid4())


@pytest.fixture
def make(session: Session, resolver: AddressResolver) -> Make:
    """Creates a queue."""

    def create(name: str, layout: str = "modern", **options: Any) -> QueueTable:
        create_queue(session, resolver.resolve(name), layout=layout, **options)
        return QueueTable(session, resolver.resolve(name))

    return create


@pytest.fixture
def error(make: Make) -> QueueTable:
    return make("error")


@pytest.fixture
def sales(make: Make) -> QueueTable:
    return make("Sales")


def returned(
    queue: QueueTable,
    resolver: AddressResolver,
    where: ErrorFilter | None = None,
    *,
    on_progress: Callable[[ErrorQueueResult], None] | None = None,
    clock: Clock | None = None,
    to_queue: str | None = None,
    malformed: bool = False,
    **options: Any,
) -> ErrorQueueResult:
    """Return messages, or redirect them: all of them unless a filter is given."""
    action = ACTIONS["return" if to_queue is None else "redirect"]
    store = ErrorStore(queue, Archive(queue.session, queue.address.catalog), resolver)
    given = action.inputs(to_queue=to_queue, malformed=malformed)
    chosen = ErrorQueueOptions(**options)
    return action.run(store, given, where or ErrorFilter(), chosen, on_progress=on_progress, clock=clock)


@pytest.fixture
def give_back(resolver: AddressResolver) -> Callable[..., ErrorQueueResult]:
    """Returns messages: all of them unless a filter is given."""
    return lambda queue, where=None, clock=None, **given: returned(queue, resolver, where, clock=clock, **given)


def headers_of(message: ReceivedMessage) -> dict[str, str | None]:
    decoded = decode_headers(message.headers)
    assert decoded.problem is None
    return decoded.values
