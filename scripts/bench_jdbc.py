"""Our readers beside Spark's own JDBC reader with Microsoft's driver, on the same tables of the same server.

Both sides read all columns of the same rows into nothing, with as many tasks. Part of ``bench_spark.py``; left out
where the jar is missing (``make jars``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_report import Comparison
from jars import jars_for

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.stages.message_table import MessageTable
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.spark import register
from airflow_sqlqueue.traffic import generate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOOK, LOOK_JDBC = "a look at a queue", "JDBC reader of the queue"
BATCH, BATCH_JDBC = "a batch in a table", "JDBC reader of the table"
NEEDED = jars_for("mssql-jdbc") or []
_TASKS = 2


def jdbc_frames(spark: SparkSession, queue: QueueTable, count: int) -> dict[str, DataFrame]:
    """What reads ``count`` messages of a shop in the queue, and as many that were drained into the table, by name."""
    settings = queue.session.settings
    queue.send(generate(count, seed=1))
    batch = Drain(lambda: Session(settings), queue.address, TableStage()).run().batch
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
    """The least seconds of each side."""
    pairs = ((LOOK, LOOK_JDBC), (BATCH, BATCH_JDBC))
    note = f"{_TASKS} tasks each"
    return [Comparison(ours, best[ours], jdbc, best[jdbc], limit=True, unit="s", note=note) for ours, jdbc in pairs]
