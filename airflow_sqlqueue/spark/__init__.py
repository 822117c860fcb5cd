"""Batches as DataFrames, the data source ``sqlqueue``, exactly-once sinks, and jobs on drained messages.

The package is shipped to executors, so no module here imports airflow, and pyspark is imported at its first use
(docs/design.md, "Python of Spark's workers").
"""

from __future__ import annotations

from airflow_sqlqueue.exports import exports

__getattr__, __dir__, __all__ = exports(__name__)
