"""Table of delayed messages: store, list, count, cancel. :mod:`.mover` moves the due messages.

Source: docs/transport/queue-tables.md, "Delayed messages".
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError, MessageError
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.messages.routing import DELAYED_SUFFIX, ResolvedAddress, endpoint_table
from airflow_sqlqueue.options import whole_numbers
from airflow_sqlqueue.queue.browsing import PAGE, PAGE_BYTES, is_last
from airflow_sqlqueue.queue.sending import chunks, headers_text
from airflow_sqlqueue.queue.table_access import check_limit
from airflow_sqlqueue.queue.tables.layout import CREATE_COMMANDS, Layout
from airflow_sqlqueue.queue.tables.reading import read_layout
from airflow_sqlqueue.queue.window import padded_chunks, placeholders
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import load_pyodbc
from airflow_sqlqueue.server.sql import Fragment, Query, identifier, query
from airflow_sqlqueue.server.sql.columns import readable_headers

FIRST = datetime(1753, 1, 1)  # noqa: DTZ001 - the column has UTC without a time zone
"""The first moment of the type ``datetime``."""

_LAST = datetime(9999, 12, 31, tzinfo=timezone.utc)
_DAY = timedelta(days=1)
_MILLISECOND = timedelta(milliseconds=1)
_AFTER = Fragment("(?, ?, DATEADD(millisecond, ?, DATEADD(day, ?, GETUTCDATE())))")
_AT = Fragment("(?, ?, CAST(? AS datetime2))")


@dataclass(frozen=True)
class DelayedMessage:
    """A delayed message without its body. ``due`` is in UTC; ``headers`` are cut if they are too long to read."""

    row_version: int
    due: datetime
    headers: str = field(repr=False)
    header_bytes: int

    @property
    def moment(self) -> datetime:
        """``due`` without a time zone, for a statement's parameter."""
        return self.due.replace(tzinfo=None)


@dataclass(frozen=True)
class DelayedCount:
    """Number of delayed messages that are not locked, and of ``due`` messages among them."""

    messages: int
    due: int


def delayed_name(queue_name: str, suffix: str = DELAYED_SUFFIX) -> str:
    """Return the address of a queue's table of delayed messages: ``Sales.Delayed@[schema]`` for ``Sales@[schema]``."""
    table, separator, rest = queue_name.partition("@")
    return endpoint_table(table, suffix) + separator + rest


class DelayedTable:
    """Table of delayed messages of the queue ``queue_name``, through one connection; ``address`` is resolved."""

    def __init__(self, session: Session, address: ResolvedAddress, queue_name: str = "<queue>") -> None:
        self.session = session
        self.address = address
        self._queue_name = queue_name
        self._layout: Layout | None = None

    @property
    def layout(self) -> Layout:
        """The table's layout, read once. Raises :class:`QueueNotFoundError` or :class:`NotAQueueError`."""
        if self._layout is None:
            create = CREATE_COMMANDS["delayed"].replace("<queue>", self._queue_name)
            advice = f"create it with {create}, or check the address"
            layout = read_layout(self.session, self.address, "delayed", advice=advice)
            layout.require("delayed")
            self._layout = layout
        return self._layout

    def require(self) -> None:
        """Raise :class:`QueueNotFoundError` or :class:`NotAQueueError` unless the address is such a table."""
        _ = self.layout

    def query(self, name: str, **fragments: Fragment) -> Query:
        """Return a query on this table, whose errors name the table."""
        return query(name, table=identifier(self.address), **fragments).naming("the table", self.address)

    def store(
        self,
        messages: Iterable[Message],
        *,
        delay: timedelta | None = None,
        due: datetime | None = None,
        forward_to: ResolvedAddress | None = None,
    ) -> int:
        """Store messages that are due after ``delay``, by the server's clock, or at ``due``; return their number.

        Give exactly one of the two. A ``delay`` may be of any length. ``due`` is an aware datetime, which the column
        rounds to a multiple of 3.33 ms; a time in the past is due at once. A header names ``forward_to``, the queue to
        which the messages go then; without it they go to the queue of this table. Each statement commits on its own, as
        in :meth:`QueueTable.send`.

        Raises :class:`MessageError` for a message with a time to be received, as endpoints do, for headers as text if
        a header has to be added, and for a time that the column cannot hold.
        """
        row, when = _when(delay, due)
        layout = self.layout
        return sum(
            self._insert(chunk, row, when, layout)
            for chunk in chunks(_delayable(message, forward_to) for message in messages)
        )

    def _insert(self, messages: Sequence[Message], row: Fragment, when: list[Any], layout: Layout) -> int:
        pyodbc = load_pyodbc()
        types = [(pyodbc.SQL_INTEGER, 0, 0)] * 2 if len(when) == 2 else [(pyodbc.SQL_VARCHAR, 33, 0)]
        sizes = [(pyodbc.SQL_WVARCHAR, 0, 0), (pyodbc.SQL_VARBINARY, 0, 0), *types]
        kind = layout.types["Headers"]
        values = [value for message in messages for value in (headers_text(message.headers, kind), message.body, *when)]
        rows = Fragment(", ".join([row] * len(messages)))
        self.session.run(self.query("delayed.store", rows=rows), *values, sizes=sizes * len(messages))
        return len(messages)

    def peek(self, limit: int = 100) -> list[DelayedMessage]:
        """Return the messages that are due next, earliest first, without locked ones; nothing is removed.

        Raises :class:`ConfigurationError` for a limit below zero.
        """
        check_limit(limit)
        return list(islice(self.scan(), min(limit, sys.maxsize)))

    def scan(self) -> Iterator[DelayedMessage]:
        """Yield every message that is not locked, by Due; nothing is removed.

        The messages are read in pages. Within a page, messages of one moment are in the order of RowVersion. The scan
        may miss messages that are stored while it runs.
        """
        since, seen = FIRST, dict[int, int]()
        while True:
            # Each page begins with the latest moment of the page before, because more messages may have that moment.
            wanted = PAGE + len(seen)
            max_bytes = PAGE_BYTES + sum(seen.values())
            page = self.rows("delayed.page", since, wanted, max_bytes)
            yield from (message for message in page if message.row_version not in seen)
            if is_last(page, wanted, max_bytes):
                return
            latest = page[-1].moment
            seen = {message.row_version: message.header_bytes for message in page if message.moment == latest}
            since = latest

    def rows(self, name: str, since: datetime, limit: int, max_bytes: int = PAGE_BYTES) -> list[DelayedMessage]:
        """Return the rows of the query ``delayed.page`` or ``delayed.due``, sorted by Due and RowVersion.

        At most ``max_bytes`` of headers are read, and the headers of one more row.
        """
        statement = self.query(name, due=self._due(), since=self.moment_fragment(), headers=readable_headers())
        rows = [
            DelayedMessage(row_version, due.replace(tzinfo=timezone.utc), headers, int(size))
            for row_version, due, headers, size in self.session.run(statement, limit, since, max_bytes)
        ]
        return sorted(rows, key=lambda message: (message.due, message.row_version))

    def count(self) -> DelayedCount:
        """Count the messages that are not locked."""
        self.require()
        messages, due = self.session.run(self.query("delayed.count"))[0]
        return DelayedCount(messages, due)

    def next_due(self) -> datetime | None:
        """Return the time, in UTC, at which the next message that is not locked is due; None for an empty table."""
        value = self.session.value(self.query("delayed.next_due", due=self._due()))
        return None if value is None else value.replace(tzinfo=timezone.utc)

    def cancel(self, row_versions: Iterable[int]) -> int:
        """Delete the messages with these RowVersions that are still there and not locked, and return how many."""
        wanted = sorted(set(whole_numbers("row_versions", row_versions)))
        self.require()
        return sum(
            int(self.session.value(self.query("delayed.cancel", row_versions=placeholders(page)), *page))
            for page in padded_chunks(wanted)
        )

    def cancel_message(self, message_id: str) -> int:
        """Delete every message with this id in the header ``NServiceBus.MessageId``; return their number.

        This reads the whole table, without bodies: :meth:`cancel` by a RowVersion from :meth:`peek` is faster.
        """
        return self.cancel(
            message.row_version
            for message in self.scan()
            if decode_headers(message.headers).values.get(HeaderNames.MESSAGE_ID) == message_id
        )

    def _due(self) -> Fragment:
        # The driver has no Python type for datetimeoffset.
        with_offset = self.layout.types["Due"] == "datetimeoffset"
        return Fragment("CAST(SWITCHOFFSET([Due], '+00:00') AS datetime2)" if with_offset else "[Due]")

    def moment_fragment(self) -> Fragment:
        """Return a parameter for a moment in the column's own type, without which equal moments would differ."""
        found = self.layout.types["Due"]
        return Fragment(f"CAST(? AS {'datetime' if found == 'smalldatetime' else found})")


def _delayable(message: Message, forward_to: ResolvedAddress | None) -> Message:
    if message.time_to_be_received is not None:
        raise MessageError("A message with a time to be received cannot be delayed: give it one of the two.")
    if forward_to is None:
        return message
    if isinstance(message.headers, str):
        raise MessageError("A message whose headers are text cannot be forwarded: give them as a mapping.")
    return Message({**message.headers, HeaderNames.FORWARD_DESTINATION: forward_to.canonical}, message.body)


def _when(delay: timedelta | None, due: datetime | None) -> tuple[Fragment, list[Any]]:
    """Return the row constructor and the parameters for its Due: days are apart, because DATEADD takes an int."""
    if (delay is None) == (due is None):
        raise ConfigurationError("A delayed message has a delay or a time at which it is due: give one of the two.")
    if not (isinstance(delay, timedelta | None) and isinstance(due, datetime | None)):
        raise MessageError("A delay is a timedelta, and a due time a datetime: write timedelta(seconds=...).")
    if delay is not None:
        if delay < timedelta(0):
            raise MessageError("The delay is below zero: give one of zero or more.")
        if delay >= _LAST - datetime.now(timezone.utc):
            raise MessageError("The delay goes beyond the year 9999, which no column can hold: give a shorter one.")
        days, rest = divmod(delay, _DAY)
        return _AFTER, [rest // _MILLISECOND, days]
    assert due is not None
    if due.tzinfo is None:
        raise MessageError("A due time without a time zone is ambiguous: give it one, as in 2026-01-31T08:00:00Z.")
    if not FIRST.replace(tzinfo=timezone.utc) <= due < _LAST:
        raise MessageError("The due time lies outside the years 1753 to 9999, which is all that a column can hold.")
    # The time is text, which every driver sends with all its digits.
    return _AT, [due.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds")]
