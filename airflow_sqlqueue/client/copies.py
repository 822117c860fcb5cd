"""Copies of new messages: their watermarks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from airflow_sqlqueue.client.connector import Connector
from airflow_sqlqueue.errors import CopyError
from airflow_sqlqueue.queue.copies import CopyInfo, CopyTable, QueueCopy
from airflow_sqlqueue.queue.tables.own import stored_name


class CopyManager:
    """Copies of new messages, of drains with ``incremental`` and streams with ``copy``, in the ledgers of a server.

    The watermarks are in the queue's database. A call without a queue reads those of the connection's database.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

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
