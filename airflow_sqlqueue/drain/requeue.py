"""Putting a sealed batch back: its rows are in the queue again, or in the batch, never in both or neither."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass

from airflow_sqlqueue.drain.batch_reader import batch_rows
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchError, BatchMismatchError, BatchNotFoundError, LockTimeoutError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import AddressResolver

log = logging.getLogger(__name__)

_REFUSALS = {
    "open": "is still open: run its drain to the end first",
    "consumed": "was consumed: its reader has its messages, and would get them a second time; nothing was put back",
}


@dataclass(frozen=True)
class RequeueResult:
    """The batch, whose state is ``requeued`` now; ``repeated`` where an earlier call had put it back already."""

    batch: Batch
    repeated: bool


def requeue(ledger: Ledger, batch_id: uuid.UUID, staging: StagingFolder | None = None) -> RequeueResult:
    """Send every message of a sealed batch back into its queue and mark the batch, in one transaction: exactly once.

    Ids, headers, bodies and expiry are as they were, and so is the order; the RowVersions are new, so the messages
    stand behind those that came meanwhile. Messages that had expired when they were drained were dropped then and do
    not come back. Until the COMMIT nobody can receive them. The transaction log must hold the batch.

    A job that reads the batch at this moment cannot mark it consumed afterwards. Repeated, as after a COMMIT whose
    answer was lost, it sends nothing. Files, and rows in the table of staged messages, stay until they are swept.
    ``staging`` as for :func:`~airflow_sqlqueue.drain.batch_reader.rows_in_order`.

    Raises :class:`BatchNotFoundError`, :class:`BatchError` for a batch that is open, consumed or a copy, and with
    nothing changed :class:`BatchMismatchError`, :class:`StagingError` or an error of the queue's.
    """
    if not ledger.exists():
        raise BatchNotFoundError(f"There is no ledger in {ledger.catalog!r} to know batch {batch_id}: check the queue.")
    if ledger.find(batch_id).kept:
        raise BatchError(f"Batch {batch_id} is a copy: its messages stayed in their queue; mark it consumed instead.")
    with ledger.session.transaction():
        if not _mark(ledger, batch_id):
            return _refuse_or_repeat(ledger, batch_id)
        batch = ledger.manifest(batch_id)
        queue = QueueTable(ledger.session, AddressResolver().resolve(batch.queue))
        sent = queue.restore(batch_rows(ledger, batch_id, batch.stage, staging))
        if sent != batch.messages:
            raise BatchMismatchError(
                f"Batch {batch_id} has {sent} messages, the ledger says {batch.messages}: nothing was put back."
            )
    log.info("Batch %s is in %s again: %d messages", batch_id, batch.queue, sent)
    return RequeueResult(batch, repeated=False)


def _mark(ledger: Ledger, batch_id: uuid.UUID) -> bool:
    """Whether the batch was sealed and is marked now.

    Once more where it was sealed between the statement and the look at the batch: it will not be open again.
    """
    statement = ledger.query("ledger.requeue")
    return ledger.session.value(statement, str(batch_id)) == 1 or (
        ledger.find(batch_id).state == "sealed" and ledger.session.value(statement, str(batch_id)) == 1
    )


def _refuse_or_repeat(ledger: Ledger, batch_id: uuid.UUID) -> RequeueResult:
    row = ledger.find(batch_id)
    if row.state == "sealed":
        raise LockTimeoutError(f"Batch {batch_id} changes all the time: nothing was put back; try again later.")
    if row.state in _REFUSALS:
        raise BatchError(f"Batch {batch_id} {_REFUSALS[row.state]}.")
    return RequeueResult(ledger.manifest(batch_id), repeated=True)
