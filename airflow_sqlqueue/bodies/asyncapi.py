"""Schemas of message types from an AsyncAPI document, of version 2 or 3, in JSON.

Source: docs/guides/bodies.md, "Schemas from AsyncAPI".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_sqlqueue.bodies.schemas import Struct, read_schema, referred
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.untrusted import quoted

MAX_MESSAGES = 2_000
"""The most messages of a document, those without a schema included."""

_MAX_STEPS = 16
"""The most references from one to the next."""


def message_schemas(document: object, unusable: dict[str, str]) -> dict[str, Struct]:
    """Return the schemas of the document's messages by message type: those of its components and of its channels.

    The type is the message's ``name``, or its key. ``unusable`` gets the reason for each message whose payload is no
    JSON Schema of an object. Raises :class:`ConfigurationError` for a text that is no AsyncAPI document.
    """
    if not isinstance(document, dict) or not isinstance(document.get("asyncapi"), str):
        raise ConfigurationError("This is no AsyncAPI document in JSON: its root has a text asyncapi.")
    found: dict[str, Struct] = {}
    for number, (key, node) in enumerate(_messages(document)):
        if number >= MAX_MESSAGES:
            raise ConfigurationError(f"A document has at most {MAX_MESSAGES:,} messages: split it.")
        name = key
        try:
            message = _followed(document, node)
            if isinstance(message.get("name"), str):
                name = message["name"]
            if name not in found:
                found[name] = _schema(document, message)
        except ConfigurationError as error:
            unusable.setdefault(name, str(error))
    return found


def _messages(document: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the messages with their keys. Version 2 has them in operations of channels, version 3 in channels."""
    yield from _members(_member(document.get("components"), "messages"))
    for _, channel in _members(document.get("channels")):
        yield from _members(_member(channel, "messages"))
        for operation in ("publish", "subscribe"):
            message = _member(_member(channel, operation), "message")
            choices = _member(message, "oneOf")
            for each in choices if isinstance(choices, list) else [message]:
                if isinstance(each, dict):
                    yield str(each.get("$ref") or each.get("messageId") or "").rpartition("/")[2], each


def _members(node: object) -> Iterator[tuple[str, object]]:
    return iter(node.items() if isinstance(node, dict) else ())


def _member(node: object, name: str) -> object:
    return node.get(name) if isinstance(node, dict) else None


def _followed(document: Mapping[str, Any], node: object) -> dict[str, Any]:
    """Return the object that a node is, or refers to."""
    for _ in range(_MAX_STEPS):
        if not isinstance(node, dict):
            raise ConfigurationError("The message is no JSON object.")
        if not isinstance(reference := node.get("$ref"), str):
            return node
        node = referred(document, reference)
    raise ConfigurationError(f"The message refers to itself, or over more than {_MAX_STEPS} references.")


def _schema(document: Mapping[str, Any], message: Mapping[str, Any]) -> Struct:
    payload: Any = message.get("payload")
    kind = message.get("schemaFormat")
    if isinstance(payload, dict) and "schemaFormat" in payload:
        payload, kind = payload.get("schema"), payload["schemaFormat"]
    if kind is not None and not _is_json_schema(kind):
        raise ConfigurationError(f"The payload's schema is in the format {quoted(str(kind))}, not JSON Schema.")
    if not isinstance(payload, dict):
        raise ConfigurationError("The message has no payload with a schema.")
    return read_schema(payload, document)


def _is_json_schema(kind: object) -> bool:
    return isinstance(kind, str) and kind.startswith(("application/vnd.aai.asyncapi", "application/schema"))
