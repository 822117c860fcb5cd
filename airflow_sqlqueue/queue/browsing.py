"""Looking through a queue page by page without its bodies, and finding messages by their headers.

Headers are read as :func:`decode_headers` reads them, never by SQL: the server leaves out those that cannot match
(:mod:`airflow_sqlqueue.sql.narrowing`), and whether the others do is decided here.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

from airflow_sqlqueue.errors import LockTimeoutError
from airflow_sqlqueue.message import DecodedHeaders, decode_headers
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.table_access import FIRST, LAST, TableAccess
from airflow_sqlqueue.sql import Fragment, readpast
from airflow_sqlqueue.sql.columns import head_columns, head_page
from airflow_sqlqueue.sql.columns import page as page_of
from airflow_sqlqueue.tables.layout import Layout

WINDOW = 10_000
"""Messages at the head of a queue that a search looks at by default."""

PAGE = 500
"""Messages whose headers a search holds in memory at one time."""

STRETCH = 5_000
"""Rows whose headers one statement of a search reads on the server."""

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


def heads(table: TableAccess, limit: int, *, after: int = FIRST, up_to: int = LAST) -> list[MessageHead]:
    """One page of messages that nobody has locked, in order, with RowVersions above ``after`` and up to ``up_to``."""
    rows = table.run_for_layout(
        lambda layout: table.session.run(
            table.query("queue.peek", columns=head_columns(layout.types)), limit, after, up_to
        )
    )
    return [_head(row) for row in rows]


def heads_within(table: TableAccess, limit: int, max_bytes: int, *, after: int = FIRST) -> list[MessageHead]:
    """:func:`heads`, of which no more headers are read than ``max_bytes`` and one row; the first row in any case."""
    hint = readpast(True)
    rows = table.run_for_layout(
        lambda layout: table.session.run(
            table.query("queue.peek_page", **head_page(layout.types), readpast=hint), limit, after, LAST, max_bytes
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


def read(table: TableAccess, names: Sequence[str], after: int, up_to: int, *, rows: int, max_bytes: int) -> list[Any]:
    """One page of some columns, named as in :data:`~airflow_sqlqueue.row.COLUMNS`, and the RowVersion at the end.

    Of messages that nobody has locked, in order, above ``after`` and up to ``up_to``: at most ``rows``, and at most
    ``max_bytes`` of those columns and one row more. A column that is not named does not leave the server.
    """
    chosen, hint = [*names, "RowVersion"], readpast(True)

    def run(layout: Layout) -> list[Any]:
        statement = table.query("queue.peek_page", **page_of(layout.types, chosen), readpast=hint)
        return table.session.run(statement, rows, after, up_to, max_bytes)

    return table.run_for_layout(run)


@dataclass(frozen=True)
class Span:
    """Rows with RowVersions above ``after`` and not above ``up_to``; with ``chosen``, which ascend, only these."""

    after: int = FIRST
    up_to: int = LAST
    chosen: tuple[int, ...] | None = None

    def above(self, after: int) -> Span:
        """What is left of it above a RowVersion."""
        chosen = None if self.chosen is None else self.chosen[bisect_right(self.chosen, after) :]
        return Span(max(self.after, after), self.up_to, chosen)

    def pieces(self) -> Iterator[Span]:
        """The same rows in pieces, each of which one statement can name."""
        if self.chosen is None:
            yield self
            return
        for start in range(0, len(self.chosen), MAX_VALUES):
            chosen = self.chosen[start : start + MAX_VALUES]
            yield Span(chosen[0] - 1, chosen[-1], chosen)

    @property
    def condition(self) -> Fragment:
        """The condition on RowVersion, for a statement that seeks: it meets no other row."""
        if self.chosen is None:
            return Fragment("[RowVersion] > ? AND [RowVersion] <= ?")
        return Fragment(f"[RowVersion] IN ({placeholders(self.values)})")

    @property
    def values(self) -> Sequence[int]:
        """The values of the condition's parameters: those of a piece."""
        return (self.after, self.up_to) if self.chosen is None else next(padded_chunks(self.chosen))


def search(table: TableAccess, where: MessageFilter, span: Span, *, wait: bool = False) -> list[MessageHead]:
    """A page of the messages of the span that may match, in order; the span is one piece. Nothing is removed.

    Messages that others have locked are passed over; with ``wait`` they are waited for, as long as the session waits
    for locks: then nothing was passed over, and :class:`LockTimeoutError` says that the wait was too short.
    """
    condition, hint = where.condition, readpast(not wait)

    def run(layout: Layout) -> list[Any]:
        columns = head_columns(layout.types)
        statement = table.query(
            "queue.search", columns=columns, span=span.condition, may_match=condition.text, readpast=hint
        )
        return table.session.run(statement, PAGE, *span.values, *condition.values)

    return [_head(row) for row in table.run_for_layout(run, attempts=1)]


class Search:
    """A way through a span of a queue, a page of what may match at a time, each message once.

    A statement reads the headers of a stretch at the most, so each is short, and all of them together are linear in the
    queue, however few messages match. What an error interrupts is looked at again by the next call.

    :param window: look at so many rows at the most.
    """

    def __init__(self, where: MessageFilter, span: Span | None = None, window: int = LAST) -> None:
        self._where, self._rest, self._window = where, span or Span(), window
        self._piece: Span | None = None
        self._ended = False
        self.passed: list[Span] = []
        """Where messages that others have locked were passed over although they were waited for."""

    @property
    def after(self) -> int:
        """The RowVersion up to which it has looked."""
        return (self._piece or self._rest).after

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left to look at; else the window ended it."""
        return self._ended

    def page(self, table: TableAccess, *, wait: float | None = None) -> list[MessageHead] | None:
        """The next page, which may be empty; None at the end.

        With ``wait``, messages that others have locked are waited for so many seconds; those that stay locked are
        passed over, and where they are is noted in ``passed``.
        """
        if self._piece is None:
            self._piece = self._next(table, certain=wait is not None)
        if self._piece is None:
            return None
        page = self._find(table, self._piece, wait)
        self._piece = self._piece.above(page[-1].row_version) if len(page) == PAGE else None
        return page

    def _next(self, table: TableAccess, *, certain: bool) -> Span | None:
        rest, rows = self._rest, min(STRETCH, self._window)
        if self._ended or rows <= 0:
            return None
        if rest.chosen is not None:
            piece = next(rest.pieces(), None)
        else:
            end = table.value("queue.window_end", rows, rest.after, rest.up_to)
            piece = None if end is None else Span(rest.after, int(end))
        if piece is None:
            self._ended = True
            # A row that is being received is not seen without locks: it may come back.
            return rest if certain and rest.chosen is None and rest.after < rest.up_to else None
        self._rest, self._window = rest.above(piece.up_to), self._window - rows
        return piece

    def _find(self, table: TableAccess, piece: Span, wait: float | None) -> list[MessageHead]:
        if wait is not None:
            try:
                with table.session.lock_timeout(wait):
                    return search(table, self._where, piece, wait=True)
            except LockTimeoutError:
                self.passed.append(piece)
        return search(table, self._where, piece)


def find(
    table: TableAccess, where: MessageFilter, limit: int, window: int = WINDOW, *, expired: bool = True
) -> Iterator[MessageHead]:
    """The first ``limit`` messages that match, among the first ``window`` of the queue. Nothing is removed."""
    headers = Search(where, window=window)
    while (page := headers.page(table)) is not None:
        for head in page:
            if (head.expired and not expired) or not where.matches(head.id, head.decoded):
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


def delete(table: TableAccess, row_versions: Sequence[int]) -> int:
    """Delete the messages with these RowVersions, passing over locked ones, and return how many there were."""
    deleted = 0
    for chunk in padded_chunks(row_versions):
        deleted += int(table.value("queue.purge_these", *chunk, row_versions=placeholders(chunk)))
    return deleted


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
