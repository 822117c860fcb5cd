"""CloudEvents in messages, read as NServiceBus 10.1 reads them.

Source: docs/transport/messages.md, "CloudEvents".
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any

from airflow_sqlqueue.messages.envelope.times import format_time, parse_time
from airflow_sqlqueue.messages.message import HeaderNames, Headers, after_character, skip_blanks

STRUCTURED = "application/cloudevents+json"
"""The content type of a message whose body is the whole event."""

MAX_BYTES = 8 * 1024 * 1024
"""The most bytes of an event that is unwrapped."""

_PREFIXES = ("ce-", "cloudevents:")
"""Beginnings of headers with an event's attributes, in the bindings for HTTP and AMQP, in lower case."""

_REQUIRED = {"id", "source", "type"}


def unwrapped(headers: Headers, body: bytes) -> tuple[dict[str, str | None], bytes] | None:
    """Return the headers and the body of the message that an event holds; None for a message that is no event.

    The headers are the message's own, the attributes of a structured event, and those that NServiceBus makes of them.
    Raises nothing.
    """
    if is_structured(headers.get(HeaderNames.CONTENT_TYPE)):
        try:
            return _structured(headers, body)
        except (ValueError, IndexError, RecursionError, binascii.Error):
            return None
    for prefix in _PREFIXES:
        attributes = {
            name.lower().removeprefix(prefix): value
            for name, value in headers.items()
            if name.lower().startswith(prefix) and value is not None
        }
        if attributes.keys() >= _REQUIRED:
            return {**headers, **_headers(attributes)}, body
    return None


def is_structured(content_type: str | None) -> bool:
    """Return whether the body of a message of this content type is a whole event."""
    return STRUCTURED in (content_type or "").lower()


def content(body: bytes) -> tuple[bytes, str] | None:
    """Return the data of a structured event and its content type; None without any. Raises :class:`ValueError`.

    Data that is text or JSON begins with the mark of UTF-8. The caller limits the size of the event.
    """
    members = _members(body.decode("utf-8-sig"))
    kind = members.get("datacontenttype", (None, ""))[0]
    found = _content(members, kind if isinstance(kind, str) else None)
    if not found or not found[0] or isinstance(members.get("data_base64", (None, ""))[0], str):
        return found
    # A text within JSON is no bytes in the encoding that it names.
    return BOM_UTF8 + found[0], found[1]


def _structured(headers: Headers, body: bytes) -> tuple[dict[str, str | None], bytes] | None:
    if len(body) > MAX_BYTES:
        return None
    members = _members(body.decode("utf-8-sig"))
    attributes = {
        name: value if isinstance(value, str) else text
        for name, (value, text) in members.items()
        if name not in ("data", "data_base64") and value is not None
    }
    found = _content(members, attributes.get("datacontenttype"))
    if not attributes.keys() >= _REQUIRED or found is None:
        return None
    data, kind = found
    return {**headers, **attributes, **_headers(attributes), HeaderNames.CONTENT_TYPE: kind}, data


def _content(members: Mapping[str, tuple[Any, str]], kind: str | None) -> tuple[bytes, str] | None:
    encoded, (data, text) = members.get("data_base64"), members.get("data", (None, ""))
    if encoded is not None and isinstance(encoded[0], str):
        return b64decode(encoded[0], validate=True), kind or "application/json"
    if kind is not None and not kind.partition(";")[0].strip().lower().endswith("json"):
        return (data.encode(), kind) if text.startswith('"') else None
    # The text as it is, with every digit.
    return (text.encode(), kind or "application/json") if "data" in members else None


def _headers(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of NServiceBus for an event's attributes."""
    made = {
        HeaderNames.MESSAGE_ID: attributes["id"],
        HeaderNames.REPLY_TO_ADDRESS: attributes["source"],
        HeaderNames.ENCLOSED_MESSAGE_TYPES: attributes["type"],
    }
    moment = parse_time(attributes.get("time"))
    return made if moment is None else {**made, HeaderNames.TIME_SENT: format_time(moment)}


def _members(text: str) -> dict[str, tuple[Any, str]]:
    """Return the members of a JSON object by their names in lower case, each with its text as written.

    Raises :class:`ValueError` and the like for another text.
    """
    decoder = json.JSONDecoder(parse_int=str, parse_float=str)
    found: dict[str, tuple[Any, str]] = {}
    at, separator = after_character(text, 0, "{"), ","
    while separator == ",":
        if not found and text[at] == "}":
            return found
        name, at = decoder.raw_decode(text, at)
        if not isinstance(name, str):
            raise ValueError("A name is a text.")
        start = after_character(text, at, ":")
        value, end = decoder.raw_decode(text, start)
        found[name.lower()] = (value, text[start:end])
        at = skip_blanks(text, end)
        separator = text[at]
        at = skip_blanks(text, at + 1)
    if separator != "}" or at != len(text):
        raise ValueError("The text is no JSON object.")
    return found
