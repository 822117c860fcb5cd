"""The DAG of ``test_consume.py``, as the file beside it says."""

import json
from datetime import datetime, timezone
from pathlib import Path

from airflow.sdk import DAG, task

from airflow_sqlqueue.operators import SqlQueueConsumeOperator

names = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))


def bill(message, hook):
    from airflow_sqlqueue import Message

    if message.body == b"broken":
        raise ValueError("cannot be billed")
    hook.send(names["billing"], [Message(body=message.body)])


@task.sqlqueue_consume(queue_name=names["billing"], consume_options={"error_queue": names["error"]})
def archive(message, hook, dag_run, table):
    hook.client.run_sql(f"INSERT INTO {table} VALUES (CONVERT(varbinary(max), ?), ?)", message.body, dag_run.run_id)


with DAG(
    "consuming", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), catchup=False, max_active_runs=1
):
    orders = SqlQueueConsumeOperator(
        task_id="orders",
        queue_name=names["orders"],
        python_callable=bill,
        consume_options={"error_queue": names["error"], "immediate_retries": 1, "delayed_retries": 0},
    )
    orders >> archive(table=names["table"])
