"""Streams: the names under which Spark's streaming queries read queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_sqlqueue.client.connector import Connector
from airflow_sqlqueue.errors import TransactionError

if TYPE_CHECKING:
    from airflow_sqlqueue.drain.requeue import ReleaseResult
    from airflow_sqlqueue.drain.streams import StreamInfo


class StreamManager:
    """Streams in the ledgers of a server.

    The ledger is in the queue's database. A call without a queue reads the ledger of the connection's database.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def list(self, queue_name: str | None = None) -> Sequence[StreamInfo]:
        """List the streams of a queue, or all of the ledger, with their unfinished claims.

        See :class:`airflow_sqlqueue.drain.streams.StreamInfo`.
        """
        from airflow_sqlqueue.drain.streams import list_streams

        with self._connector.ledger_of(queue_name) as (ledger, queue), self._connector.locks(queue_name) as locks:
            return list_streams(ledger, locks, queue)

    def release(self, name: str, queue_name: str | None = None) -> ReleaseResult:
        """Put the claims of an abandoned stream back into its queue, and delete the stream from the ledger.

        Exactly once for the queue, also when it is called again. Messages of the last claim that a sink already has
        reach it a second time: see :func:`airflow_sqlqueue.drain.requeue.release_stream`. Raises
        :class:`~airflow_sqlqueue.errors.TransactionError` in the client's transaction.
        """
        # It loads Arrow, which takes longer than most calls of a client.
        from airflow_sqlqueue.drain.requeue import release_stream

        if self._connector.in_transaction:
            raise TransactionError("A claim is sealed before its messages go back: call it outside a transaction.")
        with self._connector.ledger(queue_name) as ledger, self._connector.locks(queue_name) as locks:
            return release_stream(ledger, locks, name)
