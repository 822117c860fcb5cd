"""The DAGs of ``test_waiting.py``, as the file beside it says."""

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator, SqlQueueRequestOperator
from airflow_sqlqueue.sensors import SqlQueueDepthSensor, SqlQueueStrandedBatchSensor

SETTINGS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
CONNECTION = SETTINGS["conn_id"]
RETRIED = {"sqlqueue_conn_id": CONNECTION, "retries": 5, "retry_delay": timedelta(0)}
"""An executor that is slow to say that the process of a deferred task has ended makes Airflow try again."""

for name, options in SETTINGS["sensors"].items():
    with DAG(name, schedule=None, start_date=START):
        options = {"poke_interval": 1, **RETRIED, **options}
        queues = options.pop("queue_names", None)
        if queues:
            SqlQueueDepthSensor.partial(task_id="wait", **options).expand(queue_name=queues)
        else:
            SqlQueueDepthSensor(task_id="wait", **options)


with DAG("drain", schedule=None, start_date=START):
    SqlQueueDrainToSparkOperator(
        task_id="wait",
        queue_name="drain",
        staging=SETTINGS["staging"],
        wait_for={"min_messages": 2},
        poll_interval=1,
        deferrable=True,
        **RETRIED,
    )

with DAG("left", schedule=None, start_date=START):
    SqlQueueStrandedBatchSensor(
        task_id="wait",
        queue_name="left",
        states=["sealed"],
        older_than=timedelta(0),
        poke_interval=1,
        timeout=3600,
        deferrable=True,
        **RETRIED,
    )

with DAG("ask", schedule=None, start_date=START):
    SqlQueueRequestOperator(
        task_id="wait",
        queue_name="ask",
        reply_queue="replies",
        message={"body": "secret body"},
        python_callable=lambda reply: len(reply.body),
        poll_interval=1,
        deferrable=True,
        **RETRIED,
    )


@task
def receive_all(queue_name: str, folder: str) -> int:
    """Receive the messages of the run's start; later ones belong to the next signal."""
    from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

    hook = SqlQueueHook(CONNECTION)
    left = hook.depth(queue_name).messages
    received = 0
    while left > received and (messages := hook.receive(queue_name, min(2_000, left - received))):
        received += len(messages)
        bodies = "".join(f"{message.body.decode()}\n" for message in messages)
        with (Path(folder) / f"{datetime.now(timezone.utc).timestamp()}.{os.getpid()}").open("a") as file:
            file.write(bodies)
    return received


messages = MessageQueueTrigger(
    scheme="mssql+queue+messages",
    queue_name="commands",
    message_types=["Shop.Reprice"],
    headers=["Shop.List"],
    error_queue="commands.error",
    poll_interval=1,
    sqlqueue_conn_id=CONNECTION,
)
commanded = Asset("commanded", watchers=[AssetWatcher(name="commanded", trigger=messages)])

with DAG("commanded", schedule=[commanded], start_date=START, catchup=False):

    @task
    def react(triggering_asset_events: Any = None) -> int:
        return sum(len(events) for events in triggering_asset_events.values())

    react()

storm = SETTINGS["storm"]
trigger = MessageQueueTrigger(
    scheme="mssql+queue",
    sqlqueue_conn_id=CONNECTION,
    queue_name=storm["queue_name"],
    poll_interval=1,
    repeat_interval=5,
)
arrived = Asset("arrived", watchers=[AssetWatcher(name="arrived", trigger=trigger)])

with DAG("storm", schedule=[arrived], start_date=START, catchup=False, max_active_runs=1):
    receive_all(storm["queue_name"], storm["folder"])
