"""An endpoint in Python: bill the orders in a queue, and reply to their senders.

Each message is one transaction: it is received, handled and replied to, or it stays in the queue. A message that cannot
be handled is retried, then goes to the error queue, where ServiceControl and ``sqlqueue errors`` show the reason.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from airflow.sdk import DAG, Param, task

if TYPE_CHECKING:
    from airflow_sqlqueue import Envelope, SqlQueueHook


@task.sqlqueue_consume(
    queue_name="{{ params.orders }}",
    endpoint="Billing",
    max_messages=10_000,
    consume_options={"error_queue": "{{ params.error }}", "unrecoverable": [ValueError]},
)
def bill(message: Envelope, hook: SqlQueueHook) -> None:
    """Bill an order. The reply is committed together with the message, or not at all."""
    order = message.json()
    if order["total"] < 0:
        raise ValueError("An order's total is below zero.")
    hook.client.reply(message, {"order": order["order"], "billed": order["total"]}, endpoint="Billing")


with DAG(
    dag_id="endpoint_in_python",
    description=__doc__.splitlines()[0],
    schedule=timedelta(minutes=5),
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={
        "orders": Param("orders", type="string"),
        "error": Param("error", type="string"),
    },
    tags=["sqlqueue", "example"],
) as dag:
    bill()


if __name__ == "__main__":
    dag.test()
