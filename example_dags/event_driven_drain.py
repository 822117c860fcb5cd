"""Drain a queue when messages come, without a schedule.

The asset's watcher runs in Airflow's triggerer. It signals as long as the queue is not empty, and each signal starts a
run that drains the queue; the sealed batch waits for a task that reads it. A run that starts too late finds an empty
queue and drains an empty batch.

The queue and the folder come from the environment: ``SQLQUEUE_QUEUE`` and ``SQLQUEUE_STAGING``. The server is the
Airflow connection ``sqlqueue_default``. With the extra ``messaging`` the trigger can be written as
``MessageQueueTrigger(scheme="mssql+queue", queue_name=...)`` as well.
"""

from __future__ import annotations

import os
import tempfile
from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator
from airflow_sqlqueue.triggers import SqlQueueDepthEventTrigger

QUEUE = os.environ.get("SQLQUEUE_QUEUE", "audit")

trigger = SqlQueueDepthEventTrigger(queue_name=QUEUE, wait_for={"min_messages": 1}, poll_interval=5, repeat_interval=30)
messages = Asset(f"sqlqueue_{QUEUE}", watchers=[AssetWatcher(name=f"sqlqueue_{QUEUE}", trigger=trigger)])

with DAG(
    dag_id="event_driven_drain",
    description=__doc__.splitlines()[0],
    doc_md=__doc__,
    schedule=[messages],
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    tags=["sqlqueue", "example"],
) as dag:
    SqlQueueDrainToSparkOperator(
        task_id="drain",
        queue_name=QUEUE,
        staging=os.environ.get("SQLQUEUE_STAGING", f"{tempfile.gettempdir()}/sqlqueue/staging"),
    )


if __name__ == "__main__":
    dag.test()
