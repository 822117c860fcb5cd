"""Drain an endpoint's queue together with the queues of its instances and machines, a batch for each.

Versions 1 and 2 of the transport gave every machine a queue of its own for callbacks, ``Sales.WEB01``; scaled-out
endpoints have one for each instance. Only the server knows their names, so the drain is mapped over the queues that the
first task finds. To drain the endpoint's own queue only, leave the first task out.
"""

from __future__ import annotations

import os
import tempfile
from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, Param, task

from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator


@task
def queues(params: dict[str, str]) -> list[str]:
    """Return the endpoint's own queue first, then the others, as canonical addresses."""
    from airflow_sqlqueue import SqlQueueHook

    return SqlQueueHook().client.tables.with_secondary_queues(params["endpoint"])


with DAG(
    dag_id="secondary_queues",
    description=__doc__.splitlines()[0],
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={
        "endpoint": Param("Sales", type="string"),
        "staging": Param(
            os.environ.get("SQLQUEUE_STAGING", f"{tempfile.gettempdir()}/sqlqueue/staging"), type="string"
        ),
    },
    tags=["sqlqueue", "example"],
) as dag:
    # Without a job the sealed batches wait for a task that reads them and marks them consumed.
    SqlQueueDrainToSparkOperator.partial(task_id="drain", staging="{{ params.staging }}").expand(queue_name=queues())


if __name__ == "__main__":
    dag.test()
