"""A queue table as statements meet it: its layout, read when it is needed, and queries that name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from airflow_sqlqueue.errors import (
    ConfigurationError,
    DataMovedError,
    LayoutChangedError,
    QueueNotFoundError,
    StatementError,
)
from airflow_sqlqueue.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.row import Row, row_of
from airflow_sqlqueue.session import Session, retrying
from airflow_sqlqueue.sql import Fragment, Query, identifier, query, seek
from airflow_sqlqueue.sql.columns import output
from airflow_sqlqueue.tables.layout import Layout
from airflow_sqlqueue.tables.reading import read_layout, remember_trigger

MAX_ROWS_PER_STATEMENT = 2_000
"""Lock escalation starts at 5,000 locks of one statement, and a row costs two or three (docs/design.md, "Sizes of
statements and parts")."""

FIRST, LAST = -(2**63), 2**63 - 1
"""The bounds of a RowVersion: a bigint."""

_OUTPUT_NEEDS_INTO = 334
_LAYOUT_CHANGED = {207, 213, 271, 308, 315, _OUTPUT_NEEDS_INTO, 515, 8622}
"""Errors of a statement that was made for another layout: columns that went, came or are computed, a trigger, an index
that is gone, disabled or on other columns."""

_ATTEMPTS = 3

T = TypeVar("T")


class TableAccess:
    """One queue table, through one connection. ``address`` is where it was looked for; a synonym may stand there.

    ``layout`` spares reading it where the caller has just done so.
    """

    def __init__(self, session: Session, address: ResolvedAddress, layout: Layout | None = None) -> None:
        self.session = session
        self.address = address
        self._layout = layout
        self._last: tuple[tuple[Layout, str, bool, bool, dict[str, Fragment]], Query] | None = None

    @property
    def layout(self) -> Layout:
        """The table's layout, read once and again after an error that says it changed.

        Raises :class:`QueueNotFoundError` or :class:`NotAQueueError`.
        """
        if self._layout is None:
            layout = read_layout(self.session, self.address)
            layout.require("queue")
            self._layout = layout
        return self._layout

    def require(self) -> None:
        """Raise :class:`QueueNotFoundError` or :class:`NotAQueueError` where no queue stands at the address."""
        _ = self.layout

    def require_allowed(self, resolver: AddressResolver) -> None:
        """Raise :class:`AddressError` where headers of messages may not name this queue, or the table behind its name.

        Raises as :meth:`require` too. See :meth:`.AddressResolver.allows`.
        """
        resolver.require_allowed(self.address)
        resolver.require_allowed(self.layout.table)

    def run_for_layout(self, work: Callable[[Layout], T], *, attempts: int = _ATTEMPTS) -> T:
        """Run a statement made for the layout, once more with the new one where the table was altered meanwhile.

        On its own it is a transaction: after a deadlock, a lock timeout or a failover it is repeated, ``attempts``
        times in all, as it was rolled back and nothing was handed out. Where a read without locks met rows that were
        moved, it is repeated in any case. Inside a transaction nothing is repeated, as the
        server may have rolled back what was handed out before: the error goes to its owner, :class:`LayoutChangedError`
        where the table was altered.
        """
        before = self.layout
        try:
            return work(before) if self.session.in_transaction else _retrying(lambda: work(before), attempts)
        except (StatementError, QueueNotFoundError) as error:
            if isinstance(error, StatementError):
                if error.number not in _LAYOUT_CHANGED:
                    raise
                if error.number == _OUTPUT_NEEDS_INTO:
                    remember_trigger(self.session, self.address)
            self._layout = None
            if self.session.in_transaction:
                raise LayoutChangedError(
                    f"The queue {self.address.canonical} was altered under a transaction: run it again."
                ) from error
            if self.layout == before:
                raise
        return work(self.layout)

    def query(self, name: str, **fragments: Fragment) -> Query:
        """A query on this queue, whose errors name it. Raises where no queue stands there."""
        found = query(name, queue=identifier(self.address), seek=seek(self.layout.seek_index), **fragments)
        return found.naming("the queue", self.address)

    def value(self, name: str, *values: Any, **fragments: Fragment) -> Any:
        """The one value of a query; see :meth:`rows`."""
        found = self.rows(name, *values, **fragments)
        return found[0][0] if found else None

    def rows(self, name: str, *values: Any, **fragments: Fragment) -> list[Any]:
        """The rows of a query, which is not repeated after a lock timeout. Raises where no queue stands there."""
        return self.run_for_layout(lambda _: self.session.run(self.query(name, **fragments), *values), attempts=1)

    def delete_output(
        self, name: str, *values: Any, body: bool = True, bounded: bool = False, **fragments: Fragment
    ) -> list[Row]:
        """The rows that a deleting query returns by its OUTPUT clause; their order is undefined.

        With ``bounded`` headers that are too long to be read are cut.
        """
        return list(map(row_of, self.delete_output_raw(name, *values, body=body, bounded=bounded, **fragments)))

    def delete_output_raw(
        self, name: str, *values: Any, body: bool = True, bounded: bool = False, **fragments: Fragment
    ) -> list[Any]:
        """The same rows as the driver returns them: nine values each, in the order of :data:`~.row.COLUMNS`."""

        def run(layout: Layout) -> list[Any]:
            return self.session.run(self._deleting(layout, name, body, bounded, fragments), *values)

        return self.run_for_layout(run)

    def _deleting(self, layout: Layout, name: str, body: bool, bounded: bool, fragments: dict[str, Fragment]) -> Query:
        """A deleting query. The last one is kept: an endpoint receives its messages one by one, with one statement."""
        key = (layout, name, body, bounded, fragments)
        if self._last is None or self._last[0] != key:
            columns = output(layout.types, into=layout.output_into, body=body, bounded=bounded)
            self._last = key, self.query(name, **fragments, **columns)
        return self._last[1]


def _retrying(work: Callable[[], T], attempts: int) -> T:
    if attempts > 1:
        return retrying(work, attempts=attempts)
    return retrying(work, only=DataMovedError)


def check_rows(count: int) -> None:
    """Raise :class:`ConfigurationError` for more rows than one statement may touch."""
    if not 1 <= count <= MAX_ROWS_PER_STATEMENT:
        raise ConfigurationError(
            f"{count} rows for one statement: give 1 to {MAX_ROWS_PER_STATEMENT}, so that locks never escalate."
        )
