"""The DAG of ``test_every_operator.py``, as the file beside it says: the operators one after the other."""

import json
from datetime import datetime, timezone
from pathlib import Path

from airflow.sdk import DAG, chain

from airflow_sqlqueue.operators import (
    SqlQueueConsumeOperator,
    SqlQueueCreateOperator,
    SqlQueueDrainOperator,
    SqlQueueDrainToSparkOperator,
    SqlQueueDropOperator,
    SqlQueueFailedMessagesOperator,
    SqlQueueForwardOperator,
    SqlQueueMarkConsumedOperator,
    SqlQueueMoveDelayedOperator,
    SqlQueueProvisionOperator,
    SqlQueuePublishOperator,
    SqlQueuePurgeExpiredOperator,
    SqlQueuePurgeOperator,
    SqlQueueRequeueOperator,
    SqlQueueReturnToSourceOperator,
    SqlQueueSendOperator,
    SqlQueueSubscribeOperator,
    SqlQueueSweepOperator,
    SqlQueueUnsubscribeOperator,
)

names = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
orders, events, error, staging = (names[name] for name in ("orders", "events", "error", "staging"))
subscriber = {"endpoint": names["endpoint"], "message_types": ["Shop.OrderPlaced"]}


def handle(message):
    if message.body == b"broken":
        raise ValueError("broken")


def bodies(messages):
    return [message.body.decode() for message in messages]


with DAG("operators", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
    drain = SqlQueueDrainToSparkOperator(task_id="drain", queue_name=orders, staging=staging)
    drain_rest = SqlQueueDrainToSparkOperator(task_id="drain_rest", queue_name=orders, stage="table")
    chain(
        SqlQueueProvisionOperator(task_id="provision", queue_name=orders, error_queue=error),
        SqlQueueCreateOperator(task_id="create", queue_name=events, subscriptions=True),
        SqlQueueSubscribeOperator(task_id="subscribe", queue_name=events, **subscriber),
        SqlQueuePublishOperator(task_id="publish", message_type="Shop.OrderPlaced", messages=[{"body": "event"}]),
        SqlQueueUnsubscribeOperator(task_id="unsubscribe", **subscriber),
        SqlQueueForwardOperator(task_id="forward", queue_name=events, to_queue=orders),
        SqlQueueSendOperator(task_id="send", queue_name=orders, messages=[{"body": "one"}, {"body": "broken"}]),
        SqlQueueSendOperator(
            task_id="send_due", queue_name=orders, messages=[{"body": "due"}], due="2026-01-01T00:00:00Z"
        ),
        SqlQueueMoveDelayedOperator(task_id="move_delayed", queue_name=orders),
        SqlQueueDrainOperator(
            task_id="copy", queue_name=orders, staging=staging, copy=True, python_callable=bodies, run_on_empty=True
        ),
        drain,
        SqlQueueRequeueOperator(task_id="requeue", batch=drain.output, staging=staging),
        SqlQueueConsumeOperator(
            task_id="consume",
            queue_name=orders,
            python_callable=handle,
            consume_options={"error_queue": error, "immediate_retries": 0, "delayed_retries": 0},
        ),
        SqlQueueFailedMessagesOperator(
            action="archive", task_id="archive", queue_name=error, all_messages=True, reason="looked at"
        ),
        SqlQueueFailedMessagesOperator(
            action="purge_archive", task_id="delete_old", queue_name=error, older_than=3600, confirm=True
        ),
        SqlQueueFailedMessagesOperator(action="restore", task_id="restore", queue_name=error, all_messages=True),
        SqlQueueFailedMessagesOperator(
            action="park", task_id="park", queue_name=error, to_queue=events, all_messages=True
        ),
        SqlQueueFailedMessagesOperator(
            action="park", task_id="unpark", queue_name=events, to_queue=error, all_messages=True
        ),
        SqlQueueFailedMessagesOperator(
            action="delete", task_id="delete", queue_name=events, all_messages=True, confirm=True
        ),
        SqlQueueReturnToSourceOperator(task_id="return_to_source", queue_name=error, all_messages=True),
        drain_rest,
        SqlQueueMarkConsumedOperator(task_id="mark_consumed", batch=drain_rest.output),
        SqlQueueSweepOperator(task_id="sweep", staging=staging, only_count=True),
        SqlQueueSendOperator(task_id="send_more", queue_name=orders, messages=[{"body": "more"}]),
        SqlQueuePurgeExpiredOperator(task_id="purge_expired", queue_name=orders),
        SqlQueuePurgeOperator(task_id="purge", queue_name=orders, all_messages=True, confirm=True),
        SqlQueueDropOperator(task_id="drop", queue_name=orders),
    )
