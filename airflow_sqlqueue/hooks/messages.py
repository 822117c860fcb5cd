"""The hook's methods on messages: send, receive, peek, depth, purge."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from airflow_sqlqueue.hooks.base import QueueConnectionHook
from airflow_sqlqueue.message import Message, ReceivedMessage
from airflow_sqlqueue.queue import Backlog, Depth
from airflow_sqlqueue.queue.browsing import WINDOW, MessageFilter, MessageHead
from airflow_sqlqueue.queue.purge import CHUNK, PurgeOptions, PurgeResult
from airflow_sqlqueue.queue.send_ledger import SendLedger, SendResult
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.tables.create import delayed_address


class MessageMethods(QueueConnectionHook):
    """What can be done with messages."""

    def send(self, queue_name: str, messages: Iterable[Message]) -> int:
        """Send messages in one transaction and return how many; at least once, if the caller repeats a failed call."""
        with self.queue(queue_name, sending=True) as queue, queue.session.transaction():
            return queue.send(messages)

    def send_once(
        self, queue_name: str, send_id: uuid.UUID, messages: Iterable[Message], origin: str = ""
    ) -> SendResult:
        """Send messages in one transaction unless a sending with this id was committed before: exactly once.

        The sent-ledger, in the schema of the drain's ledger and the queue's database, is made where it is missing. See
        :class:`airflow_sqlqueue.queue.send_ledger.SendLedger`.
        """
        with self.queue(queue_name, sending=True) as queue:
            ledger = SendLedger(queue.session, queue.address.catalog, self.ledger_schema)
            ledger.create()
            return ledger.send(queue, send_id, messages, origin)

    def send_numbered(self, queue_name: str, messages: Iterable[Message]) -> list[int]:
        """:meth:`send`, and return the messages' RowVersions, in their order."""
        with self.queue(queue_name, sending=True) as queue, queue.session.transaction():
            return queue.send_numbered(messages)

    def depth(self, queue_name: str, *, kind: str = "exact", limit: int | None = None) -> Depth:
        """Count messages, ``exact``, ``quick`` or ``catalog``; or look at the first ``limit`` rows only.

        See :mod:`airflow_sqlqueue.queue.depth` for what each can get wrong.
        """
        with self.queue(queue_name) as queue:
            return queue.depth(kind, limit=limit)

    def backlog(self, queue_name: str, *, kind: str = "exact") -> Backlog:
        """The depth with delayed messages, the age of the oldest and how many were ever sent."""
        with self.queue(queue_name) as queue:
            return queue.backlog(kind, delayed=delayed_address(self.resolver, queue_name, queue.address))

    def peek(self, queue_name: str, limit: int = 10, *, after: int = FIRST) -> list[ReceivedMessage]:
        """Look at messages, from the head of the queue or after a RowVersion; nothing is removed."""
        with self.queue(queue_name) as queue:
            return queue.peek(limit, after=after)

    def browse(self, queue_name: str, limit: int = 10, *, after: int = FIRST) -> list[MessageHead]:
        """:meth:`peek` without bodies."""
        with self.queue(queue_name) as queue:
            return queue.browse(limit, after=after)

    def find(
        self, queue_name: str, where: MessageFilter, limit: int = 100, *, window: int = WINDOW
    ) -> list[MessageHead]:
        """Look for messages by their headers. See :meth:`airflow_sqlqueue.queue.QueueTable.find`."""
        with self.queue(queue_name) as queue:
            return queue.find(where, limit, window=window)

    def receive(
        self,
        queue_name: str,
        limit: int = 1,
        *,
        where: MessageFilter | None = None,
        window: int = WINDOW,
        keep_expired: bool = False,
    ) -> list[ReceivedMessage]:
        """Take messages out of the queue. At most once: they are gone when this returns, whatever comes after.

        Use :meth:`drain`, or :meth:`transaction`, where none may be lost. See
        :meth:`airflow_sqlqueue.queue.QueueTable.receive`.
        """
        with self.queue(queue_name) as queue:
            return queue.receive(limit, where=where, window=window, keep_expired=keep_expired)

    def take(
        self, queue_name: str, row_versions: Sequence[int] = (), *, ids: Sequence[uuid.UUID] = ()
    ) -> list[ReceivedMessage]:
        """Take messages by RowVersion or row Id; delivery as for :meth:`receive`."""
        with self.queue(queue_name) as queue:
            return queue.take(row_versions, ids=ids)

    def purge(self, queue_name: str, options: PurgeOptions | None = None) -> PurgeResult:
        """Delete what has expired, or what the options say. See :func:`airflow_sqlqueue.queue.purge.purge`."""
        with self.queue(queue_name) as queue:
            return queue.purge(options)

    def purge_expired(
        self,
        queue_name: str,
        *,
        chunk: int = CHUNK,
        max_messages: int | None = None,
        max_seconds: float | None = None,
        dry_run: bool = False,
    ) -> PurgeResult:
        """:meth:`purge` of what has expired."""
        options = PurgeOptions(chunk=chunk, max_messages=max_messages, max_seconds=max_seconds, dry_run=dry_run)
        return self.purge(queue_name, options)
