"""The notifier, as Airflow calls it."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, task

from airflow_sqlqueue.errors import AddressError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.message import HeaderNames, decode_headers
from airflow_sqlqueue.notifications import SqlQueueNotifier
from tests.airflow.running_dag import run_in_full


def instance(state: str = "failed") -> Any:
    return SimpleNamespace(dag_id="shop", run_id="r1", task_id="load", map_index=-1, try_number=2, state=state)


def test_the_notifier_reports_the_state_of_a_task(hook: SqlQueueHook, queue_name: str) -> None:
    notifier = SqlQueueNotifier(queue_name=queue_name, message_type="Ops.TaskEnded")
    for state in ("failed", "failed", "success"):
        notifier.notify({"ti": instance(state)})  # type: ignore[typeddict-item]
    asyncio.run(notifier.async_notify({"ti": instance("skipped")}))  # type: ignore[typeddict-item]
    messages = hook.receive(queue_name, 10)
    about = {"dag_id": "shop", "run_id": "r1", "task_id": "load", "map_index": -1, "try_number": 2}
    states = ["failed", "failed", "success", "skipped"]
    assert [json.loads(message.body) for message in messages] == [{**about, "state": state} for state in states]
    assert len({message.id for message in messages}) == 3, "a repetition has the same id"
    values = decode_headers(messages[0].headers).values
    assert values[HeaderNames.ENCLOSED_MESSAGE_TYPES] == "Ops.TaskEnded"
    assert values[HeaderNames.ORIGINATING_ENDPOINT] == "airflow.shop"


def test_the_notifier_reports_the_state_of_a_run(hook: SqlQueueHook, queue_name: str) -> None:
    run = SimpleNamespace(dag_id="shop", run_id="r1", state="success")
    SqlQueueNotifier(queue_name=queue_name, message_type="Ops.RunEnded").notify({"dag_run": run})  # type: ignore[typeddict-item]
    (message,) = hook.receive(queue_name)
    assert json.loads(message.body) == {"dag_id": "shop", "run_id": "r1", "state": "success"}


def test_airflow_calls_it_when_a_task_fails(metadata_db: None, hook: SqlQueueHook, queue_name: str) -> None:
    notifier = SqlQueueNotifier(
        queue_name=queue_name, message_type="Ops.TaskEnded", body="{{ ti.task_id }} of {{ dag.dag_id }}"
    )
    with DAG("notified", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)) as dag:

        @task(on_failure_callback=[notifier])
        def failing() -> None:
            raise ValueError("s3cret")

        failing()
    run_in_full(dag)
    (message,) = hook.receive(queue_name)
    assert message.body == b"failing of notified"


@pytest.mark.parametrize("named", [{}, {"queue_name": "audit", "endpoint": "Sales"}])
def test_it_sends_to_one_queue(named: dict[str, str]) -> None:
    with pytest.raises(AddressError, match="give queue_name or endpoint"):
        SqlQueueNotifier(message_type="Ops.TaskEnded", **named)
