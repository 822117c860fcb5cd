"""Sinks that have each batch once, however often it is written."""

from __future__ import annotations

from airflow_sqlqueue.spark.sinks.delta import write_delta
from airflow_sqlqueue.spark.sinks.keys import MicroBatch
from airflow_sqlqueue.spark.sinks.partitions import write_partitions
from airflow_sqlqueue.spark.sinks.streams import foreach_batch

__all__ = ["MicroBatch", "foreach_batch", "write_delta", "write_partitions"]
