"""The sensor that finds batches which were left behind, on a server."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.message import Message
from airflow_sqlqueue.sensors import SqlQueueStrandedBatchSensor, stranded

OLD = timedelta(0)


@pytest.fixture
def gauges(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    found: dict[str, int] = {}

    class Metrics:
        def gauge(self, name: str, value: int) -> None:
            found[name] = value

    monkeypatch.setattr(stranded, "stats", Metrics())
    return found


def test_the_sensor_finds_old_batches_that_nobody_works_on(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, gauges: dict[str, int]
) -> None:
    sensor = SqlQueueStrandedBatchSensor(task_id="t", queue_name=queue_name, older_than=OLD)
    assert not sensor.poke(context())
    assert gauges == {"sqlqueue.batches.stranded": 0}
    hook.send(queue_name, [Message({}, b"x")] * 4)
    batch = hook.drain(queue_name, tmp_path, origin="a test").batch
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
    assert gauges == {"sqlqueue.batches.stranded": 1}
    sensor.older_than = timedelta(hours=1)
    assert not sensor.poke(context())
    sensor.older_than, sensor.states = OLD, ["open"]
    assert not sensor.poke(context())
    sensor.states = ["open", "sealed"]
    hook.mark_consumed(batch)
    assert not sensor.poke(context())


@pytest.mark.parametrize("states", [[], ["consumed"], ["open", "done"]])
def test_states_in_which_nothing_is_left_behind_are_refused(live: str, context: Any, states: list[str]) -> None:
    sensor = SqlQueueStrandedBatchSensor(task_id="t", states=states)
    with pytest.raises(AirflowFailException, match="states are some of open, sealed"):
        sensor.poke(context())
