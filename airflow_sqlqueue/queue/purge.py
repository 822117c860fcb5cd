"""Purge: deleting messages in bulk, in small transactions that do not wait for locks.

Source: docs/transport/queue-tables.md, "Purging"; docs/transport/transactions.md, "Lock escalation" and "Purges beside
receivers".
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Protocol

from airflow_sqlqueue.errors import ConfigurationError, LockTimeoutError, TransactionError
from airflow_sqlqueue.messages.envelope.times import parse_time, time_before
from airflow_sqlqueue.messages.message import HeaderNames
from airflow_sqlqueue.options import argument, option
from airflow_sqlqueue.options.budget import Budget, Limits
from airflow_sqlqueue.options.secondary import secondary
from airflow_sqlqueue.queue.browsing import MessageHead, Search, delete
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.table_access import FIRST, LAST, MAX_ROWS_PER_STATEMENT, TableAccess
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.reconnecting import reconnecting

CHUNK = 1_000
"""Rows of one transaction, by default."""


@dataclass(frozen=True, kw_only=True)
class PurgeOptions(Limits):
    """Options of a purge: the messages to delete, and the limits.

    By default a purge deletes expired messages, by the server's clock. By age and by filter the server reads the
    headers of the whole queue, and a message without a time is not old; with both, both must hold. All options but
    the default may delete messages that a receiver waits for, so they need ``confirm``. A dry run does not, because
    it only counts: ``remaining`` is then the number that a purge would delete, within ``max_messages``.
    """

    all_messages: bool = argument(False, "delete every message that is in the queue at the start")
    older_than: timedelta | None = argument(
        None, "delete messages sent longer ago than this, by the header TimeSent and the server's clock"
    )
    where: MessageFilter | None = argument(None, "delete messages that this filter matches")
    confirm: bool = argument(False, "allow the loss of messages that have not expired")
    dry_run: bool = argument(False, "only count")
    chunk: int = option(
        CHUNK,
        "rows of one transaction, at most 500 by age or filter",
        least=1,
        most=MAX_ROWS_PER_STATEMENT,
        because="locks never escalate then",
    )
    pause: float = option(0.0, "seconds between two transactions", least=0)
    lock_timeout: float = option(
        5.0, "seconds to wait for a lock on the table as a whole; rows are never waited for", least=0, form=None
    )
    secondary: bool = secondary("purge")

    def __post_init__(self) -> None:
        super().__post_init__()
        chooses = self.older_than is not None or self.where is not None
        if self.all_messages and chooses:
            raise ConfigurationError("A purge takes every message, or those of an age or a filter: choose one.")
        if self.older_than is not None and self.older_than < timedelta(0):
            raise ConfigurationError(f"older_than is {self.older_than}: give a time that is not below zero.")
        if (self.all_messages or chooses) and not (self.confirm or self.dry_run):
            raise ConfigurationError(
                "This purge deletes messages that have not expired: confirm that they may be lost, or make a dry run."
            )


@dataclass(frozen=True)
class PurgeResult:
    """Result of a purge.

    ``remaining`` is the number of chosen messages that are left and not locked; None where a budget ended a search by
    age or filter before its end. ``locked`` is the number of chosen messages that other transactions have locked: 0 is
    certain, a higher number is the least possible one, as the count may miss messages that are being received. (A purge
    by age or filter counts the locked messages that it meets, so its 0 is not certain.) ``undated`` is the number of
    messages that a purge by age left because they have no time. ``complete`` is False when a budget or a lock on the
    whole table ended the purge. ``queues`` has the result for each queue of a purge with ``secondary``, by address; the
    other values are then their sums.
    """

    deleted: int
    remaining: int | None
    complete: bool
    seconds: float
    locked: int
    undated: int
    queues: dict[str, PurgeResult] = field(default_factory=dict)


class _Work(Protocol):
    """Way of a purge to choose messages.

    ``delete`` deletes a chunk; it returns how many messages, and whether the chunk was the last. ``report`` returns the
    numbers ``remaining``, ``locked`` and ``undated`` of the result.
    """

    def delete(self, take: int) -> tuple[int, bool]: ...
    def report(self, complete: bool) -> tuple[int | None, int, int]: ...


def purge_all(tables: Sequence[TableAccess], options: PurgeOptions) -> PurgeResult:
    """Purge several queues, one after the other and within the limits together; see :func:`purge`."""
    budget = options.budget()
    queues = {table.address.canonical: purge(table, options, budget=budget) for table in tables}
    done = list(queues.values())
    remaining = None if any(each.remaining is None for each in done) else sum(each.remaining or 0 for each in done)
    if options.dry_run and remaining is not None and options.max_messages is not None:
        remaining = min(remaining, options.max_messages)
    return PurgeResult(
        sum(each.deleted for each in done),
        remaining,
        all(each.complete for each in done),
        budget.seconds_used,
        sum(each.locked for each in done),
        sum(each.undated for each in done),
        queues,
    )


def purge(table: TableAccess, options: PurgeOptions | None = None, *, budget: Budget | None = None) -> PurgeResult:
    """Delete messages in chunks, each a transaction of its own. Safe to repeat.

    In a deadlock the server chooses this statement as the victim, and the purge repeats it. ``budget`` is that of
    several purges, instead of the options' own. Raises :class:`TransactionError` inside a transaction, which would keep
    the locks of all chunks to its end, and :class:`LockTimeoutError` where another transaction has locked the table as
    a whole at the start or during the last count; the chunks in between are deleted.
    """
    session, options = table.session, PurgeOptions.or_default(options)
    if session.in_transaction:
        raise TransactionError("A purge commits its chunks one by one: call it outside the transaction.")
    budget = budget or options.budget()
    before, what = budget.seconds_used, f"Purging the queue {table.address.canonical}"
    deleted, complete = 0, False
    with session.lock_timeout(options.lock_timeout):
        work = _work(table, options, budget)
        with session.low_deadlock_priority():
            while not complete and not options.dry_run and (take := budget.reserve(options.chunk)):
                try:
                    count, complete = reconnecting(session, what, partial(work.delete, take))
                except LockTimeoutError:
                    break
                deleted += count
                budget.give_back(take - count)
                if options.pause and count and not complete:
                    time.sleep(options.pause)
        remaining, locked, undated = work.report(complete or options.dry_run)
    if options.dry_run and remaining is not None and options.max_messages is not None:
        remaining = min(remaining, options.max_messages)
    done = complete or (remaining == 0 and not locked)
    return PurgeResult(deleted, remaining, done, budget.seconds_used - before, locked, undated)


def _work(table: TableAccess, options: PurgeOptions, budget: Budget) -> _Work:
    if options.all_messages:
        return _All(table)
    if options.older_than is None and options.where is None:
        return _Expired(table)
    return _Matching(table, options, budget)


class _Expired:
    def __init__(self, table: TableAccess) -> None:
        self._table = table
        table.require()

    def delete(self, take: int) -> tuple[int, bool]:
        count = int(self._table.value("queue.purge_expired", take))
        return count, count < take

    def report(self, complete: bool) -> tuple[int | None, int, int]:
        if complete and _none_left(self._table, _EXPIRED):
            return 0, 0, 0
        remaining = int(self._table.value("queue.count_expired"))
        return remaining, _held(self._table, _EXPIRED, remaining), 0


class _All:
    """All messages up to the highest RowVersion at the start, so that the purge of a busy queue ends."""

    def __init__(self, table: TableAccess) -> None:
        self._table = table
        self._after, self._up_to = FIRST, table.value("queue.high_water", FIRST)

    def delete(self, take: int) -> tuple[int, bool]:
        if self._up_to is None:
            return 0, True
        count, reached = self._table.rows("queue.purge_range", self._after, take, self._up_to, take)[0]
        if reached is not None:
            self._after = reached
        return int(count), reached is None or reached >= self._up_to

    def report(self, complete: bool) -> tuple[int | None, int, int]:
        if self._up_to is None:
            return 0, _held(self._table, _LEFT, 0, LAST), 0
        if complete and _none_left(self._table, _LEFT, self._up_to):
            return 0, 0, 0
        remaining = int(self._table.value("queue.count_up_to", self._up_to))
        return remaining, _held(self._table, _LEFT, remaining, self._up_to), 0


class _Matching:
    """Messages of a filter, or an age, or both, up to the highest RowVersion at the start."""

    def __init__(self, table: TableAccess, options: PurgeOptions, budget: Budget) -> None:
        self._table, self._chosen, self._budget = table, options.where, budget
        self._counts_undated, self._dry_run = options.older_than is not None, options.dry_run
        before = None
        if options.older_than is not None:
            before = time_before(table.value("queue.now").replace(tzinfo=timezone.utc), options.older_than)
        self._where = _sent_before(options.where, before)
        self._missed = self._undated = 0
        up_to = table.value("queue.high_water", FIRST)
        self._search = None if up_to is None else Search(self._where, Window(up_to=int(up_to)))
        self._waiting: list[int] = []

    def _next_page(self) -> list[int] | None:
        """Return the RowVersions of the matching messages in the next page; None at the end."""
        page = None if self._search is None else self._search.page(self._table)
        if page is None:
            return None
        self._undated += sum(map(self._is_undated, page))
        return [head.row_version for head in page if self._where.matches(head.id, head.decoded)]

    def _is_undated(self, head: MessageHead) -> bool:
        return (
            self._counts_undated
            and parse_time(head.decoded.values.get(HeaderNames.TIME_SENT)) is None
            and (self._chosen is None or self._chosen.matches(head.id, head.decoded))
        )

    def delete(self, take: int) -> tuple[int, bool]:
        if not self._waiting:
            page = self._next_page()
            if page is None:
                return 0, True
            self._waiting = page
        chunk = self._waiting[:take]
        deleted = delete(self._table, chunk)
        self._missed += len(chunk) - deleted
        self._waiting = self._waiting[take:]
        return deleted, False

    def report(self, complete: bool) -> tuple[int | None, int, int]:
        if self._dry_run:
            found = 0
            while (page := self._next_page()) is not None:
                found += len(page)
                if self._budget.seconds_left == 0:
                    return None, 0, self._undated
            return found, 0, self._undated
        return 0 if complete else None, self._missed, self._undated


def _sent_before(where: MessageFilter | None, moment: datetime | None) -> MessageFilter:
    """Add to a filter the condition that the message was sent before the moment."""
    if where is None or moment is None:
        return where or MessageFilter(until=moment)
    return where if where.until is not None and where.until < moment else replace(where, until=moment)


_EXPIRED = ("queue.first_expired_left", "queue.count_expired_left")
_LEFT = ("queue.first_left", "queue.count_left")
"""Queries for the first of some messages, and for their number, locked ones included."""


def _held(table: TableAccess, queries: tuple[str, str], visible: int, *values: int) -> int:
    """Count the locked ones of these messages: a locking read shows whether one exists, NOLOCK how many."""
    if not visible and _none_left(table, queries, *values):
        return 0
    return max(0 if visible else 1, int(table.value(queries[1], *values)) - visible)


def _none_left(table: TableAccess, queries: tuple[str, str], *values: int) -> bool:
    """Return whether these messages are gone, for certain, by one read: a count would pass over every deleted row."""
    with table.session.lock_timeout(0), suppress(LockTimeoutError):
        return table.value(queries[0], *values) is None
    return False
