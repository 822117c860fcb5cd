"""The example DAGs that show one operator each, run as Airflow runs them."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.envelope import Envelope, reply
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.traffic import generate, generate_failed
from tests.airflow.test_examples import Load, load, states, xcom

__all__ = ["load"]

pytestmark = pytest.mark.airflow


@pytest.fixture
def own(live: str) -> str:
    return f"test.{uuid.uuid4().hex[:12]}"


def test_expired_messages_of_several_queues_are_purged(load: Load, hook: SqlQueueHook, own: str) -> None:
    queues = [f"{own}.{number}" for number in range(2)]
    for name in queues:
        hook.create_queue(name)
        hook.send(name, [Message({}, b"late", time_to_be_received=timedelta(seconds=-5)), Message({}, b"kept")])
    run = load("scheduled_purge").test(run_conf={"queues": queues})
    assert run.state == "success"
    assert [hook.depth(name).total for name in queues] == [1, 1]


def test_messages_that_failed_with_an_exception_go_back(load: Load, hook: SqlQueueHook, own: str) -> None:
    from airflow_sqlqueue.traffic import FAILED_QUEUES

    hook.create_queue(own)
    for name in FAILED_QUEUES:
        hook.create_queue(name)
    table = hook.client.resolve(own)
    hook.send(own, generate_failed(60, seed=3, schema=table.schema, catalog=table.catalog))
    before = hook.client.errors.triage(own).groups
    wanted = before[0].values["exception_type"]
    # The answer of a person is in running/test_approval.py.
    run = load("error_triage").test(
        run_conf={"error_queue": own, "exception_type": wanted}, mark_success_pattern="^ask$"
    )
    assert run.state == "success", states(run)
    returned = sum(group.messages for group in before if group.values["exception_type"] == wanted)
    assert xcom(run, "give_back")["messages"] == returned
    assert hook.depth(own).total == 60 - returned


def event(kind: str, **fields: Any) -> Message:
    """An integration event, as ServiceControl publishes it."""
    types = f"ServiceControl.Contracts.{kind}, ServiceControl.Contracts"
    headers = {HeaderNames.ENCLOSED_MESSAGE_TYPES: types, HeaderNames.CONTENT_TYPE: "application/json"}
    return Message(headers, json.dumps(fields).encode())


def failure(message_id: str, exception: str) -> Message:
    """The event about a failed message."""
    return event(
        "MessageFailed",
        FailedMessageId=str(uuid.uuid4()),
        ProcessingEndpoint={"Name": "Sales"},
        FailureDetails={"Exception": {"ExceptionType": exception, "Message": "s3cret"}},
        MessageDetails={"MessageId": message_id, "Headers": {}, "Body": "s3cret"},
    )


def copy_of(message_id: str, queue: str) -> Message:
    """ServiceControl's copy of a failed message."""
    return Message({HeaderNames.MESSAGE_ID: message_id, HeaderNames.FAILED_Q: queue})


def test_events_of_servicecontrol_lead_to_decisions(
    load: Load, hook: SqlQueueHook, own: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SQLQUEUE_EVENTS", f"{own}.events")
    copies = f"{own}.log"
    for name in (own, copies):
        hook.create_queue(name)
    conf = {"copies": copies}
    dag = load("service_control_events")
    # The first run subscribes. What ServiceControl publishes then comes to the queue.
    assert dag.test(run_conf=conf).state == "success"
    hook.send(copies, [copy_of(message_id, own) for message_id in ("a", "b", "c", "other")])
    events = [
        failure("a", "System.TimeoutException"),
        failure("a", "System.TimeoutException"),
        failure("b", "System.FormatException"),
        failure("c", "Shop.CardRefused"),
        failure("\0", "System.TimeoutException"),
        event("HeartbeatStopped", EndpointName="Billing", Host="WEB-01"),
        event("HeartbeatStopped", EndpointName=["s3cret"], Host="s3cret\0" * 2_000),
        event("CustomCheckFailed", CustomCheckId="disk", EndpointName="Billing"),
    ]
    for each in events:
        topic = Envelope.of(each).content.message_types[0]
        assert hook.client.subscriptions.publish([topic], [each]).copies == 1
    run = dag.test(run_conf=conf)
    assert {name: state for name, state in states(run).items() if state != "success"} == {"call": "failed"}
    assert hook.depth(own).messages == 1
    archived = hook.client.errors.archived.triage(copies, by=["reason"]).groups
    assert [group.messages for group in archived] == [1]
    assert "no retry can fix" in (archived[0].values["reason"] or "")
    left = [Envelope.of(message).identity.message_id for message in hook.queue(copies).peek()]
    assert left == ["c", "other"]
    assert hook.depth(f"{own}.events").messages == 0
    shown = "".join(capfd.readouterr())
    assert (
        "'Billing' on 'WEB-01' sends no heartbeat; 'Sales' fails with 'Shop.CardRefused'; 'Sales' fails with "
        "'System.TimeoutException'; None on None sends no heartbeat; the check 'disk' of 'Billing' has failed." in shown
    )
    assert "s3cret" not in shown
    kinds = ("MessageFailed", "HeartbeatStopped", "CustomCheckFailed")
    hook.client.subscriptions.unsubscribe(f"{own}.events", [f"ServiceControl.Contracts.{kind}" for kind in kinds])


@contextmanager
def pricing(client: QueueClient, queue_name: str) -> Iterator[None]:
    """An endpoint that replies until the block ends."""
    stop = threading.Event()

    def answer(message: Envelope) -> None:
        address, priced = reply(message, {"price": 12.5}, endpoint="Pricing")
        client.queue(address).send([priced])

    options = ConsumeOptions(until_empty=False, poll_seconds=0.1)
    run = threading.Thread(target=lambda: client.queue(queue_name).consume(answer, options, stop=stop))
    run.start()
    try:
        yield
    finally:
        stop.set()
        run.join(60)


def test_a_request_gets_its_reply(load: Load, hook: SqlQueueHook, own: str) -> None:
    for name in (own, f"{own}.replies", "error"):
        hook.create_queue(name)
    with pricing(hook.client, own):
        run = load("request_reply").test(run_conf={"pricing": own, "replies": f"{own}.replies"})
    assert run.state == "success"
    assert xcom(run, "ask")["result"] == 12.5


def test_a_reminder_waits_on_the_server(load: Load, hook: SqlQueueHook, own: str) -> None:
    hook.create_queue(own, delayed=True)
    assert load("delayed_send").test(run_conf={"queue": own, "order": 7}).state == "success"
    assert len(hook.client.delayed(own).list()) == 1


def test_an_endpoint_is_provisioned(load: Load, hook: SqlQueueHook, own: str) -> None:
    run = load("provision_queues").test(run_conf={"endpoint": own, "error": f"{own}.error"})
    assert run.state == "success"
    assert f"{own}@[dbo]@[sqlqueue]" in xcom(run, "provision")
    assert any(subscription.endpoint == own for subscription in hook.client.subscriptions.list())


def test_a_batch_is_counted_without_spark(
    load: Load, hook: SqlQueueHook, own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQLQUEUE_STAGING", str(tmp_path))
    hook.create_queue(own)
    hook.send(own, generate(40, seed=3))
    run: Any = load("batch_without_spark").test(run_conf={"queue": own})
    assert run.state == "success"
    batch = xcom(run, "drain")["batch"]
    assert sum(xcom(run, "drain")["result"].values()) == batch["messages"] > 0
    assert hook.client.batches.list(own, states=["consumed"])
