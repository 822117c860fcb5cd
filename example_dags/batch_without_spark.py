"""Drain a queue and count its messages by type in plain Python: no Spark.

The drained files are Parquet, so pandas, Polars or DuckDB read ``batch.paths`` as they are; what is counted here comes
one by one. The batch is marked consumed behind the task that reads it.
"""

from __future__ import annotations

import os
import tempfile
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator, SqlQueueMarkConsumedOperator

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
    drain = SqlQueueDrainToSparkOperator(
        task_id="drain",
        queue_name="{{ params.queue }}",
        staging=os.environ.get("SQLQUEUE_STAGING", f"{tempfile.gettempdir()}/sqlqueue/staging"),
    )

    @task
    def count_types(drained: dict[str, Any]) -> dict[str, int]:
        from collections import Counter

        from airflow_sqlqueue import Batch, Envelope, SqlQueueHook

        messages = SqlQueueHook().client.batches.messages(Batch.from_dict(drained["batch"]))
        return dict(Counter(str(Envelope.of(message).content.message_type) for message in messages))

    consumed = SqlQueueMarkConsumedOperator(task_id="consumed", batch=drain.output)
    count_types(drain.output) >> consumed  # type: ignore[arg-type]


if __name__ == "__main__":
    dag.test()
