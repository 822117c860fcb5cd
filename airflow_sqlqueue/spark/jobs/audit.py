"""A batch into the audit table: a folder of Parquet files, partitioned by batch and day.

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
"""Columns of which each message has a value of its own, or shares it with a few."""


def audit_rows(spark: SparkSession, batch: Batch, connection: ConnectionSettings | None = None) -> DataFrame:
    """The messages of a batch with the columns of the audit table.

    Those are the columns of :func:`~airflow_sqlqueue.spark.read_batch` but for the map ``headers``, of which
    ``headers_raw`` has all: the map would take as long to make and to write as everything else together. Besides there
    are ``happened``, the moment that stands for a message (the end of its processing, else its failure, else when it
    was sent), ``day``, its date in UTC, and ``body_bytes``. Both times are null where no header tells them.
    """
    from pyspark.sql import functions as sf

    rows = read_batch(spark, batch, connection).drop("headers")
    happened = sf.coalesce("processing_ended", "time_of_failure", "time_sent")
    body_bytes = sf.coalesce(sf.octet_length("Body"), sf.lit(0)).cast("long")
    timed = rows.withColumns({"happened": happened, "body_bytes": body_bytes})
    return timed.withColumn("day", sf.date_from_unix_date(sf.floor(sf.unix_seconds("happened") / 86_400).cast("int")))


def audit_table(
    spark: SparkSession, batch: Batch, lake: str, connection: ConnectionSettings | None = None
) -> DataFrame:
    """Write a batch to the table in the folder ``lake``; its rows, as they are there, by which figures are cheap.

    The table is keyed by batch: running one again, whole or after a crash, replaces its own rows and nobody else's. Run
    one attempt of a batch at a time. Within a file rows are sorted by type, so that a reader of one type passes over
    the others. A body in a file of its own is not in the table, only its name in ``BodyFile``.

    Raises :class:`BatchMismatchError` where Spark reads another number of rows than the ledger has, before anything is
    written, or writes another, and what :func:`~airflow_sqlqueue.spark.read_batch` raises.
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
    """Replace the batch's rows in the table by :func:`audit_rows`; how many were written."""
    return write_partitions(
        rows, lake, batch, partition_by=("day",), sort_by=("message_type",), without_dictionary=_OWN
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The program. Prints the number of messages that it wrote."""
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
