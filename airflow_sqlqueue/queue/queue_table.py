"""Queue table through one connection: send, receive, peek, take, restore, count."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Sequence
from datetime import timedelta, timezone
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError, LockTimeoutError, NotAQueueError
from airflow_sqlqueue.messages.message import Message, ReceivedMessage
from airflow_sqlqueue.messages.row import Row
from airflow_sqlqueue.options import whole_numbers
from airflow_sqlqueue.queue.anchor import Anchor
from airflow_sqlqueue.queue.browsing import WINDOW, find, row_id, row_versions_of
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.sending import chunks, restored_parameters, sent_parameters
from airflow_sqlqueue.queue.table_access import FIRST, LAST, MAX_ROWS_PER_STATEMENT, TableAccess, check_rows
from airflow_sqlqueue.queue.tables.layout import Layout
from airflow_sqlqueue.queue.window import Window, padded_chunks, placeholders
from airflow_sqlqueue.server.sql import number
from airflow_sqlqueue.server.sql.columns import insertion, restoration, row_columns

log = logging.getLogger(__name__)

MAX_V2_LIFE = timedelta(milliseconds=2**31 - 1)
"""Longest time to an expiry that endpoints of versions 2.2.2 to 2.2.6 read, 24.8 days."""


class QueueTable(TableAccess):
    """Queue table, through one connection. ``address`` is the resolved table."""

    _warned = False

    def send(self, messages: Iterable[Message]) -> int:
        """Send messages in the order given and return how many; each statement commits on its own.

        A statement carries up to 256 rows or 4 MiB, so a stream of any length is sent in bulk. When a statement fails,
        the messages before it are sent and the others are not; for all or nothing, wrap the call in
        ``session.transaction()``. RowVersions ascend in the order given, as the server documents it for this form of
        INSERT; RowVersions of other senders may be between them. Delivery: at least once for a caller that repeats a
        failed call.
        """
        sent = 0
        for chunk in chunks(messages):
            self._insert("queue.send", chunk)
            sent += len(chunk)
        return sent

    def send_numbered(self, messages: Iterable[Message]) -> list[int]:
        """Send as :meth:`send`, and return the messages' RowVersions, in their order. The login also needs SELECT."""
        return [number for chunk in chunks(messages) for (number,) in self._insert("queue.send_numbered", chunk)]

    def restore(self, rows: Iterable[Row]) -> int:
        """Put rows back, unchanged, in the order given, and return how many. Call it in a transaction.

        Ids, the text of headers, bodies, expiry and NULLs stay the same; the RowVersions are new. A column that the
        table lost meanwhile is left out. Statements and order are those of :meth:`send`.
        """
        restored = 0
        for chunk in chunks(rows):
            self.run_for_layout(lambda layout, chunk=chunk: self._restore(layout, chunk))  # type: ignore[misc]
            restored += len(chunk)
        return restored

    def _restore(self, layout: Layout, rows: Sequence[Row]) -> None:
        self.check_accepts(layout)
        values, sizes = restored_parameters(rows, layout.types)
        statement = self.query("queue.send", **restoration(layout.types, len(rows)))
        self.session.run(statement, *values, sizes=sizes)

    def check_accepts(self, layout: Layout | None = None) -> None:
        """Raise the errors of a missing or unusable queue, and of a queue that accepts no INSERT."""
        if unfilled := (layout or self.layout).unfilled_columns:
            raise NotAQueueError(
                f"Nothing can be sent to {self.address.canonical}: its column {unfilled[0]!r} takes no NULL and has no "
                "default; give it one."
            )

    def check_destination(self, other: QueueTable, purpose: str) -> None:
        """Raise as :meth:`check_accepts` of the other queue, and :class:`ConfigurationError` if it is this one."""
        other.check_accepts()
        if self.layout.table == other.layout.table:
            raise ConfigurationError(f"{self.address.canonical} is its own {purpose} queue: name another one.")

    def _insert(self, name: str, messages: Sequence[Message]) -> list[Any]:
        def run(layout: Layout) -> list[Any]:
            self.check_accepts(layout)
            if not layout.columns["Expires"].nullable and any(each.time_to_be_received is None for each in messages):
                raise NotAQueueError(
                    f"No message without an expiry can be sent to {self.address.canonical}: its column 'Expires' takes "
                    "no NULL; let it take NULL."
                )
            self._warn_of_long_lives(layout, messages)
            given, values, sizes = sent_parameters(messages, layout.types)
            statement = self.query(name, **insertion(layout.types, given, len(messages)))
            return self.session.run(statement, *values, sizes=sizes)

        return self.run_for_layout(run)

    def _warn_of_long_lives(self, layout: Layout, messages: Sequence[Message]) -> None:
        """Log once if endpoints of version 2 cannot receive a message because of its expiry.

        Source: docs/transport/queue-tables.md, "Receiving".
        """
        lives = [message.time_to_be_received for message in messages if message.time_to_be_received is not None]
        if self._warned or not lives or max(lives) <= MAX_V2_LIFE or layout.shape.expires_index != "plain":
            return
        self._warned = True
        log.warning(
            "Messages for %s expire after more than 24.8 days: endpoints of the transport's versions 2.2.2 to 2.2.6, "
            "which may have made this table, fail at each receive until such a message is gone",
            self.address.canonical,
        )

    def receive(
        self,
        limit: int = 1,
        *,
        anchor: Anchor | None = None,
        where: MessageFilter | None = None,
        window: int = WINDOW,
        keep_expired: bool = False,
        cut_headers: bool = False,
    ) -> list[ReceivedMessage]:
        """Take up to ``limit`` messages out of the queue, lowest RowVersion first, past locked ones.

        Outside a transaction the messages are gone when the call returns (at most once); inside
        ``session.transaction()`` they come back if it rolls back. The call deletes expired messages on its way, as
        endpoints do; with ``keep_expired`` it returns them, flagged. An empty list means that no message was left to
        take. FIFO is best effort: rolled-back messages come back, and a receiver overtakes locked messages.

        With an ``anchor`` the call begins there, and at the head before it returns an empty list. It moves the anchor:
        after a rollback call :meth:`.Anchor.go_to_head`.

        With ``where`` only matching messages are taken, among the first ``window`` of the queue: their headers are read
        page by page, without their bodies. Expired messages then match only with ``keep_expired``.

        ``cut_headers`` cuts headers longer than :data:`~airflow_sqlqueue.messages.message.MAX_HEADER_BYTES`. Use it
        only in a transaction, and roll back when such a message comes.
        """
        check_rows(limit)
        if where is not None:
            after = FIRST
            while found := find(self, where, limit, window=window, after=after, expired=keep_expired):
                if taken := self.take([head.row_version for head in found], cut_headers=cut_headers):
                    return taken
                # Other receivers took them after the search; messages behind them are left.
                after = found[-1].row_version
            return []
        anchor = anchor or Anchor(max_age=0)
        current = anchor.current()
        while True:
            after = current.after
            # No parameter for the head, so that BEGIN can go in the same round trip.
            values = [] if after == FIRST else [after]
            begin = placeholders(values) if values else number(FIRST)
            rows = self.delete_output(
                "queue.receive", *values, limit=number(limit), after=begin, cut_headers=cut_headers
            )
            if rows:
                current.advance(max(row.row_version for row in rows))
            alive = rows if keep_expired else [row for row in rows if not row.expired]
            # Taken messages are returned at once: outside a transaction an error of one more statement would lose them.
            if alive:
                return _in_order(alive)
            if len(rows) == limit:
                self._drop_expired(len(rows))
                current = anchor.current()
            elif after == FIRST:
                return []
            else:
                current = anchor.go_to_head()

    def _drop_expired(self, met: int) -> None:
        """Delete further expired messages, so that a receive past many of them takes few round trips.

        In a deadlock the server chooses this statement and its transaction as the victim, so that an endpoint that
        receives at the same time continues.
        """
        with self.session.low_deadlock_priority():
            dropped = met + int(self.value("queue.purge_expired", MAX_ROWS_PER_STATEMENT // 2))
        log.debug("Dropped %d expired messages of %s", dropped, self.address.canonical)

    def peek(self, limit: int = 10, *, after: int = FIRST, where: MessageFilter | None = None) -> list[ReceivedMessage]:
        """Return up to ``limit`` messages that are not locked, in the order of the queue; nothing is removed.

        ``after`` is the last RowVersion of the page before. With ``where`` the result has only messages that match; the
        server reads the headers of the queue until enough match, or to the end. :func:`.browsing.browse` and
        :func:`.browsing.find` leave the bodies on the server.

        ``after`` skips messages that commit late: their RowVersions may be lower than those of messages that were
        returned before. To read each message once, drain the queue, or copy it with ``incremental``.
        """
        check_rows(limit)
        window = Window(after)
        if where is not None:
            found = find(self, where, limit, after=after, window=LAST)
            if not found:
                return []
            window = Window.of(tuple(head.row_version for head in found))

        def run(layout: Layout) -> list[Any]:
            rows: list[Any] = []
            for piece in window.pieces():
                statement = self.query("queue.peek", columns=row_columns(layout.types), window=piece.condition)
                rows += self.session.run(statement, limit, *piece.values)
            return rows

        return [received_message(Row._make(row)) for row in self.run_for_layout(run)]

    def take(
        self, row_versions: Sequence[int] = (), *, ids: Sequence[uuid.UUID] = (), cut_headers: bool = False
    ) -> list[ReceivedMessage]:
        """Take the messages with these RowVersions or row Ids out of the queue, lowest first, past locked ones.

        Messages that are missing from the result are gone, or another transaction has locked them. Several rows may
        have the same Id: all are taken. Finding Ids reads the whole table. Expired messages are returned too, flagged.
        Delivery, and ``cut_headers``, as for :meth:`receive`.
        """
        wanted = {*whole_numbers("row_versions", row_versions), *(row_versions_of(self, ids) if ids else ())}
        taken: list[Row] = []
        for chunk in padded_chunks(sorted(wanted)):
            taken += self.delete_output("queue.take", *chunk, cut_headers=cut_headers, row_versions=placeholders(chunk))
        return _in_order(taken)

    def delete_first_rows(self, count: int, window: Window, max_bytes: int, max_body: int = LAST) -> list[Any]:
        """Take up to ``count`` rows for a drain, as :meth:`receive`, from a window, which is one piece.

        The rows end with the one that reaches ``max_bytes`` of headers and bodies. Rows with more than ``max_body``
        bytes of body are skipped: ``large_messages`` reads them. Call it only in a transaction: it sets the savepoint
        for :meth:`.Session.roll_back_to_savepoint`. The order of the rows is undefined; expired ones are among them.
        They are the driver's rows, nine values in the order of :data:`~airflow_sqlqueue.messages.row.COLUMNS`, because
        making a :class:`Row` of each would take most of a drain's time.
        """
        check_rows(count)
        values = (count, *window.values, max_body, max_bytes)
        return self.delete_output_raw("queue.delete_first_rows", *values, window=window.condition)

    def mean_bytes(self) -> int | None:
        """Return the mean size of headers and body at the head of the queue, locked rows included, or None."""
        mean = self.value("queue.mean_bytes", 100, LAST)
        return None if mean is None else int(mean)

    def ends(self) -> tuple[int, int] | None:
        """Return the lowest and the highest RowVersion that are not locked; None for an empty queue."""
        low, high = self.rows("queue.ends", FIRST, FIRST)[0]
        return None if low is None or high is None else (int(low), int(high))

    def window_end(self, rows: int, after: int, up_to: int) -> int | None:
        """Return the last RowVersion of the next ``rows`` messages above ``after``, locked ones included, or None.

        Messages that are being received or sent at the same time may be among them or not.
        """
        value = self.value("queue.window_end", rows, after, up_to)
        return None if value is None else int(value)

    def count_left(self, up_to: int, *, wait: float = 0.0) -> int:
        """Count the messages up to a RowVersion, locked ones included; 0 is certain.

        The call waits up to ``wait`` seconds for the transaction that has locked the first message. A count above 0 may
        miss messages that are being received.
        """
        with self.session.lock_timeout(wait):
            try:
                if self.value("queue.first_left", up_to) is None:
                    return 0
            except LockTimeoutError:
                pass
        return max(1, int(self.value("queue.count_left", up_to)))

    def count_locked(self, up_to: int) -> int:
        """Count the locked messages up to a RowVersion, at least 1, for callers that have met a locked message."""
        return max(1, self.count_left(up_to) - int(self.value("queue.count_up_to", up_to)))


def _in_order(rows: Iterable[Row]) -> list[ReceivedMessage]:
    return sorted(map(received_message, rows), key=lambda message: message.row_version)


def received_message(row: Row) -> ReceivedMessage:
    """Return the message of a row; ``Expires`` is UTC. NULL becomes empty in columns that should be NOT NULL."""
    return ReceivedMessage(
        id=row_id(row.id),
        row_version=row.row_version,
        headers=row.headers or "",
        body=bytes(row.body or b""),
        expires=row.expires.replace(tzinfo=timezone.utc) if row.expires else None,
        expired=bool(row.expired),
        correlation_id=row.correlation_id,
        reply_to_address=row.reply_to_address,
        recoverable=row.recoverable,
    )
