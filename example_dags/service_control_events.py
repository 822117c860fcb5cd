"""Decide about failures by the integration events of ServiceControl.

ServiceControl owns the error queue ``error`` here: it takes each failed message at once, and forwards a copy to
``error.log`` (its setting ``ForwardErrorMessages``). It publishes events about failures, heartbeats and custom checks.
This DAG subscribes a queue to these events, is woken by them, and decides:

- failures with an exception that passes by itself are returned from ``error.log``, at a rate that endpoints can take;
- failures with an exception that no retry can fix are archived, with a reason;
- all others, endpoints without a heartbeat and failed custom checks make the last task fail, so that the alert of your
  Airflow for failed tasks calls somebody.

The events stay in their queue until the work is done. So a retry repeats it, which changes nothing: a message that was
returned or archived is no longer in ``error.log``. Run the DAG once by hand to make the queue and the subscriptions.

ServicePulse still shows a returned message as failed: mark it as resolved there, or let ServicePulse retry.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, Asset, AssetWatcher, Param, task

from airflow_sqlqueue.operators import (
    SqlQueueCreateOperator,
    SqlQueueFailedMessagesOperator,
    SqlQueueReturnToSourceOperator,
    SqlQueueSubscribeOperator,
)
from airflow_sqlqueue.triggers import SqlQueueDepthEventTrigger

QUEUE = os.environ.get("SQLQUEUE_EVENTS", "airflow.servicecontrol")
CONTRACTS = "ServiceControl.Contracts."
EVENTS = ("MessageFailed", "HeartbeatStopped", "CustomCheckFailed")
MOST = 200
"""Events of one run: the ids of their messages are in XCom."""

trigger = SqlQueueDepthEventTrigger(queue_name=QUEUE, wait_for={"min_messages": 1}, poll_interval=5, repeat_interval=60)
events = Asset(f"sqlqueue_{QUEUE}", watchers=[AssetWatcher(name=f"sqlqueue_{QUEUE}", trigger=trigger)])


def text(event: Any, *names: str) -> str | None:
    """Return a short printable text of an event; XCom and logs get nothing else of it."""
    for name in names:
        event = event.get(name) if isinstance(event, dict) else None
    return event if isinstance(event, str) and event.isprintable() and len(event) <= 500 else None


with DAG(
    dag_id="service_control_events",
    description=__doc__.splitlines()[0],
    doc_md=__doc__,
    schedule=[events],
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={
        "copies": Param("error.log", type="string"),
        "passing": Param(["System.TimeoutException"], type="array"),
        "hopeless": Param(["System.FormatException"], type="array"),
    },
    tags=["sqlqueue", "example"],
) as dag:
    create = SqlQueueCreateOperator(task_id="create", queue_name=QUEUE, subscriptions=True)
    subscribe = SqlQueueSubscribeOperator(
        task_id="subscribe",
        queue_name=QUEUE,
        endpoint=QUEUE,
        message_types=[f"{CONTRACTS}{name}" for name in EVENTS],
    )

    @task
    def decide(params: dict[str, Any]) -> dict[str, Any]:
        """Read the events, without removing them, and put the ids of messages on three lists."""
        from airflow_sqlqueue import Envelope, SqlQueueHook

        decided: dict[str, Any] = {"rows": [], "passing": [], "hopeless": [], "calls": []}
        for message in SqlQueueHook().client.queue(QUEUE).peek(MOST):
            decided["rows"].append(message.row_version)
            envelope = Envelope.of(message)
            event, kind = envelope.json(), envelope.content.message_type
            endpoint = text(event, "EndpointName")
            if kind == f"{CONTRACTS}MessageFailed":
                exception = text(event, "FailureDetails", "Exception", "ExceptionType")
                message_id = text(event, "MessageDetails", "MessageId")
                lists = [name for name in ("passing", "hopeless") if exception in params[name]]
                if message_id and lists:
                    decided[lists[0]].append(message_id)
                else:
                    decided["calls"].append(f"{text(event, 'ProcessingEndpoint', 'Name')!r} fails with {exception!r}")
            elif kind == f"{CONTRACTS}HeartbeatStopped":
                decided["calls"].append(f"{endpoint!r} on {text(event, 'Host')!r} sends no heartbeat")
            elif kind == f"{CONTRACTS}CustomCheckFailed":
                decided["calls"].append(f"the check {text(event, 'CustomCheckId')!r} of {endpoint!r} has failed")
            else:
                decided["calls"].append("a message of another kind is in the queue")
        # An event may come twice, and a hundred messages may fail for one cause.
        decided["calls"] = sorted(set(decided["calls"]))
        return decided

    decided: Any = decide()
    give_back = SqlQueueReturnToSourceOperator(
        task_id="give_back",
        queue_name="{{ params.copies }}",
        filters={"message_ids": decided["passing"]},
        error_queue_options={"rate": 20},
        max_seconds=1800,
    )
    archive = SqlQueueFailedMessagesOperator(
        action="archive",
        task_id="archive",
        queue_name="{{ params.copies }}",
        filters={"message_ids": decided["hopeless"]},
        reason="no retry can fix this exception (run {{ run_id }})",
    )

    @task
    def forget(rows: list[int]) -> int:
        """Remove the events whose work is done."""
        from airflow_sqlqueue import SqlQueueHook

        return len(SqlQueueHook().client.queue(QUEUE).take(rows)) if rows else 0

    @task(retries=0)
    def call(calls: list[str]) -> None:
        """Fail if somebody has to look."""
        if calls:
            raise AirflowFailException(f"Somebody has to look: {'; '.join(calls[:20])}.")

    create >> subscribe >> decided >> [give_back, archive] >> forget(decided["rows"]) >> call(decided["calls"])


if __name__ == "__main__":
    dag.test()
