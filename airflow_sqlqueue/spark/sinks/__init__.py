"""Sinks that contain each batch once, however often it is written."""

from __future__ import annotations

from airflow_sqlqueue.spark.sinks.delta import write_delta
from airflow_sqlqueue.spark.sinks.iceberg import write_iceberg
from airflow_sqlqueue.spark.sinks.keys import MicroBatch, foreach_batch
from airflow_sqlqueue.spark.sinks.partitions import write_partitions

__all__ = ["MicroBatch", "foreach_batch", "write_delta", "write_iceberg", "write_partitions"]
