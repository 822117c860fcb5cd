"""A drain that Airflow signals to end while it runs: a SIGTERM to the task calls ``on_kill``, and no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_sqlqueue.drain.batches import BatchInfo
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator
from airflow_sqlqueue.operators.metrics import DrainLog
from airflow_sqlqueue.operators.spark_job import SparkJob

Make = Callable[..., SqlQueueDrainToSparkOperator]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of messages of each job."""
    got: list[int] = []
    monkeypatch.setattr(SparkJob, "run", lambda self, batch, spark=None: got.append(batch.messages))
    return got


@pytest.fixture
def make(queue_name: str, tmp_path: Path, run_id: str) -> Make:
    def make(**drain_options: Any) -> SqlQueueDrainToSparkOperator:
        return SqlQueueDrainToSparkOperator(
            task_id="task",
            queue_name=queue_name,
            staging=str(tmp_path),
            python_callable=print,
            drain_options={"rows_per_part": 10, "workers": 1, **drain_options},
        )

    return make


def the_batch(hook: SqlQueueHook, queue_name: str) -> BatchInfo:
    (batch,) = hook.client.batches.list(queue_name)
    return batch


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_task_takes_no_further_part(
    hook: SqlQueueHook, queue_name: str, make: Make, jobs: list[int], context: Any, monkeypatch: Any, workers: int
) -> None:
    hook.send(queue_name, [Message({}, b"x")] * 300)
    operator = make(workers=workers)
    with monkeypatch.context() as patch:
        patch.setattr(DrainLog, "progress", lambda self, done: operator.on_kill())
        with pytest.raises(AirflowException, match="Airflow ended the task"):
            operator.execute(context())
    left = the_batch(hook, queue_name)
    assert left.state == "open"
    assert 10 <= left.messages <= 10 * workers, "the parts that were under way"
    assert hook.depth(queue_name).messages == 300 - left.messages
    assert make().execute(context())["batch"]["messages"] == 300
    assert jobs == [300]


def test_a_killed_task_starts_no_job(
    hook: SqlQueueHook, queue_name: str, make: Make, jobs: list[int], context: Any, monkeypatch: Any
) -> None:
    hook.send(queue_name, [Message({}, b"x")] * 5)
    operator = make()
    monkeypatch.setattr(DrainLog, "end", lambda self, result: operator.on_kill())
    with pytest.raises(AirflowException, match="Airflow ended the task"):
        operator.execute(context())
    assert (the_batch(hook, queue_name).state, jobs) == ("sealed", [])
