"""Spark's side: drained batches as DataFrames, the format ``sqlqueue``, and sinks that write each batch once.

Executors get this package, so no module here imports airflow, and functions import pyspark where they use it
(docs/design.md, "Python of Spark's workers").
"""

from __future__ import annotations

from airflow_sqlqueue.spark.batch import raw_schema, read_batch, read_bodies, typed_columns, verify_count
from airflow_sqlqueue.spark.manifests import load_batch
from airflow_sqlqueue.spark.session import local_session
from airflow_sqlqueue.spark.sinks import MicroBatch, foreach_batch, write_delta, write_partitions
from airflow_sqlqueue.spark.source import finish_stream, register

__all__ = [
    "MicroBatch",
    "finish_stream",
    "foreach_batch",
    "load_batch",
    "local_session",
    "raw_schema",
    "read_batch",
    "read_bodies",
    "register",
    "typed_columns",
    "verify_count",
    "write_delta",
    "write_partitions",
]
