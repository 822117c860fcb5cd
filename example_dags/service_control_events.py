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
    SqlQueueArchiveErrorsOperator,
    SqlQueueCreateOperator,
    SqlQueueReturnToSourceOperator,
    SqlQueueSubscribeOperator,
)
from airflow_sqlqueue.triggers import SqlQueueDepthEventTrigger

QUEUE = os.environ.get("SQLQUEUE_EVENTS", "airflow.servicecontrol")
EVENTS = ("MessageFailed", "HeartbeatStopped", "CustomCheckFailed")
MOST = 200
"""Events of one run: the ids of their messages are in XCom."""

trigger = SqlQueueDepthEventTrigger(queue_name=QUEUE, wait_for={"min_messages": 1}, poll_interval=5, repeat_interval=60)
events = Asset(f"sqlqueue_{QUEUE}", watchers=[AssetWatcher(name=f"sqlqueue_{QUEUE}", trigger=trigger)])

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
        message_types=[f"ServiceControl.Contracts.{name}" for name in EVENTS],
    )

    @task
    def decide(params: dict[str, Any]) -> dict[str, Any]:
        """Read the events, without removing them, and put the ids of messages on three lists."""
        from airflow_sqlqueue import (
            CustomCheckFailed,
            HeartbeatStopped,
            MessageError,
            MessageFailed,
            SqlQueueHook,
            service_control_event,
        )

        decided: dict[str, Any] = {"rows": [], "passing": [], "hopeless": [], "calls": []}
        for message in SqlQueueHook().client.queue(QUEUE).peek(MOST):
            decided["rows"].append(message.row_version)
            try:
                event = service_control_event(message)
            except MessageError as error:
                decided["calls"].append(f"an event that cannot be read: {error}")
                continue
            if isinstance(event, MessageFailed) and event.message_id:
                kind = next((kind for kind in ("passing", "hopeless") if event.exception_type in params[kind]), None)
                if kind is not None:
                    decided[kind].append(event.message_id)
                else:
                    decided["calls"].append(f"{event.processing.name!r} fails with {event.exception_type!r}")
            elif isinstance(event, HeartbeatStopped):
                decided["calls"].append(f"{event.endpoint.name!r} on {event.endpoint.host!r} sends no heartbeat")
            elif isinstance(event, CustomCheckFailed):
                decided["calls"].append(f"the check {event.check_id!r} of {event.endpoint.name!r} has failed")
        # An event may come twice, and a hundred messages may fail for one cause.
        decided["calls"] = sorted(set(decided["calls"]))
        return decided

    decided: Any = decide()
    give_back = SqlQueueReturnToSourceOperator(
        task_id="give_back",
        queue_name="{{ params.copies }}",
        filters={"message_ids": decided["passing"]},
        rate=20,
        max_seconds=1800,
    )
    archive = SqlQueueArchiveErrorsOperator(
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
