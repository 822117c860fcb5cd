"""The DAGs of ``test_triggerer.py``, as the file beside it says."""

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.sdk import DAG, Asset, AssetWatcher, task
from airflow.sdk.definitions.deadline import AsyncCallback, DeadlineAlert, DeadlineReference

from airflow_sqlqueue.notifications import SqlQueueNotifier
from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator
from airflow_sqlqueue.queue import MessageFilter
from airflow_sqlqueue.sensors import SqlQueueDepthSensor
from airflow_sqlqueue.triggers import SqlQueueDepthEventTrigger, SqlQueueMessageEventTrigger

SETTINGS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
COMMON = {"schedule": None, "start_date": datetime(2026, 1, 1, tzinfo=timezone.utc), "catchup": False}
QUEUES = SETTINGS["queues"]
RETRIED = {"retries": 5, "retry_delay": timedelta(0)}
"""An executor that is slow to say that the process of a deferred task has ended makes Airflow try again."""
FAST = {"poll_interval": 1}

with DAG("filtered", **COMMON):
    SqlQueueDepthSensor(
        task_id="wait",
        queue_name=QUEUES["filtered"],
        wait_for={"min_messages": 2, "filters": {"headers": {"Shop.List": "a"}}},
        hook_params={"allowed_schemas": ("dbo", "sales")},
        poke_interval=1,
        timeout=3600,
        deferrable=True,
        **RETRIED,
    )

if SETTINGS["has_messages"]:
    with DAG("templated", **COMMON):
        SqlQueueDepthSensor(
            task_id="wait",
            queue_name="{{ params.queue }}",
            params={"queue": QUEUES["templated"]},
            wait_for={"min_messages": "{{ 1 + 1 }}", "filters": MessageFilter(since=COMMON["start_date"])},
            hook_params={"queue_schemas": {"other": "sales"}, "allowed_schemas": {"dbo", "sales"}},
            poke_interval=1,
            timeout=3600,
            start_from_trigger=True,
            **RETRIED,
        )

watchers = {
    "scheme": MessageQueueTrigger(
        scheme="mssql+queue", queue_name=QUEUES["scheme"], wait_for={"min_messages": 1}, repeat_interval=2, **FAST
    ),
    "depth": SqlQueueDepthEventTrigger(
        queue_name=QUEUES["depth"],
        wait_for={"min_messages": 1, "filters": {"headers": {"Shop.List": "a"}, "since": COMMON["start_date"]}},
        hook_params={"queue_schemas": {"other": "sales"}, "allowed_schemas": {"dbo", "sales"}},
        repeat_interval=2,
        **FAST,
    ),
}
if SETTINGS["has_messages"]:
    watchers["messages"] = SqlQueueMessageEventTrigger(
        queue_name=QUEUES["messages"], message_types=("Shop.B", "Shop.A"), error_queue=QUEUES["error"], **FAST
    )
for name, trigger in watchers.items():
    schedule = [Asset(name, watchers=[AssetWatcher(name=name, trigger=trigger)])]
    with DAG(f"on_{name}", **{**COMMON, "schedule": schedule}):

        @task
        def run() -> None:
            pass

        run()


def count(spark, batch):
    from airflow_sqlqueue.spark import read_batch

    return read_batch(spark, batch).count()


with DAG("drained", **COMMON):
    SqlQueueDrainToSparkOperator(
        task_id="wait",
        queue_name=QUEUES["drained"],
        staging=SETTINGS["staging"],
        wait_for={"min_messages": 2},
        poll_interval=1,
        deferrable=True,
        python_callable=count,
        **RETRIED,
    )

told = {
    "queue_name": QUEUES["told"],
    "message_type": "Ops.RunIsLate",
    "headers": {"Ops.Team": "billing"},
    "hook_params": {"queue_schemas": {"other": "sales"}},
}
deadline = DeadlineAlert(
    reference=DeadlineReference.DAGRUN_QUEUED_AT,
    interval=timedelta(seconds=1),
    callback=AsyncCallback(SqlQueueNotifier, kwargs=told),
)
with DAG("overdue", **COMMON, deadline=deadline):
    SqlQueueDepthSensor(
        task_id="wait", queue_name=QUEUES["overdue"], poke_interval=1, timeout=3600, deferrable=True, **RETRIED
    )
