"""The end of an open batch that nobody wants: its messages go back into their queue."""

from __future__ import annotations

import uuid

from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.liveness import BatchLocks
from airflow_sqlqueue.drain.requeue import RequeueResult, requeue
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchError, BatchNotFoundError


def abandon(
    ledger: Ledger, locks: BatchLocks, batch_id: uuid.UUID, staging: StagingFolder | None = None
) -> RequeueResult:
    """Seal an open batch, so that nobody can add to it any more, and then put it back: :func:`.drain.requeue.requeue`.

    A drain that was thought dead and comes back after the seal has its part rolled back. Between the two steps the
    batch is sealed, and ``requeue`` finishes what an interruption left. Repeated, it sends nothing.

    Raises :class:`BatchNotFoundError`, and :class:`BatchError` for a batch that somebody works on, for one that is
    sealed or consumed, and for a copy.
    """
    if not ledger.exists():
        raise BatchNotFoundError(f"There is no ledger in {ledger.catalog!r} to know batch {batch_id}: check the queue.")
    if not locks.take(batch_id):
        raise BatchError(f"Batch {batch_id} is being worked on: stop its task first, or wait for its end.")
    entry = ledger.find(batch_id)
    if entry.kept:
        raise BatchError(f"Batch {batch_id} is a copy: its messages stayed in their queue, so nothing goes back to it.")
    state = entry.state
    if state == "sealed":
        raise BatchError(f"Batch {batch_id} is sealed and waits for its reader: put it back with 'sqlqueue requeue'.")
    if state == "open":
        ledger.seal(batch_id)
    return requeue(ledger, batch_id, staging)
