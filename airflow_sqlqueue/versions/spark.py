"""Features of the format ``sqlqueue`` that take more than Spark 4.0."""

from __future__ import annotations

from importlib.util import find_spec

from pyspark import __version__
from pyspark.sql import datasource

from airflow_sqlqueue.versions import Feature

PUSHED_FILTERS = Feature(
    "The option pushdown of the format sqlqueue",
    "Spark",
    "4.1",
    __version__,
    hasattr(datasource, "EqualTo"),
    ("airflow_sqlqueue.spark.source.pushdown",),
)
STREAMS = Feature(
    "A stream of the format sqlqueue",
    "Spark",
    "4.2",
    __version__,
    find_spec("pyspark.sql.streaming.datasource") is not None,
    ("airflow_sqlqueue.spark.source.streaming",),
)
