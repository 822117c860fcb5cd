"""A queue table and what can be done with it: send, receive, peek, depth, purge."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timezone
from functools import partial
from typing import Any, TypeVar

from airflow_sqlqueue.errors import (
    ConfigurationError,
    LayoutChangedError,
    LockTimeoutError,
    NotAQueueError,
    QueueNotFoundError,
    StatementError,
)
from airflow_sqlqueue.inspection import read_layout, remember_trigger
from airflow_sqlqueue.layout import Layout
from airflow_sqlqueue.message import Message, ReceivedMessage
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.sending import chunks, rows_of
from airflow_sqlqueue.session import Session, retrying
from airflow_sqlqueue.sql import Fragment, Query, identifier, query
from airflow_sqlqueue.sql.columns import insert_columns, insert_rows, output, row_columns

MAX_VALUES = 1_000
"""RowVersions that one statement names; a statement takes 2,100 parameters."""

MAX_ROWS_PER_STATEMENT = 2_000
"""Lock escalation starts at 5,000 locks of one statement, and a row costs two or three (DESIGN 3, point 5)."""

_OUTPUT_NEEDS_INTO = 334
_LAYOUT_CHANGED = {207, 213, 271, _OUTPUT_NEEDS_INTO, 515}
"""Errors of a statement that was made for another layout: columns that went, came or are computed, a trigger."""

T = TypeVar("T")


@dataclass(frozen=True)
class Depth:
    """How many messages a queue holds that nobody has locked. ``expired`` ones are not part of ``messages``."""

    messages: int
    expired: int


@dataclass(frozen=True)
class Purged:
    """What a purge did. ``complete`` is False when a budget ended it; ``remaining`` are expired messages left."""

    deleted: int
    remaining: int
    complete: bool
    seconds: float


class QueueTable:
    """One queue, through one connection. ``address`` is the resolved table."""

    def __init__(self, session: Session, address: ResolvedAddress) -> None:
        self.session = session
        self.address = address
        self._layout: Layout | None = None

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

    def fitted(self, work: Callable[[Layout], T]) -> T:
        """Run a statement made for the layout, once more with the new one where the table was altered meanwhile.

        Inside a transaction nothing is repeated, as the server may have rolled it back: :class:`LayoutChangedError`.
        """
        before = self.layout
        try:
            return work(before)
        except (StatementError, QueueNotFoundError) as error:
            number = error.number if isinstance(error, StatementError) else None
            if number is not None and number not in _LAYOUT_CHANGED:
                raise
            if number == _OUTPUT_NEEDS_INTO:
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
        """A query on this queue, whose errors name it."""
        found = query(name, queue=identifier(self.address), **fragments)
        return Query(found.name, found.purpose.replace("the queue", f"the queue {self.address.canonical}"), found.text)

    def send(self, messages: Iterable[Message]) -> int:
        """Send messages in the order given and return how many; each statement commits on its own.

        A statement carries up to 128 rows or 4 MiB. When one fails, those before it are sent and those after are not;
        wrap the call in ``session.transaction()`` where all or nothing is wanted. Delivery: at least once for a caller
        that repeats a failed call.
        """
        return sum(self.fitted(partial(self._insert, chunk)) for chunk in chunks(messages))

    def _insert(self, messages: Sequence[Message], layout: Layout) -> int:
        if layout.unfilled_columns:
            raise NotAQueueError(
                f"Nothing can be sent to {self.address.canonical}: its column {layout.unfilled_columns[0]!r} takes no "
                "NULL and has no default; give it one."
            )
        rows = rows_of(messages, layout.types)
        columns, values = insert_columns(layout.types), insert_rows(layout.types, rows.expiring, rows.count)
        self.session.run(self.query("queue.send", columns=columns, rows=values), *rows.values, sizes=rows.sizes)
        return rows.count

    def receive(self, at_most: int = 1) -> list[ReceivedMessage]:
        """Take up to ``at_most`` messages out of the queue, lowest RowVersion first, passing over locked ones.

        Outside a transaction the messages are gone when this returns (at most once); inside ``session.transaction()``
        they come back if it rolls back. Expired messages are among them, flagged.
        """
        _check_rows(at_most)
        rows = self._take("queue.receive", at_most)
        return sorted(map(_received, rows), key=lambda message: message.row_version)

    def peek(self, at_most: int = 10) -> list[ReceivedMessage]:
        """Look at up to ``at_most`` messages at the head of the queue that nobody has locked; nothing is removed."""
        _check_rows(at_most)
        rows = self.fitted(
            lambda layout: self.session.run(self.query("queue.peek", columns=row_columns(layout.types)), at_most)
        )
        return [_received(row) for row in rows]

    def take(self, row_versions: Sequence[int]) -> list[ReceivedMessage]:
        """Take the messages with these RowVersions out of the queue, lowest first, passing over locked ones.

        What is missing from the answer is gone, or somebody else holds it. Delivery as for :meth:`receive`.
        """
        taken: list[Any] = []
        for chunk in _of_fixed_size(sorted(set(row_versions))):
            marks = Fragment(", ".join("?" * len(chunk)))
            taken += self._take("queue.take", *chunk, row_versions=marks)
        return sorted(map(_received, taken), key=lambda message: message.row_version)

    def take_head(self, count: int, after: int, up_to: int) -> list[Any]:
        """Raw rows of a drain: like :meth:`receive`, for RowVersions above ``after`` and not above ``up_to``.

        The order of the rows is undefined; their columns are those of :func:`row_columns`.
        """
        _check_rows(count)
        return self._take("queue.take_head", count, after, up_to)

    def _take(self, name: str, *values: int, **fragments: Fragment) -> list[Any]:
        def run(layout: Layout) -> list[Any]:
            statement = self.query(name, **fragments, **output(layout.types, into=layout.output_into))
            return self.session.run(statement, *values)

        return self.fitted(run)

    def depth(self, *, at_most: int | None = None) -> Depth:
        """Count messages that nobody has locked. With ``at_most`` only that many rows at the head are looked at."""
        self.layout  # noqa: B018 - a clear error where there is no queue
        if at_most is None:
            rows = self.session.run(self.query("queue.depth"))
        else:
            rows = self.session.run(self.query("queue.depth_up_to"), at_most)
        total, expired = rows[0]
        return Depth(messages=total - expired, expired=expired)

    def high_water(self) -> int | None:
        """The highest RowVersion that nobody has locked; None for an empty queue."""
        self.layout  # noqa: B018 - a clear error where there is no queue
        value = self.session.value(self.query("queue.high_water"))
        return None if value is None else int(value)

    def held(self, up_to: int, *, wait: float = 0.0) -> int:
        """How many messages up to a RowVersion are left, those that others have locked included; 0 is certain.

        Waits up to ``wait`` seconds for whoever holds the first of them. Messages that are being received right now may
        be missing from a count above 0, which is at least 1.
        """
        with self.session.lock_timeout(wait):
            try:
                if self.session.value(self.query("queue.first_left"), up_to) is None:
                    return 0
            except LockTimeoutError:
                pass
        return max(1, int(self.session.value(self.query("queue.count_left"), up_to)))

    def purge_expired(
        self,
        *,
        chunk: int = 1_000,
        max_messages: int | None = None,
        max_seconds: float | None = None,
        pause: float = 0.0,
        dry_run: bool = False,
    ) -> Purged:
        """Delete expired messages in chunks, each a transaction of its own, never waiting for a receiver.

        ``chunk`` rows per statement (at most 2,000), ``pause`` seconds between two. ``max_messages`` and
        ``max_seconds`` are the budget. ``dry_run`` only counts. Where a deadlock chooses a victim it is this statement.
        """
        _check_rows(chunk)
        started = time.monotonic()
        self.layout  # noqa: B018 - a clear error where there is no queue
        deleted = 0
        complete = False
        if not dry_run:
            self.session.run(query("session.yield_to_others"))
        while not dry_run and not complete:
            take = chunk if max_messages is None else min(chunk, max_messages - deleted)
            if take <= 0 or (max_seconds is not None and time.monotonic() - started >= max_seconds):
                break
            count = self._purge_chunk(take)
            deleted += count
            complete = count < take
            if pause and not complete:
                time.sleep(pause)
        remaining = int(self.session.value(self.query("queue.count_expired")))
        return Purged(deleted, remaining, complete or remaining == 0, time.monotonic() - started)

    def _purge_chunk(self, take: int) -> int:
        try:
            return int(retrying(lambda: self.session.value(self.query("queue.purge_expired"), take)))
        except LockTimeoutError:
            return 0


def _check_rows(count: int) -> None:
    if not 1 <= count <= MAX_ROWS_PER_STATEMENT:
        raise ConfigurationError(
            f"{count} rows for one statement: give 1 to {MAX_ROWS_PER_STATEMENT}, so that locks never escalate."
        )


def _of_fixed_size(values: Sequence[int]) -> Iterator[Sequence[int]]:
    """Pieces of a few fixed sizes, the last filled up by its own last value: the server sees few texts."""
    for start in range(0, len(values), MAX_VALUES):
        piece = list(values[start : start + MAX_VALUES])
        size = next(size for size in (1, 16, 256, MAX_VALUES) if size >= len(piece))
        yield piece + piece[-1:] * (size - len(piece))


def _received(row: Any) -> ReceivedMessage:
    identity, correlation, reply_to, recoverable, expires, headers, body, row_version, expired = row
    return ReceivedMessage(
        id=identity if isinstance(identity, uuid.UUID) else uuid.UUID(str(identity)),
        row_version=row_version,
        headers=headers,
        body=bytes(body or b""),
        expires=expires.replace(tzinfo=timezone.utc) if expires else None,
        expired=bool(expired),
        correlation_id=correlation,
        reply_to_address=reply_to,
        recoverable=recoverable,
    )
