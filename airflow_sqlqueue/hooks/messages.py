"""The hook's methods on messages: send, receive, peek, depth, purge."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from airflow_sqlqueue.hooks.base import QueueConnectionHook
from airflow_sqlqueue.message import Message, ReceivedMessage
from airflow_sqlqueue.queue import Depth, Purged
from airflow_sqlqueue.sent import Sent, SentLedger


class MessageMethods(QueueConnectionHook):
    """What can be done with messages."""

    def send(self, queue_name: str, messages: Iterable[Message]) -> int:
        """Send messages in one transaction and return how many; at least once, if the caller repeats a failed call."""
        with self.queue(queue_name, sending=True) as queue, queue.session.transaction():
            return queue.send(messages)

    def send_once(self, queue_name: str, send_id: uuid.UUID, messages: Iterable[Message], origin: str = "") -> Sent:
        """Send messages in one transaction unless a sending with this id was committed before: exactly once.

        The sent-ledger, in the schema of the drain's ledger and the queue's database, is made where it is missing. See
        :class:`airflow_sqlqueue.sent.SentLedger`.
        """
        with self.queue(queue_name, sending=True) as queue:
            ledger = SentLedger(queue.session, queue.address.catalog, self.ledger_schema)
            ledger.create()
            return ledger.send(queue, send_id, messages, origin)

    def depth(self, queue_name: str, *, at_most: int | None = None) -> Depth:
        """Count the messages that nobody has locked, or look at the first ``at_most`` rows only."""
        with self.queue(queue_name) as queue:
            return queue.depth(at_most=at_most)

    def peek(self, queue_name: str, at_most: int = 10) -> list[ReceivedMessage]:
        """Look at the head of the queue; nothing is removed."""
        with self.queue(queue_name) as queue:
            return queue.peek(at_most)

    def receive(self, queue_name: str, at_most: int = 1) -> list[ReceivedMessage]:
        """Take messages out of the queue. At most once: they are gone when this returns, whatever comes after.

        Use :meth:`drain`, or :meth:`queue` with a transaction, where none may be lost.
        """
        with self.queue(queue_name) as queue:
            return queue.receive(at_most)

    def purge_expired(
        self,
        queue_name: str,
        *,
        chunk: int = 1_000,
        max_messages: int | None = None,
        max_seconds: float | None = None,
        dry_run: bool = False,
    ) -> Purged:
        """Delete expired messages. See :meth:`airflow_sqlqueue.queue.QueueTable.purge_expired`."""
        with self.queue(queue_name) as queue:
            return queue.purge_expired(chunk=chunk, max_messages=max_messages, max_seconds=max_seconds, dry_run=dry_run)
