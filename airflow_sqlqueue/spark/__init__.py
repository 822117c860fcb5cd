"""What Spark reads of a drained queue.

Shipped to executors, so nothing here imports airflow, and pyspark only where it is used (docs/design.md, "Python of
Spark's workers").
"""

from __future__ import annotations

from airflow_sqlqueue.spark.batch import raw_schema, read_batch, verify_count
from airflow_sqlqueue.spark.bodies import read_bodies
from airflow_sqlqueue.spark.manifests import load_batch
from airflow_sqlqueue.spark.session import local_session

__all__ = ["load_batch", "local_session", "raw_schema", "read_batch", "read_bodies", "verify_count"]
