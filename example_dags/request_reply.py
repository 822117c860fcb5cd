"""Send a command to an endpoint and wait for its reply.

A retry of the task sends no second request. With ``deferrable=True`` the wait takes no worker slot.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param

from airflow_sqlqueue.operators import SqlQueueRequestOperator

if TYPE_CHECKING:
    from airflow_sqlqueue import Envelope


def price_of(reply: Envelope) -> float:
    """Return the price in the reply, for XCom."""
    return float(reply.json()["price"])


def request(context: Any) -> dict[str, Any]:
    return {"message_type": "Shop.Messages.AskForPrice", "body": {"product": context["params"]["product"]}}


with DAG(
    dag_id="request_reply",
    description=__doc__.splitlines()[0],
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={
        "pricing": Param("Pricing", type="string"),
        "replies": Param("airflow.replies", type="string"),
        "product": Param("B-7", type="string"),
    },
    tags=["sqlqueue", "example"],
) as dag:
    SqlQueueRequestOperator(
        task_id="ask",
        queue_name="{{ params.pricing }}",
        reply_queue="{{ params.replies }}",
        message=request,
        python_callable=price_of,
        wait_timeout=timedelta(minutes=10),
        poll_interval=1,
    )


if __name__ == "__main__":
    dag.test()
