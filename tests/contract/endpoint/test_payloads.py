"""Payloads of the data bus in handlers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.endpoint.databus.data_bus import DataBus
from airflow_sqlqueue.endpoint.recoverability import RecoverabilityOptions
from airflow_sqlqueue.errors import DataBusUnreachableError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import Message
from tests.contract.endpoint.conftest import AT_ONCE, Consume
from tests.payloads import KEY, SECRET, as_json, names, new_key, put


@pytest.fixture
def share(tmp_path: Path) -> Path:
    put(tmp_path / "share", "other\\payload", b"1")
    return tmp_path / "share"


def test_a_handler_fetches_the_payload_that_it_asks_for(orders: Queue, consume: Consume, share: Path) -> None:
    key = put(share, new_key(), as_json(b"\x00\xff"))
    orders.send([Message(names(Picture=key, Gone=KEY), b"{}")])
    seen: list[bytes] = []
    done = consume(lambda message: seen.append(message.payload("Picture").data()), data_bus=DataBus(share))
    assert (done.handled, seen) == (1, [b"\x00\xff"])


@pytest.mark.parametrize(
    ("key", "size", "says"),
    [
        (KEY, None, "The payload of 'Picture' is gone: its sender gave it a time to live until 2020-01-31 08:00 UTC."),
        ("..\\private", None, "The payload of 'Picture' has a key that was not used: "),
        (KEY, 1001, "The payload of 'Picture' has 1001 bytes or more, and the limit is 1000: "),
    ],
)
def test_a_payload_that_no_retry_brings_back_fails_its_message_at_once(
    orders: Queue,
    error: Queue,
    consume: Consume,
    share: Path,
    caplog: pytest.LogCaptureFixture,
    key: str,
    size: int | None,
    says: str,
) -> None:
    if size is not None:
        put(share, key, b"x" * size)
    orders.send([Message(names(Picture=key), b"{}"), Message({}, b"next")])
    seen: list[bytes] = []

    def handle(message: Envelope) -> None:
        seen.append(message.body)
        list(message.payloads())

    with caplog.at_level(logging.DEBUG, "airflow_sqlqueue"):
        done = consume(handle, AT_ONCE, data_bus=DataBus(share), payload_bytes=1000)
    assert (done.failed, done.handled, done.rolled_back) == (1, 1, 1)
    assert seen == [b"{}", b"next"]
    (failed,) = error.peek()
    failure = Envelope.of(failed).failure
    assert str(failure.exception_message).startswith(says)
    assert Envelope.of(failed).large_body.properties == {"Shop.Order.Picture": key}
    assert KEY.rpartition("\\")[2] not in caplog.text


def test_a_data_bus_that_comes_back_is_tried_again(orders: Queue, consume: Consume, tmp_path: Path) -> None:
    orders.send([Message(names(Picture=KEY), b"{}")])
    share, seen = tmp_path / "share", []

    def handle(message: Envelope) -> None:
        try:
            seen.append(message.payload().content)
        except DataBusUnreachableError:
            seen.append(b"away")
            put(share, KEY, SECRET.encode())
            raise

    done = consume(handle, AT_ONCE, data_bus=DataBus(share))
    assert (done.handled, done.rolled_back, seen) == (1, 1, [b"away", SECRET.encode()])


def test_without_a_data_bus_messages_with_payloads_are_handled(orders: Queue, consume: Consume) -> None:
    orders.send([Message(names(Picture=KEY), b"{}")])
    seen: list[Any] = []
    consume(lambda message: seen.append(dict(message.large_body.properties)), RecoverabilityOptions())
    assert seen == [{"Shop.Order.Picture": KEY}]
