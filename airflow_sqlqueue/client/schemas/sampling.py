"""Samples of messages by type, for commands on schemas.

Source: docs/guides/bodies.md, "Inferred types".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_sqlqueue.bodies.coercion import Coercion, Columns
from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.extension import EMPTY, Change, KnownFields, differences
from airflow_sqlqueue.bodies.names import Path, path_text
from airflow_sqlqueue.bodies.patterns import ALL_TYPES, TypePatterns
from airflow_sqlqueue.bodies.schemas import Struct, Type
from airflow_sqlqueue.bodies.statistics import MAX_NODES as PATHS_PER_TYPE
from airflow_sqlqueue.bodies.statistics import Statistics, sender_number
from airflow_sqlqueue.bodies.tree import Element, Number
from airflow_sqlqueue.errors import BodyError
from airflow_sqlqueue.messages.message import HeaderNames, ReceivedMessage, decode_headers, first_type
from airflow_sqlqueue.untrusted import is_text

MESSAGES_PER_TYPE = 10_000
"""Messages of a type and a sender that a sample takes by default: the first ones of the batch."""

BYTES_PER_TYPE = 64 * 1024 * 1024
"""Bytes of bodies of a type that a sample takes at most."""

MAX_TYPES = 1_000
"""Message types of a sample; the messages of further types are counted alone."""

MAX_NODES = 200_000
"""The paths of a sample that are counted: a type has its part of them, by the number of types so far."""


@dataclass
class Misfit:
    """Values of a field that do not fit its type: their kinds, and the number of messages that have any."""

    known: Type
    kinds: set[str] = field(default_factory=set)
    messages: int = 0


class Misfits(dict[Path, Misfit]):
    """Values of bodies that do not fit a schema, by the path of the field."""

    def __init__(self, schema: Struct = EMPTY) -> None:
        self.schema = schema
        self._known, self._columns = KnownFields(schema), dict[int, Columns]()

    def add(self, tree: Any) -> None:
        """Add the body of a message."""
        if not self.schema["fields"]:
            return
        fitting = Coercion(self._columns)
        fitting.struct(tree, self.schema)
        of_message = set[Path]()
        for path, value in fitting.rescued.items():
            if found := self._known.of(path):
                known_path, known = found
                misfit = self.setdefault(known_path, Misfit(known))
                misfit.kinds.add(_kind_of(value))
                of_message.add(known_path)
        for known_path in of_message:
            self[known_path].messages += 1


@dataclass
class TypeSample:
    """Statistics of one message type in a sample, its misfits, and the RowVersions of its first and last message."""

    statistics: Statistics
    misfits: Misfits = field(default_factory=Misfits)
    unparsed: int = 0
    bytes: int = 0
    first: int = 0
    last: int = 0

    @property
    def messages(self) -> int:
        """The messages, those that are not parsed included."""
        return sum(self.statistics.messages.values()) + self.unparsed

    def changes(self, found: Struct) -> list[Change]:
        """Return the fields that the type's schema has not, and those with values that do not fit.

        ``found`` is the schema of the sample by itself.
        """
        misfits = {path_text(path): each for path, each in self.misfits.items()}
        # A type that a person chose takes all values, whatever type they have by themselves.
        changes = {
            change.path: change
            for change in differences(self.misfits.schema, found)
            if change.schema is None or change.path in misfits
        }
        # Few of the values say nothing of the type that the sample has.
        for path in sorted(misfits.keys() - changes.keys()):
            changes[path] = Change(path, misfits[path].known, " or ".join(sorted(misfits[path].kinds)))
        return [
            replace(change, misfits=misfits[path].messages) if path in misfits else change
            for path, change in changes.items()
        ]


@dataclass
class Sample:
    """A sample by message type. ``others`` counts the messages without a type, and those of types beyond the limit."""

    types: dict[str, TypeSample] = field(default_factory=dict)
    others: int = 0
    schemas: Mapping[str, Struct] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        messages: Iterable[ReceivedMessage],
        *,
        per_type: int = MESSAGES_PER_TYPE,
        types: TypePatterns = ALL_TYPES,
        schemas: Mapping[str, Struct] | None = None,
    ) -> Sample:
        """Take the first messages of each type and originating endpoint, ``per_type`` at most.

        Values that do not fit the ``schemas`` are counted.
        """
        sample = cls(schemas=schemas or {})
        for message in messages:
            sample._add(message, per_type, types)
        return sample

    def _add(self, message: ReceivedMessage, per_type: int, types: TypePatterns) -> None:
        headers = decode_headers(message.headers).values
        name = first_type(headers.get(HeaderNames.ENCLOSED_MESSAGE_TYPES))
        if name is not None and not types.matches(name):
            return
        # No file has a name that is no text.
        if name is None or not is_text(name) or (name not in self.types and len(self.types) >= MAX_TYPES):
            self.others += 1
            return
        if name not in self.types:
            paths = MAX_NODES // (len(self.types) + 1)
            self.types[name] = TypeSample(
                Statistics(min(PATHS_PER_TYPE, paths)), Misfits(self.schemas.get(name, EMPTY))
            )
        found = self.types[name]
        body, sender, statistics = message.body or b"", headers.get(HeaderNames.ORIGINATING_ENDPOINT), found.statistics
        if statistics.messages[sender_number(sender)] >= per_type or found.bytes + len(body) > BYTES_PER_TYPE:
            return
        found.first, found.last = found.first or message.row_version, message.row_version
        found.bytes += len(body)
        try:
            tree = parse(body, headers.get(HeaderNames.CONTENT_TYPE))
            statistics.add(tree, sender)
            found.misfits.add(tree)
        except BodyError:
            found.unparsed += 1


def _kind_of(value: Any) -> str:
    if isinstance(value, str) or (isinstance(value, Element) and not value.children):
        return "string"
    kinds = {bool: "boolean", Number: "number", list: "array"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "struct")
