"""Tasks on the queue of an endpoint, which the routing settings place, on a server."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator, SqlQueuePurgeOperator, SqlQueueSendOperator
from airflow_sqlqueue.sensors import SqlQueueDepthSensor


def test_an_endpoint_is_waited_for_and_drained(live: str, hook: SqlQueueHook, tmp_path: Path, context: Any) -> None:
    name = f"test.{uuid.uuid4().hex[:12]}"
    hook.create_queue(f"{name}@[shipping]", create_schema=True)
    routed: dict[str, Any] = {"endpoint": name, "hook_params": {"endpoint_schemas": {name: "shipping"}}}
    SqlQueueSendOperator(task_id="send", messages=[{"body": "x"}], **routed).execute(context())
    found = SqlQueueDepthSensor(task_id="wait", **routed).poke(context())
    assert (found.is_done, found.xcom_value["messages"]) == (True, 1)
    waiting: dict[str, Any] = {"staging": str(tmp_path), "wait_for": {"min_messages": 1}}
    drain = SqlQueueDrainToSparkOperator(task_id="drain", **waiting, **routed)
    assert drain.execute(context())["batch"]["messages"] == 1
    purge = SqlQueuePurgeOperator(task_id="purge", all_messages=True, confirm=True, **routed)
    assert purge.execute(context())["complete"]
    hook.client.tables.drop(f"{name}@[shipping]")
