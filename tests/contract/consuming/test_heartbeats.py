"""Heartbeats of a consumer to ServiceControl."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.consuming.options import ConsumeOptions
from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.errors import ConfigurationError, QueueNotFoundError
from tests.contract.consuming.conftest import Consume, Seen, numbered
from tests.drains import bodies

BEATS = {"heartbeat_queue": "Particular.ServiceControl", "heartbeat_seconds": 0.1, "endpoint": "Shop.Orders"}


@pytest.fixture
def service_control(client: QueueClient) -> Queue:
    client.tables.create("Particular.ServiceControl")
    return client.queue("Particular.ServiceControl")


def wait_for(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_heartbeats_are_sent_while_a_handler_works(orders: Queue, service_control: Queue, consume: Consume) -> None:
    orders.send(numbered(1))
    assert consume(lambda message: wait_for(lambda: service_control.depth().total >= 3), **BEATS).handled == 1
    received = service_control.peek(100)
    kinds = [str(Envelope.of(message).content.message_type).rpartition(".")[2] for message in received]
    assert kinds == ["RegisterEndpointStartup", *["EndpointHeartbeat"] * (len(received) - 1)]
    names = [Envelope.of(message).json() for message in received]
    assert {each.get("Endpoint") or each.get("EndpointName") for each in names} == {"Shop.Orders"}
    # They are out of date soon, and the queue of a ServiceControl that is away must not grow.
    assert all(message.expires is not None for message in received)
    assert "heartbeats" not in {thread.name for thread in threading.enumerate()}


def test_heartbeats_outlive_an_error(
    client: QueueClient,
    orders: Queue,
    service_control: Queue,
    consume: Consume,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The queue is gone for a while; the warning comes once."""

    def without_the_queue(message: Envelope) -> None:
        other = threading.Thread(target=drop_and_create)
        other.start()
        other.join()

    def drop_and_create() -> None:
        client.tables.drop("Particular.ServiceControl", force=True)
        wait_for(lambda: "No heartbeats" in caplog.text)
        client.tables.create("Particular.ServiceControl")
        wait_for(lambda: service_control.depth().total)

    orders.send(numbered(1))
    with caplog.at_level(logging.WARNING):
        assert consume(without_the_queue, **BEATS).handled == 1
    assert caplog.text.count("No heartbeats") == 1


def test_a_queue_that_cannot_be_used_is_refused_at_the_start(orders: Queue, consume: Consume) -> None:
    orders.send(numbered(1))
    with pytest.raises(QueueNotFoundError, match=r"Particular\.ServiceControl"):
        consume(Seen(), **BEATS)
    with pytest.raises(ConfigurationError, match="its own heartbeat queue"):
        consume(Seen(), heartbeat_queue="orders")
    assert bodies(orders) == [b"0"]


@pytest.mark.parametrize("settings", [{"heartbeat_queue": " "}, {"heartbeat_seconds": 0.01}])
def test_options_that_cannot_be_used(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        ConsumeOptions(**settings)
