"""A queue table and what can be done with it: send, receive, peek, depth, purge."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Sequence
from datetime import timezone
from typing import Any

from airflow_sqlqueue.errors import LockTimeoutError, NotAQueueError
from airflow_sqlqueue.message import Message, ReceivedMessage
from airflow_sqlqueue.queue.browsing import WINDOW, find, row_id, row_versions_of
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.sending import chunks, restored_parameters, sent_parameters
from airflow_sqlqueue.queue.table_access import FIRST, LAST, MAX_ROWS_PER_STATEMENT, TableAccess, check_rows
from airflow_sqlqueue.queue.window import Window, padded_chunks, placeholders
from airflow_sqlqueue.row import Row
from airflow_sqlqueue.sql import number
from airflow_sqlqueue.sql.columns import insertion, restoration, row_columns
from airflow_sqlqueue.tables.layout import Layout

log = logging.getLogger(__name__)


class QueueTable(TableAccess):
    """One queue, through one connection. ``address`` is the resolved table."""

    def send(self, messages: Iterable[Message]) -> int:
        """Send messages in the order given and return how many; each statement commits on its own.

        A statement carries up to 256 rows or 4 MiB, so a stream of any length is sent in bulk. When one fails, those
        before it are sent and those after are not; wrap the call in ``session.transaction()`` where all or nothing is
        wanted. RowVersions ascend in the order given, which the server documents for the form of INSERT that is used;
        between them others' may stand. Delivery: at least once for a caller that repeats a failed call.
        """
        sent = 0
        for chunk in chunks(messages):
            self._insert("queue.send", chunk)
            sent += len(chunk)
        return sent

    def send_numbered(self, messages: Iterable[Message]) -> list[int]:
        """:meth:`send`, and return the messages' RowVersions, in their order. The login needs SELECT for it as well."""
        return [number for chunk in chunks(messages) for (number,) in self._insert("queue.send_numbered", chunk)]

    def restore(self, rows: Iterable[Row]) -> int:
        """Put rows back as they were, in the order given, and return how many; to be called in a transaction.

        Ids, headers (their text), bodies, expiry and NULLs are those that the rows had, the RowVersions are new ones.
        A column that the table lost meanwhile is left out. Statements and order are those of :meth:`send`.
        """
        restored = 0
        for chunk in chunks(rows):
            self.run_for_layout(lambda layout, chunk=chunk: self._restore(layout, chunk))  # type: ignore[misc]
            restored += len(chunk)
        return restored

    def _restore(self, layout: Layout, rows: Sequence[Row]) -> None:
        self._check_fillable(layout)
        values, sizes = restored_parameters(rows, layout.types)
        statement = self.query("queue.send", **restoration(layout.types, len(rows)))
        self.session.run(statement, *values, sizes=sizes)

    def _check_fillable(self, layout: Layout) -> None:
        if layout.unfilled_columns:
            raise NotAQueueError(
                f"Nothing can be sent to {self.address.canonical}: its column {layout.unfilled_columns[0]!r} takes "
                "no NULL and has no default; give it one."
            )

    def _insert(self, name: str, messages: Sequence[Message]) -> list[Any]:
        def run(layout: Layout) -> list[Any]:
            self._check_fillable(layout)
            given, values, sizes = sent_parameters(messages, layout.types)
            statement = self.query(name, **insertion(layout.types, given, len(messages)))
            return self.session.run(statement, *values, sizes=sizes)

        return self.run_for_layout(run)

    def receive(
        self,
        limit: int = 1,
        *,
        where: MessageFilter | None = None,
        window: int = WINDOW,
        keep_expired: bool = False,
        bounded: bool = False,
    ) -> list[ReceivedMessage]:
        """Take up to ``limit`` messages out of the queue, lowest RowVersion first, passing over locked ones.

        Outside a transaction the messages are gone when this returns (at most once); inside ``session.transaction()``
        they come back if it rolls back. Expired messages on the way are deleted, as endpoints do, or with
        ``keep_expired`` returned, flagged; an empty answer means that nothing was left to take. FIFO is best effort:
        rolled-back messages come back, and a receiver that passes over locked ones overtakes them.

        With ``where`` only matching messages are taken, among the first ``window`` of the queue: their headers are read
        page by page, without their bodies. Expired ones do not match then, unless they are kept.

        With ``bounded`` headers that are too long to be read (:data:`~airflow_sqlqueue.message.MAX_HEADER_BYTES`) are
        cut: only in a transaction, which a caller that meets such a message rolls back.
        """
        check_rows(limit)
        if where is not None:
            found = find(self, where, limit, window=window, expired=keep_expired)
            return self.take([head.row_version for head in found], bounded=bounded)
        while True:
            rows = self.delete_output("queue.receive", limit=number(limit), bounded=bounded)
            alive = rows if keep_expired else [row for row in rows if not row.expired]
            # What was taken is handed out at once: outside a transaction an error of one more statement would lose it.
            if alive or len(rows) < limit:
                return _in_order(alive)
            self._drop_expired(len(rows))

    def _drop_expired(self, met: int) -> None:
        """Delete more of what has expired, so that a receive past many such messages takes few round trips.

        Where a deadlock chooses a victim it is this statement, and with it the transaction that it is part of: an
        endpoint that receives meanwhile goes on.
        """
        with self.session.yielding():
            dropped = met + int(self.value("queue.purge_expired", MAX_ROWS_PER_STATEMENT // 2))
        log.debug("Dropped %d expired messages of %s", dropped, self.address.canonical)

    def peek(self, limit: int = 10, *, after: int = FIRST) -> list[ReceivedMessage]:
        """Look at up to ``limit`` messages that nobody has locked, in the order of the queue; nothing is removed.

        ``after`` is the last RowVersion of the page before. :meth:`browse` leaves the bodies on the server.
        """
        check_rows(limit)
        rows = self.run_for_layout(
            lambda layout: self.session.run(
                self.query("queue.peek", columns=row_columns(layout.types)), limit, after, LAST
            )
        )
        return [received_message(Row._make(row)) for row in rows]

    def take(
        self, row_versions: Sequence[int] = (), *, ids: Sequence[uuid.UUID] = (), bounded: bool = False
    ) -> list[ReceivedMessage]:
        """Take the messages with these RowVersions or row Ids out of the queue, lowest first, passing over locked ones.

        What is missing from the answer is gone, or another transaction has locked it. An Id may be that of several
        rows, all of which are taken; finding them reads the whole table. Expired messages are returned, flagged: they
        were asked for. Delivery, and ``bounded``, as for :meth:`receive`.
        """
        wanted = set(row_versions).union(row_versions_of(self, ids) if ids else ())
        taken: list[Row] = []
        for chunk in padded_chunks(sorted(wanted)):
            taken += self.delete_output("queue.take", *chunk, bounded=bounded, row_versions=placeholders(chunk))
        return _in_order(taken)

    def take_head(self, count: int, window: Window, max_bytes: int, max_body: int = LAST) -> list[Any]:
        """Take the rows of a drain: like :meth:`receive`, in a window, which is one piece.

        They are at most ``max_bytes`` of headers and bodies and one row more, and at least one row where there is one.
        Rows with more than ``max_body`` bytes of body are passed over: they are for ``large_messages``. Only in a
        transaction, in which it sets the savepoint that :meth:`.Session.roll_back_to_savepoint` goes back to.
        The order of the rows is undefined. Expired ones are among them. They are the driver's, nine values in the order
        of :data:`~airflow_sqlqueue.row.COLUMNS`, because a :class:`Row` each is what a drain would spend most time on.
        """
        check_rows(count)
        values = (count, *window.values, max_body, max_bytes)
        return self.delete_output_raw("queue.take_head", *values, window=window.condition)

    def mean_bytes(self, up_to: int = LAST, *, rows: int = 100) -> int | None:
        """The mean size of headers and body at the head of the queue, locked rows included; None where it is empty."""
        mean = self.value("queue.mean_bytes", rows, up_to)
        return None if mean is None else int(mean)

    def ends(self) -> tuple[int, int] | None:
        """The lowest and the highest RowVersion that nobody has locked; None for an empty queue."""
        low, high = self.rows("queue.ends", FIRST, FIRST)[0]
        return None if low is None or high is None else (int(low), int(high))

    def window_end(self, rows: int, after: int, up_to: int) -> int | None:
        """The RowVersion of the last of the next ``rows`` messages above ``after``, locked ones included; None: none.

        Messages that are being received or sent right now may be counted or not.
        """
        value = self.value("queue.window_end", rows, after, up_to)
        return None if value is None else int(value)

    def count_left(self, up_to: int, *, wait: float = 0.0) -> int:
        """How many messages up to a RowVersion are left, those that others have locked included; 0 is certain.

        Waits up to ``wait`` seconds for the transaction that has locked the first of them. Messages that are being
        received right now may be missing from a count above 0, which is at least 1.
        """
        with self.session.lock_timeout(wait):
            try:
                if self.value("queue.first_left", up_to) is None:
                    return 0
            except LockTimeoutError:
                pass
        return max(1, int(self.value("queue.count_left", up_to)))

    def count_locked(self, up_to: int) -> int:
        """How many messages up to a RowVersion others hold, at least one: for who has met one of theirs."""
        return max(1, self.count_left(up_to) - int(self.value("queue.count_up_to", up_to)))


def _in_order(rows: Iterable[Row]) -> list[ReceivedMessage]:
    return sorted(map(received_message, rows), key=lambda message: message.row_version)


def received_message(row: Row) -> ReceivedMessage:
    """The message of a row; ``Expires`` is UTC. NULL in a column that the transport makes NOT NULL is empty."""
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
