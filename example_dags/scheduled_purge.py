"""Purge expired messages of several queues every hour.

Queues without an endpoint, such as audit, keep expired messages for ever. Each queue has a task of its own, so that an
unreachable queue does not affect the others.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, Param, task

from airflow_sqlqueue.operators import SqlQueuePurgeExpiredOperator

with DAG(
    dag_id="scheduled_purge",
    description=__doc__.splitlines()[0],
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={"queues": Param(["audit", "error"], type="array")},
    tags=["sqlqueue", "example"],
) as dag:

    @task
    def queues(params: dict[str, list[str]]) -> list[str]:
        return params["queues"]

    SqlQueuePurgeExpiredOperator.partial(task_id="purge", max_seconds=600, purge_options={"pause": 0.05}).expand(
        queue_name=queues()
    )


if __name__ == "__main__":
    dag.test()
