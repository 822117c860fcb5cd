"""Secrets that tasks get and that plans do not show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark.secrets import broadcast

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SETTINGS = ConnectionSettings("host", "database", password="kitten-7", keywords={"Encrypt": "yes"})


def test_a_task_gets_the_shipped_plan(spark: SparkSession) -> None:
    handle = broadcast(spark, SETTINGS)

    def is_right(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch({"right": [handle.value.password == "kitten-7"]})

    rows = spark.range(1).mapInArrow(is_right, "right boolean")
    plan = rows._jdf.queryExecution().toString()  # type: ignore[operator]
    assert [row["right"] for row in rows.collect()] == [True]
    assert "mapInArrow" in plan or "MapInArrow" in plan
    assert "kitten" not in plan + repr(handle)
    assert handle.value == SETTINGS
    handle.destroy()


def test_spark_connect_has_nothing_to_ship_with() -> None:
    with pytest.raises(ConfigurationError, match="Spark Connect cannot hand a login"):
        broadcast(cast(Any, object()), SETTINGS)
