"""Quarantine: messages that could not be drained or handled, kept on the server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from airflow_sqlqueue.client.connector import Connector
from airflow_sqlqueue.errors import QueueNotFoundError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.quarantine import Quarantine, QuarantinedMessage


class QuarantineManager:
    """The quarantine tables of a server, each in the database of the queues it serves."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def list(self, queue_name: str) -> Sequence[QuarantinedMessage]:
        """The messages of a queue in quarantine, in the order in which they came; headers and bodies stay there.

        Those of a queue that was dropped are still there. Raises QueueNotFoundError where there is neither.
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
        """Put messages of :meth:`list` back into their queue, by their numbers, all or none.

        See :meth:`airflow_sqlqueue.queue.quarantine.Quarantine.requeue`.
        """
        with self._connector.queue(queue_name) as table:
            self._of(table).requeue(table, numbers)

    def _of(self, table: QueueTable) -> Quarantine:
        return Quarantine(table.session, table.address.catalog, self._connector.ledger_schema)
