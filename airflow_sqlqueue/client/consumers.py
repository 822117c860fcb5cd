"""Streaming consumers, as which queries of Spark read queues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_sqlqueue.client.connector import Connector
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.errors import TransactionError

if TYPE_CHECKING:
    from airflow_sqlqueue.drain.requeue import ReleaseResult
    from airflow_sqlqueue.drain.streams import StreamInfo


class ConsumerManager:
    """The streaming consumers that the ledgers of a server know.

    The ledger stands in the queue's database; where no queue is named it is that of the connection's database.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def list(self, queue_name: str | None = None) -> Sequence[StreamInfo]:
        """The consumers of a queue, or all of the ledger, with the claims that are not done.

        See :class:`airflow_sqlqueue.drain.streams.StreamInfo`.
        """
        from airflow_sqlqueue.drain.streams import list_streams

        queue = self._connector.find(queue_name).canonical if queue_name else None
        with self._ledger(queue_name) as (ledger, locks):
            return list_streams(ledger, locks, queue)

    def release(self, name: str, queue_name: str | None = None) -> ReleaseResult:
        """Put the claims of a consumer that nobody resumes back into its queue, and forget the consumer.

        Exactly once for the queue, however often it is called. What a sink has of the last claim comes a second time:
        see :func:`airflow_sqlqueue.drain.requeue.release_stream`. Raises
        :class:`~airflow_sqlqueue.errors.TransactionError` in the client's transaction.
        """
        # It loads Arrow, which takes longer than most of what a client does.
        from airflow_sqlqueue.drain.requeue import release_stream

        if self._connector.in_transaction:
            raise TransactionError("A claim is sealed before its messages go back: call it outside a transaction.")
        with self._ledger(queue_name) as (ledger, locks):
            return release_stream(ledger, locks, name)

    @contextmanager
    def _ledger(self, queue_name: str | None) -> Iterator[tuple[Ledger, BatchLocks]]:
        connector = self._connector
        with (
            connector.ledger(queue_name) as ledger,
            BatchLocks(connector.session, ledger.catalog, connector.ledger_schema) as locks,
        ):
            yield ledger, locks
