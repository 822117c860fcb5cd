"""The Spark job behind the audit examples: one sealed batch in, a table and a page of figures out.

Plain PySpark that knows nothing of the scheduler. Call :func:`run` with a session, or start it as a script::

    spark-submit audit_job.py --manifest manifest.json --lake DIR --report report.html
    python audit_job.py --manifest manifest.json --lake DIR --report report.html

The guarantee: the table is keyed by batch, so running a batch again, whole or after a crash, replaces its own rows and
nobody else's. Run one attempt of a batch at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchMismatchError
from airflow_sqlqueue.spark import local_session, read_batch, verify_count

if __package__:
    from .audit_report import Figures, write_report
else:  # started as a script, or found in a folder that is on the path
    from audit_report import Figures, write_report

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PARTITIONS = ("day", "message_type", "batch_id")
NO_TYPE = {"malformed": "(malformed headers)", "control": "(no message type)"}


def run(spark: SparkSession, batch: Batch, lake: str, report: str) -> dict[str, int]:
    """Write the batch's rows to the Parquet table at ``lake`` and its figures to ``report``; return the counts.

    The table has the columns of ``read_batch`` and is partitioned by ``day`` (UTC, of the end of the processing; null
    where no header tells), ``message_type`` and ``batch_id``; it keeps ``headers_raw`` only where they are malformed.
    ``report`` is a local path or any URL that fsspec knows. The counts are ``messages``, ``written``, ``failed``,
    ``malformed`` and ``expired``.

    Raises ``BatchMismatchError`` where Spark reads or writes another number of rows than the ledger has.
    """
    rows = read_batch(spark, batch)
    verify_count(rows, batch)
    rows = with_partitions(rows, batch)
    written = write_lake(rows, lake) if batch.messages else 0
    if written != batch.messages:
        raise BatchMismatchError(
            f"{written} rows of batch {batch.batch_id} were written, the ledger has {batch.messages}: run it again."
        )
    figures = gather(rows, batch)
    write_report(figures, report)
    return {
        "messages": batch.messages,
        "written": written,
        "failed": sum(row["failed"] for row in figures.hourly),
        "malformed": sum(row["malformed"] for row in figures.hourly),
        "expired": batch.expired,
    }


def with_partitions(rows: DataFrame, batch: Batch) -> DataFrame:
    """The rows with the table's partition columns and the moment (``happened``) that stands for each message."""
    from pyspark.sql import functions as sf

    no_type = sf.when(sf.col("headers_malformed"), NO_TYPE["malformed"]).otherwise(NO_TYPE["control"])
    return rows.withColumns(
        {
            "happened": sf.coalesce("processing_ended", "time_of_failure", "time_sent"),
            "message_type": sf.coalesce(folder_name(sf.col("message_type")), no_type),
            "batch_id": sf.lit(batch.batch_id),
            "headers_raw": sf.when(sf.col("headers_malformed"), sf.col("headers_raw")),
        }
    ).withColumn("day", sf.date_from_unix_date(sf.floor(sf.unix_seconds("happened") / 86_400).cast("int")))


def folder_name(name: Column) -> Column:
    """A message type that can name a folder: one header of 10 KB must not make the whole batch impossible to write."""
    from pyspark.sql import functions as sf

    whole = name.rlike(r"\A[A-Za-z0-9_.+`-]{1,200}\z")
    return sf.when(whole | (sf.length(name) <= 40), name).otherwise(
        sf.concat(sf.substring(name, 1, 40), sf.lit("\u2026"))
    )


def write_lake(rows: DataFrame, lake: str) -> int:
    """Replace the partitions that the rows belong to; the number of rows that were written."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    seen = Observation("written")
    # One file per partition where it is small, several where it is large.
    gathered = rows.drop("happened").hint("rebalance", "day", "message_type")
    writer = gathered.observe(seen, sf.count(sf.lit(1)).alias("rows")).write.mode("overwrite")
    writer.option("partitionOverwriteMode", "dynamic").option("compression", "zstd").partitionBy(*PARTITIONS).parquet(
        lake
    )
    return int(seen.get["rows"])


def gather(rows: DataFrame, batch: Batch) -> Figures:
    """The report's figures: headers are parsed once, and three aggregations read the few columns that they need."""
    from pyspark.sql import functions as sf

    narrow = rows.select(
        "message_type",
        "processing_endpoint",
        "exception_type",
        "processing_ms",
        "happened",
        "headers_malformed",
        sf.floor(sf.unix_seconds("happened") / 3_600).alias("hour"),
        sf.coalesce(sf.octet_length("Body"), sf.lit(0)).cast("long").alias("body_bytes"),
        sf.col("failed_queue").isNotNull().alias("failed"),
    ).cache()
    try:
        return Figures(
            batch=batch,
            hourly=_collect(
                narrow.groupBy("message_type", "hour").agg(
                    sf.count(sf.lit(1)).alias("messages"),
                    sf.count_if("failed").alias("failed"),
                    sf.count_if("headers_malformed").alias("malformed"),
                    sf.sum("body_bytes").alias("body_bytes"),
                    sf.unix_micros(sf.min("happened")).alias("first"),
                    sf.unix_micros(sf.max("happened")).alias("last"),
                )
            ),
            times=_collect(
                narrow.where("processing_ms IS NOT NULL")
                .groupingSets(
                    [[sf.col("processing_endpoint")], [sf.col("message_type")]],
                    sf.col("processing_endpoint"),
                    sf.col("message_type"),
                )
                .agg(
                    sf.grouping("message_type").alias("of_endpoint"),
                    sf.count(sf.lit(1)).alias("messages"),
                    sf.percentile_approx("processing_ms", [0.5, 0.9, 0.99], 10_000).alias("percentiles"),
                )
            ),
            failures=_collect(
                narrow.where("failed")
                .groupBy("exception_type", "processing_endpoint")
                .agg(sf.count(sf.lit(1)).alias("messages"), sf.unix_micros(sf.max("happened")).alias("last"))
            ),
        )
    finally:
        narrow.unpersist()


def _collect(df: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in df.collect()]


def main(arguments: list[str] | None = None) -> int:
    """The command line. Prints the counts as one line of JSON."""
    parser = argparse.ArgumentParser(description="Load one drained batch into a table and report on it.")
    parser.add_argument("--manifest", required=True, help="the batch's manifest, a JSON file")
    parser.add_argument("--lake", required=True, help="the folder of the Parquet table")
    parser.add_argument("--report", required=True, help="the HTML file to write: a path or a URL")
    parser.add_argument("--master", default="local[2]", help="the master to use without spark-submit (%(default)s)")
    options = parser.parse_args(arguments)
    batch = Batch.from_dict(json.loads(Path(options.manifest).read_text(encoding="utf-8")))
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit started this process and its session's settings rule
        from pyspark.sql import SparkSession

        counts = run(SparkSession.builder.getOrCreate(), batch, options.lake, options.report)
    else:
        with local_session("audit", master=options.master) as spark:
            counts = run(spark, batch, options.lake, options.report)
    sys.stdout.write(json.dumps(counts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
