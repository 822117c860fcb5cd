"""The Spark job behind the audit examples: one sealed batch in, tables and a page of figures out.

Plain PySpark, independent of the scheduler. Call :func:`run` with a session, or start it as a script::

    spark-submit audit_job.py --manifest manifest.json --lake DIR --report report.html
    python audit_job.py --manifest manifest.json --lake DIR --report report.html

The audit table has a row for each message, with its headers. With ``--tables DIR`` the job writes a table for each
message type as well, with the fields of the bodies, and the report has a section on them.

The guarantee: the tables are keyed by batch, so a second run of a batch, after a crash as well, replaces the rows of
this batch only. Run one attempt of a batch at a time.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue import Batch
from airflow_sqlqueue.spark import Program, audit_table

if __package__:
    from .audit_report import Figures, write_report
    from .shop_tables import write_shop_tables
else:  # started as a script, or imported from a folder on the path
    from audit_report import Figures, write_report
    from shop_tables import write_shop_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MALFORMED, NO_TYPE = "(malformed headers)", "(no message type)"
SHOWN = 200
"""Characters of a name that the report shows."""
LAST_HOURS = 100
"""Hours of the answer that the result has: XCom is for small values."""


def run(
    spark: SparkSession, batch: Batch, lake: str, report: str, tables: str | None = None, schemas: str | None = None
) -> dict[str, Any]:
    """Write the batch's rows to the audit table in ``lake`` and its figures to ``report``; return the counts.

    ``report`` is a local path or any URL that fsspec knows. The counts are ``messages``, ``written``, ``failed``,
    ``malformed`` and ``expired``.

    With ``tables``, a folder, each message type gets a table there, by the schemas in the folder ``schemas``. The
    result then has the counts ``unparsed`` and ``rescued`` too, ``tables`` and the last hours of ``revenue`` of
    :class:`.ShopTables`, and ``tables_seconds``, the time that the tables and their question took.

    Raises ``BatchMismatchError`` if Spark reads or writes another number of rows than the ledger has.
    """
    figures = gather(audit_table(spark, batch, lake), batch)
    started = time.monotonic()
    shop = None if tables is None else write_shop_tables(spark, batch, tables, schemas)
    seconds = time.monotonic() - started
    write_report(replace(figures, shop=shop), report)
    of_tables: dict[str, Any] = {}
    if shop is not None:
        counts = {name: shop.result[name] for name in ("unparsed", "rescued")}
        of_tables = {**counts, "tables": shop.tables, "revenue": shop.revenue[-LAST_HOURS:], "tables_seconds": seconds}
    return {
        "messages": batch.messages,
        "written": sum(row["messages"] for row in figures.hourly),
        "failed": sum(row["failed"] for row in figures.hourly),
        "malformed": sum(row["malformed"] for row in figures.hourly),
        "expired": batch.expired,
        **of_tables,
    }


def gather(rows: DataFrame, batch: Batch) -> Figures:
    """Return the report's figures: three aggregations; each reads only the columns of the table that it needs."""
    from pyspark.sql import functions as sf

    kind = sf.coalesce("message_type", sf.when(sf.col("headers_malformed"), MALFORMED), sf.lit(NO_TYPE))
    name = sf.when(sf.length(kind) <= SHOWN, kind).otherwise(sf.concat(sf.left(kind, sf.lit(SHOWN)), sf.lit("\u2026")))
    named = rows.withColumns({"message_type": name, "hour": sf.floor(sf.unix_seconds("happened") / 3_600)})
    hourly = named.groupBy("message_type", "hour").agg(
        sf.count(sf.lit(1)).alias("messages"),
        sf.count("failed_queue").alias("failed"),
        sf.count_if("headers_malformed").alias("malformed"),
        sf.sum("body_bytes").alias("body_bytes"),
        sf.unix_micros(sf.min("happened")).alias("first"),
        sf.unix_micros(sf.max("happened")).alias("last"),
    )
    times = (
        named.where("processing_ms IS NOT NULL")
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
    )
    failures = (
        named.where("failed_queue IS NOT NULL")
        .groupBy("exception_type", "processing_endpoint")
        .agg(sf.count(sf.lit(1)).alias("messages"), sf.unix_micros(sf.max("happened")).alias("last"))
    )
    # In parallel, because such small queries spend most of their time in planning.
    with ThreadPoolExecutor(3) as pool:
        return Figures(batch, *pool.map(_collect, (hourly, times, failures)))


def _collect(df: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in df.collect()]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line, which prints the counts as one line of JSON."""
    program = Program("Load one drained batch into a table and report on it.", master="local[2]")
    program.add_manifest(required=True)
    program.add("--lake", required=True, help="the folder of the Parquet table")
    program.add("--report", required=True, help="the HTML file to write: a path or a URL")
    program.add("--tables", help="the folder of the tables of message types, which are not written without it")
    program.add("--schemas", help="the folder of their schemas (_schemas in the folder of the tables)")
    with program.start(arguments) as (spark, options):
        found = run(spark, program.batch(spark), options.lake, options.report, options.tables, options.schemas)
        program.answer(**{name: value for name, value in found.items() if isinstance(value, int)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
