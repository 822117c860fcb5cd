"""From a queue to one table for each message type, every hour, with an alert on messages that were not read in full.

The drain's job writes the tables with the fields of the bodies as columns. The task ``check`` fails if too many
messages of a batch were not parsed, or have values that fit no column. They are not lost: a message that was not parsed
is in a table whose name ends with ``~unparsed``, and a value that fits no column is in ``_rescued``. If a schema was
missing or wrong, change its file, and parse what is in the tables ``~unparsed`` again::

    python -m airflow_sqlqueue.spark.jobs.message_tables --location LAKE --schemas SCHEMAS --reparse

``check`` sees the batch of its run. A batch that an earlier run left is written as well; ``adopted`` in the XCom of
``drain`` names it.

Keep the folder of the schemas under version control. A run adds a schema for a new type, and does not change those that
are there, because ``new_fields`` is False: a new field is in ``_rescued`` until somebody has added it to the schema.

Parameters come from the run, or from the environment: ``SQLQUEUE_QUEUE``, ``SQLQUEUE_STAGING``, ``SQLQUEUE_TABLES`` and
``SQLQUEUE_SCHEMAS``. The server is the Airflow connection ``sqlqueue_default``.
"""

from __future__ import annotations

import os
import tempfile
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG, Param, task

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
        "max_unparsed": Param(0.01, type="number", minimum=0, maximum=1, description="share of a batch's messages"),
        "max_rescued": Param(0.01, type="number", minimum=0, maximum=1, description="share of a batch's messages"),
    },
    tags=["sqlqueue", "example"],
) as dag:
    drain = SqlQueueDrainToSparkOperator(
        task_id="drain",
        queue_name="{{ params.queue_name }}",
        staging="{{ params.staging }}",
        python_callable=message_tables_job,
        op_kwargs={
            "location": "{{ params.tables }}",
            "schemas": "{{ params.schemas }}",
            "new_fields": False,
        },
    )

    # Another try finds the same figures. Whom Airflow tells of a failure is set with on_failure_callback.
    @task(retries=0)
    def check(drained: dict[str, Any], params: dict[str, Any]) -> dict[str, float]:
        """Compare the shares of unparsed and rescued messages with what is allowed; an empty batch has none."""
        found = drained["result"] or {"messages": 0}
        shares = {name: found[name] / found["messages"] if found["messages"] else 0 for name in ("unparsed", "rescued")}
        high = [f"{share:.2%} are {name}" for name, share in shares.items() if share > params[f"max_{name}"]]
        if high:
            tables = [table["table"] for table in found["largest"] if table["is_unparsed"] or table["rescued"]]
            raise ValueError(f"Of {found['messages']} messages {' and '.join(high)}: look at {', '.join(tables[:5])}.")
        return shares

    check(drain.output)


if __name__ == "__main__":
    dag.test()
