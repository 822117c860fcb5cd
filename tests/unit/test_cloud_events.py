"""CloudEvents in messages: what an endpoint of NServiceBus 10.1 makes of them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pytest

from airflow_sqlqueue.bodies.arrow_parser import BodyParser
from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.schemas import struct
from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.errors import BodyError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.envelope.cloud_events import MAX_BYTES, STRUCTURED
from airflow_sqlqueue.messages.message import HeaderNames, Message

KIND = "application/cloudevents+json"
EVENT = {"specversion": "1.0", "id": "e-1", "source": "/shop", "type": "Shop.OrderPlaced"}
EVENT |= {"time": "2026-01-31T08:00:00+01:00"}
BYTES = {"data_base64": base64.b64encode(b"\x00\xff").decode(), "datacontenttype": "image/png"}


def structured(body: Any, content_type: str = KIND) -> Envelope:
    text = body if isinstance(body, (str, bytes)) else json.dumps(body)
    content = text if isinstance(text, bytes) else text.encode()
    return Envelope.of(Message({HeaderNames.CONTENT_TYPE: content_type, "own": "kept"}, content))


@pytest.mark.parametrize("content_type", [KIND, f"{KIND}; charset=utf-8", "Application/CloudEvents+JSON"])
def test_a_structured_event(content_type: str) -> None:
    message = structured(json.dumps(EVENT)[:-1] + ', "data": {"Price": 1.10, "N": 12345678901234567890}}', content_type)
    event = message.unwrapped
    assert (event.identity.message_id, event.content.message_type) == ("e-1", "Shop.OrderPlaced")
    assert event.content.content_type == "application/json"
    assert event.headers[HeaderNames.REPLY_TO_ADDRESS] == "/shop"
    assert event.headers[HeaderNames.TIME_SENT] == "2026-01-31 07:00:00:000000 Z"
    assert (event.headers["own"], event.headers["specversion"]) == ("kept", "1.0")
    assert event.body == b'{"Price": 1.10, "N": 12345678901234567890}', "with the digits as they are written"
    assert message.content.message_type is None
    assert event.unwrapped is event


@pytest.mark.parametrize(
    ("members", "body", "content_type"),
    [
        (BYTES, b"\x00\xff", "image/png"),
        ({"data": "<A/>", "datacontenttype": "text/xml"}, b"<A/>", "text/xml"),
        ({"data": [1], "datacontenttype": "application/vnd.shop+json"}, b"[1]", "application/vnd.shop+json"),
        ({"data": "text"}, b'"text"', "application/json"),
        ({"Data": None, "extra": {"a": 1}}, b"null", "application/json"),
    ],
)
def test_the_data_of_a_structured_event(members: dict[str, Any], body: bytes, content_type: str) -> None:
    event = structured({**EVENT, **members}).unwrapped
    assert (event.body, event.content.content_type) == (body, content_type)
    assert event.headers.get("extra") == ('{"a": 1}' if "extra" in members else None)


@pytest.mark.parametrize("prefix", ["ce-", "CE-", "cloudEvents:"])
def test_an_event_in_headers(prefix: str) -> None:
    headers = {f"{prefix}{name}": str(value) for name, value in EVENT.items()}
    event = Envelope.of(Message({**headers, HeaderNames.CONTENT_TYPE: "application/json"}, b"{}")).unwrapped
    assert (event.identity.message_id, event.content.message_type, event.body) == ("e-1", "Shop.OrderPlaced", b"{}")
    del headers[f"{prefix}source"]
    plain = Envelope.of(Message(headers, b"{}"))
    assert plain.unwrapped is plain


@pytest.mark.parametrize(
    "body",
    [
        {**EVENT},
        {name: value for name, value in EVENT.items() if name != "source"} | {"data": 1},
        {**EVENT, "data_base64": "no base 64!"},
        {**EVENT, "data": 5, "datacontenttype": "text/plain"},
        [EVENT],
        "",
        "{",
        '{"id": 1',
        '{"id": 1} more',
        "{5: 1}",
        '{"a" 1}',
        '{"a": 1;',
        '{"a": ' + "[" * 100_000,
        b"\xff\xfe\x00",
        json.dumps({**EVENT, "data": 1}).ljust(8 * 1024 * 1024 + 1).encode(),
    ],
    ids=lambda body: str(body)[:30],
)
def test_other_messages_are_no_events(body: Any) -> None:
    message = structured(body)
    assert message.unwrapped is message


def test_a_handler_is_found_by_the_type_of_the_event() -> None:
    handlers = MessageHandlers()
    handlers.handles("Shop.OrderPlaced")(lambda message: message.unwrapped.json())
    assert handlers(structured({**EVENT, "data": {"Number": 7}})) == {"Number": 7}


def test_the_fields_of_an_event_are_those_of_its_data() -> None:
    events = [
        json.dumps({**EVENT, "data": {"N": 1}}),
        json.dumps({**EVENT, "data": "<A><N>2</N></A>", "datacontenttype": "text/xml"}),
        json.dumps(EVENT),
        "{",
        '{"N": 5}',
    ]
    kinds = [KIND] * 4 + ["application/json"]
    parsed = BodyParser(struct({"N": "long"})).parse(
        pa.array([text.encode() for text in events], pa.binary()), pa.array(kinds, pa.string())
    )
    assert [row["fields"] and row["fields"]["N"] for row in parsed.to_pylist()] == [1, 2, None, None, 5]
    assert [row["unparsed"] for row in parsed.to_pylist()] == [None, None, "empty", "json", None]
    assert {row["rescued"] for row in parsed.to_pylist()} == {None}


def test_an_event_is_parsed_up_to_the_size_that_is_given() -> None:
    body = json.dumps({**EVENT, "data": {"x": "y" * MAX_BYTES}}).encode()
    assert len(parse(body, STRUCTURED, max_bytes=2 * MAX_BYTES)["x"]) == MAX_BYTES
    with pytest.raises(BodyError) as refused:
        parse(body, STRUCTURED)
    assert refused.value.reason == "size"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ('<?xml version="1.0" encoding="iso-8859-1"?><m><x>\u00e9</x></m>', "text/xml"),
        ("<m><x>\u00e9</x></m>", "text/xml; charset=iso-8859-1"),
        ("<m><x>\u00e9</x></m>", "text/xml; charset=utf-16"),
        ({"x": "\u00e9"}, "application/json; charset=windows-1252"),
    ],
)
def test_data_that_is_text_has_no_other_encoding_than_its_event(data: object, kind: str) -> None:
    body = json.dumps({**EVENT, "data": data, "datacontenttype": kind}, ensure_ascii=False).encode()
    found = parse(body, STRUCTURED)
    assert (found if isinstance(found, dict) else {name: each.text for name, each in found.children}) == {"x": "\u00e9"}
