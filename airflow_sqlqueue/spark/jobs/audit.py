"""Audit table: a folder of Parquet files with the messages of batches, partitioned by batch and day.

``python -m airflow_sqlqueue.spark.jobs.audit --manifest MANIFEST --table LAKE``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchMismatchError
from airflow_sqlqueue.spark.batch import read_batch, verify_count
from airflow_sqlqueue.spark.jobs.program import Program
from airflow_sqlqueue.spark.sinks.partitions import COLUMN, write_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_sqlqueue.server.settings import ConnectionSettings

_OWN = (
    *("Id", "CorrelationId", "headers_raw", "Body"),
    *("message_id", "correlation_id", "conversation_id", "related_to"),
)
"""Columns whose values are unique, or shared by a few messages."""


def audit_rows(spark: SparkSession, batch: Batch, connection: ConnectionSettings | None = None) -> DataFrame:
    """Return the messages of a batch with the columns of the audit table.

    These are the columns of :func:`~airflow_sqlqueue.spark.read_batch` without ``headers``, ``enclosed_types`` and
    ``traceparent``: ``headers_raw`` has the same, and the map would take as long to build and write as all other
    columns together.
    Added are ``happened``, the time of a message (the end of its processing, else its failure, else its sending),
    ``day``, its date in UTC, and ``body_bytes``. ``happened`` and ``day`` are null for a message without such a header.
    """
    from pyspark.sql import functions as sf

    rows = read_batch(spark, batch, connection).drop("headers", "enclosed_types", "traceparent")
    happened = sf.coalesce("processing_ended", "time_of_failure", "time_sent")
    body_bytes = sf.coalesce(sf.octet_length("Body"), sf.lit(0)).cast("long")
    timed = rows.withColumns({"happened": happened, "body_bytes": body_bytes})
    return timed.withColumn("day", sf.date_from_unix_date(sf.floor(sf.unix_seconds("happened") / 86_400).cast("int")))


def audit_table(
    spark: SparkSession, batch: Batch, lake: str, connection: ConnectionSettings | None = None
) -> DataFrame:
    """Write a batch to the table in the folder ``lake``; return its rows as a read of the table, for cheap statistics.

    The table is keyed by batch: a second run of a batch, after a crash as well, replaces the rows of this batch only.
    Run one attempt of a batch at a time. Within a file rows are sorted by type, so that a reader of one type skips the
    others. A body in a file of its own is not in the table, only its name in ``BodyFile``.

    Raises :class:`BatchMismatchError` if Spark reads another number of rows than the ledger has, before it writes, or
    writes another number, and the errors of :func:`~airflow_sqlqueue.spark.read_batch`.
    """
    rows = audit_rows(spark, batch, connection)
    verify_count(rows, batch)
    if not batch.messages:
        return rows
    written = write_audit_rows(rows, lake, batch)
    if written != batch.messages:
        raise BatchMismatchError(
            f"{written} rows of batch {batch.batch_id} were written, the ledger has {batch.messages}: run it again."
        )
    return spark.read.schema(rows.schema).parquet(f"{lake.rstrip('/')}/{COLUMN}={batch.batch_id}")


def write_audit_rows(rows: DataFrame, lake: str, batch: Batch) -> int:
    """Replace the batch's rows in the table by those of :func:`audit_rows`; return their number."""
    return write_partitions(
        rows, lake, batch, partition_by=("day",), sort_by=("message_type",), without_dictionary=_OWN
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program, which prints the number of messages that it wrote."""
    program = Program(__doc__ or "")
    program.add_manifest(required=True)
    program.add("--table", required=True, dest="lake", help="the folder of the table")
    with program.start(arguments) as (spark, options):
        batch = program.batch(spark)
        audit_table(spark, batch, options.lake, program.connection(batch))
        program.answer(messages=batch.messages)
    return 0


if __name__ == "__main__":
    sys.exit(main())
