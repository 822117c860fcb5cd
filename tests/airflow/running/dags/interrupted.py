"""DAGs, one for each case of ``test_interrupted_drain.py``, by the file beside it."""

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

from airflow.sdk import DAG

from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator

for case in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")):
    seconds = case["execution_timeout"]
    with DAG(
        case["dag_id"],
        schedule=None,
        start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
        catchup=False,
        max_active_runs=1,
    ):
        SqlQueueDrainToSparkOperator(
            task_id="drain",
            queue_name=case["queue_name"],
            staging=case["staging"],
            application=case["application"],
            application_args=["--lake", case["lake"]],
            drain_options=case["drain_options"],
            retries=case["retries"],
            retry_delay=timedelta(0),
            execution_timeout=seconds and timedelta(seconds=seconds),
        )
