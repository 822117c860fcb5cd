"""Requeue: put the messages of a batch, or of the claims of a stream, back into their queue.

The rows are in the queue again, or in the batch, never in both or neither.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass

from airflow_sqlqueue.drain.batch_reader import batch_rows
from airflow_sqlqueue.drain.ledger import Ledger, LedgerEntry
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.drain.manifest import UNFINISHED, Batch
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.streams import StreamTable, copy_of_stream, stream_id
from airflow_sqlqueue.errors import (
    BatchError,
    BatchMismatchError,
    LockTimeoutError,
)
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.copies import CopyTable

log = logging.getLogger(__name__)

_REFUSALS = {
    "open": "is still open: run its drain to the end first",
    "consumed": "was consumed: its reader has its messages, and would get them a second time; nothing was put back",
}


@dataclass(frozen=True)
class RequeueResult:
    """Requeued batch, whose state is ``requeued`` now; ``repeated`` if an earlier call had already put it back."""

    batch: Batch
    repeated: bool


@dataclass(frozen=True)
class ReleaseResult:
    """Result of the release of a stream: the number of claims that were put back, and of their messages."""

    name: str
    queue: str
    claims: int
    messages: int


def requeue(
    ledger: Ledger, batch_id: uuid.UUID, staging: StagingFolder | None = None, *, accept_redacted: bool = False
) -> RequeueResult:
    """Send every message of a sealed batch back into its queue and mark the batch, in one transaction: exactly once.

    Ids, headers, bodies, expiry and order are unchanged. The RowVersions are new, so the messages come after those
    that arrived in the meantime. Messages that had expired when they were drained were dropped then and do not come
    back. No receiver sees the messages before the COMMIT. The transaction log must hold the batch.

    A job that reads the batch at this moment cannot mark it consumed afterwards. A repeated call, as after a COMMIT
    whose answer was lost, sends nothing. Files, and rows in the table of staged messages, stay until they are swept.
    ``staging`` as for :func:`~airflow_sqlqueue.drain.batch_reader.rows_in_order`. The messages of a redacted batch are
    not those that were drained: they go back only with ``accept_redacted``.

    Raises :class:`BatchNotFoundError`, :class:`BatchError` for a batch that is open, consumed, redacted or a copy, and
    with nothing changed :class:`BatchMismatchError`, :class:`StagingError` or an error of the queue's.
    """
    entry = _find(ledger, batch_id)
    if entry.kept:
        raise BatchError(
            f"Batch {batch_id} is a copy: its messages stayed in their queue; end it with "
            "'sqlqueue mark-consumed <id>'."
        )
    _check_redacted(batch_id, entry, accept_redacted)
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
    log.info("Batch %s is in %s again: %s", batch_id, batch.queue, count_of(sent, "message"))
    return RequeueResult(batch, repeated=False)


def abandon(
    ledger: Ledger,
    locks: BatchLocks,
    batch_id: uuid.UUID,
    staging: StagingFolder | None = None,
    *,
    accept_redacted: bool = False,
) -> RequeueResult:
    """Seal an open batch, so that no part can be added any more, and then put it back with :func:`requeue`.

    If a drain that was thought dead comes back after the seal, its part is rolled back. Between the two steps the
    batch is sealed, so ``requeue`` finishes an interrupted call. A repeated call sends nothing.

    Raises :class:`BatchNotFoundError`, and :class:`BatchError` for a batch that is being worked on, for one that is
    sealed or consumed, and for a copy.
    """
    if not locks.take(batch_id):
        raise BatchError(f"Batch {batch_id} is being worked on: stop its task first, or wait for its end.")
    entry = _find(ledger, batch_id)
    if entry.kept:
        raise BatchError(f"Batch {batch_id} is a copy: its messages stayed in their queue, so nothing goes back to it.")
    if entry.state == "sealed":
        raise BatchError(
            f"Batch {batch_id} is sealed and waits for its reader: put it back with 'sqlqueue requeue {batch_id}'."
        )
    _check_redacted(batch_id, entry, accept_redacted)
    if entry.state == "open":
        ledger.seal(batch_id)
    return requeue(ledger, batch_id, staging, accept_redacted=accept_redacted)


def release_stream(ledger: Ledger, locks: BatchLocks, name: str, *, accept_duplicates: bool = False) -> ReleaseResult:
    """Put the unfinished claims of a stream back into its queue, and delete the stream and its watermark.

    Each claim is put back in a transaction of its own, as a batch is. A call that is repeated after a failure does
    the rest. A query that comes back with its checkpoint is refused. The sink may already have a claim that is sealed:
    Spark commits it only when the next micro-batch begins. With ``accept_duplicates`` its messages go back too.

    Raises :class:`ConfigurationError` for an unknown stream, and :class:`BatchError` for a stream that a running
    query reads, and for one with a sealed claim.
    """
    table = StreamTable(ledger.session, ledger.catalog, ledger.schema)
    state = table.known(name)
    name = state.name
    owner = stream_id(name)
    if not locks.take(owner):
        raise BatchError(f"A query reads the stream {name!r}: stop it first.")
    claims = ledger.unfinished(owner)
    if not accept_duplicates:
        given = [ledger.manifest(batch_id) for batch_id in claims if ledger.find(batch_id).state == "sealed"]
        if messages := sum(batch.messages for batch in given if not batch.kept):
            locks.release(owner)
            raise BatchError(
                f"The sink of the stream {name!r} may have the last {messages:,} messages: run its query once more, or "
                "give the sink's table to finish_stream, and release it then; or accept duplicates."
            )
    messages = 0
    for batch_id in claims:
        batch = ledger.seal(batch_id)
        if batch.kept:
            # Its messages are in the queue still.
            ledger.consume(batch)
        else:
            messages += requeue(ledger, batch_id).batch.messages
    copies = CopyTable(ledger.session, ledger.catalog, ledger.schema)
    if copies.exists():
        copies.forget(copy_of_stream(name), state.queue)
    table.forget(state)
    locks.release(owner)
    log.info(
        "Stream %r is released: %d messages of %d claims are in %s again", name, messages, len(claims), state.queue
    )
    return ReleaseResult(name, state.queue, len(claims), messages)


def _find(ledger: Ledger, batch_id: uuid.UUID) -> LedgerEntry:
    ledger.require()
    return ledger.find(batch_id)


def _check_redacted(batch_id: uuid.UUID, entry: LedgerEntry, accepted: bool) -> None:
    if entry.redacted and not accepted and entry.state in UNFINISHED:
        raise BatchError(
            f"Batch {batch_id} was redacted: its messages are no longer those that were drained; put them back with "
            "accept_redacted (--accept-redacted), or mark the batch consumed."
        )


def _mark(ledger: Ledger, batch_id: uuid.UUID) -> bool:
    """Mark a sealed batch requeued; True if it was sealed.

    The statement runs a second time if the batch was sealed between the first one and the read of its state: a
    sealed batch is never opened again.
    """
    statement = ledger.query("ledger.requeue")
    return ledger.session.value(statement, str(batch_id)) == 1 or (
        ledger.find(batch_id).state == "sealed" and ledger.session.value(statement, str(batch_id)) == 1
    )


def _refuse_or_repeat(ledger: Ledger, batch_id: uuid.UUID) -> RequeueResult:
    state = ledger.find(batch_id).state
    if state == "sealed":
        raise LockTimeoutError(f"Batch {batch_id} changes all the time: nothing was put back; try again later.")
    if state in _REFUSALS:
        raise BatchError(f"Batch {batch_id} {_REFUSALS[state]}.")
    return RequeueResult(ledger.manifest(batch_id), repeated=True)
