"""Quarantine: messages on the server that could not be drained or handled."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from airflow_sqlqueue.client.connector import Connector
from airflow_sqlqueue.errors import QueueNotFoundError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.quarantine import Quarantine, QuarantinedMessage


class QuarantineManager:
    """Quarantine tables of a server, one in each database with queues."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def list(self, queue_name: str) -> Sequence[QuarantinedMessage]:
        """List the messages of a queue in quarantine, in the order of their arrival, without headers and bodies.

        Messages of a dropped queue are listed too. Raises QueueNotFoundError where neither the queue nor its messages
        exist.
        """
        with self._connector.queue(queue_name) as table:
            try:
                table.layout.require("queue")
            except QueueNotFoundError:
                with suppress(QueueNotFoundError):
                    if left := self._of(table).messages(table.address):
                        return left
                raise
            quarantine = self._of(table)
            return quarantine.messages(table.address) if quarantine.exists() else []

    def requeue(self, queue_name: str, numbers: Sequence[int]) -> None:
        """Put messages of :meth:`list` back into their queue, by their numbers, in one transaction.

        See :meth:`airflow_sqlqueue.queue.quarantine.Quarantine.requeue`.
        """
        with self._connector.queue(queue_name) as table:
            self._of(table).requeue(table, numbers)

    def _of(self, table: QueueTable) -> Quarantine:
        return Quarantine(table.session, table.address.catalog)
