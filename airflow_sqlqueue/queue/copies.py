"""Copies of new messages: for each copy of a queue a watermark and its gaps, in two tables beside the ledger.

A copy reads each message once over all of its runs. The watermark is the highest RowVersion that the copy has seen; the
gaps are the numbers below it at which it has seen no message, because their transaction may still be open.

Source: docs/design.md, "Copies of new messages".
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError, CopyError, LockTimeoutError
from airflow_sqlqueue.queue.depth import Depth
from airflow_sqlqueue.queue.gaps import Gap, gaps_between, shrink
from airflow_sqlqueue.queue.table_access import FIRST, LAST, MAX_ROWS_PER_STATEMENT, TableAccess
from airflow_sqlqueue.queue.tables.create import Definition, ensure
from airflow_sqlqueue.queue.tables.layout import Layout
from airflow_sqlqueue.queue.tables.own import OwnTable, lock_name, stored_name
from airflow_sqlqueue.queue.window import padded_chunks, placeholders
from airflow_sqlqueue.server.settings import LEDGER_SCHEMA
from airflow_sqlqueue.server.sql import Fragment, Query, identifier, seek
from airflow_sqlqueue.untrusted import units

log = logging.getLogger(__name__)

LONGEST_NAME = 220
"""Maximum number of characters of a copy's name."""

MAX_GAPS = 100_000
"""Number of gaps from which a copy reads no further messages until gaps are closed."""

CLOSING_SECONDS = 600
"""Seconds between the sight of a gap and its end. An INSERT takes its number a moment before its lock on the table
(docs/transport/transactions.md, "Numbers and locks of an INSERT"); nothing shows that moment, so it gets minutes."""

CLOSING_WAIT = 0.1
"""Seconds of the wait for an instant at which no transaction writes; others who begin to write wait as long for it."""

MAX_EXPIRED = 2_000
"""Most expired messages that a count looks at."""

_NAMESPACE = uuid.UUID("8a0f6f5e-7a0b-5d57-8c43-6d2f3f1c9b62")


def check_copy_name(name: str) -> str:
    """Return the name of a copy. Raises :class:`ConfigurationError` for one that is empty or too long."""
    if not isinstance(name, str) or not name.strip() or units(name) > LONGEST_NAME:
        raise ConfigurationError(
            f"The name of a copy has 1 to {LONGEST_NAME} characters: give incremental another one."
        )
    return name


def copy_id(name: str, queue: str) -> uuid.UUID:
    """Return the id of a copy: its name and the queue's identity, as a canonical address."""
    return uuid.uuid5(_NAMESPACE, f"{name}\0{stored_name(queue)}")


@dataclass(frozen=True)
class CopyState:
    """State of a copy: its watermark ``high``, the number of its gaps, and the identity of the queue's table.

    The gaps up to ``closing_up_to`` were seen ``closing_age`` seconds ago, by the server's clock. ``stored``: the copy
    has a row.
    """

    id: uuid.UUID
    table_id: str
    high: int = FIRST
    gaps: int = 0
    closing_up_to: int | None = None
    closing_age: int = 0
    stored: bool = False


@dataclass(frozen=True)
class CopyInfo:
    """Listed copy: its queue, watermark, number of gaps and of copied messages, and the time since the last of them."""

    name: str
    queue: str
    high: int
    gaps: int
    messages: int
    age: timedelta

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values only: ``age_seconds`` for the age."""
        values = asdict(self)
        age: timedelta = values.pop("age")
        return {**values, "age_seconds": round(age.total_seconds(), 3)}


class CopyGaps(OwnTable):
    """Table of the gaps of all copies of one database."""

    name = "CopyGap"
    made_by = ("copies.make_gaps",)


class CopyTable(OwnTable):
    """Table of the copies of one database, through one connection, with the table of their gaps."""

    name = "Copy"
    made_by = ("copies.make",)

    def query(self, name: str, **fragments: Fragment) -> Query:
        """Return a query by its full name, with the names of both tables and of their database filled in."""
        gap = CopyGaps.address_in(self.catalog, self.schema)
        return super().query(name, gap=identifier(gap), **fragments)

    def create(self) -> None:
        """Create both tables and their schema if they are missing."""
        for definition in copy_definitions(self.catalog, self.schema):
            ensure(self.session, definition)

    def rows(self) -> list[CopyInfo]:
        """Return all copies, by name and queue."""
        found = self.session.run(self.query("copies.list"))
        return [
            CopyInfo(name, queue, int(high), int(gaps), int(messages), max(timedelta(0), now - at))
            for name, queue, high, gaps, messages, at, now in found
        ]

    def forget(self, name: str, queue: str) -> bool:
        """Delete a copy, whose next run begins at the head of the queue; False for an unknown one."""
        copy = copy_id(name, queue)
        with self.session.transaction():
            self.session.take_lock(self.query("copies.lock"), lock_name("copies", self.schema, copy))
            self.delete_gaps(copy)
            return int(self.session.value(self.query("copies.forget"), str(copy))) == 1

    def delete_gaps(self, copy: uuid.UUID, up_to: int = LAST) -> int:
        """Delete the gaps of a locked copy that end at ``up_to`` or before, and return how many it deleted."""
        statement = self.query("copies.close_gaps")
        return self.session.sum_in_chunks(statement, MAX_ROWS_PER_STATEMENT, str(copy), up_to)


class QueueCopy:
    """Copy of one queue under one name, through the queue's connection."""

    def __init__(self, queue: TableAccess, name: str) -> None:
        self._queue, self._name = queue, check_copy_name(name)
        self._identity = queue.layout.table
        self._id = copy_id(name, self._identity.canonical)
        self._table = CopyTable(queue.session, self._identity.catalog)
        self._session = queue.session

    def exists(self) -> bool:
        """Return whether the tables of copies exist."""
        return self._table.exists()

    def state(self) -> CopyState:
        """Return the state of the copy as it is now; a new copy, or one of a table made anew, begins at its head.

        That the numbers of the table began again is known from the last one given, and from another message at the
        watermark.
        """
        table = self._queue.layout.table
        rows = self._run("copies.find", str(self._id), table.qualified_name)
        if not rows:
            raise CopyError(
                f"The login may not see the table of {self._queue.address.canonical}: grant it SELECT on the table."
            )
        object_id, created, identity, last, known, high, gaps, closing_up_to, age, replaced = rows[0]
        if identity is None:
            raise CopyError(
                f"The column RowVersion of {self._queue.address.canonical} has no IDENTITY, so that a number may come "
                "again: copy its messages without incremental."
            )
        table_id = f"{object_id} {created.isoformat()}"
        if known != table_id:
            return CopyState(self._id, table_id, stored=known is not None)
        if last is None or last < high or replaced:
            why = "another message has it now" if replaced else f"the table has given {last or 0} at most"
            raise CopyError(
                f"The copy {self._name!r} of {self._queue.address.canonical} has seen RowVersion {high}, and {why}: "
                "the table was truncated or reseeded; run 'sqlqueue copies --queue <queue> --reset <name>', and it "
                "begins at the head of the queue."
            )
        up_to = None if closing_up_to is None else int(closing_up_to)
        return CopyState(self._id, table_id, int(high), int(gaps), up_to, int(age or 0), stored=True)

    def lock(self) -> CopyState:
        """Lock the copy to the end of the transaction under way, and return its state. Raises as :meth:`state`."""
        self._session.take_lock(self._table.query("copies.lock"), lock_name("copies", self._table.schema, self._id))
        state = self.state()
        if state.high != FIRST:
            return state
        if state.stored:
            log.info("The table of %s was made anew: %r begins at its head", self._queue.address.canonical, self._name)
            self._table.delete_gaps(self._id)
            self._session.run(self._table.query("copies.forget"), str(self._id))
        values = (self._name, stored_name(self._identity.canonical), state.table_id, FIRST)
        self._session.run(self._table.query("copies.enter"), str(self._id), *values)
        return state

    def in_gaps(self, limit: int, up_to: int) -> dict[int, Gap]:
        """Return the RowVersions of the first messages that lie in gaps, with their gaps; locked ones are not found."""
        rows = self._run("copies.in_gaps", up_to, limit, str(self._id))
        return {int(number): Gap(int(low), int(high)) for number, low, high in rows}

    def advance(self, state: CopyState, seen: Sequence[int], gaps: Sequence[Gap] | None) -> None:
        """Note the messages that a part of the locked copy has seen: those in ``gaps``, or with None those above."""
        if self.state().table_id != state.table_id:
            raise CopyError(
                f"The table of {self._queue.address.canonical} was made anew during the copy: run it again."
            )
        numbers = sorted(set(seen))
        filled, rests, high = list[Gap](), list[Gap](), state.high
        if gaps is not None:
            filled, rests = shrink(gaps, numbers)
        elif numbers:
            rests, high = gaps_between(state.high, numbers), numbers[-1]
        for lows in padded_chunks([gap.low for gap in filled]):
            self._session.run(self._table.query("copies.drop_gaps", lows=placeholders(lows)), str(self._id), *lows)
        for piece in padded_chunks(rests):
            rows = Fragment(", ".join(["(?, ?)"] * len(piece)))
            values = [bound for gap in piece for bound in gap]
            self._session.run(self._table.query("copies.add_gaps", rows=rows), str(self._id), *values)
        change = len(rests) - len(filled)
        self._run("copies.advance", high, change, len(seen), str(self._id))

    def check_gaps(self) -> None:
        """Raise :class:`CopyError` for a copy with too many gaps."""
        state = self.state()
        if state.gaps >= MAX_GAPS:
            raise CopyError(
                f"The copy {self._name!r} of {self._queue.address.canonical} has {state.gaps:,} gaps, which close by "
                "themselves only while no transaction writes to the queue: run it at a quieter time, or close those "
                "that are older than any transaction with 'sqlqueue copies --queue <queue> --close <name> "
                "--older-than <time>'."
            )

    def close_gaps(self, longest: timedelta | None = None) -> int:
        """Close the gaps that no transaction can fill any more, and return how many; 0 while the proof fails.

        The proof is in docs/design.md, "Copies of new messages"; with ``longest`` the caller vouches in its place that
        no transaction lasts longer. Call it outside of a transaction. Others wait at most :data:`CLOSING_WAIT` for it.
        """
        state = self.state()
        if state.gaps and state.closing_up_to is None:
            self._session.run(self._table.query("copies.begin_closing"), str(self._id))
        least = max(timedelta(seconds=CLOSING_SECONDS), longest or timedelta(0))
        if not state.gaps or state.closing_up_to is None or timedelta(seconds=state.closing_age) < least:
            return 0
        with self._session.lock_timeout(CLOSING_WAIT):
            try:
                if longest is None:
                    self._check_no_writers()
                with self._session.transaction():
                    if self.lock().closing_up_to != state.closing_up_to:
                        return 0
                    if self._run("copies.first_in_gaps", str(self._id), state.closing_up_to):
                        return 0
                    closed = self._table.delete_gaps(self._id, state.closing_up_to)
                    self._session.run(self._table.query("copies.end_closing"), closed, str(self._id))
            except LockTimeoutError:
                return 0
        log.info("The copy %r of %s has closed %d gaps", self._name, self._queue.address.canonical, closed)
        return closed

    def _check_no_writers(self) -> None:
        if self._queue.layout.seek_index is None:
            self._run("copies.no_writers_by_scan")
        else:
            self._run("copies.no_writers", FIRST)

    def count(self, limit: int, up_to: int = LAST, *, late: bool = True) -> Depth | None:
        """Count the messages up to ``up_to`` that the copy does not have; None for a copy that has no message at all.

        The count goes on up to ``limit`` among late messages, which ``late`` may leave out, and as far among those
        above the watermark. Expired messages count apart above the watermark alone, where the total is below ``limit``,
        and by the index on Expires, among the 2,000 that expired last; the next run of the copy passes all of them.
        """
        state = self.state() if self.exists() else None
        if state is None or state.high == FIRST:
            return None
        index = self._queue.layout.index_on("Expires")
        expiring = 0 if index is None or index.disabled else MAX_EXPIRED
        values = (up_to, state.high, expiring, limit if late else 0, str(self._id), limit)
        total, expired = self._run("copies.count_new", *values)[0]
        expired = expired if total < limit else 0
        return Depth(int(total - expired), int(expired))

    def _run(self, name: str, *values: Any) -> list[Any]:
        def run(layout: Layout) -> list[Any]:
            names = {"queue": identifier(self._queue.address), "seek": seek(layout.seek_index)}
            statement = self._table.query(name, **names, tables=identifier(self._identity.catalog))
            return self._session.run(statement.naming("the queue", self._queue.address), *values)

        return self._queue.run_for_layout(run, attempts=1)


def copy_definitions(catalog: str, schema: str = LEDGER_SCHEMA) -> tuple[Definition, ...]:
    """Return the definitions of both tables, for :func:`.tables.create.create` and for scripts."""
    return CopyTable.definition(catalog, schema), CopyGaps.definition(catalog, schema)
