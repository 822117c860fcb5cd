"""Read of a sealed batch, in files or in the table of staged messages: shares of its parts for Spark's tasks.

A sealed batch does not change, so a task that runs again, or twice at the same time, reads the same rows.

Source: docs/design.md, "Batches in a table".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.stages.staging_table import MessageTable
from airflow_sqlqueue.errors import BatchMismatchError, BatchNotFoundError
from airflow_sqlqueue.messages.row import NAMES
from airflow_sqlqueue.options.budget import MIB
from airflow_sqlqueue.spark.source.columns import SelectedColumns
from airflow_sqlqueue.spark.source.options import BatchOptions, ServerAccess

if TYPE_CHECKING:
    import pyarrow as pa

TASK_BYTES = 64 * MIB
"""Bytes of headers and bodies for one task, plus one part. A task may have several small parts."""


@dataclass(frozen=True)
class BatchShare:
    """The parts of a batch that one task reads; ``catalog`` is the database of the ledger."""

    catalog: str
    batch_id: uuid.UUID
    stage: str
    parts: tuple[Part, ...]


def plan_shares(access: ServerAccess, options: BatchOptions, known: Batch | None = None) -> list[BatchShare]:
    """Return the shares of a batch's parts, which the ledger lists, for as many tasks as the options say; for more if
    it is large.

    ``known`` is the batch of a manifest. Raises :class:`BatchNotFoundError`, :class:`BatchError` for a batch that is
    open or was put back, and :class:`BatchMismatchError` if the ledger contradicts itself or the manifest, or names
    files that are not the drain's.
    """
    client = access.client()
    catalog = client.settings.database if options.queue is None else client.find(options.queue).catalog
    batch_id = options.batch_id
    with client.session() as session:
        ledger = Ledger(session, catalog)
        if not ledger.exists():
            raise BatchNotFoundError(f"There is no ledger with batch {batch_id} in {catalog!r}: name its queue.")
        batch = ledger.manifest(batch_id)
        batch.check_readable()
        if known is not None and (batch.messages, batch.stage) != (known.messages, known.stage):
            raise BatchMismatchError(
                f"The manifest of batch {batch_id} has {known.messages} messages, the ledger {batch.messages}: "
                "is it another database's?"
            )
        batch.check_files()
        parts = [part for part in ledger.parts(batch_id) if part.messages]
    return [BatchShare(catalog, batch_id, batch.stage, tuple(share)) for share in share_out(parts, options.partitions)]


def share_out(parts: Sequence[Part], at_least: int) -> list[list[Part]]:
    """Return the parts for tasks, in order: ``at_least`` tasks if there are as many parts, more if these are large."""
    size = min(TASK_BYTES, sum(part.bytes for part in parts) // at_least)
    shares: list[list[Part]] = [[]]
    taken = 0
    for part in parts:
        if shares[-1] and taken + part.bytes > size:
            shares.append([])
            taken = 0
        shares[-1].append(part)
        taken += part.bytes
    return shares


def read_share(access: ServerAccess, columns: SelectedColumns, share: BatchShare) -> Iterator[pa.RecordBatch]:
    """Read a task's share of a batch; each run reads the same rows.

    Raises :class:`BatchMismatchError` if a part has another number of messages than the ledger says, and
    :class:`StagingError` for a file that cannot be read.
    """
    if share.stage == "table":
        return _from_table(access, columns, share)
    return _from_files(columns, share)


def _from_table(access: ServerAccess, columns: SelectedColumns, share: BatchShare) -> Iterator[pa.RecordBatch]:
    if not share.parts:
        return
    with access.client().session() as session:
        table = MessageTable(session, share.catalog)
        for part in share.parts:
            for page in table.part(share.batch_id, part.id, part.messages, bodies="Body" in columns.names):
                yield columns.to_arrow(page, NAMES)


def _from_files(columns: SelectedColumns, share: BatchShare) -> Iterator[pa.RecordBatch]:
    from airflow_sqlqueue.drain.batch_reader import part_batches

    for part in share.parts:
        for batch in part_batches(part, columns.names):
            yield columns.rename(batch)
