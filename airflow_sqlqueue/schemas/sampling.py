"""Schemas from a sample of messages: proposals, and differences from the schemas of a folder.

Source: docs/guides/bodies.md, "Inferred types".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.inference import Change, Seen, differences, struct_of
from airflow_sqlqueue.bodies.schemas import Struct
from airflow_sqlqueue.errors import BodyError
from airflow_sqlqueue.message import HeaderNames, ReceivedMessage, decode_headers, first_type

MESSAGES_PER_TYPE = 10_000
"""Messages of a type that a sample takes by default: the first ones of the batch."""

BYTES_PER_TYPE = 64 * 1024 * 1024
"""Bytes of bodies of a type that a sample takes at most."""

MAX_TYPES = 1_000
"""Message types of a sample; the messages of further types are counted alone."""


@dataclass
class TypeSample:
    """Statistics of one message type in a sample."""

    seen: Seen = field(default_factory=Seen)
    messages: int = 0
    unparsed: int = 0
    bytes: int = 0
    first: int = 0
    last: int = 0
    """RowVersions of the first and the last message in the sample."""

    @property
    def schema(self) -> Struct:
        return struct_of(self.seen)


@dataclass
class Sample:
    """A sample by message type. ``others`` counts the messages without a type, and those of types beyond the limit."""

    types: dict[str, TypeSample] = field(default_factory=dict)
    others: int = 0

    @classmethod
    def of(cls, messages: Iterable[ReceivedMessage], *, per_type: int = MESSAGES_PER_TYPE) -> Sample:
        """Take the first messages of each type, in the order that is given: the same messages give the same schemas."""
        sample = cls()
        for message in messages:
            sample._add(message, per_type)
        return sample

    def _add(self, message: ReceivedMessage, per_type: int) -> None:
        headers = decode_headers(message.headers).values
        name = first_type(headers.get(HeaderNames.ENCLOSED_MESSAGE_TYPES))
        if name is None or (name not in self.types and len(self.types) >= MAX_TYPES):
            self.others += 1
            return
        found = self.types.setdefault(name, TypeSample())
        body = message.body or b""
        if found.messages >= per_type or found.bytes + len(body) > BYTES_PER_TYPE:
            return
        found.first, found.last = found.first or message.row_version, message.row_version
        found.messages += 1
        found.bytes += len(body)
        try:
            found.seen.add(parse(body, headers.get(HeaderNames.CONTENT_TYPE)))
        except BodyError:
            found.unparsed += 1


def changes(sample: Sample, schemas: dict[str, Struct]) -> dict[str, list[Change]]:
    """Return what the messages of a sample have that the schemas have not, by message type.

    Types without a change are left out. A type without a schema has a change for each of its fields.
    """
    empty: Struct = {"type": "struct", "fields": []}
    found = {name: list(differences(schemas.get(name, empty), each.schema)) for name, each in sample.types.items()}
    return {name: each for name, each in found.items() if each}
