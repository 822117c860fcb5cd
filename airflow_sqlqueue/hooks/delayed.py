"""The hook's methods on delayed messages: send, list, cancel, move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from airflow_sqlqueue.delayed.mover import DEFAULT_CHUNK, MoveResult, move_due
from airflow_sqlqueue.delayed.table import DelayedMessage, DelayedTable, delayed_name
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks.base import QueueConnectionHook
from airflow_sqlqueue.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.tables.discovery import find_queue


class DelayedMethods(QueueConnectionHook):
    """What can be done with delayed messages. Each method names the queue, whose table is ``<queue>.Delayed``."""

    @contextmanager
    def delayed(self, queue_name: str, *, sending: bool = False) -> Iterator[DelayedTable]:
        """A queue's table of delayed messages, in a session as for :meth:`queue`."""
        name = delayed_name(queue_name)
        self.resolve(name)
        with self.enlisted_session(sending=sending) as session:
            yield DelayedTable(session, find_queue(session, self.resolver, name))

    def send_delayed(
        self,
        queue_name: str,
        messages: Iterable[Message],
        *,
        delay: timedelta | None = None,
        due: datetime | None = None,
        through: str | None = None,
    ) -> int:
        """Send messages that the queue gets after ``delay``, or at ``due``, in one transaction; return how many.

        They wait in the queue's own table of delayed messages, or in that of the queue ``through``, whose endpoint
        forwards them; either way an endpoint, or :meth:`move_delayed`, has to run there. Delivery and errors: see
        :meth:`airflow_sqlqueue.delayed.table.DelayedTable.store`.
        """
        with self.delayed(through or queue_name, sending=True) as table:
            session = table.session
            forward_to = find_queue(session, self.resolver, queue_name) if through else None
            with session.transaction():
                return table.store(messages, delay=delay, due=due, forward_to=forward_to)

    def list_delayed(self, queue_name: str, limit: int = 100) -> list[DelayedMessage]:
        """The delayed messages that are due next, without bodies; nothing is removed."""
        with self.delayed(queue_name) as table:
            return table.peek(limit)

    def cancel_delayed(
        self, queue_name: str, *, row_versions: Iterable[int] | None = None, message_id: str | None = None
    ) -> int:
        """Delete delayed messages, by what :meth:`list_delayed` shows or by message id; return how many there were."""
        if (row_versions is None) == (message_id is None):
            raise ConfigurationError("Delayed messages are cancelled by row_versions or by message_id: give one.")
        with self.delayed(queue_name) as table:
            return table.cancel(row_versions or ()) if message_id is None else table.cancel_message(message_id)

    def move_delayed(
        self,
        queue_name: str,
        *,
        error_queue: str | None = None,
        chunk: int = DEFAULT_CHUNK,
        max_messages: int | None = None,
        max_seconds: float | None = None,
    ) -> MoveResult:
        """Move what is due to the queue, as its endpoint would. See :func:`airflow_sqlqueue.delayed.mover.move_due`."""
        with self.delayed(queue_name) as table:

            def queue(name: str) -> QueueTable:
                return QueueTable(table.session, find_queue(table.session, self.resolver, name))

            return move_due(
                table,
                queue(queue_name),
                self.resolver,
                error_queue=queue(error_queue) if error_queue else None,
                chunk=chunk,
                max_messages=max_messages,
                max_seconds=max_seconds,
            )
