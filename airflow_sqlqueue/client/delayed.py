"""Delayed messages of one queue."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from airflow_sqlqueue.client.connector import Connector
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.envelope.causation import outgoing
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.delayed.mover import MoveOptions, MoveResult, move_due
from airflow_sqlqueue.queue.delayed.table import DelayedMessage, DelayedTable, delayed_name
from airflow_sqlqueue.queue.send_ledger import SendResult


class DelayedQueue:
    """Delayed messages of a queue: until they are due they wait in the table ``<queue>.Delayed``."""

    def __init__(self, connector: Connector, queue_name: str) -> None:
        self._connector, self._queue_name = connector, queue_name
        self._name = delayed_name(queue_name, connector.resolver.delayed_suffix)
        connector.resolver.resolve(self._name)

    @property
    def address(self) -> ResolvedAddress:
        """Table of delayed messages, as its address is spelled."""
        return self._connector.address(self._name)

    @contextmanager
    def open(self, *, sending: bool = False, what: str | None = None) -> Iterator[DelayedTable]:
        """Open the table through one connection for the block, as :meth:`~airflow_sqlqueue.client.queues.Queue.open`.

        ``what`` is as for :meth:`.Connector.enlisted_session`.
        """
        with self._connector.enlisted_session(sending=sending, what=what) as session:
            yield DelayedTable(session, self._connector.find_in(session, self._name), self._queue_name)

    def send(
        self,
        messages: Iterable[Message],
        *,
        delay: timedelta | None = None,
        due: datetime | None = None,
        through: str | None = None,
    ) -> int:
        """Send messages that the queue gets after ``delay``, or at ``due``, in one transaction; return their number.

        They wait in the queue's own table of delayed messages, or in the table of the queue ``through``, whose endpoint
        forwards them. In both cases an endpoint, or :meth:`move`, has to run there. Delivery and errors: see
        :meth:`airflow_sqlqueue.queue.delayed.table.DelayedTable.store`.
        """
        waiting = self if through is None else DelayedQueue(self._connector, through)
        with waiting.open(sending=True) as table, table.session.transaction():
            forward_to = self._connector.find_in(table.session, self._queue_name) if through else None
            with outgoing(messages, table.address.canonical, new_trace=True) as linked:
                return table.store(linked, delay=delay, due=due, forward_to=forward_to)

    def send_once(
        self,
        send_id: uuid.UUID,
        messages: Iterable[Message],
        origin: str = "",
        *,
        delay: timedelta | None = None,
        due: datetime | None = None,
    ) -> SendResult:
        """Send as :meth:`send`, unless a send with this id was committed before: exactly once."""
        with self.open(sending=True) as table:
            ledger = self._connector.send_ledger(table.session, table.address.catalog)
            with outgoing(messages, table.address.canonical, new_trace=True) as linked:
                return ledger.once(table.address, send_id, lambda: table.store(linked, delay=delay, due=due), origin)

    def list(self, limit: int = 100) -> Sequence[DelayedMessage]:
        """List the messages that are due next, earliest first, without bodies; nothing is removed."""
        with self.open() as table:
            return table.peek(limit)

    def cancel(self, *, row_versions: Iterable[int] | None = None, message_id: str | None = None) -> int:
        """Delete messages, by the RowVersions of :meth:`list` or by message id; return how many it deleted."""
        if (row_versions is None) == (message_id is None):
            raise ConfigurationError("Delayed messages are cancelled by row_versions or by message_id: give one.")
        with self.open() as table:
            return table.cancel(row_versions or ()) if message_id is None else table.cancel_message(message_id)

    def move(self, options: MoveOptions | None = None, *, error_queue: str | None = None) -> MoveResult:
        """Move due messages to the queue, as its endpoint does. See :func:`..queue.delayed.mover.move_due`."""
        with self.open(what=f"Moving delayed messages of the queue {self._queue_name}") as table:

            def queue(name: str) -> QueueTable:
                return QueueTable(table.session, self._connector.find_in(table.session, name))

            errors = queue(error_queue) if error_queue else None
            return move_due(table, queue(self._queue_name), self._connector.resolver, options, error_queue=errors)
