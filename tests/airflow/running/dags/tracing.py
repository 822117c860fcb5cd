"""The DAG of ``test_traces.py``, as the file beside it says."""

import json
from datetime import datetime, timezone
from pathlib import Path

from airflow.sdk import DAG

from airflow_sqlqueue.operators import SqlQueueConsumeOperator, SqlQueueSendOperator

names = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))


def ship(message):
    pass


with DAG("tracing", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), catchup=False):
    send = SqlQueueSendOperator(task_id="place_order", queue_name=names["orders"], messages=[{"body": {}}])
    send >> SqlQueueConsumeOperator(
        task_id="ship_orders",
        queue_name=names["orders"],
        python_callable=ship,
        consume_options={"error_queue": names["error"]},
    )
