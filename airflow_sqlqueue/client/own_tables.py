"""Tables of this package beside queues: watermarks of copies, streams of Spark's queries, quarantine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_sqlqueue.client.connector import Manager
from airflow_sqlqueue.errors import CopyError, QueueNotFoundError, TransactionError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.copies import CopyInfo, CopyTable, QueueCopy
from airflow_sqlqueue.queue.quarantine import Quarantine, QuarantinedMessage
from airflow_sqlqueue.queue.tables.own import stored_name

if TYPE_CHECKING:
    from airflow_sqlqueue.drain.requeue import ReleaseResult
    from airflow_sqlqueue.drain.streams import StreamInfo


class CopyManager(Manager):
    """Copies of new messages, of drains with ``incremental`` and streams with ``copy``, in the ledgers of a server.

    The watermarks are in the queue's database. A call without a queue reads those of the connection's database.
    """

    def list(self, queue_name: str | None = None) -> Sequence[CopyInfo]:
        """List the copies of a queue, or all: see :class:`airflow_sqlqueue.queue.copies.CopyInfo`."""
        with self._connector.ledger_of(queue_name) as (ledger, queue):
            table = CopyTable(ledger.session, ledger.catalog)
            found = table.rows() if table.exists() else []
        return [info for info in found if queue is None or info.queue == stored_name(queue)]

    def close_gaps(self, name: str, queue_name: str, *, longest_transaction: timedelta) -> int:
        """Close gaps that were seen longer ago than any transaction lasts, and return how many: for a queue that never
        rests, whose gaps do not close by themselves.

        The caller vouches for ``longest_transaction``: a message of a longer one is lost to the copy. It returns 0
        while the gaps are younger, or hold messages, which the next run of the copy takes. Raises
        :class:`~airflow_sqlqueue.errors.CopyError` for an unknown copy.
        """
        with self._connector.queue(queue_name) as queue:
            copy = QueueCopy(queue, name)
            if not copy.exists() or not copy.state().stored:
                raise CopyError(f"There is no copy {name!r} of {queue_name}: 'sqlqueue copies' lists them.")
            return copy.close_gaps(longest_transaction)

    def reset(self, name: str, queue_name: str) -> bool:
        """Delete the watermark of a copy: its next run copies all messages of the queue again. False: it has none."""
        with self._connector.ledger_of(queue_name) as (ledger, queue):
            table = CopyTable(ledger.session, ledger.catalog)
            return queue is not None and table.exists() and table.forget(name, queue)


class StreamManager(Manager):
    """Streams in the ledgers of a server.

    The ledger is in the queue's database. A call without a queue reads the ledger of the connection's database.
    """

    def list(self, queue_name: str | None = None) -> Sequence[StreamInfo]:
        """List the streams of a queue, or all of the ledger, with their unfinished claims."""
        from airflow_sqlqueue.drain.streams import list_streams

        with self._connector.ledger_of(queue_name) as (ledger, queue), self._connector.locks(queue_name) as locks:
            return list_streams(ledger, locks, queue)

    def release(self, name: str, queue_name: str | None = None, *, accept_duplicates: bool = False) -> ReleaseResult:
        """Put the claims of an abandoned stream back into its queue, and delete the stream from the ledger.

        Exactly once for the queue, also when it is called again. Raises
        :class:`~airflow_sqlqueue.errors.BatchError` where a sink may have messages of the last claim already, unless
        ``accept_duplicates``: they reach it a second time then
        (:func:`airflow_sqlqueue.drain.requeue.release_stream`). Raises
        :class:`~airflow_sqlqueue.errors.TransactionError` in the client's transaction.
        """
        # It loads Arrow, which takes longer than most calls of a client.
        from airflow_sqlqueue.drain.requeue import release_stream

        if self._connector.in_transaction:
            raise TransactionError("A claim is sealed before its messages go back: call it outside a transaction.")
        with self._connector.ledger(queue_name) as ledger, self._connector.locks(queue_name) as locks:
            return release_stream(ledger, locks, name, accept_duplicates=accept_duplicates)


class QuarantineManager(Manager):
    """Quarantine tables of a server, one in each database with queues."""

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
        """Put messages of :meth:`list` back into their queue, by their numbers, in one transaction."""
        with self._connector.queue(queue_name) as table:
            self._of(table).requeue(table, numbers)

    def _of(self, table: QueueTable) -> Quarantine:
        return Quarantine(table.session, table.address.catalog)
