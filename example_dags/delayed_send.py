"""Send a reminder that its endpoint gets two weeks later.

The message waits in the queue's table of delayed messages, on the server: neither Airflow nor the task has to run until
then.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, Param

from airflow_sqlqueue.operators import SqlQueueSendOperator

with DAG(
    dag_id="delayed_send",
    description=__doc__.splitlines()[0],
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={"queue": Param("Billing", type="string"), "order": Param(1, type="integer")},
    tags=["sqlqueue", "example"],
) as dag:
    SqlQueueSendOperator(
        task_id="remind",
        queue_name="{{ params.queue }}",
        messages=lambda context: [
            {
                "key": context["params"]["order"],
                "message_type": "Shop.Messages.Remind",
                "body": {"order": context["params"]["order"]},
            }
        ],
        delay=timedelta(days=14),
        exactly_once=True,
    )


if __name__ == "__main__":
    dag.test()
