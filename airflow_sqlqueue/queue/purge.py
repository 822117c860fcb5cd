"""Deleting messages in bulk, in small transactions that do not wait for locks.

Source: docs/transport/queue-tables.md, "Purging"; docs/transport/transactions.md, "Lock escalation" and "Purges beside
receivers".
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Protocol

from airflow_sqlqueue.budget import Budget
from airflow_sqlqueue.envelope.times import parse_time
from airflow_sqlqueue.errors import ConfigurationError, LockTimeoutError, TransactionError
from airflow_sqlqueue.message import HeaderNames
from airflow_sqlqueue.queue.browsing import MAX_VALUES, MessageHead, heads, padded_chunks, placeholders
from airflow_sqlqueue.queue.table_access import FIRST, LAST, TableAccess, check_rows
from airflow_sqlqueue.session import retrying

CHUNK = 1_000
"""Rows of one transaction, by default."""


@dataclass(frozen=True)
class PurgeOptions:
    """What to purge, and within which limits.

    Without more it is what has expired, by the server's clock. ``all_messages`` is all that is in the queue when it
    begins. ``older_than`` is all that was sent longer ago, by the header TimeSent (no column has the time) and the
    server's clock: the headers of the whole queue are read for it, and messages that do not say when they were sent
    stay. The last two lose messages that a receiver may wait for, so they want ``confirm``, except for a ``dry_run``,
    which only counts.

    ``chunk`` rows at most go in a transaction (1 to 2,000; 1,000 by age), with ``pause`` seconds between two.
    ``lock_timeout`` is how long a chunk waits for a lock on the table as a whole; rows are never waited for.
    ``max_messages`` and ``max_seconds`` are the budget. Raises :class:`ConfigurationError`.
    """

    all_messages: bool = False
    older_than: timedelta | None = None
    confirm: bool = False
    dry_run: bool = False
    chunk: int = CHUNK
    pause: float = 0.0
    lock_timeout: float = 5.0
    max_messages: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        check_rows(self.chunk)
        if self.all_messages and self.older_than is not None:
            raise ConfigurationError("A purge takes every message or those older than a time, not both: choose one.")
        if self.older_than is not None and self.older_than < timedelta(0):
            raise ConfigurationError(f"older_than is {self.older_than}: give a time that is not below zero.")
        if min(self.pause, self.lock_timeout, self.max_messages or 0, self.max_seconds or 0) < 0:
            raise ConfigurationError("A purge's pause, lock timeout and budget are not below zero.")
        if (self.all_messages or self.older_than is not None) and not (self.confirm or self.dry_run):
            raise ConfigurationError(
                "This purge deletes messages that have not expired: confirm that they may be lost, or make a dry run."
            )


@dataclass(frozen=True)
class PurgeResult:
    """What a purge did.

    ``remaining`` are messages of those that were asked for that are left and that nobody has locked; None where a
    budget ended a search by age before it had seen them all. ``locked`` are those that others have locked: 0 is
    certain, a number above it is the least there can be, as messages that are being received right now may not be seen.
    (By age they are counted when they are met.) ``undated`` are messages that a purge by age left because they do not
    say when they were sent. ``complete`` is False when a budget or a lock on the whole table ended it.
    """

    deleted: int
    remaining: int | None
    complete: bool
    seconds: float
    locked: int = 0
    undated: int = 0


class _Work(Protocol):
    """One way to choose messages. ``delete`` a chunk: how many went, and whether it was the last."""

    def delete(self, take: int) -> tuple[int, bool]: ...
    def report(self, complete: bool) -> tuple[int | None, int, int]: ...


def purge(table: TableAccess, options: PurgeOptions) -> PurgeResult:
    """Delete messages in chunks, each a transaction of its own. Safe to repeat: what is purged is gone.

    Where a deadlock chooses a victim it is this statement, which is then repeated. Raises :class:`TransactionError`
    inside a transaction, which would keep the locks of every chunk to its end, and :class:`LockTimeoutError` where
    another transaction has locked the table as a whole when what remains is counted; what was deleted before is gone.
    """
    session = table.session
    if session.in_transaction:
        raise TransactionError("A purge commits its chunks one by one: call it outside the transaction.")
    budget = Budget(options.max_messages, options.max_seconds)
    work = _work(table, options)
    deleted, complete = 0, False
    with session.yielding(), session.lock_timeout(options.lock_timeout):
        while not complete and not options.dry_run and (take := budget.reserve(options.chunk)):
            try:
                count, complete = retrying(partial(work.delete, take))
            except LockTimeoutError:
                break
            deleted += count
            budget.give_back(take - count)
            if options.pause and not complete:
                time.sleep(options.pause)
    remaining, locked, undated = work.report(complete or options.dry_run)
    done = complete or (remaining == 0 and not locked)
    return PurgeResult(deleted, remaining, done, budget.seconds_used, locked, undated)


def _work(table: TableAccess, options: PurgeOptions) -> _Work:
    if options.all_messages:
        return _All(table)
    return _Expired(table) if options.older_than is None else _Older(table, options.older_than, options.dry_run)


class _Expired:
    def __init__(self, table: TableAccess) -> None:
        self._table = table
        table.require()

    def delete(self, take: int) -> tuple[int, bool]:
        count = int(self._table.value("queue.purge_expired", take))
        return count, count < take

    def report(self, complete: bool) -> tuple[int | None, int, int]:
        remaining = int(self._table.value("queue.count_expired"))
        return remaining, _held(self._table, "expired_left", remaining), 0


class _All:
    """Up to the highest RowVersion at the start, so that the purge of a busy queue ends."""

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
            return 0, _held(self._table, "left", 0, LAST), 0
        remaining = int(self._table.value("queue.count_up_to", self._up_to))
        return remaining, _held(self._table, "left", remaining, self._up_to), 0


class _Older:
    def __init__(self, table: TableAccess, age: timedelta, dry_run: bool) -> None:
        self._table = table
        self._before: datetime = table.value("queue.now").replace(tzinfo=timezone.utc) - age
        self._after, self._up_to = FIRST, table.value("queue.high_water", FIRST)
        self._missed = self._undated = 0
        self._dry_run = dry_run

    def delete(self, take: int) -> tuple[int, bool]:
        if self._up_to is None:
            return 0, True
        page, last = self._page()
        old = [head.row_version for head in page if self._is_old(head)]
        if len(old) > take:
            page, last, old = [head for head in page if head.row_version <= old[take - 1]], False, old[:take]
        deleted = 0
        for chunk in padded_chunks(old):
            statement = self._table.query("queue.purge_these", row_versions=placeholders(chunk))
            deleted = int(self._table.session.value(statement, *chunk))
        self._seen(page, len(old) - deleted)
        return deleted, last

    def _page(self) -> tuple[list[MessageHead], bool]:
        """The next messages, at most what one statement can name, and whether they are the last."""
        page = heads(self._table, MAX_VALUES, after=self._after, up_to=self._up_to)
        return page, len(page) < MAX_VALUES

    def _seen(self, page: list[MessageHead], missed: int) -> None:
        self._missed += missed
        self._undated += sum(_sent(head) is None for head in page)
        if page:
            self._after = page[-1].row_version

    def _is_old(self, head: MessageHead) -> bool:
        sent = _sent(head)
        return sent is not None and sent < self._before

    def report(self, complete: bool) -> tuple[int | None, int, int]:
        if not self._dry_run:
            return 0 if complete else None, self._missed, self._undated
        found, last = 0, self._up_to is None
        while not last:
            page, last = self._page()
            found += sum(map(self._is_old, page))
            self._seen(page, 0)
        return found, 0, self._undated


def _sent(head: MessageHead) -> datetime | None:
    return parse_time(head.decoded.values.get(HeaderNames.TIME_SENT))


def _held(table: TableAccess, name: str, visible: int, *values: int) -> int:
    """How many of these messages others hold. A locking read shows whether there is one at all, NOLOCK how many."""
    if not visible:
        with table.session.lock_timeout(0), suppress(LockTimeoutError):
            if table.value(f"queue.first_{name}", *values) is None:
                return 0
    return max(0 if visible else 1, int(table.value(f"queue.count_{name}", *values)) - visible)
