"""Drained batches."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_sqlqueue.client.connector import Connector
from airflow_sqlqueue.drain.batches import BatchInfo, batches
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.routing import AddressResolver

if TYPE_CHECKING:
    from os import PathLike

    from airflow_sqlqueue.drain.requeue import RequeueResult
    from airflow_sqlqueue.drain.storage.folder import StagingFolder
    from airflow_sqlqueue.drain.sweep import SweepOptions, SweepResult


class BatchManager:
    """The batches that the ledgers of a server know.

    The ledger stands in the queue's database; where no queue is named it is that of the connection's database.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def list(
        self, queue_name: str | None = None, *, states: Sequence[str] = (), older_than: timedelta | None = None
    ) -> Sequence[BatchInfo]:
        """The batches of a queue, or all of the ledger; ``older_than`` goes by the time in their state.

        See :func:`airflow_sqlqueue.drain.batches.batches`.
        """
        queue = self._connector.find(queue_name).canonical if queue_name else None
        with self._connector.ledger(queue_name) as ledger:
            return batches(ledger, states=states, queue=queue, older_than=older_than)

    def get(self, batch_id: uuid.UUID, queue_name: str | None = None) -> Batch:
        """The manifest of a sealed batch, from the ledger. Raises as :meth:`.drain.ledger.Ledger.manifest`."""
        with self._connector.ledger(queue_name) as ledger:
            return ledger.manifest(batch_id)

    def mark_consumed(self, batch: Batch) -> None:
        """Mark a sealed batch consumed: it was read for good. Idempotent; raises BatchError for any other state."""
        # The routing may have changed since the drain: the manifest's own address says where the ledger stands.
        catalog = AddressResolver().resolve(batch.queue).catalog
        with self._connector.enlisted_session() as session:
            Ledger(session, catalog, self._connector.ledger_schema).consume(batch)

    def requeue(
        self,
        batch_id: uuid.UUID,
        queue_name: str | None = None,
        *,
        staging: str | PathLike[str] | StagingFolder | None = None,
    ) -> RequeueResult:
        """Put a sealed batch back into its queue, in one transaction, or in the client's transaction under way.

        Same ids, order kept; exactly once, however often it is called. ``staging`` is the folder of the batch's files,
        for an object store that needs more than the environment's credentials. See
        :func:`airflow_sqlqueue.drain.requeue.requeue`.
        """
        # Both load Arrow, which takes longer than most of what a client does.
        from airflow_sqlqueue.drain.requeue import requeue
        from airflow_sqlqueue.drain.storage.folder import StagingFolder

        folder = None if staging is None else StagingFolder.of(staging)
        with self._connector.ledger(queue_name) as ledger:
            return requeue(ledger, batch_id, folder)

    def sweep(
        self,
        staging: str | PathLike[str] | StagingFolder | None = None,
        queue_name: str | None = None,
        options: SweepOptions | None = None,
    ) -> SweepResult:
        """Remove orphaned part files from a staging folder, and batches that are done with and past their retention.

        Without a folder only batches that have no files go: those of the stage ``table``. See
        :func:`airflow_sqlqueue.drain.sweep.sweep`.
        """
        from airflow_sqlqueue.drain.storage.folder import StagingFolder
        from airflow_sqlqueue.drain.sweep import sweep

        folder = None if staging is None else StagingFolder.of(staging)
        with self._connector.ledger(queue_name) as ledger:
            return sweep(ledger, folder, options)
