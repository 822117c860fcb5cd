"""Where the workers of a hook's drain run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sqlqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_sqlqueue.client import QueueClient
    from airflow_sqlqueue.drain.drain import Engine


def engine_of(name: str, spark: SparkSession | None, client: QueueClient) -> Engine | None:
    """The engine of a name, ``threads`` (None) or ``spark``. Raises :class:`ConfigurationError` for another one."""
    if name == "threads":
        return None
    if name != "spark":
        raise ConfigurationError(f"The engine {name!r} is not known: use threads or spark.")
    if spark is None:
        raise ConfigurationError("The engine spark needs a session to drain with: give it as spark=...")
    from airflow_sqlqueue.spark.executors import SparkEngine

    return SparkEngine(spark, client.settings, lock_timeout=client.lock_timeout)
