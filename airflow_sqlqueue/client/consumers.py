"""Streaming consumers, as which queries of Spark read queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_sqlqueue.client.connector import Connector
from airflow_sqlqueue.errors import TransactionError

if TYPE_CHECKING:
    from airflow_sqlqueue.drain.releasing import ConsumerInfo, ReleaseResult


class ConsumerManager:
    """The streaming consumers that the ledgers of a server know.

    The ledger stands in the queue's database; where no queue is named it is that of the connection's database.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def list(self, queue_name: str | None = None) -> Sequence[ConsumerInfo]:
        """The consumers of a queue, or all of the ledger, with the claims that are not done.

        See :class:`airflow_sqlqueue.drain.releasing.ConsumerInfo`.
        """
        from airflow_sqlqueue.drain.releasing import list_consumers

        queue = self._connector.find(queue_name).canonical if queue_name else None
        with self._connector.ledger(queue_name) as ledger, self._connector.locks(queue_name) as locks:
            return list_consumers(ledger, locks, queue)

    def release(self, name: str, queue_name: str | None = None) -> ReleaseResult:
        """Put the claims of a consumer that nobody resumes back into its queue, and forget the consumer.

        Exactly once for the queue, however often it is called. What a sink has of the last claim comes a second time:
        see :func:`airflow_sqlqueue.drain.releasing.release_consumer`. Raises
        :class:`~airflow_sqlqueue.errors.TransactionError` in the client's transaction.
        """
        # It loads Arrow, which takes longer than most of what a client does.
        from airflow_sqlqueue.drain.releasing import release_consumer

        if self._connector.in_transaction:
            raise TransactionError("A claim is sealed before its messages go back: call it outside a transaction.")
        with self._connector.ledger(queue_name) as ledger, self._connector.locks(queue_name) as locks:
            return release_consumer(ledger, locks, name)
