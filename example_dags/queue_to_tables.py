"""From a queue to one table for each message type, every hour; too many messages that were not read in full fail it.

The drain's job writes the tables with the fields of the bodies as columns. The task fails if, of the messages of a
type, more were not parsed, or have values that fit no column, than ``max_unparsed`` and ``max_rescued`` allow. They are
not lost: a message that was not parsed is in a table whose name ends with ``~unparsed``, and a value that fits no
column is in ``_rescued``. The task's log names the fields. If a schema was missing or wrong, change its file, and parse
what is in the tables ``~unparsed`` again::

    python -m airflow_sqlqueue.spark.jobs.message_tables --location LAKE --schemas SCHEMAS --reparse

The batch of a failed task is not consumed, although its rows are in the tables: the next run begins with it, by the
schemas and limits of then, and writes no row twice. Set ``on_failure_callback`` to hear of a failure.

Keep the folder of the schemas under version control. A run adds a schema for a new type, and does not change those that
are there, because ``new_fields`` is False: a new field is in ``_rescued`` until somebody has added it to the schema.

Parameters come from the run, or from the environment: ``SQLQUEUE_QUEUE``, ``SQLQUEUE_STAGING``, ``SQLQUEUE_TABLES`` and
``SQLQUEUE_SCHEMAS``. The server is the Airflow connection ``sqlqueue_default``.
"""

from __future__ import annotations

import os
import tempfile
from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, Param

from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator
from airflow_sqlqueue.spark import message_tables_job

FOLDER = f"{tempfile.gettempdir()}/sqlqueue"

with DAG(
    dag_id="queue_to_tables",
    description=__doc__.splitlines()[0],
    doc_md=__doc__,
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={
        "queue_name": Param(os.environ.get("SQLQUEUE_QUEUE", "audit"), type="string"),
        "staging": Param(os.environ.get("SQLQUEUE_STAGING", f"{FOLDER}/staging"), type="string"),
        "tables": Param(os.environ.get("SQLQUEUE_TABLES", f"{FOLDER}/tables"), type="string"),
        "schemas": Param(os.environ.get("SQLQUEUE_SCHEMAS", f"{FOLDER}/schemas"), type="string"),
        "max_unparsed": Param(0.01, type="number", minimum=0, maximum=1, description="share of a type's messages"),
        "max_rescued": Param(0.01, type="number", minimum=0, maximum=1, description="share of a type's messages"),
    },
    tags=["sqlqueue", "example"],
) as dag:
    SqlQueueDrainToSparkOperator(
        task_id="drain",
        queue_name="{{ params.queue_name }}",
        staging="{{ params.staging }}",
        python_callable=message_tables_job,
        op_kwargs={
            "location": "{{ params.tables }}",
            "schemas": "{{ params.schemas }}",
            "new_fields": False,
            "max_rescued": "{{ params.max_rescued }}",
            "max_unparsed": "{{ params.max_unparsed }}",
        },
    )


if __name__ == "__main__":
    dag.test()
