"""All queues of a database at one look, which costs the server one round trip and reads no table from end to end.

Counts and identities are those of the catalog. Of a few queues at a time the first message is sought as well, and
expired ones are counted up to a number, by their index; the others take their turn at the next looks. What tables look
like is read anew when a table comes or goes, and from time to time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, islice
from typing import Any

from airflow_sqlqueue.envelope.times import parse_time
from airflow_sqlqueue.errors import (
    DataMovedError,
    LockTimeoutError,
    PermissionDeniedError,
    QueueNotFoundError,
    StatementError,
)
from airflow_sqlqueue.inspection.findings import Finding, InspectedTable
from airflow_sqlqueue.inspection.inspect import findings_of, is_online
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.routing import ResolvedAddress, endpoint_table
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Query, identifier, query, seek
from airflow_sqlqueue.tables.create import DELAYED_QUALIFIER, LEDGER_SCHEMA
from airflow_sqlqueue.tables.discovery import FoundTable
from airflow_sqlqueue.tables.layout import Layout
from airflow_sqlqueue.tables.own import stored_name
from airflow_sqlqueue.tables.reading import layout_of

HEADS = 40
"""Queues of which one look seeks the first message and counts what has expired."""

COUNTED_EXPIRED = 1_000
"""Expired messages of a queue that a look counts at the most."""

COUNTED_QUARANTINED = 10_000
"""Rows of the quarantine that a look counts at the most."""

LAYOUTS_FOR = 300.0
"""Seconds after which layouts are read again."""

_NO_PAGES = 0
"""The sizes of tables are not read, which takes the server longer than all else: no heap is called bloated here."""

_Statement = tuple[Query, tuple[Any, ...]]
"""A statement with the values of its parameters."""

_REFUSALS = (PermissionDeniedError, QueueNotFoundError, StatementError)
"""Errors of a table that is gone, was altered, or may not be read: it is asked again when layouts are read again."""

_PASSING = (LockTimeoutError, DataMovedError)
"""Errors of a table that is locked as a whole, over which READPAST does not step, or that moves: it is asked again at
the next look."""

_LOCKED = Finding(
    "locked",
    "warning",
    "Others have locked the whole table, as a rebuild, a bulk load or a purge of many rows at once does: what is in it "
    "cannot be seen, and nobody can receive meanwhile.",
)

_LAYOUTS = ("overview.tables", "overview.columns", "overview.indexes", "overview.triggers")


@dataclass(frozen=True)
class QueueOverview:
    """A queue, or a table of delayed messages (``kind``), as the last look has it.

    ``rows`` is the catalog's count: it has what is expired or being received, and may be a little behind. ``inserted``
    is how many rows were ever inserted, by the identity, which servers skip numbers of. ``expired`` is counted up to
    :data:`COUNTED_EXPIRED`; ``oldest`` is when the first message was sent, by its header. None is what is not known.
    """

    table: ResolvedAddress
    kind: str
    rows: int
    inserted: int | None = None
    delayed: int | None = None
    quarantined: int | None = None
    expired: int | None = None
    oldest: datetime | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class _CountedTable:
    """A row of the query ``counts``."""

    table: ResolvedAddress
    rows: int
    inserted: int | None


@dataclass(frozen=True)
class _Head:
    """What the first message of a queue says."""

    expired: int | None
    oldest: datetime | None


class DatabaseOverview:
    """The queues of one database, look by look; it keeps what tables look like. For one thread at a time.

    A table that is locked as a whole is shown with the finding ``locked``; a look waits for it once.

    :param clock: seconds that never go back.
    """

    def __init__(
        self, catalog: str, ledger_schema: str = LEDGER_SCHEMA, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.catalog, self._clock = catalog, clock
        self._quarantine = ResolvedAddress("Quarantine", ledger_schema, catalog)
        self._layouts: dict[int, Layout] = {}
        self._durability: str | None = None
        self._read_at: float | None = None
        self._heads: dict[int, _Head] = {}
        self._refused: set[int] = set()
        self._locked: set[int] = set()
        self._quarantined: dict[str, int] | None = None
        self._turn = 0

    def look(self, session: Session) -> list[QueueOverview]:
        """Look once: one round trip, a second one where tables came or went since.

        Raises what a session raises; :class:`QueueNotFoundError` for a database that is not there, and
        :class:`LockTimeoutError` where the catalog itself is locked, as by a CREATE or ALTER that is not committed.
        """
        heads, single = self._next_heads(), set(self._locked)
        try:
            counted = self._read(session, heads)
        except (*_REFUSALS, *_PASSING):
            # Of which table it is, they say one by one.
            self._read_at = None
            counted = self._read(session, [])
            single |= set(heads)
        self._read_singly(session, single & self._layouts.keys())
        if counted.keys() != self._layouts.keys():
            self._read_at = None
            counted = self._read(session, [])
        return self._overview(session, counted)

    def _read(self, session: Session, heads: Sequence[int]) -> dict[int, _CountedTable]:
        """The counts, with the layouts where they are due, and the heads of some queues."""
        now = self._clock()
        due = self._read_at is None or now - self._read_at >= LAYOUTS_FOR
        statements: list[_Statement] = [(query("overview.counts", catalog=identifier(self.catalog)), ())]
        if due:
            statements += [(query(name, catalog=identifier(self.catalog)), ()) for name in _LAYOUTS]
            statements.append((query("overview.database"), (self.catalog,)))
        has_quarantine = any(layout.table == self._quarantine for layout in self._layouts.values()) and bool(heads)
        if has_quarantine:
            found = query("overview.quarantined", quarantine=identifier(self._quarantine))
            statements.append((found, (COUNTED_QUARANTINED,)))
        for each in heads:
            statements += self._head_queries(each)
        counts_expired = {each: _counts_expired(self._layouts[each]) for each in heads}
        results = iter(_batch(session, statements))
        counted = self._counted(next(results))
        if due:
            self._read_layouts(counted, *islice(results, len(_LAYOUTS) + 1))
            self._read_at = now
        if has_quarantine:
            self._quarantined = {queue: int(messages) for queue, messages in next(results)}
        for each in heads:
            self._heads[each] = _head(results, counts_expired[each])
        return counted

    def _read_singly(self, session: Session, heads: Collection[int]) -> None:
        """Seek the first message of each in a round trip of its own, and wait for no lock."""
        if not heads:
            return
        with session.lock_timeout(0):
            for each in heads:
                self._locked.discard(each)
                try:
                    results = iter(_batch(session, self._head_queries(each)))
                    self._heads[each] = _head(results, _counts_expired(self._layouts[each]))
                except _REFUSALS:
                    self._refused.add(each)
                except _PASSING:
                    self._locked.add(each)
                    self._heads.pop(each, None)

    def _next_heads(self) -> list[int]:
        """The queues whose turn it is: those that a message can be sought in."""
        able = [
            each
            for each, layout in self._layouts.items()
            if layout.kind == "queue"
            and layout.seek_index
            and not layout.unusable
            and each not in self._refused | self._locked
        ]
        if not able:
            return []
        self._turn %= -(-len(able) // HEADS)
        start = self._turn * HEADS
        self._turn += 1
        return able[start : start + HEADS]

    def _head_queries(self, each: int) -> list[_Statement]:
        layout = self._layouts[each]
        where = {"queue": identifier(layout.table)}
        sought = query("overview.head", seek=seek(layout.seek_index), **where)
        found: list[_Statement] = [(sought, (FIRST,))]
        if _counts_expired(layout):
            found.append((query("queue.expired_up_to", **where), (COUNTED_EXPIRED,)))
        return found

    def _counted(self, rows: Iterable[Any]) -> dict[int, _CountedTable]:
        found = {}
        for number, schema, table, count, last, seed, increment in rows:
            if "@" in table or table.startswith("#"):
                continue  # No address means such a table.
            inserted = None if seed is None else 0 if last is None else max(0, (last - seed) // increment + 1)
            found[number] = _CountedTable(ResolvedAddress(table, schema, self.catalog), int(count or 0), inserted)
        return found

    def _read_layouts(
        self,
        counted: dict[int, _CountedTable],
        tables: Any,
        columns: Any,
        indexes: Any,
        triggers: Any,
        database: Any,
    ) -> None:
        by_columns, by_indexes, by_triggers = _by_table(columns), _by_table(indexes), _by_table(triggers)
        snapshot, self._durability = database[0] if database else (False, None)
        self._layouts = {}
        for number, *properties in tables:
            if number in counted:
                rows = (by_table.get(number, ()) for by_table in (by_columns, by_indexes, by_triggers))
                table = counted[number].table
                self._layouts[number] = layout_of(table, "table", properties, snapshot, *rows)
        self._refused.clear()
        self._locked &= self._layouts.keys()
        self._heads = {number: head for number, head in self._heads.items() if number in self._layouts}

    def _overview(self, session: Session, counted: dict[int, _CountedTable]) -> list[QueueOverview]:
        names = {each.table: each.rows for each in counted.values()}
        surroundings = _Catalog(frozenset(names), self._durability)
        quarantined = self._quarantined if self._quarantine in names else {}
        found = []
        for number, layout in self._layouts.items():
            each = counted.get(number)
            if each is None or layout.kind not in ("queue", "delayed"):
                continue
            overview = QueueOverview(each.table, layout.kind, each.rows, each.inserted)
            if layout.kind == "queue":
                inspected = InspectedTable(surroundings, layout, each.rows, _NO_PAGES, is_online(session))
                head = self._heads.get(number, _Head(None, None))
                overview = replace(
                    overview,
                    delayed=_delayed(each.table, names),
                    quarantined=None if quarantined is None else quarantined.get(stored_name(each.table.canonical), 0),
                    expired=head.expired,
                    oldest=head.oldest if each.rows else None,
                    findings=(*((_LOCKED,) if number in self._locked else ()), *findings_of(inspected)),
                )
            found.append(overview)
        return found


@dataclass(frozen=True)
class _Catalog:
    """What stands beside a table, as the look has it. Who else receives takes a look at each queue: nobody is asked."""

    names: frozenset[ResolvedAddress]
    delayed_durability: str | None

    def exists(self, table: ResolvedAddress) -> bool:
        return table in self.names

    def durability(self, catalog: str) -> str | None:
        return self.delayed_durability

    def receivers(self, table: ResolvedAddress) -> Sequence[tuple[str | None, str | None]]:
        return []

    def tables(self, catalog: str) -> list[FoundTable]:
        return []


def _delayed(queue: ResolvedAddress, rows: Mapping[ResolvedAddress, int]) -> int | None:
    name = endpoint_table(queue.table, DELAYED_QUALIFIER)
    return rows.get(replace(queue, table=name)) if len(name) <= 128 else None


def _counts_expired(layout: Layout) -> bool:
    index = layout.index_on("Expires")
    return index is not None and not index.disabled


def _head(results: Iterator[list[Any]], counts_expired: bool) -> _Head:
    rows = next(results)
    expired = int(next(results)[0][0]) if counts_expired else None
    return _Head(expired, parse_time(rows[0][0]) if rows else None)


def _batch(session: Session, statements: Sequence[_Statement]) -> list[list[Any]]:
    """The results of several statements, which go to the server together."""
    text = "\n".join(statement.text for statement, _ in statements)
    values = [value for _, given in statements for value in given]
    return session.results(Query("overview", "look at the queues of the database", text, ours=True), *values)


def _by_table(rows: Iterable[Any]) -> dict[int, list[Any]]:
    return {number: [row[1:] for row in group] for number, group in groupby(rows, key=lambda row: row[0])}
