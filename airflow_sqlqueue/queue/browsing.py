"""Browsing a queue page by page without its bodies, and finding messages by their headers.

SQL never interprets headers: the server leaves out headers that cannot match
(:mod:`airflow_sqlqueue.server.sql.narrowing`), and this module decides about the others, through
:func:`decode_headers`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from typing import Any, Protocol

from airflow_sqlqueue.errors import DeadlockError, LockTimeoutError
from airflow_sqlqueue.messages.message import DecodedHeaders, decode_headers
from airflow_sqlqueue.options import check_type
from airflow_sqlqueue.options.budget import MIB
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.table_access import FIRST, LAST, TableAccess, check_rows
from airflow_sqlqueue.queue.tables.layout import Layout
from airflow_sqlqueue.queue.window import Window, padded_chunks, placeholders
from airflow_sqlqueue.server.sql import readpast
from airflow_sqlqueue.server.sql.columns import head_page
from airflow_sqlqueue.server.sql.columns import page as page_of

WINDOW = 10_000
"""Messages at the head of a queue that :func:`find` reads by default."""

PAGE = 500
"""Messages whose headers a search holds in memory at one time."""

PAGE_BYTES = 4 * MIB
"""Bytes of headers at which a page ends; the row that reaches them is part of it."""

STRETCH = 2_000
"""Rows whose headers one statement of a search reads on the server. Their locks, on keys and rows, are fewer than the
5,000 at which the server would lock the table."""


@dataclass(frozen=True)
class MessageHead:
    """Row without its body. Times are in UTC.

    ``headers`` is the raw text; headers that are longer than
    :data:`~airflow_sqlqueue.messages.message.MAX_HEADER_BYTES` are cut. ``header_bytes`` and ``body_bytes`` are the
    lengths of the columns.
    """

    row_version: int
    id: uuid.UUID
    expires: datetime | None
    headers: str = field(repr=False)
    header_bytes: int
    body_bytes: int
    expired: bool

    @cached_property
    def decoded(self) -> DecodedHeaders:
        """Headers, decoded leniently."""
        return decode_headers(self.headers)


def browse(
    table: TableAccess, limit: int = 10, *, after: int = FIRST, up_to: int = LAST, max_bytes: int = PAGE_BYTES
) -> list[MessageHead]:
    """Return one page of messages that are not locked, in order, with RowVersions above ``after`` up to ``up_to``.

    A page ends after ``max_bytes`` of headers as well, but never before its first row. :func:`is_last` says whether it
    ended because there are no more messages. The bodies stay on the server; nothing is removed. ``after`` skips late
    commits, as for a peek.
    """
    check_rows(limit)
    window, hint = Window(after, up_to), readpast(True)

    def run(layout: Layout) -> list[Any]:
        fragments = {**head_page(layout.types), "window": window.condition, "readpast": hint}
        return table.session.run(table.query("queue.peek_page", **fragments), limit, *window.values, max_bytes)

    return [_head(row) for row in table.run_for_layout(run)]


class _WithHeaders(Protocol):
    @property
    def header_bytes(self) -> int: ...


def is_last(page: Sequence[_WithHeaders], limit: int, max_bytes: int = PAGE_BYTES) -> bool:
    """Return whether a page of :func:`browse` or :func:`search` is the last one: neither limit ended it."""
    return len(page) < limit and sum(head.header_bytes for head in page) < max_bytes


def hold(table: TableAccess, limit: int) -> list[MessageHead]:
    """Lock the first ``limit`` messages, past locked ones, in the transaction under way; expired ones are among them.

    The transaction has them until it ends: :func:`delete` deletes them, :meth:`.QueueTable.take` takes them. Messages
    beyond :data:`PAGE_BYTES` of headers are locked as well, but not returned.
    """
    check_rows(limit)
    rows = table.run_for_layout(
        lambda layout: table.session.run(table.query("queue.hold", **head_page(layout.types)), limit, FIRST, PAGE_BYTES)
    )
    return [_head(row) for row in rows]


def pages(table: TableAccess, window: Window, rows: int = PAGE) -> Iterator[list[MessageHead]]:
    """Iterate over the messages of a window in pages of :func:`browse`, of ``rows`` each; memory holds one page."""
    while window.after < window.up_to:
        page = browse(table, rows, after=window.after, up_to=window.up_to)
        if page:
            yield page
        if is_last(page, rows):
            return
        window = window.above(page[-1].row_version)


def read(
    table: TableAccess,
    names: Sequence[str],
    window: Window,
    *,
    rows: int,
    max_bytes: int,
    cut_headers: bool = False,
) -> list[Any]:
    """Read one page of the named columns of messages that are not locked, in order, with the RowVersion at the end.

    The page ends after ``rows``, or with the row that reaches ``max_bytes`` of those columns; other columns stay on the
    server. ``cut_headers`` cuts headers that are too long to read.
    """
    chosen = [*names, "RowVersion"]

    def run(layout: Layout) -> list[Any]:
        fragments = {**page_of(layout.types, chosen, cut_headers=cut_headers), "window": window.condition}
        statement = table.query("queue.peek_page", **fragments, readpast=readpast(True))
        return table.session.run(statement, rows, *window.values, max_bytes)

    return table.run_for_layout(run)


def search(table: TableAccess, where: MessageFilter, window: Window, *, wait: bool = False) -> list[MessageHead]:
    """Return a page of the window's messages that may match, in order; the window is one piece. Nothing is removed.

    The search passes over locked messages, or with ``wait`` waits for them, up to the session's lock timeout.
    """
    condition, hint = where.condition, readpast(not wait)

    def run(layout: Layout) -> list[Any]:
        fragments = {"window": window.condition, "may_match": condition.text, "readpast": hint}
        statement = table.query("queue.search", **head_page(layout.types), **fragments)
        return table.session.run(statement, PAGE, *window.values, *condition.values, PAGE_BYTES)

    return [_head(row) for row in table.run_for_layout(run, attempts=1)]


class Search:
    """Search through a window of a queue, at most ``rows`` rows: pages of messages that may match, each message once.

    A statement reads the headers of at most :data:`STRETCH` rows, so each statement is short, and their total cost is
    linear in the queue, however few messages match. After an error the next call reads the same rows again.
    """

    def __init__(self, where: MessageFilter, window: Window | None = None, *, rows: int = LAST) -> None:
        check_type("where", MessageFilter.__name__, where)
        self._where, self._rest, self._rows = where, window or Window(), rows
        self._piece: Window | None = None
        self._ended = False
        self.passed: list[Window] = []
        """Windows with messages that stayed locked during the wait, and were passed over."""

    @property
    def after(self) -> int:
        """RowVersion up to which the search has read."""
        return (self._piece or self._rest).after

    @property
    def is_at_end(self) -> bool:
        """Whether the search has read the whole window; if False, the number of rows ended it."""
        return self._ended

    def page(self, table: TableAccess, *, wait: float | None = None) -> list[MessageHead] | None:
        """Return the next page, which may be empty; None at the end.

        With ``wait`` the search waits for locked messages, up to that many seconds; it passes over those that stay
        locked, and notes their window in ``passed``.
        """
        if self._piece is None:
            self._piece = self._next(table, certain=wait is not None)
        if self._piece is None:
            return None
        page = self._find(table, self._piece, wait)
        self._piece = None if is_last(page, PAGE) else self._piece.above(page[-1].row_version)
        return page

    def _next(self, table: TableAccess, *, certain: bool) -> Window | None:
        rest, rows = self._rest, min(STRETCH, self._rows)
        if self._ended or rows <= 0:
            return None
        if rest.chosen is not None:
            piece = next(rest.pieces(), None)
        else:
            end = table.value("queue.window_end", rows, rest.after, rest.up_to)
            piece = None if end is None else Window(rest.after, int(end))
        if piece is None:
            self._ended = True
            # window_end may miss rows that a receiver has locked and may give back: one more piece waits for them.
            return rest if certain and rest.chosen is None and rest.after < rest.up_to else None
        self._rest, self._rows = rest.above(piece.up_to), self._rows - rows
        return piece

    def _find(self, table: TableAccess, piece: Window, wait: float | None) -> list[MessageHead]:
        if wait is not None:
            try:
                with table.session.lock_timeout(wait):
                    return search(table, self._where, piece, wait=True)
            except (DeadlockError, LockTimeoutError):
                self.passed.append(piece)
        return search(table, self._where, piece)


def find(
    table: TableAccess,
    where: MessageFilter,
    limit: int = LAST,
    *,
    window: int = WINDOW,
    after: int = FIRST,
    expired: bool = True,
) -> list[MessageHead]:
    """Return the first ``limit`` messages that match, among the first ``window`` of the queue. Nothing is removed.

    ``after`` is the RowVersion to begin behind. Expired messages are among them unless ``expired`` is False. Headers
    are read page by page: memory holds one page.
    """
    headers = Search(where, Window(after), rows=window)
    found: list[MessageHead] = []
    while len(found) < limit and (page := headers.page(table)) is not None:
        found += (h for h in page if (expired or not h.expired) and where.matches(h.id, h.decoded))
    return found[:limit]


def row_versions_of(table: TableAccess, ids: Sequence[uuid.UUID]) -> list[int]:
    """Return the RowVersions of the rows with these Ids, which need not be unique. Id has no index: reads all rows."""
    table.require()
    found: set[int] = set()
    for chunk in padded_chunks(sorted({str(identity) for identity in ids})):
        statement = table.query("queue.find_ids", ids=placeholders(chunk))
        found.update(row[0] for row in table.session.run(statement, *chunk))
    return sorted(found)


def delete(table: TableAccess, row_versions: Sequence[int]) -> int:
    """Delete the messages with these RowVersions, except locked ones, and return how many it deleted."""
    deleted = 0
    for chunk in padded_chunks(row_versions):
        deleted += int(table.value("queue.purge_these", *chunk, row_versions=placeholders(chunk)))
    return deleted


NO_ID = uuid.UUID(int=0)
"""Id of a row without one, which only an altered table allows."""


def row_id(value: str | uuid.UUID | None) -> uuid.UUID:
    """Return a row's Id; NULL becomes :data:`NO_ID`."""
    if value is None:
        return NO_ID
    return value if isinstance(value, uuid.UUID) else uuid.UUID(str(value))


def _head(row: Any) -> MessageHead:
    row_version, identity, expires, headers, header_bytes, body_bytes, expired = row
    return MessageHead(
        row_version=row_version,
        id=row_id(identity),
        expires=expires.replace(tzinfo=timezone.utc) if expires else None,
        headers=headers or "",
        header_bytes=int(header_bytes or 0),
        body_bytes=int(body_bytes or 0),
        expired=bool(expired),
    )
