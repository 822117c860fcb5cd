"""The lowest version of Spark, and features of the format ``sqlqueue`` that take a later one."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from pyspark import __version__

from airflow_sqlqueue.versions import VersionedFeature

_HAS_DATA_SOURCES = find_spec("pyspark.sql.datasource") is not None

SPARK = VersionedFeature("airflow_sqlqueue.spark", "Spark", "4.0", __version__, _HAS_DATA_SOURCES)
PUSHED_FILTERS = VersionedFeature(
    "The option pushdown of the format sqlqueue",
    "Spark",
    "4.1",
    __version__,
    _HAS_DATA_SOURCES and hasattr(import_module("pyspark.sql.datasource"), "EqualTo"),
    ("airflow_sqlqueue.spark.source.pushdown",),
)
STREAMS = VersionedFeature(
    "A stream of the format sqlqueue",
    "Spark",
    "4.2",
    __version__,
    find_spec("pyspark.sql.streaming.datasource") is not None,
    ("airflow_sqlqueue.spark.source.streaming",),
)
