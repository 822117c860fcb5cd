"""From the audit queue to tables in the lake, every hour.

Create the queue if it is missing, wait until enough messages are in it, drain them into a batch of Parquet files, run
the Spark job of ``audit_job.py`` on it, and purge what expired. The job writes the audit table, a table for each
message type, and a report. Each message reaches the tables exactly once: the drain is exactly once, and the tables are
keyed by batch.

Parameters come from the run, or from the environment: ``SQLQUEUE_QUEUE``, ``SQLQUEUE_STAGING``, ``SQLQUEUE_LAKE``,
``SQLQUEUE_TABLES``, ``SQLQUEUE_SCHEMAS``, ``SQLQUEUE_REPORT`` and ``SQLQUEUE_MIN_MESSAGES``. The server is the Airflow
connection ``sqlqueue_default``. Try it::

    python example_dags/audit_to_lake.py
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param

from airflow_sqlqueue.operators import (
    SqlQueueCreateOperator,
    SqlQueueDrainToSparkOperator,
    SqlQueuePurgeExpiredOperator,
)
from airflow_sqlqueue.sensors import SqlQueueDepthSensor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_sqlqueue import Batch

FOLDER = os.environ.get("SQLQUEUE_FOLDER", "/tmp/sqlqueue")  # noqa: S108 - an example's default
QUEUE = "{{ params.queue_name }}"


def to_lake(spark: SparkSession, batch: Batch, **targets: str) -> dict[str, Any]:
    """Run the job, which is imported only here, so that the parsing of this file does not load Spark."""
    from audit_job import run

    return run(spark, batch, **targets)


with DAG(
    "audit_to_lake",
    description="Audit queue -> Parquet -> Spark -> tables and a report",
    doc_md=__doc__,
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={
        "queue_name": Param(os.environ.get("SQLQUEUE_QUEUE", "audit"), type="string"),
        "staging": Param(os.environ.get("SQLQUEUE_STAGING", f"{FOLDER}/staging"), type="string"),
        "lake": Param(os.environ.get("SQLQUEUE_LAKE", f"{FOLDER}/lake/audit"), type="string"),
        "tables": Param(os.environ.get("SQLQUEUE_TABLES", f"{FOLDER}/lake/tables"), type="string"),
        "schemas": Param(os.environ.get("SQLQUEUE_SCHEMAS", f"{FOLDER}/lake/schemas"), type="string"),
        "report": Param(os.environ.get("SQLQUEUE_REPORT", f"{FOLDER}/report.html"), type="string"),
        "min_messages": Param(int(os.environ.get("SQLQUEUE_MIN_MESSAGES", "1000")), type="integer", minimum=1),
    },
    tags=["sqlqueue", "example"],
) as dag:
    create = SqlQueueCreateOperator(task_id="create", queue_name=QUEUE)

    # A quiet hour is not a failure: the run is skipped, and the messages wait for the next run.
    wait = SqlQueueDepthSensor(
        task_id="wait",
        queue_name=QUEUE,
        wait_for={"min_messages": "{{ params.min_messages }}"},
        mode="reschedule",
        poke_interval=60,
        timeout=timedelta(minutes=50),
        soft_fail=True,
    )

    drain = SqlQueueDrainToSparkOperator(
        task_id="drain",
        queue_name=QUEUE,
        staging="{{ params.staging }}",
        python_callable=to_lake,
        op_kwargs={name: f"{{{{ params.{name} }}}}" for name in ("lake", "tables", "schemas", "report")},
    )

    purge = SqlQueuePurgeExpiredOperator(task_id="purge", queue_name=QUEUE, trigger_rule="none_failed")

    create >> wait >> drain >> purge


if __name__ == "__main__":
    dag.test()
