"""Drain a queue and count its messages by type in plain Python: no Spark.

The function gets the messages one by one, and the batch is marked consumed when the function has returned. The drained
files are Parquet: pandas, Polars or DuckDB read ``batch.paths`` directly, in a function with a parameter ``batch``.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG, Param

from airflow_sqlqueue.operators import SqlQueueDrainOperator


def count_types(messages: Iterator[Any]) -> dict[str, int]:
    """Count by type; the returned value is the ``result`` in the task's XCom."""
    from airflow_sqlqueue import Envelope

    return dict(Counter(str(Envelope.of(message).content.message_type) for message in messages))


with DAG(
    dag_id="batch_without_spark",
    description=__doc__.splitlines()[0],
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={"queue": Param("audit", type="string")},
    tags=["sqlqueue", "example"],
) as dag:
    drain = SqlQueueDrainOperator(
        task_id="drain",
        queue_name="{{ params.queue }}",
        staging=os.environ.get("SQLQUEUE_STAGING", f"{tempfile.gettempdir()}/sqlqueue/staging"),
        python_callable=count_types,
    )


if __name__ == "__main__":
    dag.test()
