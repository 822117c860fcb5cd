"""Speed of Spark's read of a batch, against Spark's own readers of JSON and of JDBC, and against a rewrite of its rows.

The messages are a shop's, drained to files; every side reads the same files in one session, in turns.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench_report import Comparison
from bench_setting import TURNS, drained, fill, messages, timed_turns
from jars import jars_for, stop_java

from airflow_sqlqueue import Batch, ConnectionSettings, HeaderNames, Message
from airflow_sqlqueue.drain.stages.staging_table import MessageTable
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.spark import local_session, raw_schema, read_batch, register
from airflow_sqlqueue.spark.jobs.audit import audit_rows, write_audit_rows
from airflow_sqlqueue.traffic import generate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession

BARE, TYPED, MAP = "bare from_json", "typed columns", "typed columns and the map"
BARE_ALL, ALL = "bare from_json and the raw columns", "all columns"
REWRITE, TABLE = "rewrite", "the audit table"
TYPES = 20
COUNTS, BARE_COUNTS = "messages to counts by type", "the same of bare Parquet"
LOOK, LOOK_JDBC = "a look at a queue", "JDBC reader of the queue"
BATCH, BATCH_JDBC = "a batch in a table", "JDBC reader of the table"
JDBC_JARS = jars_for("mssql-jdbc") or []
"""The jar of Microsoft's JDBC driver; without it (``make jars``) the comparisons with the JDBC reader are left out."""
_TASKS = 2
_NOT_TYPED = {"headers", "headers_raw"}


def compare_spark(
    queue: QueueTable, *, count: int = 100_000, turns: int = TURNS, counted: int = 1_000_000
) -> list[Comparison]:
    """Compare columns with a bare read of JSON, the audit table with a rewrite of its rows; time a session's start."""
    with tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        batch = _shop(queue, count, Path(folder, "staging"))
        if JDBC_JARS:
            stop_java()
        started = time.perf_counter()
        with local_session("bench", config={"spark.jars": ",".join(JDBC_JARS)}) as spark:
            spark.range(1).count()
            session = time.perf_counter() - started
            best = least_seconds(_kinds(spark, batch, Path(folder)), turns)
            counts = compare_counts(spark, queue, counted, partial(least_seconds, turns=turns))
            found = jdbc_frames(spark, queue, count // 5) if JDBC_JARS else {}
            reads = least_seconds({name: partial(run, frame) for name, frame in found.items()}, turns)
    pairs = (
        (TYPED, BARE, 2.5, "all of them"),
        (MAP, BARE, None, ""),
        (ALL, BARE_ALL, 4.5, "2.0 wanted"),
        (TABLE, REWRITE, 3.0, "parses and sorts"),
    )
    compared = [
        Comparison(name, best[name], base, best[base], bound, limit=True, unit="s", note=note)
        for name, base, bound, note in pairs
    ]
    compared += counts
    if reads:
        compared += jdbc_comparisons(reads)
    return [*compared, Comparison("session and first job", session, REWRITE, best[REWRITE], unit="s", note="cold")]


def _shop(queue: QueueTable, count: int, staging: Path) -> Batch:
    queue.send(generate(count, seed=1))
    return drained(queue, StagingFolder.of(staging))


def _kinds(spark: SparkSession, batch: Batch, folder: Path) -> dict[str, Callable[[], object]]:
    from pyspark.sql import functions as sf

    raw = spark.read.schema(raw_schema()).parquet(*batch.paths)
    rows = read_batch(spark, batch, headers_map=True)
    typed = [name for name in rows.columns if name not in {*raw.columns, *_NOT_TYPED}]
    parsed = sf.from_json("Headers", "map<string,string>").alias("headers")
    again = raw.write.mode("overwrite").option("compression", "zstd")
    return {
        BARE: partial(run, raw.select(parsed)),
        BARE_ALL: partial(run, raw.select("*", parsed)),
        TYPED: partial(run, rows.select(*typed)),
        MAP: partial(run, rows.select("headers", *typed)),
        ALL: partial(run, read_batch(spark, batch)),
        REWRITE: partial(again.parquet, str(folder / "again")),
        TABLE: partial(write_audit_rows, audit_rows(spark, batch), str(folder / "lake"), batch),
    }


def run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def least_seconds(kinds: Mapping[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Return the seconds of the fastest turn of each kind of work."""
    best: dict[str, float] = {}
    for name, seconds, *_ in timed_turns(kinds, turns):
        best[name] = min(best.get(name, float("inf")), seconds)
    return best


def compare_counts(
    spark: SparkSession,
    queue: QueueTable,
    count: int,
    least: Callable[[dict[str, Callable[[], object]]], dict[str, float]],
) -> list[Comparison]:
    """Compare counts by type of ``count`` drained messages; ``least`` gives the least seconds of each side.

    The bare side takes the one header out of the text and applies no rule of messages: malformed headers would have a
    type, and a type's name would include its assembly. Raises :class:`RuntimeError` if a side counts other messages
    than were drained.
    """
    from pyspark.sql import functions as sf

    fill(queue, count, typed)
    with tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        started = time.perf_counter()
        batch = drained(queue, StagingFolder.of(Path(folder)))
        drain_seconds = time.perf_counter() - started
        header = sf.get_json_object("Headers", f"$['{HeaderNames.ENCLOSED_MESSAGE_TYPES}']")
        raw = spark.read.schema(raw_schema()).parquet(*batch.paths)
        frames = {COUNTS: read_batch(spark, batch).groupBy("message_type"), BARE_COUNTS: raw.groupBy(header)}
        found = least({name: partial(_check_count, rows, count) for name, rows in frames.items()})
    note = f"drained in {drain_seconds:,.0f} s before"
    return [
        Comparison(
            f"{count:,} {COUNTS}", found[COUNTS], BARE_COUNTS, found[BARE_COUNTS], limit=True, unit="s", note=note
        )
    ]


def typed(count: int) -> Iterator[Message]:
    """Small messages of :data:`TYPES` types in turns."""
    for number, message in enumerate(messages(count)):
        kind = f"Shop.Messages.Event{number % TYPES}, Shop.Messages"
        headers = {**dict(message.headers), HeaderNames.ENCLOSED_MESSAGE_TYPES: kind}  # type: ignore[arg-type]
        yield replace(message, headers=headers, body=message.body[:100])


def _check_count(groups: GroupedData, wanted: int) -> None:
    # A new DataFrame each time: a second collect of one would reuse the files of its shuffle.
    found = [row["count"] for row in groups.count().collect()]
    if (len(found), sum(found)) != (min(TYPES, wanted), wanted):
        raise RuntimeError(f"{sum(found)} messages of {len(found)} types were counted, {wanted} were drained.")


def jdbc_frames(spark: SparkSession, queue: QueueTable, count: int) -> dict[str, DataFrame]:
    """Our readers and Spark's JDBC reader, by name, for ``count`` messages in the queue and in the table of a batch.

    Both sides read all columns of the same rows with as many tasks; Microsoft's driver is the JDBC driver.
    """
    settings = queue.session.settings
    queue.send(generate(count, seed=1))
    batch = drained(queue, TableStage())
    queue.send(generate(count, seed=1))
    register(spark, settings)
    ours = spark.read.format("sqlqueue").option("partitions", _TASKS)
    staged = MessageTable.address_in(queue.address.catalog).qualified_name
    of_batch = f"(SELECT * FROM {staged} WHERE [BatchId] = '{batch.batch_id}') AS batch"  # noqa: S608 - our own names
    return {
        LOOK: ours.option("queue", queue.address.canonical).load(),
        LOOK_JDBC: _jdbc(spark, settings, queue.address.qualified_name),
        BATCH: spark.read.format("sqlqueue").options(partitions=_TASKS, batch=batch.batch_id).load(),
        BATCH_JDBC: _jdbc(spark, settings, of_batch),
    }


def _jdbc(spark: SparkSession, settings: ConnectionSettings, table: str) -> DataFrame:
    keywords = {name.lower(): value for name, value in settings.keywords.items()}
    yes = {"yes": "true", "no": "false"}
    encrypt = keywords.get("encrypt", "yes")
    trust = keywords.get("trustservercertificate", "no")
    url = f"jdbc:sqlserver://{settings.host}:{settings.port};databaseName={{{settings.database}}}"
    access = {
        "url": f"{url};encrypt={yes.get(encrypt, encrypt)};trustServerCertificate={yes[trust]}",
        "user": settings.user or "",
        "password": settings.password or "",
        "driver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    }
    reader = spark.read.format("jdbc").options(**access, fetchsize="1000")
    ends = f"SELECT MIN([RowVersion]) AS low, MAX([RowVersion]) AS high FROM {table}"  # noqa: S608 - our own names
    low, high = reader.option("query", ends).load().collect()[0]
    return (
        spark.read.format("jdbc")
        .options(**access, fetchsize="1000", dbtable=table)
        .options(partitionColumn="RowVersion", lowerBound=low, upperBound=high + 1, numPartitions=_TASKS)
        .load()
    )


def jdbc_comparisons(best: dict[str, float]) -> list[Comparison]:
    """Compare the least seconds of each side."""
    pairs = ((LOOK, LOOK_JDBC), (BATCH, BATCH_JDBC))
    note = f"{_TASKS} tasks each"
    return [Comparison(ours, best[ours], jdbc, best[jdbc], limit=True, unit="s", note=note) for ours, jdbc in pairs]
