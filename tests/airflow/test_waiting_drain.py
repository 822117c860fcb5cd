"""The drain that waits until its queue is deep or old enough."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred

from airflow_sqlqueue.drain.options import DrainOptions, batch_id_for
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.errors import ConditionNotMetError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator
from tests.airflow.tasks import drain_task
from tests.airflow.versions import TaskDeferralError

MET = {"status": "met", "found": {"messages": 2, "expired": 0}}


def waiting_drain(queue_name: str, folder: Path, **options: Any) -> SqlQueueDrainToSparkOperator:
    return drain_task(queue_name, str(folder), poll_interval=0.05, **options)


def test_the_drain_waits_in_its_process(hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any) -> None:
    operator = waiting_drain(
        queue_name, tmp_path, wait_for={"min_messages": "2", "oldest_seconds": 3600}, deferrable=False
    )
    hook.send(queue_name, [Message()])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(operator.execute, context())
        hook.send(queue_name, [Message()])
        assert waiting.result(60)["batch"]["messages"] == 2


def test_the_drain_waits_deferred_and_goes_on(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any
) -> None:
    operator = waiting_drain(queue_name, tmp_path, wait_for={"min_messages": 2}, wait_timeout=90, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context())
    path, arguments = deferred.value.trigger.serialize()
    assert path.endswith(".SqlQueueDepthTrigger")
    assert (arguments["queue_name"], json.loads(arguments["wait_for"])["min_messages"]) == (queue_name, 2)
    assert arguments["poll_interval"] == 0.05
    assert deferred.value.timeout.total_seconds() == 90  # type: ignore[union-attr]
    hook.send(queue_name, [Message()] * 2)
    assert operator.execute_complete(context(), MET)["batch"]["messages"] == 2


def test_a_queue_that_is_deep_enough_is_drained_at_once(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any
) -> None:
    hook.send(queue_name, [Message()] * 2)
    operator = waiting_drain(queue_name, tmp_path, wait_for={"min_messages": 2}, deferrable=True)
    assert operator.execute(context())["batch"]["messages"] == 2


@pytest.mark.parametrize("renew", [False, True])
def test_a_retry_goes_on_with_its_batch_without_a_wait(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, run_id: str, renew: bool
) -> None:
    hook.send(queue_name, [Message()] * 5)
    first = DrainOptions(max_messages=3, rows_per_statement=3)
    hook.drain(queue_name, tmp_path, DrainRequest(batch_id=batch_id_for("dag", run_id, "task"), options=first))
    operator = waiting_drain(queue_name, tmp_path, wait_for={"min_messages": 100}, deferrable=True, renew=renew)
    assert operator.execute(context())["batch"]["messages"] == 3


def test_a_wait_that_takes_too_long_fails_the_try(queue_name: str, tmp_path: Path, context: Any) -> None:
    operator = waiting_drain(queue_name, tmp_path, wait_for={}, wait_timeout=0.1, deferrable=False)
    with pytest.raises(ConditionNotMetError, match=f"The queue {queue_name} did not meet the condition"):
        operator.execute(context())
    with pytest.raises(ConditionNotMetError):
        operator.resume_execution("__fail__", {"error": "Trigger timeout"}, context())
    with pytest.raises(TaskDeferralError):
        operator.resume_execution("__fail__", {"error": "Trigger failure"}, context())


def test_the_interval_of_polls_may_be_a_text_and_is_checked(queue_name: str, tmp_path: Path, context: Any) -> None:
    def wait(poll_interval: Any) -> None:
        task = waiting_drain(queue_name, tmp_path, wait_for={}, wait_timeout=0.1, deferrable=False)
        task.poll_interval = poll_interval
        task.execute(context())

    for good in ("0.05", 0):
        with pytest.raises(ConditionNotMetError):
            wait(good)
    for bad in (None, "soon", -1, timedelta(seconds=1)):
        with pytest.raises(AirflowFailException, match="give a number of seconds"):
            wait(bad)


def test_a_condition_that_cannot_be_met_fails_the_drain_without_a_retry(
    queue_name: str, tmp_path: Path, context: Any
) -> None:
    with pytest.raises(AirflowFailException, match="without other conditions"):
        waiting_drain(queue_name, tmp_path, wait_for={"max_messages": 1, "min_expired": 1}).execute(context())
    with pytest.raises(AirflowFailException, match=r"test\.missing.* does not exist"):
        waiting_drain("test.missing", tmp_path, wait_for={}).execute(context())
