"""Create everything that a new endpoint needs on the server.

It creates the queue with the table of delayed messages, the error and the audit queue, the ledgers and the
subscriptions. It does not change existing ones, so the DAG can run again at any time.
"""

from __future__ import annotations

from datetime import datetime, timezone

from airflow.sdk import DAG, Param

from airflow_sqlqueue.operators import SqlQueueProvisionOperator

with DAG(
    dag_id="provision_queues",
    description=__doc__.splitlines()[0],
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    params={"endpoint": Param("Shipping", type="string"), "error": Param("error", type="string")},
    tags=["sqlqueue", "example"],
) as dag:
    SqlQueueProvisionOperator(
        task_id="provision",
        endpoint="{{ params.endpoint }}",
        error_queue="{{ params.error }}",
        subscribe_to=["Shop.Messages.OrderPlaced"],
    )


if __name__ == "__main__":
    dag.test()
