"""Access of statements to a queue table: its layout, read at first use, and queries that name it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from airflow_sqlqueue import errors
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.messages.row import Row, row_of
from airflow_sqlqueue.queue.tables.layout import Layout
from airflow_sqlqueue.queue.tables.reading import identify, is_allowed, read_layout, remember_trigger
from airflow_sqlqueue.server.session import Session, retrying
from airflow_sqlqueue.server.sql import Fragment, Query, identifier, query, seek
from airflow_sqlqueue.server.sql.columns import STAGED_NAMES, output, row_columns, row_names

MAX_ROWS_PER_STATEMENT = 2_000
"""Most rows of a statement: at 5,000 locks the server locks the table, and a row takes two or three (docs/design.md,
"Sizes of statements and parts")."""

FIRST, LAST = -(2**63), 2**63 - 1
"""Bounds of a RowVersion, which is a bigint."""

_OUTPUT_NEEDS_INTO = 334
_LAYOUT_CHANGED = {207, 213, 308, 315, _OUTPUT_NEEDS_INTO, 515, 8622}
"""Errors of a statement that was made for another layout: a column was dropped or added, a trigger was created, or
an index was dropped, disabled or changed."""

_ATTEMPTS = 3

_SUSPECTED_SECONDS = 60.0
_suspected: dict[tuple[str, ResolvedAddress], tuple[float, Layout]] = {}
"""Moment of such an error in a transaction, and the layout then, by server and table. If the layout is read again soon
and is the same, the error has another cause, as a trigger of the table or a NULL."""

T = TypeVar("T")


class TableAccess:
    """Access to a queue table, or to a synonym for one, through one connection; a known ``layout`` saves a query."""

    def __init__(self, session: Session, address: ResolvedAddress, layout: Layout | None = None) -> None:
        self.session = session
        self.address = address
        self._layout = layout
        self._read_at = 0.0
        self._last: tuple[tuple[Layout, str, bool, bool, dict[str, Fragment]], Query] | None = None

    @property
    def layout(self) -> Layout:
        """Layout of the table, read once, and again after an error that shows a change. Raises as :meth:`require`."""
        if self._layout is None:
            read_at = time.monotonic()
            layout = read_layout(self.session, self.address)
            layout.require("queue")
            self._layout, self._read_at = layout, read_at
        return self._layout

    def require(self) -> None:
        """Raise :class:`QueueNotFoundError` or :class:`NotAQueueError` where the address is not that of a queue."""
        _ = self.layout

    def require_allowed(self, resolver: AddressResolver) -> None:
        """Raise :class:`AddressError` where headers may not name this queue: see :meth:`.AddressResolver.allows`."""
        if not is_allowed(self.session, resolver, identify(self.session, self.address)):
            raise errors.AddressError(
                f"The queue {self.address.canonical} is outside of the allowed databases and schemas: allow them to "
                "the connection, or send to another queue."
            )
        self.require()

    def run_for_layout(self, work: Callable[[Layout], T], *, attempts: int = _ATTEMPTS) -> T:
        """Run a statement made for the layout, and once more for the new layout where the table was altered meanwhile.

        Outside a transaction the statement is one itself: after a deadlock, a lock timeout or a failover it was rolled
        back and returned no rows, so it is repeated, ``attempts`` times in all. A read without locks that met moved
        rows is repeated in any case. Inside a transaction a statement is not repeated, because the server may have
        rolled back rows that an earlier one returned: the owner of the transaction gets the error,
        :class:`LayoutChangedError` where the table may have been altered. If the next transaction reads the same layout
        and fails in the same way, it gets the server's error.
        """
        before = self.layout
        try:
            return work(before) if self.session.in_transaction else _retrying(lambda: work(before), attempts)
        except (errors.StatementError, errors.QueueNotFoundError) as error:
            if isinstance(error, errors.StatementError):
                if error.number not in _LAYOUT_CHANGED:
                    raise
                if error.number == _OUTPUT_NEEDS_INTO:
                    remember_trigger(self.session, self.address)
            if self.session.in_transaction and self._is_unaltered(before):
                raise
            self._layout = None
            if self.session.in_transaction:
                raise errors.LayoutChangedError(
                    f"The queue {self.address.canonical} was altered during a transaction: run the transaction again."
                ) from error
            if self.layout == before:
                raise
        return work(self.layout)

    def _is_unaltered(self, layout: Layout) -> bool:
        """Return whether the layout is the one of a recent such error, and was read after it; else note this error."""
        key, now = (self.session.settings.server, self.address), time.monotonic()
        failed_at, suspected = _suspected.get(key, (0.0, None))
        if layout == suspected and now - failed_at < _SUSPECTED_SECONDS:
            return self._read_at > failed_at
        _suspected[key] = now, layout
        return False

    def query(self, name: str, **fragments: Fragment) -> Query:
        """Return a query on this queue, whose errors name the queue. Raises as :meth:`require`."""
        found = query(name, queue=identifier(self.address), seek=seek(self.layout.seek_index), **fragments)
        return found.naming("the queue", self.address)

    def staged(self, layout: Layout, source: str = "deleted.") -> dict[str, Fragment]:
        """Return the fragments of a statement that puts deleted rows, or with a ``source`` others, into ``STAGED``."""
        return {
            "queue": identifier(self.address),
            "seek": seek(layout.seek_index),
            "names": row_names(layout.types),
            "values": row_columns(layout.types, source),
            "columns": STAGED_NAMES,
        }

    def value(self, name: str, *values: Any, **fragments: Fragment) -> Any:
        """Return the first value of a query, None without rows; see :meth:`rows`."""
        found = self.rows(name, *values, **fragments)
        return found[0][0] if found else None

    def rows(self, name: str, *values: Any, **fragments: Fragment) -> list[Any]:
        """Return the rows of a query, which is not repeated after a lock timeout. Raises as :meth:`require`."""
        return self.run_for_layout(lambda _: self.session.run(self.query(name, **fragments), *values), attempts=1)

    def delete_output(
        self, name: str, *values: Any, body: bool = True, cut_headers: bool = False, **fragments: Fragment
    ) -> list[Row]:
        """Return the rows of a deleting query, in no order; ``cut_headers`` cuts those that are too long to read."""
        return list(map(row_of, self.delete_output_raw(name, *values, body=body, cut_headers=cut_headers, **fragments)))

    def delete_output_raw(
        self, name: str, *values: Any, body: bool = True, cut_headers: bool = False, **fragments: Fragment
    ) -> list[Any]:
        """Return the driver's rows for :meth:`delete_output`: nine values in the order of :data:`~.row.COLUMNS`."""

        def run(layout: Layout) -> list[Any]:
            return self.session.run(self._deleting(layout, name, body, cut_headers, fragments), *values)

        return self.run_for_layout(run)

    def _deleting(
        self, layout: Layout, name: str, body: bool, cut_headers: bool, fragments: dict[str, Fragment]
    ) -> Query:
        """Return a deleting query, from a cache of the last one: an endpoint repeats one statement for each message."""
        key = (layout, name, body, cut_headers, fragments)
        if self._last is None or self._last[0] != key:
            columns = output(layout.types, into=layout.output_into, body=body, cut_headers=cut_headers)
            self._last = key, self.query(name, **fragments, **columns)
        return self._last[1]


def _retrying(work: Callable[[], T], attempts: int) -> T:
    if attempts > 1:
        return retrying(work, attempts=attempts)
    return retrying(work, only=errors.DataMovedError)


def check_limit(limit: int) -> None:
    """Raise :class:`ConfigurationError` for a limit on messages that is no number or is below zero."""
    if not isinstance(limit, int) or limit < 0:
        raise errors.ConfigurationError(f"limit is {limit!r}: give a number of messages, 0 or more.")


def check_rows(count: int) -> None:
    """Raise :class:`ConfigurationError` for more rows than one statement may touch."""
    if not isinstance(count, int) or not 1 <= count <= MAX_ROWS_PER_STATEMENT:
        raise errors.ConfigurationError(
            f"{count!r} rows for one statement: give 1 to {MAX_ROWS_PER_STATEMENT}, so that locks never escalate."
        )
