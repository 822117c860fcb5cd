"""The rows of a batch that is staged in a table, read by Spark's tasks, each through a connection of its own.

A batch is immutable once it is sealed, so a task that is run again, or twice at the same time, reads the same rows.

Source: docs/design.md, "Batches in a table".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_sqlqueue.budget import MIB
from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.stages.message_table import MessageTable
from airflow_sqlqueue.errors import BatchError, BatchMismatchError, StagingError
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.row import Row
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.spark.secrets import broadcast

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

TASK_BYTES = 64 * MIB
"""Bytes of headers and bodies for one task, and one part more. A task may have several small parts."""


def table_rows(
    spark: SparkSession, batch: Batch, connection: ConnectionSettings, ledger_schema: str, schema: StructType
) -> DataFrame:
    """The rows of a batch in the table of staged messages, with the columns of ``drained_row_schema``.

    The parts are asked for at once, their rows when Spark runs. A task fails with :class:`BatchMismatchError` where a
    part has not as many rows as the ledger says. Raises what a session does, :class:`BatchError` for a batch that is
    not sealed any more, and :class:`BatchMismatchError` where ledger and manifest differ.
    """
    login = broadcast(spark, connection)
    catalog = AddressResolver().resolve(batch.queue).catalog
    parts = _parts(batch, connection, catalog, ledger_schema)
    if not parts:
        return spark.createDataFrame([], schema)
    shares = share_out(parts, spark.sparkContext.defaultParallelism)
    # What the function closes over goes into the plan: numbers and ids only.
    work = [[(part.id, part.messages) for part in share] for share in shares]
    batch_id = uuid.UUID(batch.batch_id)

    def read(tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbers in tasks:
            for number in numbers.column(0).to_pylist():
                yield from read_parts(login.value, catalog, ledger_schema, batch_id, work[number])

    return spark.range(0, len(work), 1, len(work)).mapInArrow(read, schema)


def share_out(parts: Sequence[Part], at_least: int) -> list[list[Part]]:
    """Parts for tasks, in order: ``at_least`` tasks where there are as many parts, more where they would be large."""
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


def _parts(batch: Batch, connection: ConnectionSettings, catalog: str, ledger_schema: str) -> list[Part]:
    with Session(connection) as session:
        ledger = Ledger(session, catalog, ledger_schema)
        now = ledger.manifest(uuid.UUID(batch.batch_id))
        if now.state not in ("sealed", "consumed"):
            raise BatchError(f"Batch {batch.batch_id} was put back into its queue: there is nothing to read any more.")
        if (now.messages, now.stage) != (batch.messages, batch.stage):
            raise BatchMismatchError(
                f"The manifest of batch {batch.batch_id} has {batch.messages} messages, the ledger {now.messages}: "
                "is it another database's?"
            )
        return [part for part in ledger.parts(uuid.UUID(batch.batch_id)) if part.messages]


def read_parts(
    connection: ConnectionSettings,
    catalog: str,
    ledger_schema: str,
    batch_id: uuid.UUID,
    parts: Sequence[tuple[uuid.UUID, int]],
) -> Iterator[pa.RecordBatch]:
    """What a task does: read parts, given with the number of messages that the ledger says they have, one by one.

    Raises :class:`BatchMismatchError` where a part has another number, and :class:`StagingError` for a message that
    was changed in the table to what Spark cannot hold.
    """
    with Session(connection) as session:
        table = MessageTable(session, catalog, ledger_schema)
        for part_id, messages in parts:
            for page in table.part(batch_id, part_id, messages):
                yield _arrow(page)


def _arrow(page: Sequence[Row]) -> pa.RecordBatch:
    # It loads pandas, which those who only plan tasks have no use for.
    from airflow_sqlqueue.drain.stages.part_file import to_arrow, unwritable

    try:
        return to_arrow(page)
    except Exception:
        # The drain puts such rows in quarantine, so this one was changed later. The cause would quote the value.
        reasons = {row.row_version: reason for row in page if (reason := unwritable(row))}
    row_version, reason = next(iter(reasons.items()))
    raise StagingError(f"The staged message {row_version} (RowVersion) cannot be read by Spark: {reason}.")
