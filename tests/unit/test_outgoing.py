from __future__ import annotations

import json
import re
import socket
import traceback
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.messages.address import QueueAddress
from airflow_sqlqueue.messages.envelope.causation import outgoing
from airflow_sqlqueue.messages.envelope.outgoing import Sender, row_id
from airflow_sqlqueue.messages.envelope.times import parse_time
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import ResolvedAddress

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


def test_sent_messages_have_the_time_of_the_call() -> None:
    """One time for all messages of a call. A message's own header, also a null, and headers as text stay."""
    own = {HeaderNames.TIME_SENT: "2026-01-01 12:00:00:000000 Z"}
    messages = [Message(), Message({"n": "1"}), Message(own), Message({HeaderNames.TIME_SENT: None}), Message("{}")]
    before = datetime.now(timezone.utc)
    with outgoing(messages, "orders") as linked:
        first, second, third, fourth, fifth = linked
    sent = first.header(HeaderNames.TIME_SENT)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{6} Z", str(sent))
    assert before <= parse_time(sent) <= datetime.now(timezone.utc)  # type: ignore[operator]
    assert second.headers == {"n": "1", HeaderNames.TIME_SENT: sent}
    assert (third.headers, fourth.headers, fifth.headers) == (own, {HeaderNames.TIME_SENT: None}, "{}")


def test_ids_are_the_same_when_the_sending_is_repeated_and_only_then() -> None:
    first, again = send({}, {}), send({}, {})
    ids = [message.header(HeaderNames.MESSAGE_ID) for message in first]
    assert ids == [message.header(HeaderNames.MESSAGE_ID) for message in again]
    other = send({}, sender=Sender("dag\0run\0task\x000", "airflow.dag"))
    assert len({*ids, other[0].header(HeaderNames.MESSAGE_ID)}) == 3


def test_ids_of_keys_stay_whatever_else_is_sent() -> None:
    def ids(*keys: Any, sender: Sender = SENDER) -> dict[Any, str | None]:
        messages = send(*[{"key": key} for key in keys], sender=sender)
        return {key: message.header(HeaderNames.MESSAGE_ID) for key, message in zip(keys, messages, strict=True)}

    first = ids("a", "b", 3, None)
    assert {key: value for key, value in first.items() if key is not None} == ids(3, "b", "a")
    assert len({*first.values(), *ids("a", sender=Sender("other", "e")).values(), *ids("0", "1", "2").values()}) == 8


def test_a_key_given_twice_is_an_error_that_names_the_second() -> None:
    with pytest.raises(MessageError, match="Message 2 cannot be sent: its key '7'"):
        send({"key": 7}, {}, {"key": "7"})
    assert [message.header(HeaderNames.MESSAGE_ID) for message in send({"key": 7})] == [
        message.header(HeaderNames.MESSAGE_ID) for message in send({"key": 7})
    ]


def test_the_rows_id_is_the_message_id_or_follows_from_it() -> None:
    plain, own, foreign, again = send(
        {},
        *[{"headers": {HeaderNames.MESSAGE_ID: name}} for name in (f"{{{uuid.UUID(int=7)}}}", "host\\42", "host\\42")],
    )
    assert str(plain.id) == plain.header(HeaderNames.MESSAGE_ID)
    assert own.id == uuid.UUID(int=7)
    assert foreign.header(HeaderNames.MESSAGE_ID) == "host\\42"
    assert foreign.id == again.id != own.id


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_message_id_has_a_row_id(message_id: str) -> None:
    assert row_id(message_id) == row_id(message_id)


def test_short_names_of_headers() -> None:
    (message,) = send(
        {
            "message_type": "Shop.Placed, Shop",
            "content_type": "text/xml",
            "intent": "Publish",
            "correlation_id": "c",
            "conversation_id": "v",
            "related_to": "r",
            "reply_to": "Sales@[dbo]@[nsb]",
        }
    )
    assert {name: message.header(name) for name in SHORT_NAMES} == {
        HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.Placed, Shop",
        HeaderNames.CONTENT_TYPE: "text/xml",
        HeaderNames.MESSAGE_INTENT: "Publish",
        HeaderNames.CORRELATION_ID: "c",
        HeaderNames.CONVERSATION_ID: "v",
        HeaderNames.RELATED_TO: "r",
        HeaderNames.REPLY_TO_ADDRESS: "Sales@[dbo]@[nsb]",
    }


SHORT_NAMES = (
    HeaderNames.ENCLOSED_MESSAGE_TYPES,
    HeaderNames.CONTENT_TYPE,
    HeaderNames.MESSAGE_INTENT,
    HeaderNames.CORRELATION_ID,
    HeaderNames.CONVERSATION_ID,
    HeaderNames.RELATED_TO,
    HeaderNames.REPLY_TO_ADDRESS,
)


@pytest.mark.parametrize("address", [QueueAddress("a", "b", "c"), ResolvedAddress("a", "b", "c"), "a@[b]@[c]"])
def test_a_reply_address_may_be_an_address(address: Any) -> None:
    assert send({"reply_to": address})[0].header(HeaderNames.REPLY_TO_ADDRESS) == "a@[b]@[c]"


def test_written_headers_win() -> None:
    own = {HeaderNames.MESSAGE_ID: "mine", HeaderNames.MESSAGE_INTENT: "Publish", "X": None}
    (message,) = send({"headers": own, "intent": "Reply", "key": "k"})
    assert message.header(HeaderNames.MESSAGE_ID) == message.header(HeaderNames.CORRELATION_ID) == "mine"
    assert message.header(HeaderNames.MESSAGE_INTENT) == "Publish"
    assert isinstance(message.headers, dict)
    assert message.headers["X"] is None


def test_a_time_in_a_header_is_written_as_the_transport_does() -> None:
    moment = datetime(2026, 1, 31, 10, 5, 9, 12345, tzinfo=timezone(timedelta(hours=2)))
    assert send({"headers": {"Due": moment}})[0].header("Due") == "2026-01-31 08:05:09:012345 Z"
    with pytest.raises(MessageError, match=r"Message 0 cannot be sent: its header 'Due' .*time zone"):
        send({"headers": {"Due": moment.replace(tzinfo=None)}})


@pytest.mark.parametrize(
    ("body", "sent"), [("<a/>", b"<a/>"), (b"\xff", b"\xff"), (None, b""), ([1], b"[1]"), (0, b"0"), ("", b"")]
)
def test_bodies(body: Any, sent: bytes) -> None:
    assert send({"body": body})[0].body == sent


class Unread:
    """A body that fails the test when it is read too early."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.ready = False

    def read_bytes(self) -> bytes:
        assert self.ready
        return self.body


def test_a_body_in_a_file_is_read_when_its_message_is_sent(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"\x00\xff")
    late = Unread(b"late")
    sending = SENDER.messages([{"body": tmp_path / "body"}, {"body": late}])
    assert next(sending).body == b"\x00\xff"
    late.ready = True
    assert next(sending).body == b"late"
    with pytest.raises(FileNotFoundError):
        send({"body": tmp_path / "missing"})


@pytest.mark.parametrize("name", ["time_to_be_received", "expires"])
@pytest.mark.parametrize("value", [90, 90.0, timedelta(seconds=90)])
def test_a_time_to_be_received_is_a_row_value_and_a_header(name: str, value: Any) -> None:
    (message,) = send({name: value})
    assert message.time_to_be_received == timedelta(seconds=90)
    assert message.header(HeaderNames.TIME_TO_BE_RECEIVED) == "00:01:30"
    assert send({})[0].header(HeaderNames.TIME_TO_BE_RECEIVED) is None


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("text", "not a mapping of body"),
        ({"boddy": "x"}, "not a mapping of body"),
        ({"headers": "x"}, "headers are not a mapping"),
        ({"time_to_be_received": "1h"}, "neither a number of seconds"),
        ({"time_to_be_received": 0}, "not above zero"),
        ({"time_to_be_received": float("nan")}, "neither a number of seconds"),
        ({"time_to_be_received": timedelta(seconds=-1)}, "not above zero"),
        ({"time_to_be_received": timedelta.max}, "longer than .NET"),
        ({"time_to_be_received": 1, "expires": 1}, "both time_to_be_received and expires"),
        ({"body": {1}}, "neither bytes nor text"),
        ({"body": {"price": float("nan")}}, "neither bytes nor text"),
        ({"body": [float("-inf")]}, "neither bytes nor text"),
        ({"headers": {"a": 1}}, "must be text"),
        ({"headers": {1: "a"}}, "must be text"),
        ({"headers": {"a": "\ud800"}}, "half a surrogate pair"),
        ({"headers": {HeaderNames.MESSAGE_ID: "\ud800"}}, "half a surrogate pair"),
        ({"key": ""}, "key is neither"),
        ({"key": True}, "key is neither"),
        ({"key": 1.5}, "key is neither"),
        ({"key": "\ud800"}, "key holds half"),
        ({"intent": "send"}, "intent is 'send'"),
        ({"correlation_id": uuid.UUID(int=1)}, "correlation_id is not text"),
        ({"message_type": " "}, "message_type is not text"),
        ({"reply_to": "@[dbo]"}, "reply address"),
    ],
)
def test_a_message_that_cannot_be_sent_is_named_by_its_position(written: Any, reason: str) -> None:
    with pytest.raises(MessageError, match=f"Message 1 cannot be sent: .*{reason}"):
        send({}, written)


@pytest.mark.parametrize("body", [{"secret": {1}}, "secret \ud800"])
def test_no_error_quotes_a_body(body: Any) -> None:
    with pytest.raises(MessageError, match="neither bytes nor text nor JSON") as raised:
        send({"body": body})
    assert "secret" not in "".join(traceback.format_exception(raised.value)).partition("send({")[0]
    assert "secret" not in str(raised.value)


def test_messages_are_made_one_by_one() -> None:
    def written() -> Any:
        yield {"body": 1}
        raise AssertionError("read too far")

    assert json.loads(next(iter(SENDER.messages(written()))).body) == 1
