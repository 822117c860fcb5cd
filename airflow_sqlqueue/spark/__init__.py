"""Batches as DataFrames, the data source ``sqlqueue``, exactly-once sinks, and jobs on drained messages.

The package is shipped to executors, so no module here imports airflow, and only functions that need pyspark import it
(docs/design.md, "Python of Spark's workers").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sqlqueue.exports import lazy_exports

if TYPE_CHECKING:
    from airflow_sqlqueue.spark.batch import raw_schema, read_batch, read_bodies, typed_columns, verify_count
    from airflow_sqlqueue.spark.jobs.audit import audit_rows, audit_table
    from airflow_sqlqueue.spark.jobs.causes import caused_messages, conversation_graph, message_flow
    from airflow_sqlqueue.spark.jobs.failures import failure_groups
    from airflow_sqlqueue.spark.jobs.processing import processing_times
    from airflow_sqlqueue.spark.jobs.program import Program
    from airflow_sqlqueue.spark.jobs.replay import replay_messages
    from airflow_sqlqueue.spark.manifests import load_batch
    from airflow_sqlqueue.spark.session import local_session
    from airflow_sqlqueue.spark.sinks import MicroBatch, foreach_batch, write_delta, write_partitions
    from airflow_sqlqueue.spark.source import finish_stream, register

__all__ = [
    "MicroBatch",
    "Program",
    "audit_rows",
    "audit_table",
    "caused_messages",
    "conversation_graph",
    "failure_groups",
    "finish_stream",
    "foreach_batch",
    "load_batch",
    "local_session",
    "message_flow",
    "processing_times",
    "raw_schema",
    "read_batch",
    "read_bodies",
    "register",
    "replay_messages",
    "typed_columns",
    "verify_count",
    "write_delta",
    "write_partitions",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "batch": "raw_schema read_batch read_bodies typed_columns verify_count",
        "jobs.audit": "audit_rows audit_table",
        "jobs.causes": "caused_messages conversation_graph message_flow",
        "jobs.failures": "failure_groups",
        "jobs.processing": "processing_times",
        "jobs.program": "Program",
        "jobs.replay": "replay_messages",
        "manifests": "load_batch",
        "session": "local_session",
        "sinks": "MicroBatch foreach_batch write_delta write_partitions",
        "source": "finish_stream register",
    },
)
