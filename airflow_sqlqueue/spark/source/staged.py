"""Reading a sealed batch: its parts shared out to tasks, in files or in the table of staged messages."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.stages.message_table import MessageTable
from airflow_sqlqueue.errors import BatchNotFoundError
from airflow_sqlqueue.row import NAMES
from airflow_sqlqueue.spark.source.columns import SelectedColumns
from airflow_sqlqueue.spark.source.options import BatchOptions, ServerAccess
from airflow_sqlqueue.spark.table_reader import share_out

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class BatchShare:
    """The parts of a batch that one task reads; ``catalog`` is the database of the ledger."""

    catalog: str
    batch_id: uuid.UUID
    stage: str
    parts: tuple[Part, ...]


def plan_shares(access: ServerAccess, options: BatchOptions) -> list[BatchShare]:
    """The parts of a batch as the ledger lists them now, for as many tasks as the options say, or more large ones.

    Raises :class:`BatchNotFoundError`, :class:`BatchError` for a batch that is open or was put back, and
    :class:`BatchMismatchError` where the ledger contradicts itself or names files that are not the drain's.
    """
    client = access.client()
    catalog = client.settings.database if options.queue is None else client.find(options.queue).catalog
    batch_id = options.batch_id
    with client.session() as session:
        ledger = Ledger(session, catalog, access.ledger_schema)
        if not ledger.exists():
            raise BatchNotFoundError(f"There is no ledger in {catalog!r} to know batch {batch_id}: name its queue.")
        batch = ledger.manifest(batch_id)
        batch.check_readable()
        batch.check_files()
        parts = [part for part in ledger.parts(batch_id) if part.messages]
    shares = share_out(parts, options.partitions)
    return [BatchShare(catalog, batch_id, batch.stage, tuple(share)) for share in shares]


def read_share(access: ServerAccess, columns: SelectedColumns, share: BatchShare) -> Iterator[pa.RecordBatch]:
    """What a task reads of a batch. The same rows however often it is run.

    Raises :class:`BatchMismatchError` where a part has not as many messages as the ledger says, and
    :class:`StagingError` for a file that cannot be read.
    """
    if share.stage == "table":
        return _from_table(access, columns, share)
    return _from_files(columns, share)


def _from_table(access: ServerAccess, columns: SelectedColumns, share: BatchShare) -> Iterator[pa.RecordBatch]:
    if not share.parts:
        return
    with access.client().session() as session:
        table = MessageTable(session, share.catalog, access.ledger_schema)
        for part in share.parts:
            for page in table.part(share.batch_id, part.id, part.messages, bodies="Body" in columns.names):
                yield columns.to_arrow(page, NAMES)


def _from_files(columns: SelectedColumns, share: BatchShare) -> Iterator[pa.RecordBatch]:
    from airflow_sqlqueue.drain.batch_reader import part_batches

    for part in share.parts:
        for batch in part_batches(part, columns.names):
            yield columns.rename(batch)
