"""A queue table and what can be done with it: send, receive, peek, depth, purge."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timezone
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError, LockTimeoutError
from airflow_sqlqueue.layout import Layout, read_layout
from airflow_sqlqueue.message import Message, ReceivedMessage
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.sending import statements
from airflow_sqlqueue.session import Session, retrying
from airflow_sqlqueue.sql import Fragment, Query, identifier, query
from airflow_sqlqueue.sql.columns import insert_columns, insert_rows, row_columns

MAX_ROWS_PER_STATEMENT = 2_000
"""Lock escalation starts at 5,000 locks of one statement, and a row costs two or three (DESIGN 3, point 5)."""


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
        """The table's columns, read once. Raises QueueNotFoundError or NotAQueueError."""
        if self._layout is None:
            self._layout = read_layout(self.session, self.address)
        return self._layout

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
        sent = 0
        present = self.layout.columns
        for chunk in statements(messages, present):
            rows = insert_rows(present, chunk.expiring, chunk.messages)
            statement = self.query("queue.send", columns=insert_columns(present), rows=rows)
            self.session.run(statement, *chunk.values, sizes=chunk.sizes)
            sent += chunk.messages
        return sent

    def receive(self, at_most: int = 1) -> list[ReceivedMessage]:
        """Take up to ``at_most`` messages out of the queue, lowest RowVersion first, passing over locked ones.

        Outside a transaction the messages are gone when this returns (at most once); inside ``session.transaction()``
        they come back if it rolls back. Expired messages are among them, flagged.
        """
        _check_rows(at_most)
        rows = self.session.run(self.query("queue.receive", columns=self._columns("deleted.")), at_most)
        return sorted(map(_received, rows), key=lambda message: message.row_version)

    def peek(self, at_most: int = 10) -> list[ReceivedMessage]:
        """Look at up to ``at_most`` messages at the head of the queue that nobody has locked; nothing is removed."""
        _check_rows(at_most)
        return [_received(row) for row in self.session.run(self.query("queue.peek", columns=self._columns()), at_most)]

    def take_head(self, count: int, after: int, up_to: int) -> list[Any]:
        """Raw rows of a drain: like :meth:`receive`, for RowVersions above ``after`` and not above ``up_to``.

        The order of the rows is undefined; their columns are those of :func:`row_columns`.
        """
        _check_rows(count)
        return self.session.run(self.query("queue.take_head", columns=self._columns("deleted.")), count, after, up_to)

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

    def _columns(self, source: str = "") -> Fragment:
        return row_columns(self.layout.columns, source)

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
