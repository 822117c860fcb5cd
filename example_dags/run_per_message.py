"""Start a run for each message, or one for up to a number of messages: by partition keys of asset events.

The first DAG is woken while the queue holds messages. It removes none, and publishes an asset event with a partition
key for each message, or for each group of ``group_size`` messages. The second DAG has a run for each key, and its task
takes exactly the messages of the key out of the queue, in one transaction with its own effects on the server. A key may
come twice, if a message still waits when the first DAG runs again: the later run finds no message and does nothing.

Partition keys of tasks' events take Airflow 3.3. The queue comes from the environment, ``SQLQUEUE_QUEUE``, and so does
``SQLQUEUE_GROUP_SIZE``: 1 unless given. The server is the Airflow connection ``sqlqueue_default``.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, PartitionedAssetTimetable, task

from airflow_sqlqueue.triggers import SqlQueueDepthEventTrigger

QUEUE = os.environ.get("SQLQUEUE_QUEUE", "orders")
GROUP_SIZE = int(os.environ.get("SQLQUEUE_GROUP_SIZE", "1"))
AT_ONCE = 100
"""The most keys of one run of the first DAG, so that it starts no more runs than Airflow can take."""

trigger = SqlQueueDepthEventTrigger(queue_name=QUEUE, poll_interval=5, repeat_interval=60)
waiting = Asset(f"sqlqueue_{QUEUE}", watchers=[AssetWatcher(name=f"sqlqueue_{QUEUE}", trigger=trigger)])
found = Asset(f"sqlqueue_{QUEUE}_messages")

common: dict[str, Any] = {
    "start_date": datetime(2026, 1, 1, tzinfo=timezone.utc),
    "catchup": False,
    "default_args": {"retries": 3, "retry_delay": timedelta(minutes=1)},
    "tags": ["sqlqueue", "example"],
}


@task(outlets=[found])
def find_messages(outlet_events: Any) -> int:
    """Publish the keys of the messages that wait: the first and the last RowVersion of each group."""
    from airflow_sqlqueue import SqlQueueHook

    heads = SqlQueueHook().queue(QUEUE).browse(min(AT_ONCE * GROUP_SIZE, 2_000))
    groups = [heads[first : first + GROUP_SIZE] for first in range(0, len(heads), GROUP_SIZE)]
    keys = [f"{group[0].row_version}-{group[-1].row_version}" for group in groups]
    outlet_events[found].add_partitions(keys)
    return len(keys)


@task
def handle_messages(dag_run: Any) -> list[str]:
    """Take the messages of the key and work on them; an error puts them back for the next try."""
    from airflow_sqlqueue import Envelope, SqlQueueHook

    first, last = map(int, dag_run.partition_key.split("-"))
    hook = SqlQueueHook()
    with hook.transaction():
        heads = hook.queue(QUEUE).browse(GROUP_SIZE, after=first - 1, up_to=last)
        messages = hook.queue(QUEUE).take([head.row_version for head in heads])
        # Work on the bodies here: sends and statements through the hook commit with the receive.
        return [str(Envelope.of(message).identity.message_id) for message in messages]


with DAG(
    dag_id="find_messages",
    description="Publish a partition key for each message, or for each group of messages.",
    doc_md=__doc__,
    schedule=[waiting],
    max_active_runs=1,
    **common,
) as dag:
    find_messages()

with DAG(
    dag_id="handle_messages",
    description="Handle the messages of one partition key.",
    doc_md=__doc__,
    schedule=PartitionedAssetTimetable(assets=found),
    max_active_runs=16,
    **common,
) as handling:
    handle_messages()


if __name__ == "__main__":
    dag.test()
