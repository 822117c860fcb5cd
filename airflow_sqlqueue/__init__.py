"""SQL Server queue tables in Apache Airflow, and their batches in Spark.

The names of this package and those of :mod:`airflow_sqlqueue.client`, :mod:`airflow_sqlqueue.hooks`,
:mod:`airflow_sqlqueue.operators`, :mod:`airflow_sqlqueue.sensors`, :mod:`airflow_sqlqueue.triggers` and
:mod:`airflow_sqlqueue.spark` are the public ones; every other module is internal. Each name is loaded at its first use,
because Airflow imports this package in every process.
"""

from __future__ import annotations

from airflow_sqlqueue.exports import exports

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = exports(__name__)
