"""The sensor that finds batches which were left behind, on a server."""

from __future__ import annotations

import asyncio
import json
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred

from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.sensors import SqlQueueStrandedBatchSensor
from airflow_sqlqueue.triggers import SqlQueueStrandedBatchTrigger

OLD = timedelta(0)


def test_the_sensor_finds_old_batches_without_a_worker(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, statsd: Any
) -> None:
    sensor = SqlQueueStrandedBatchSensor(task_id="t", queue_name=queue_name, older_than=OLD)
    assert not sensor.poke(context())
    assert list(statsd.named("batches.stranded").values()) == [0]
    hook.send(queue_name, [Message({}, b"x")] * 4)
    batch = hook.drain(queue_name, tmp_path, DrainRequest(origin="a test")).batch
    with hook.client.batches.locks() as locks:
        assert locks.take(uuid.UUID(batch.batch_id))
        assert not sensor.poke(context())
    found = sensor.poke(context())
    assert found
    value = found.xcom_value
    assert (value["count"], value["messages"]) == (1, 4)
    (listed,) = value["batches"]
    assert listed.pop("age_seconds") >= 0
    assert listed == {
        "batch_id": batch.batch_id,
        "state": "sealed",
        "queue": batch.queue,
        "origin": "a test",
        "messages": 4,
    }
    assert list(statsd.named("batches.stranded").values()) == [1]
    sensor.older_than = timedelta(hours=1)
    assert not sensor.poke(context())
    sensor.older_than, sensor.states = OLD, ["open"]
    assert not sensor.poke(context())
    sensor.states = ["open", "sealed"]
    hook.client.batches.mark_consumed(batch)
    assert not sensor.poke(context())


def test_a_deferred_sensor_finds_the_same_batches_by_its_trigger(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, statsd: Any
) -> None:
    sensor = SqlQueueStrandedBatchSensor(
        task_id="t",
        queue_name=queue_name,
        states=["sealed"],
        older_than=OLD,
        deferrable=True,
        poke_interval=0.05,
        timeout=90,
    )
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context())
    assert deferred.value.timeout == timedelta(seconds=90)
    path, arguments = deferred.value.trigger.serialize()
    again = SqlQueueStrandedBatchTrigger(**json.loads(json.dumps(arguments)))
    assert again.serialize() == (path, arguments)

    async def story() -> Any:
        running = again.run()
        waiting = asyncio.create_task(anext(running))  # type: ignore[arg-type]
        assert not (await asyncio.wait([waiting], timeout=0.5))[0]
        await asyncio.to_thread(leave_one)
        try:
            return (await asyncio.wait_for(waiting, 120)).payload
        finally:
            await again.cleanup()

    def leave_one() -> None:
        hook.send(queue_name, [Message({}, b"x")] * 4)
        hook.drain(queue_name, tmp_path, DrainRequest(origin="a test"))

    found = sensor.execute_complete(context(), asyncio.run(story()))
    assert (found["count"], found["messages"]) == (1, 4)
    assert list(statsd.named("batches.stranded").values()) == [1]
    assert sensor.execute(context())["count"] == 1


@pytest.mark.parametrize("states", [[], ["consumed"], ["open", "done"], None, "open", 5, [["open"]], {"open": 1}])
def test_states_in_which_nothing_is_left_behind_are_refused(live: str, context: Any, states: Any) -> None:
    sensor = SqlQueueStrandedBatchSensor(task_id="t", states=states)
    with pytest.raises(AirflowFailException, match="states is a list of some of open, sealed"):
        sensor.poke(context())


@pytest.mark.parametrize("deferrable", [False, True])
@pytest.mark.parametrize("older_than", [-5, "-5", timedelta(seconds=-5), 10**12])
def test_a_time_below_zero_or_beyond_all_limits_fails_without_retry(
    live: str, context: Any, older_than: Any, deferrable: bool
) -> None:
    sensor = SqlQueueStrandedBatchSensor(task_id="t", older_than=older_than, deferrable=deferrable, timeout=0.1)
    with pytest.raises(AirflowFailException, match=r"older_than is .*: give a number of seconds"):
        sensor.execute(context())


def test_a_trigger_that_cannot_be_made_fails_its_sensor_without_retry(live: str, context: Any) -> None:
    sensor = SqlQueueStrandedBatchSensor(task_id="t", older_than=10**8, deferrable=True)
    sensor.poke_interval = "soon"  # type: ignore[assignment]
    with pytest.raises(AirflowFailException, match="poll_interval is 'soon'"):
        sensor.execute(context())
