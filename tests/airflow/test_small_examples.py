"""The example DAGs that show one operator each, run as Airflow runs them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.consuming.options import ConsumeOptions
from airflow_sqlqueue.envelope import Envelope, reply
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.message import Message
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
    run = load("error_triage").test(run_conf={"error_queue": own, "exception_type": wanted})
    assert run.state == "success", states(run)
    returned = sum(group.messages for group in before if group.values["exception_type"] == wanted)
    assert xcom(run, "give_back")["messages"] == returned
    assert hook.depth(own).total == 60 - returned


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


def test_shares_of_unparsed_and_rescued_messages_above_a_limit_are_an_error(load: Load) -> None:
    dag = load("queue_to_tables")
    limits = {"max_unparsed": 0.01, "max_rescued": dag.params["max_rescued"]}
    tables = [
        {"table": f"lake/{name}", "is_unparsed": name.endswith("~unparsed"), "rescued": rescued}
        for name, rescued in (("Order", 0), ("Order~unparsed", 0), ("Payment", 2))
    ]

    def checked(messages: int, unparsed: int, rescued: int) -> Any:
        found = {"messages": messages, "unparsed": unparsed, "rescued": rescued, "largest": tables}
        return dag.get_task("check").python_callable({"result": found}, limits)

    assert checked(200, 2, 1) == {"unparsed": 0.01, "rescued": 0.005}
    with pytest.raises(ValueError, match=r"Of 200 messages 1.50% are unparsed: look at lake/Order~unparsed, lake/Pay"):
        checked(200, 3, 2)
    with pytest.raises(ValueError, match=r"1.50% are unparsed and 2.00% are rescued"):
        checked(200, 3, 4)
    assert checked(0, 0, 0) == {"unparsed": 0, "rescued": 0}
    assert dag.get_task("check").python_callable({"result": None}, limits) == {"unparsed": 0, "rescued": 0}


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
