"""``spark.read.format("sqlqueue")``, end to end; ``tests/contract/test_spark_source.py`` tests its tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import browse
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark import raw_schema, read_batch, register, typed_columns
from airflow_sqlqueue.versions.spark import PUSHED_FILTERS, STREAMS
from tests.contract.conftest import Connect
from tests.spark.conftest import event_log, needs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


@pytest.fixture
def reader(spark: SparkSession, settings: ConnectionSettings, queue: QueueTable) -> DataFrameReader:
    register(spark, settings)
    return spark.read.format("sqlqueue").option("queue", queue.address.canonical)


def test_a_peek_at_a_queue_and_at_a_batch(
    spark: SparkSession, settings: ConnectionSettings, connect: Connect, queue: QueueTable, reader: DataFrameReader
) -> None:
    queue.send(Message({"n": f"{n} ☃"}, b"%d" % n) for n in range(30))
    versions = [head.row_version for head in browse(queue, 100)]
    seen = reader.option("partitions", 3).load()
    assert seen.schema == raw_schema()
    names = [name for name in seen.columns if name != "Headers"]
    rows = sorted(seen.select(*names).collect(), key=lambda row: row["RowVersion"])
    assert [row["RowVersion"] for row in rows] == versions
    some = reader.option("limit", 7).schema("rowVersion bigint, Id string").load()
    assert sorted(row["rowVersion"] for row in some.collect()) == versions[:7]
    assert depth(queue).messages == 30

    batch = Drain(connect, queue.address, TableStage()).run().batch
    staged = spark.read.format("sqlqueue").option("batch", batch.batch_id).load()
    assert sorted(staged.select(*names).collect(), key=lambda row: row["RowVersion"]) == rows
    expected, typed = read_batch(spark, batch, settings), typed_columns(staged)
    assert typed.columns == expected.columns
    names = typed.columns
    assert typed.select(*names).exceptAll(expected.select(*names)).count() == 0
    with pytest.raises(ConfigurationError, match="have no column Headers: read it as well"):
        typed_columns(some)


@needs(PUSHED_FILTERS)
def test_filters_are_pushed_down_on_request(spark: SparkSession, queue: QueueTable, reader: DataFrameReader) -> None:
    queue.send(Message({}, b"") for _ in range(10))
    versions = [head.row_version for head in browse(queue, 100)]
    condition = f"RowVersion > {versions[2]} AND RowVersion <= {versions[6]} AND NOT Expired"
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        pushed = reader.option("pushdown", "true").option("partitions", 1000).load().where(condition)
        assert pushed.rdd.getNumPartitions() == 4
        assert sorted(row["RowVersion"] for row in pushed.collect()) == versions[3:7]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_feature_that_this_spark_lacks_is_refused(
    spark: SparkSession, reader: DataFrameReader, queue: QueueTable, tmp_path: Path
) -> None:
    """Where it has them, the same calls succeed."""
    stream = spark.readStream.format("sqlqueue").options(queue=queue.address.canonical, stream=f"{queue.address}")
    rate = spark.readStream.format("rate").load().selectExpr("CAST(value AS string) AS Body")
    writer = rate.writeStream.format("sqlqueue").options(queue=queue.address.canonical, checkpointLocation=tmp_path)

    def write() -> None:
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()

    for feature, use in (
        (PUSHED_FILTERS, lambda: reader.option("pushdown", "true").load().schema),
        (STREAMS, stream.load),
        (STREAMS, write),
    ):
        if feature.is_available:
            use()
        else:
            with pytest.raises(Exception, match=rf"{feature.name} needs Spark 4\.\d or later, and {spark.version} is"):
                use()


def test_the_sentence_of_an_error_reaches_the_user(reader: DataFrameReader) -> None:
    with pytest.raises(
        Exception, match=r"ConfigurationError: The format sqlqueue has no option 'colour' here"
    ) as raised:
        reader.option("colour", "kitten-7").load()
    assert "kitten" not in str(raised.value)


def test_the_login_is_in_no_plan_no_web_ui_and_no_event_log(
    spark: SparkSession, queue: QueueTable, server_url: str, settings: ConnectionSettings
) -> None:
    """Neither that of ``register`` nor that of an option."""
    assert settings.password
    queue.send([Message({}, b"")])
    register(spark, settings)
    parts = urlsplit(server_url)
    bare = urlunsplit(parts._replace(netloc=f"{parts.username}@{parts.hostname}:{parts.port}"))
    for options in ({}, {"url": server_url}, {"url": bare, "password": settings.password}):
        df = spark.read.format("sqlqueue").options(queue=queue.address.canonical, partitions=1, **options).load()
        assert df.where("Expired = false").count() == 1
        assert settings.password not in plans(spark, df)
    log = event_log(spark)
    assert "sqlqueue" in log
    assert settings.password not in log


def plans(spark: SparkSession, df: DataFrame) -> str:
    """All that a DataFrame's plans say, as ``explain(True)`` prints it, and more."""
    execution: Any = df._jdf.queryExecution()
    jvm: Any = spark._jvm
    modes = jvm.org.apache.spark.sql.execution.ExplainMode
    texts = [str(execution.explainString(modes.fromString(mode))) for mode in ("extended", "formatted", "cost")]
    return "\n".join([*texts, str(execution.toString())])
