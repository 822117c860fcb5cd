"""Tasks on the queue of an endpoint, which the routing settings place, on a server."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_sqlqueue.errors import AddressError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import (
    SqlQueueCreateOperator,
    SqlQueueDrainToSparkOperator,
    SqlQueueDropOperator,
    SqlQueueForwardOperator,
    SqlQueueMoveDelayedOperator,
    SqlQueuePurgeOperator,
    SqlQueueReturnToSourceOperator,
    SqlQueueSendOperator,
    SqlQueueSubscribeOperator,
    SqlQueueUnsubscribeOperator,
)
from airflow_sqlqueue.sensors import SqlQueueDepthSensor
from airflow_sqlqueue.triggers import SqlQueueDepthEventTrigger
from airflow_sqlqueue.triggers.depth import SqlQueueDepthTrigger


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


def test_the_tables_of_endpoints_are_made_emptied_and_dropped(live: str, hook: SqlQueueHook, context: Any) -> None:
    name, other = (f"test.{uuid.uuid4().hex[:12]}" for _ in range(2))
    schemas = {"endpoint_schemas": {name: "shipping", other: "billing"}}
    routed: dict[str, Any] = {"endpoint": name, "hook_params": schemas}
    make = SqlQueueCreateOperator(task_id="create", delayed=True, create_schema=True, **routed)
    assert make.execute(context())[0] == f"{name}@[shipping]@[{hook.client.settings.database}]"
    SqlQueueCreateOperator(task_id="other", endpoint=other, create_schema=True, hook_params=schemas).execute(context())
    SqlQueueSendOperator(task_id="send", messages=[{"body": "x"}], **routed).execute(context())
    assert SqlQueueMoveDelayedOperator(task_id="move", **routed).execute(context())["moved"] == 0
    failed = SqlQueueReturnToSourceOperator(task_id="return", all_messages=True, only_count=True, **routed)
    assert failed.execute(context())["left"] == {"no failed queue": 1}
    forward = SqlQueueForwardOperator(task_id="forward", to_endpoint=other, **routed)
    assert forward.execute(context())["messages"] == 1
    assert hook.queue(f"{other}@[billing]").depth().messages == 1
    for endpoint in (name, other):
        drop = SqlQueueDropOperator(task_id="drop", endpoint=endpoint, hook_params=schemas, force=True)
        assert drop.execute(context()) == (endpoint == other)
    hook.client.tables.drop(f"{name}.Delayed@[shipping]", force=True)


def test_a_queue_has_one_name() -> None:
    for operator in (SqlQueueForwardOperator, SqlQueueCreateOperator):
        with pytest.raises(AddressError, match="give queue_name or endpoint"):
            operator(task_id="t", queue_name="a", endpoint="b", **({"to_queue": "c"} if "For" in str(operator) else {}))
    with pytest.raises(AddressError, match="give to_queue or to_endpoint"):
        SqlQueueForwardOperator(task_id="t", queue_name="a")
    with pytest.raises(AddressError, match="give queue_name or endpoint"):
        SqlQueueDepthTrigger(queue_name="a", endpoint="b")


@pytest.mark.parametrize("value", [5, ["Sales"], {"a": 1}])
def test_a_name_that_is_no_text_fails_without_retry_and_makes_no_queue(live: str, context: Any, value: Any) -> None:
    """The output of another task may be anything."""
    for number, name in enumerate(("queue_name", "endpoint")):
        create = SqlQueueCreateOperator(task_id=f"create{number}", **{name: "x"})
        setattr(create, name, value)
        with pytest.raises(AirflowFailException, match=f"is a value of the type {type(value).__name__}: give a text"):
            create.execute(context())
    for operator in (SqlQueueSubscribeOperator, SqlQueueUnsubscribeOperator):
        task = operator(task_id=operator.__name__, endpoint="x", message_types=["Shop.A"])
        task.endpoint = value
        with pytest.raises(AirflowFailException, match="The endpoint name is a value of the type"):
            task.execute(context())


async def _first(trigger: SqlQueueDepthEventTrigger) -> Any:
    async for event in trigger.run():
        return event.payload


def test_a_trigger_waits_at_the_queue_of_an_endpoint(live: str, hook: SqlQueueHook) -> None:
    name = f"test.{uuid.uuid4().hex[:12]}"
    hook.create_queue(f"{name}@[shipping]", create_schema=True)
    hook.send(f"{name}@[shipping]", [Message({})])
    trigger = SqlQueueDepthEventTrigger(endpoint=name, hook_params={"endpoint_schemas": {name: "shipping"}})
    path, arguments = trigger.serialize()
    assert path.endswith("SqlQueueDepthEventTrigger")
    payload = asyncio.run(_first(SqlQueueDepthEventTrigger(**arguments)))
    assert (payload["endpoint"], payload["messages"], "queue_name" in payload) == (name, 1, False)
    hook.client.tables.drop(f"{name}@[shipping]", force=True)
