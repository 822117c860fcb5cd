"""The DAGs of an Airflow whose page is looked at: the page's own, and a drain whose task leads to its batch."""

from datetime import datetime, timezone

from airflow.sdk import DAG

from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator
from airflow_sqlqueue.plugin.actions_dag import actions_dag

actions = actions_dag()

with DAG("orders_to_lake", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
    SqlQueueDrainToSparkOperator(task_id="drain", queue_name="orders", stage="table")
