"""Overview of all queues of a database in one round trip, without a scan of any table.

Counts and identities come from the catalog. For a few queues at a time a read also seeks the first message and counts
expired messages up to a limit, by their index; the next reads do this for other queues. Layouts are read again when a
table is created or dropped, and at intervals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, islice
from typing import Any

from airflow_sqlqueue import errors
from airflow_sqlqueue.messages.address import has_valid_length
from airflow_sqlqueue.messages.envelope.times import parse_time
from airflow_sqlqueue.messages.routing import DELAYED_SUFFIX, ResolvedAddress, endpoint_table
from airflow_sqlqueue.queue.inspection.findings import Finding, InspectedTable, ServerFacts
from airflow_sqlqueue.queue.inspection.inspect import findings_of, is_online
from airflow_sqlqueue.queue.quarantine import Quarantine
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.queue.tables.layout import Layout
from airflow_sqlqueue.queue.tables.own import stored_name
from airflow_sqlqueue.queue.tables.reading import layout_of
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query, identifier, query, seek

HEADS = 40
"""Number of queues for which one read seeks the first message and counts expired messages."""

COUNTED_EXPIRED = 1_000
"""Maximum number of expired messages of a queue that a read counts."""

COUNTED_QUARANTINED = 10_000
"""Maximum number of rows of the quarantine that a read counts."""

LAYOUTS_FOR = 300.0
"""Seconds after which layouts are read again."""

_NO_PAGES = 0
"""The overview does not read sizes of tables, the slowest query of all, so it has no finding for bloated heaps."""

_Statement = tuple[Query, tuple[Any, ...]]
"""A statement with the values of its parameters."""

_REFUSALS = (errors.PermissionDeniedError, errors.QueueNotFoundError, errors.StatementError)
"""Errors of a table that is gone, was altered, or may not be read: it is read again together with the layouts."""

_PASSING = (errors.LockTimeoutError, errors.DataMovedError)
"""Errors of a table that is locked as a whole, which READPAST does not skip, or that moves: the next read includes it.
"""

_LOCKED = Finding(
    "locked",
    "warning",
    "Others have locked the whole table, as a rebuild, a bulk load or a purge of many rows at once does: its messages "
    "cannot be seen, and no receiver gets any meanwhile.",
)

_LAYOUTS = ("overview.tables", "overview.columns", "overview.indexes", "overview.triggers")


@dataclass(frozen=True)
class QueueOverview:
    """Queue, or table of delayed messages (``kind``), at the time of the last read.

    ``rows`` is the catalog's count: it includes expired messages and those that are being received, and may be a little
    late. ``inserted`` is the number of rows that were ever inserted, by the identity, in which servers leave gaps.
    ``expired`` is counted up to :data:`COUNTED_EXPIRED`; ``oldest`` is the time at which the first message was sent, by
    its header. Unknown values are None.
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
    """Row of the query ``overview.counts``."""

    table: ResolvedAddress
    rows: int
    inserted: int | None


@dataclass(frozen=True)
class _Head:
    """Count of expired messages of a queue, and the time at which its first message was sent."""

    expired: int | None
    oldest: datetime | None


class DatabaseOverview:
    """Overview of the queues of one database; it keeps the layouts between two reads. For one thread at a time.

    A table that is locked as a whole has the finding ``locked``; a read waits for its lock once.

    :param delayed_suffix: the suffix of tables of delayed messages.
    :param clock: monotonic time in seconds.
    """

    def __init__(
        self, catalog: str, *, delayed_suffix: str = DELAYED_SUFFIX, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.catalog, self._delayed_suffix, self._clock = catalog, delayed_suffix, clock
        self._layouts: dict[int, Layout] = {}
        self._durability: str | None = None
        self._read_at: float | None = None
        self._heads: dict[int, _Head] = {}
        self._refused: set[int] = set()
        self._locked: set[int] = set()
        self._quarantined: dict[str, int] | None = None
        self._turn = 0

    def read(self, session: Session) -> list[QueueOverview]:
        """Read the overview: one round trip, a second one if tables were created or dropped since the last read.

        Raises :class:`LockTimeoutError` if the catalog itself is locked, as by a CREATE or ALTER that is not committed.
        """
        heads, single = self._next_heads(), set(self._locked)
        try:
            counted = self._read(session, heads)
        except (*_REFUSALS, *_PASSING):
            # The error does not name its table: reads of single tables find it.
            self._read_at = None
            counted = self._read(session, [])
            single |= set(heads)
        self._read_singly(session, single & self._layouts.keys())
        if counted.keys() != self._layouts.keys():
            self._read_at = None
            counted = self._read(session, [])
        return self._overview(session, counted)

    def _read(self, session: Session, heads: Sequence[int]) -> dict[int, _CountedTable]:
        """Read the counts, the layouts if they are due, and the first messages of some queues."""
        now = self._clock()
        due = self._read_at is None or now - self._read_at >= LAYOUTS_FOR
        statements: list[_Statement] = [(query("overview.counts", catalog=identifier(self.catalog)), ())]
        if due:
            statements += [(query(name, catalog=identifier(self.catalog)), ()) for name in _LAYOUTS]
            statements.append((query("overview.database"), (self.catalog,)))
        quarantine = Quarantine(session, self.catalog).address
        has_quarantine = any(layout.table == quarantine for layout in self._layouts.values()) and bool(heads)
        if has_quarantine:
            found = query("overview.quarantined", quarantine=identifier(quarantine))
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
        """Seek the first message of each queue in a round trip of its own, without waiting for locks."""
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
        """Return the queues for the next read, among those in which a first message can be sought."""
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
                continue  # No address can name such a table.
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
        facts = _OverviewFacts(session, names, self._durability)
        quarantined = self._quarantined if Quarantine(session, self.catalog).address in names else {}
        found = []
        for number, layout in self._layouts.items():
            each = counted.get(number)
            if each is None or layout.kind not in ("queue", "delayed"):
                continue
            overview = QueueOverview(each.table, layout.kind, each.rows, each.inserted)
            if layout.kind == "queue":
                inspected = InspectedTable(
                    facts, layout, each.rows, _NO_PAGES, is_online(session), self._delayed_suffix
                )
                head = self._heads.get(number, _Head(None, None))
                overview = replace(
                    overview,
                    delayed=_delayed(each.table, self._delayed_suffix, names),
                    quarantined=None if quarantined is None else quarantined.get(stored_name(each.table.canonical), 0),
                    expired=head.expired,
                    oldest=head.oldest if each.rows else None,
                    findings=(*((_LOCKED,) if number in self._locked else ()), *findings_of(inspected)),
                )
            found.append(overview)
        return found


@dataclass(frozen=True)
class _OverviewFacts(ServerFacts):
    """Facts from the overview query. Receivers are not queried, to save one statement for each queue."""

    names: Collection[ResolvedAddress]
    delayed_durability: str | None

    def exists(self, table: ResolvedAddress) -> bool:
        return table in self.names

    def durability(self, catalog: str) -> str | None:
        return self.delayed_durability

    def receivers(self, table: ResolvedAddress) -> list[str]:
        return []


def _delayed(queue: ResolvedAddress, suffix: str, rows: Mapping[ResolvedAddress, int]) -> int | None:
    name = endpoint_table(queue.table, suffix)
    return rows.get(replace(queue, table=name)) if has_valid_length(name) else None


def _counts_expired(layout: Layout) -> bool:
    index = layout.index_on("Expires")
    return index is not None and not index.disabled


def _head(results: Iterator[list[Any]], counts_expired: bool) -> _Head:
    rows = next(results)
    expired = int(next(results)[0][0]) if counts_expired else None
    return _Head(expired, parse_time(rows[0][0]) if rows else None)


def _batch(session: Session, statements: Sequence[_Statement]) -> list[list[Any]]:
    """Return the results of several statements, which go to the server together."""
    text = "\n".join(statement.text for statement, _ in statements)
    values = [value for _, given in statements for value in given]
    return session.results(Query("overview", "read the queues of the database", text, ours=True), *values)


def _by_table(rows: Iterable[Any]) -> dict[int, list[Any]]:
    return {number: [row[1:] for row in group] for number, group in groupby(rows, key=lambda row: row[0])}
