"""Triage an error queue, ask a person, and return the messages that may be retried.

The groups of the error queue, by exception and message type, go to XCom and the task's log. Airflow then asks for an
approval (*Browse > Required Actions*); messages that failed with the given exception go back to the queues where they
failed, at a rate that their endpoints can take. A rejection skips the return.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, task

from airflow_sqlqueue.operators import SqlQueueReturnToSourceOperator

with DAG(
    dag_id="error_triage",
    description=__doc__.splitlines()[0],
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={
        "error_queue": Param("error", type="string"),
        "exception_type": Param("System.TimeoutException", type="string"),
    },
    tags=["sqlqueue", "example"],
) as dag:

    @task
    def groups(params: dict[str, str]) -> list[dict[str, Any]]:
        from airflow_sqlqueue import SqlQueueHook

        found = SqlQueueHook().client.errors.triage(params["error_queue"])
        return [{**group.values, "messages": group.messages} for group in found.groups]

    ask = ApprovalOperator(
        task_id="ask",
        subject="Return failed messages of {{ params.error_queue }} to their queues?",
        body="{{ ti.xcom_pull(task_ids='groups') | selectattr('exception_type', 'equalto', params.exception_type) "
        "| sum(attribute='messages') }} messages failed with {{ params.exception_type }}.",
    )
    give_back = SqlQueueReturnToSourceOperator(
        task_id="give_back",
        queue_name="{{ params.error_queue }}",
        filters={"exception_type": "{{ params.exception_type }}"},
        error_queue_options={"rate": 100},
    )
    groups() >> ask >> give_back


if __name__ == "__main__":
    dag.test()
