"""Batches in tables of Iceberg, in its own catalog on a disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jars import stop_java

from airflow_sqlqueue.message import Message
from airflow_sqlqueue.spark import local_session, read_batch
from tests.sinks.conftest import ICEBERG_JARS
from tests.spark.conftest import batches_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session in a Java machine of its own, with a catalog ``lake``."""
    stop_java()
    config = {
        "spark.jars": ",".join(ICEBERG_JARS or ()),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": tmp_path_factory.mktemp("lake").as_uri(),
        "spark.sql.shuffle.partitions": "1",
    }
    with local_session("iceberg", config=config) as session:
        yield session
    stop_java()


def test_all_columns_of_a_batch_are_written_to_a_table(spark: SparkSession, tmp_path: Path) -> None:
    batch = batches_in(tmp_path)([Message({"NServiceBus.TimeSent": "2026-01-02 03:04:05:000000 Z"}, b"one"), "{"])
    rows = read_batch(spark, batch)
    rows.writeTo("lake.shop.audit").create()
    written = spark.table("lake.shop.audit")
    assert written.schema.simpleString() == rows.schema.simpleString()
    order = [row.asDict() for row in rows.orderBy("RowVersion").collect()]
    assert [row.asDict() for row in written.orderBy("RowVersion").collect()] == order
