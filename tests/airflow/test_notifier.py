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
from airflow_sqlqueue.messages.message import HeaderNames, decode_headers
from airflow_sqlqueue.notifications import SqlQueueNotifier
from tests.airflow.running_dag import run_in_full
from tests.airflow.tasks import run_coroutine
from tests.airflow.versions import CallbackTrigger


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


def test_notifiers_of_one_event_send_messages_of_their_own(hook: SqlQueueHook, queue_name: str) -> None:
    for message_type in ("Ops.TaskFailed", "Ops.CallSomebody"):
        SqlQueueNotifier(queue_name=queue_name, message_type=message_type).notify({"ti": instance()})  # type: ignore[typeddict-item]
    messages = hook.receive(queue_name, 10)
    assert len({message.id for message in messages}) == 2, "an endpoint with an outbox would drop the second"


def test_a_notifier_renders_its_templates_for_each_call(hook: SqlQueueHook, queue_name: str) -> None:
    """One may be a callback of several events, and of several tasks that run in one process, as in a test of a DAG."""
    notifier = SqlQueueNotifier(
        queue_name=queue_name, message_type="Ops.{{ ti.state }}", body={"state": "{{ ti.state }}"}
    )
    for state in ("running", "success"):
        context = {"ti": instance(state)}
        notifier(context)
        assert context.keys() == {"ti"}, "the function of the task would get a body"
    messages = sorted(hook.receive(queue_name, 10), key=lambda message: message.body)
    assert [json.loads(message.body) for message in messages] == [{"state": "running"}, {"state": "success"}]
    types = [decode_headers(message.headers).values[HeaderNames.ENCLOSED_MESSAGE_TYPES] for message in messages]
    assert types == ["Ops.running", "Ops.success"]


def test_the_notifier_reports_the_state_of_a_run(hook: SqlQueueHook, queue_name: str) -> None:
    notifier = SqlQueueNotifier(queue_name=queue_name, message_type="Ops.RunEnded")
    for cleared in (0, 0, 1):
        run = SimpleNamespace(dag_id="shop", run_id="r1", state="success", clear_number=cleared)
        notifier.notify({"dag_run": run})  # type: ignore[typeddict-item]
    first, repeated, again = hook.receive(queue_name, 10)
    for message in (first, repeated, again):
        assert json.loads(message.body) == {"dag_id": "shop", "run_id": "r1", "state": "success"}
    assert first.id == repeated.id != again.id, "a cleared run that ends as before is another event"


def late(run_id: str, deadline: str = "d1") -> dict[str, Any]:
    """Context of a deadline's callback, as Airflow's scheduler makes it."""
    due = datetime(2026, 3, 1, 8, tzinfo=timezone.utc)
    run = {"dag_run_id": run_id, "dag_id": "shop", "state": "running", "conf": {"secret": "s3cret"}}
    return {"dag_run": run, "deadline": {"id": deadline, "deadline_time": due}}


def test_airflows_callback_trigger_sends_a_message_for_each_deadline(hook: SqlQueueHook, queue_name: str) -> None:
    kwargs = {"queue_name": queue_name, "message_type": "Ops.RunIsLate", "headers": {"Ops.Run": "{{ dag_run.dag_id }}"}}
    contexts = [late("r1"), late("r2"), late("r1", "d2"), late("r1")]

    async def call(context: Any) -> Any:
        trigger = CallbackTrigger(
            f"{SqlQueueNotifier.__module__}.{SqlQueueNotifier.__qualname__}", {**kwargs, "context": context}
        )
        return [event.payload["state"] async for event in trigger.run()]

    for context in contexts:
        assert run_coroutine(lambda context=context: call(context)) == ["running", "success"]  # type: ignore[misc]
    messages = hook.receive(queue_name, 10)
    assert [json.loads(message.body) for message in messages] == [
        {
            "dag_id": "shop",
            "run_id": context["dag_run"]["dag_run_id"],
            "state": "running",
            "deadline_id": context["deadline"]["id"],
            "deadline_time": "2026-03-01T08:00:00+00:00",
        }
        for context in contexts
    ]
    assert len({message.id for message in messages[:3]}) == 3
    assert messages[3].id == messages[0].id, "a repetition has the same id"
    values = decode_headers(messages[0].headers).values
    assert (values["Ops.Run"], values[HeaderNames.ORIGINATING_ENDPOINT]) == ("shop", "airflow.shop")


@pytest.mark.parametrize(
    ("context", "about"),
    [
        ({"ti": vars(instance())}, {**vars(instance())}),
        ({"dag": DAG("shop", schedule=None), "run_id": "r1", "reason": "timed_out"}, {"reason": "timed_out"}),
        ({"ti": instance(), "dag_run": late("r1")["dag_run"], "reason": "task_failure"}, {"state": "running"}),
        ({"dag_run": SimpleNamespace(dag_id="shop", run_id="r1", state="failed")}, {"state": "failed"}),
    ],
)
def test_a_callback_of_any_kind_gets_its_facts(
    hook: SqlQueueHook, queue_name: str, context: Any, about: dict[str, Any]
) -> None:
    SqlQueueNotifier(queue_name=queue_name, message_type="Ops.Ended", context=context)(context)
    (message,) = hook.receive(queue_name)
    body = json.loads(message.body)
    assert body | about == body
    assert (body["dag_id"], body["run_id"]) == ("shop", "r1")
    assert ("task_id" in body) == ("reason" not in context and "ti" in context)


def test_a_callback_without_a_run_has_an_id_of_its_own_each_time(hook: SqlQueueHook, queue_name: str) -> None:
    for context in ({}, {}, {"dag_run": None}):
        SqlQueueNotifier(queue_name=queue_name, message_type="Ops.Any").notify(context)  # type: ignore[arg-type]
    messages = hook.receive(queue_name, 10)
    assert len({message.id for message in messages}) == 3
    assert decode_headers(messages[0].headers).values[HeaderNames.ORIGINATING_ENDPOINT] == "airflow"


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
