"""Payloads in the envelope: names, keys, formats; no I/O."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.errors import ConfigurationError, PayloadError
from airflow_sqlqueue.messages.envelope import Envelope, Payload
from airflow_sqlqueue.messages.envelope.payloads import payload_references
from airflow_sqlqueue.messages.message import HeaderNames, Message
from tests.payloads import KEY, as_json, names

PREFIX = HeaderNames.DATA_BUS_PREFIX


class Fetched:
    """Data bus that gives the key back, and notes what was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str | None, str | None]] = []

    def fetch(self, key: str | None, property_name: str | None = None) -> bytes:
        self.asked.append((key, property_name))
        return as_json(str(key).encode())


def test_a_property_of_a_convention_is_found_by_its_name() -> None:
    bus = Fetched()
    envelope = Envelope.of(names(Picture="k1", Contract="k2"), bus)
    assert bus.asked == []
    payload = envelope.payload("Contract")
    assert (payload.name, payload.data(), payload.content_type) == ("Contract", b"k2", "application/json")
    assert bus.asked == [("k2", "Contract")]
    assert envelope.payload("Shop.Order.Picture").data() == b"k1"


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"Id": 1, "Picture": {"Key": KEY, "HasValue": True}}).encode(),
        f'<?xml version="1.0"?><Order xmlns="x"><Picture><Key>{KEY}</Key></Picture></Order>'.encode(),
    ],
)
def test_a_property_that_the_body_names_is_found_by_its_name(body: bytes) -> None:
    """NServiceBus writes the key as the header's name for a ClaimCheckProperty."""
    bus = Fetched()
    envelope = Envelope.of(Message({PREFIX + KEY: KEY}, body), bus)
    assert envelope.payload("Picture").name == "Picture"
    assert envelope.payload(KEY).name == envelope.payload().name == "Picture"
    assert bus.asked == [(KEY, "Picture")] * 3


def test_a_property_that_the_body_names_may_stand_beside_one_of_a_convention() -> None:
    body = json.dumps({"Picture": {"Key": KEY, "HasValue": True}}).encode()
    envelope = Envelope.of(Message({PREFIX + KEY: KEY, PREFIX + "Shop.Order.Contract": "k2"}, body), Fetched())
    assert [payload.name for payload in envelope.payloads()] == ["Picture", "Contract"]


def test_a_payload_that_is_not_json_is_not_quoted() -> None:
    class Broken:
        def fetch(self, key: str | None, property_name: str | None = None) -> bytes:
            return b"{secret"

    payload = Envelope.of(names(Picture="k1"), Broken()).payload("Picture")
    with pytest.raises(
        PayloadError, match="'Picture' is not JSON, as its content type says: use its content"
    ) as caught:
        payload.value()
    assert caught.value.__cause__ is None
    assert payload.content == b"{secret"


def test_a_property_without_a_name_is_found_by_its_key() -> None:
    bus = Fetched()
    (payload,) = Envelope.of(Message({PREFIX + KEY: KEY}, b"\xff"), bus).payloads()
    assert payload.name == KEY
    assert bus.asked == [(KEY, None)]
    assert KEY not in repr(payload)


def test_properties_of_two_types_keep_their_types() -> None:
    headers = {PREFIX + "A.One.Picture": "k1", PREFIX + "B.Two.Picture": "k2", PREFIX + "B.Two.Text": "k3"}
    assert [each.name for each in payload_references(headers)] == ["A.One.Picture", "B.Two.Picture", "Text"]


def test_payloads_are_fetched_one_by_one() -> None:
    bus = Fetched()
    payloads = Envelope.of(names(Picture="k1", Contract="k2"), bus).payloads()
    assert next(payloads).data() == b"k1"
    assert bus.asked == [("k1", "Picture")]


@pytest.mark.parametrize(("headers", "name"), [(names(), None), (names(A="1", B="2"), None), (names(A="1"), "B")])
def test_a_payload_that_the_message_does_not_name_is_an_error(headers: dict[str, str | None], name: str | None) -> None:
    with pytest.raises(PayloadError, match="The message has"):
        Envelope.of(headers, Fetched()).payload(name)


def test_without_a_data_bus_the_error_says_where_to_give_one() -> None:
    with pytest.raises(ConfigurationError, match="give the consumer a data_bus"):
        Envelope.of(names(Picture="k")).payload()


BINARY = bytes.fromhex("0001000000ffffffff0100000000000000") + b"\x0f\x01"


@pytest.mark.parametrize(
    ("content_type", "content", "kind", "value"),
    [
        ("application/json", b'"text"', "json", "text"),
        ("Application/JSON; charset=utf-8", b'{"a": 1}', "json", {"a": 1}),
        ("application/vnd.shop+json", b"null", "json", None),
        ("application/bson", b"\x05", "unknown", b"\x05"),
        (None, BINARY, "binary-formatter", BINARY),
        ("application/octet-stream", BINARY, "binary-formatter", BINARY),
        (None, b"", "unknown", b""),
        ("json", b"1", "unknown", b"1"),
    ],
)
def test_the_content_type_gives_the_format(content_type: str | None, content: bytes, kind: str, value: object) -> None:
    payload = Payload("Picture", content, content_type)
    assert (payload.format, payload.value()) == (kind, value)


@given(st.binary())
def test_bytes_in_json_are_read_back(content: bytes) -> None:
    assert Payload("Picture", as_json(content), "application/json").data() == content
    assert Payload("Picture", content, "application/octet-stream").data() == content


@pytest.mark.parametrize("content", [b"1", b'"no base64!"', b"{}", b"not JSON", b"[" * 100_000, b"\xff"])
def test_other_json_is_not_taken_for_bytes(content: bytes) -> None:
    with pytest.raises(PayloadError, match="The payload of 'Picture' is") as caught:
        Payload("Picture", content, "application/json").data()
    assert caught.value.__cause__ is None


@given(st.dictionaries(st.text(), st.text() | st.none()), st.binary())
def test_names_of_any_message_are_read(more: dict[str, str | None], body: bytes) -> None:
    headers = {PREFIX + name: key for name, key in more.items()}
    bus = Fetched()
    found = list(Envelope.of(Message(headers, body), bus).payloads())
    assert [key for key, _ in bus.asked] == list(headers.values())
    assert len(found) == len(headers)
