"""Looking through a queue page by page without its bodies, and finding messages by their headers.

Headers are read as :func:`decode_headers` reads them, never by SQL: they may be malformed or ``varchar``, and JSON in
SQL needs a compatibility level that an old database does not have.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.message import DecodedHeaders, HeaderNames, decode_headers
from airflow_sqlqueue.queue.table_access import FIRST, LAST, TableAccess
from airflow_sqlqueue.sql import Fragment
from airflow_sqlqueue.sql.columns import head_columns

WINDOW = 10_000
"""Messages at the head of a queue that a search looks at by default."""

PAGE = 500
"""Messages whose headers a search holds in memory at one time."""

MAX_VALUES = 1_000
"""Values that one statement names; a statement takes 2,100 parameters."""


@dataclass(frozen=True)
class MessageHead:
    """A row without its body. ``headers`` is the raw text, ``body_bytes`` the body's length. Times are in UTC."""

    row_version: int
    id: uuid.UUID
    expires: datetime | None
    headers: str = field(repr=False)
    body_bytes: int
    expired: bool

    @cached_property
    def decoded(self) -> DecodedHeaders:
        """The headers, read leniently."""
        return decode_headers(self.headers)


@dataclass(frozen=True)
class MessageFilter:
    """Which messages are meant: those that match all that is given.

    ``message_type`` is a full .NET name without the assembly, and matches any of the enclosed types. ``headers`` must
    be equal, with case; a value of None matches a JSON null and no missing header. Malformed headers match by what can
    be read of them. Raises :class:`ConfigurationError` where nothing is given: that would be every message.
    """

    message_id: str | None = None
    message_type: str | None = None
    correlation_id: str | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.message_type is None and not self._equal:
            raise ConfigurationError("A filter without a condition matches every message: give it one.")

    @cached_property
    def _equal(self) -> dict[str, str | None]:
        known = {HeaderNames.MESSAGE_ID: self.message_id, HeaderNames.CORRELATION_ID: self.correlation_id}
        return {**self.headers, **{name: value for name, value in known.items() if value is not None}}

    def matches(self, head: MessageHead) -> bool:
        """Whether the message matches. Without a message id in its headers its row's Id stands for it."""
        values = {HeaderNames.MESSAGE_ID: str(head.id), **head.decoded.values}
        if any(name not in values or values[name] != value for name, value in self._equal.items()):
            return False
        types = values.get(HeaderNames.ENCLOSED_MESSAGE_TYPES) or ""
        return self.message_type is None or self.message_type in {
            enclosed.partition(",")[0].strip() for enclosed in types.split(";")
        }


def heads(table: TableAccess, limit: int, *, after: int = FIRST, up_to: int = LAST) -> list[MessageHead]:
    """One page of messages that nobody has locked, in order, with RowVersions above ``after`` and up to ``up_to``."""
    rows = table.run_for_layout(
        lambda layout: table.session.run(
            table.query("queue.peek", columns=head_columns(layout.types)), limit, after, up_to
        )
    )
    return [_head(row) for row in rows]


def held(table: TableAccess, limit: int) -> list[MessageHead]:
    """The first ``limit`` messages that nobody has locked, locked by this transaction, in order."""
    rows = table.run_for_layout(
        lambda layout: table.session.run(table.query("queue.hold", columns=head_columns(layout.types)), limit, FIRST)
    )
    return [_head(row) for row in rows]


def pages(
    table: TableAccess, window: int = LAST, *, after: int = FIRST, up_to: int = LAST, rows: int = PAGE
) -> Iterator[list[MessageHead]]:
    """The first ``window`` messages as :func:`heads` has them, ``rows`` at a time: one page is held in memory."""
    while window > 0 and after < up_to:
        wanted = min(rows, window)
        page = heads(table, wanted, after=after, up_to=up_to)
        if page:
            yield page
        if len(page) < wanted:
            return
        window, after = window - len(page), page[-1].row_version


def find(
    table: TableAccess, where: MessageFilter, limit: int, window: int = WINDOW, *, expired: bool = True
) -> Iterator[MessageHead]:
    """The first ``limit`` messages that match, among the first ``window`` of the queue. Nothing is removed."""
    for page in pages(table, window):
        for head in page:
            if (head.expired and not expired) or not where.matches(head):
                continue
            yield head
            limit -= 1
            if limit <= 0:
                return


def row_versions_of(table: TableAccess, ids: Sequence[uuid.UUID]) -> list[int]:
    """The RowVersions of the rows with these Ids, which need not be unique. Reads the whole table: Id has no index."""
    table.require()
    found: set[int] = set()
    for chunk in padded_chunks(sorted({str(identity) for identity in ids})):
        statement = table.query("queue.find_ids", ids=placeholders(chunk))
        found.update(row[0] for row in table.session.run(statement, *chunk))
    return sorted(found)


def padded_chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Pieces of a few fixed sizes, the last filled up by its own last value: the server sees few texts."""
    for start in range(0, len(values), MAX_VALUES):
        piece = list(values[start : start + MAX_VALUES])
        size = next(size for size in (1, 16, 256, MAX_VALUES) if size >= len(piece))
        yield piece + piece[-1:] * (size - len(piece))


def placeholders(values: Sequence[Any]) -> Fragment:
    """A list of parameters for ``IN (...)``."""
    return Fragment(", ".join("?" * len(values)))


def _head(row: Any) -> MessageHead:
    row_version, identity, expires, headers, size, expired = row
    return MessageHead(
        row_version=row_version,
        id=identity if isinstance(identity, uuid.UUID) else uuid.UUID(str(identity)),
        expires=expires.replace(tzinfo=timezone.utc) if expires else None,
        headers=headers,
        body_bytes=int(size or 0),
        expired=bool(expired),
    )
