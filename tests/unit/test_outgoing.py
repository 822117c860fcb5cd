from __future__ import annotations

import json
import socket
import traceback
from datetime import timedelta
from typing import Any

import pytest

from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.message import HeaderNames, Message, parse_time
from airflow_sqlqueue.outgoing import Sender

SENDER = Sender("dag\0run\0task\0-1", "airflow.dag", enclosed_message_types="Shop.PlaceOrder, Shop")


def send(*written: Any, sender: Sender = SENDER) -> list[Message]:
    return list(sender.messages(written))


def test_the_headers_an_endpoint_needs_are_filled_in() -> None:
    (message,) = send({"body": {"OrderId": "é"}})
    headers = dict(message.headers)  # type: ignore[arg-type]
    assert parse_time(headers.pop(HeaderNames.TIME_SENT)) is not None
    message_id = headers.pop(HeaderNames.MESSAGE_ID)
    assert message_id
    assert headers.pop(HeaderNames.CORRELATION_ID) == message_id
    assert headers.pop(HeaderNames.CONVERSATION_ID) != message_id
    assert headers == {
        HeaderNames.MESSAGE_INTENT: "Send",
        HeaderNames.CONTENT_TYPE: "application/json",
        HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder, Shop",
        HeaderNames.ORIGINATING_ENDPOINT: "airflow.dag",
        HeaderNames.ORIGINATING_MACHINE: socket.gethostname(),
    }
    assert message.body == '{"OrderId":"é"}'.encode()


def test_ids_are_the_same_when_the_sending_is_repeated_and_only_then() -> None:
    first, again = send({}, {}), send({}, {})
    ids = [message.header(HeaderNames.MESSAGE_ID) for message in first]
    assert ids == [message.header(HeaderNames.MESSAGE_ID) for message in again]
    other = send({}, sender=Sender("dag\0run\0task\x000", "airflow.dag"))
    assert len({*ids, other[0].header(HeaderNames.MESSAGE_ID)}) == 3


def test_written_headers_win() -> None:
    (message,) = send({"headers": {HeaderNames.MESSAGE_ID: "mine", HeaderNames.MESSAGE_INTENT: "Publish", "X": None}})
    assert message.header(HeaderNames.MESSAGE_ID) == message.header(HeaderNames.CORRELATION_ID) == "mine"
    assert message.header(HeaderNames.MESSAGE_INTENT) == "Publish"
    assert isinstance(message.headers, dict)
    assert message.headers["X"] is None


@pytest.mark.parametrize(
    ("body", "sent"), [("<a/>", b"<a/>"), (b"\xff", b"\xff"), (None, b""), ([1], b"[1]"), (0, b"0"), ("", b"")]
)
def test_bodies(body: Any, sent: bytes) -> None:
    assert send({"body": body})[0].body == sent


def test_a_time_to_be_received_is_a_row_value_and_a_header() -> None:
    (message,) = send({"time_to_be_received": 90})
    assert message.time_to_be_received == timedelta(seconds=90)
    assert message.header(HeaderNames.TIME_TO_BE_RECEIVED) == "00:01:30"
    assert send({})[0].header(HeaderNames.TIME_TO_BE_RECEIVED) is None


@pytest.mark.parametrize(
    "written",
    [
        "text",
        {"boddy": "x"},
        {"headers": "x"},
        {"time_to_be_received": "1h"},
        {"time_to_be_received": 0},
        {"body": {1}},
    ],
)
def test_what_cannot_be_sent_is_refused_by_its_position(written: Any) -> None:
    with pytest.raises(MessageError, match="Message 1 cannot be sent"):
        send({}, written)


@pytest.mark.parametrize("body", [{"secret": {1}}, "secret \ud800"])
def test_no_error_quotes_a_body(body: Any) -> None:
    with pytest.raises(MessageError) as raised:
        send({"body": body})
    assert "secret" not in "".join(traceback.format_exception(raised.value)).partition("send({")[0]
    assert "secret" not in str(raised.value)


def test_messages_are_made_one_by_one() -> None:
    def written() -> Any:
        yield {"body": 1}
        raise AssertionError("read too far")

    assert json.loads(next(iter(SENDER.messages(written()))).body) == 1
