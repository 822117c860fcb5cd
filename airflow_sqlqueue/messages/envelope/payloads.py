"""Payloads of a message that the data bus (claim check) keeps: their properties, their keys, and their contents.

Source: docs/transport/messages.md, "Data bus".
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from airflow_sqlqueue.errors import PayloadError
from airflow_sqlqueue.messages.message import HeaderNames, Headers
from airflow_sqlqueue.untrusted import quoted

JSON, BINARY_FORMATTER, UNKNOWN = "json", "binary-formatter", "unknown"
"""Formats of payloads."""

_BINARY_FORMATTER = bytes.fromhex("0001000000ffffffff0100000000000000")
"""First bytes of a stream of .NET's BinaryFormatter, whose deserialization can run code of the sender's choice."""

_JSON = re.compile(r"(?:application|text)/(?:[\w.+-]*\+)?json", re.ASCII)
_LABEL = 100


class PayloadSource(Protocol):
    """Place that payloads are fetched from: :class:`airflow_sqlqueue.DataBus`."""

    def fetch(self, key: str | None, property_name: str | None = None) -> bytes:
        """Return the bytes that the data bus keeps under a key; the name of the property is for errors."""


@dataclass(frozen=True)
class PayloadReference:
    """Reference of a message to a payload.

    ``property_name`` is the name of the message's property, None if only the body has it: for a property of type
    ``ClaimCheckProperty`` (``DataBusProperty``), whose value in the body is an object with the ``Key`` that is
    ``header``. ``header`` is the rest of the header's name, and ``key`` its value. Keys give access to payloads, so no
    repr shows them.
    """

    property_name: str | None
    header: str = field(repr=False)
    key: str | None = field(repr=False)

    @property
    def name(self) -> str:
        """Name of the property, or else the key that the body has."""
        return self.property_name or self.header


def payload_references(headers: Headers) -> list[PayloadReference]:
    """Return the references to payloads in a message's headers."""
    prefix = HeaderNames.DATA_BUS_PREFIX
    found = [(name[len(prefix) :], key) for name, key in headers.items() if name.startswith(prefix)]
    last = Counter(rest.rpartition(".")[2] for rest, _ in found)
    references = []
    for rest, key in found:
        # Keys have no dots, and the name of a property follows that of its type and a dot.
        short = rest.rpartition(".")[2]
        is_named = "." in rest and rest != key and short
        references.append(PayloadReference((short if last[short] == 1 else rest) if is_named else None, rest, key))
    return references


def named_by_body(references: list[PayloadReference], value: Any, text: str | None) -> list[PayloadReference]:
    """Complete the names of properties that only the body has: ``value`` is its JSON, ``text`` is for XML."""
    names: dict[str, str] = {}
    if isinstance(value, Mapping):
        for name, each in value.items():
            key = (each.get("Key") or each.get("key")) if isinstance(each, Mapping) else None
            if isinstance(key, str):
                names[key] = name
    elif text is not None:
        names = {key: name for name, key in re.findall(r"<(\w+)>\s{0,99}<Key>([^<]{1,1024})</Key>", text)}
    return [
        reference
        if reference.property_name
        else PayloadReference(names.get(reference.header), reference.header, reference.key)
        for reference in references
    ]


@dataclass(frozen=True)
class Payload:
    """Payload of a message, as it is stored on the data bus.

    :param name: the name of the message's property; for a property that only the body names, the key in the body.
    :param content: the serialized value of the property.
    :param content_type: the content type that the sender wrote; None before version 8, and then as a rule the format of
        .NET's BinaryFormatter.
    """

    name: str = field(repr=False)
    content: bytes = field(repr=False)
    content_type: str | None = None

    @property
    def format(self) -> str:
        """Format of ``content``: ``json``, ``binary-formatter`` or ``unknown``.

        ``binary-formatter`` is recognized by its first bytes. Do not deserialize it: such a stream can run code.
        """
        if _JSON.fullmatch((self.content_type or "").partition(";")[0].strip().lower()):
            return JSON
        return BINARY_FORMATTER if self.content.startswith(_BINARY_FORMATTER) else UNKNOWN

    def value(self) -> Any:
        """Return the JSON value, or the unchanged bytes of any other format.

        A ``byte[]`` is text in JSON: see :meth:`data`. Raises :class:`PayloadError` for a content that is not the
        JSON of its content type.
        """
        if self.format != JSON:
            return self.content
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            # The cause would quote the content.
            raise PayloadError(f"{label(self.name)} is not JSON, as its content type says: use its content.") from None

    def data(self) -> bytes:
        """Return the bytes of a property of type ``byte[]``, which JSON has as Base64; else the unchanged bytes.

        Raises :class:`PayloadError` for JSON that is not a text in Base64.
        """
        value = self.value()
        if isinstance(value, bytes):
            return value
        if isinstance(value, str):
            try:
                return b64decode(value, validate=True)
            except (binascii.Error, ValueError):
                pass
        raise PayloadError(f"{label(self.name)} is JSON, but not a text in Base64: use its value.")


def label(name: str | None) -> str:
    """Return the name of a payload for an error. It shows no key: a name with a path, or with a GUID, may be one."""
    if name is None or re.search(r"[/\\]|[0-9a-fA-F]{8}-", name):
        return "A payload of the message"
    return f"The payload of {quoted(name, _LABEL)}"
