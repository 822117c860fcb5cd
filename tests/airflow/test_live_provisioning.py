"""The operators that make, fill and remove what an endpoint has, on a server."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_sqlqueue.errors import ConfigurationError, QueueNotEmptyError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import (
    SqlQueueDropOperator,
    SqlQueueForwardOperator,
    SqlQueueProvisionOperator,
    SqlQueuePublishOperator,
    SqlQueueSendOperator,
    SqlQueueSubscribeOperator,
    SqlQueueUnsubscribeOperator,
)


def test_an_endpoint_is_provisioned_and_removed(hook: SqlQueueHook, context: Any) -> None:
    name = f"test.{uuid.uuid4().hex[:12]}"
    provision = SqlQueueProvisionOperator(
        task_id="provision",
        endpoint=name,
        error_queue=f"{name}.error",
        audit_queue=None,
        subscribe_to=["Shop.OrderPlaced"],
    )
    made = provision.execute(context())
    addresses = [f"{table}@[dbo]@[sqlqueue]" for table in (name, f"{name}.Delayed", f"{name}.error")]
    assert set(addresses) <= set(made)
    assert provision.execute(context()) == []
    assert [s.endpoint for s in hook.client.subscriptions.list() if s.endpoint == name] == [name]
    ended = SqlQueueUnsubscribeOperator(task_id="end", endpoint=name, message_types=["Shop.OrderPlaced"])
    assert [ended.execute(context()) for _ in range(2)] == [1, 0]
    for address in addresses:
        drop = SqlQueueDropOperator(task_id="drop", queue_name=address)
        assert [drop.execute(context()) for _ in range(2)] == [0, 0]


def test_a_subscription_needs_an_endpoint() -> None:
    with pytest.raises(ConfigurationError, match="name it by endpoint"):
        SqlQueueProvisionOperator(task_id="t", queue_name="audit", subscribe_to=["Shop.OrderPlaced"])


def test_a_queue_with_messages_is_dropped_by_force_alone(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    hook.send(queue_name, [Message({}, b"x")])
    with pytest.raises(QueueNotEmptyError, match="holds messages"):
        SqlQueueDropOperator(task_id="drop", queue_name=queue_name).execute(context())
    assert SqlQueueDropOperator(task_id="drop", queue_name=queue_name, force=True).execute(context()) == 1
    hook.create_queue(queue_name)


def test_an_endpoint_is_subscribed_to_another_queue(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    hook.create_queue(queue_name, subscriptions=True)
    name = f"test.{uuid.uuid4().hex[:12]}"
    subscribe = SqlQueueSubscribeOperator(
        task_id="t", endpoint=name, message_types=["Shop.A", "Shop.B"], queue_name=queue_name
    )
    assert [subscribe.execute(context()) for _ in range(2)] == [2, 0]
    assert SqlQueueUnsubscribeOperator(task_id="u", endpoint=name, message_types=["Shop.A"]).execute(context()) == 1
    assert [s.topic for s in hook.client.subscriptions.list() if s.endpoint == name] == ["Shop.B"]


@pytest.mark.parametrize("types", ["Shop.A", "['Shop.A']", "", None, [None]])
def test_types_that_are_no_list_are_refused(hook: SqlQueueHook, queue_name: str, context: Any, types: Any) -> None:
    """A template renders a list to text, each of whose characters would be a type."""
    hook.create_queue(queue_name, subscriptions=True)
    name = f"test.{uuid.uuid4().hex[:12]}"
    tasks = [
        SqlQueueSubscribeOperator(task_id="s", endpoint=name, message_types=types, queue_name=queue_name),
        SqlQueueUnsubscribeOperator(task_id="u", endpoint=name, message_types=types),
        SqlQueuePublishOperator(task_id="p", message_type="Shop.B", base_types=types, messages=[{}]),
    ]
    for task in tasks:
        with pytest.raises(AirflowFailException, match="are a list of texts"):
            task.execute(context())
    assert name not in {each.endpoint for each in hook.client.subscriptions.list()}


def test_messages_are_forwarded(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    hook.create_queue(f"{queue_name}.to")
    hook.send(queue_name, [Message({}, b"x")] * 3)
    operator = SqlQueueForwardOperator(task_id="t", queue_name=queue_name, to_queue=f"{queue_name}.to")
    result = operator.execute(context())
    assert (result["messages"], result["locked"], result["complete"]) == (3, 0, True)
    assert hook.depth(f"{queue_name}.to").messages == 3


def test_messages_that_match_are_forwarded(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    hook.create_queue(f"{queue_name}.to")
    hook.send(queue_name, [Message({"Shop.List": name}, b"x") for name in "abb"])
    filters = {"headers": {"Shop.List": "b"}}
    operator = SqlQueueForwardOperator(task_id="t", queue_name=queue_name, to_queue=f"{queue_name}.to", filters=filters)
    assert operator.execute(context())["messages"] == 2
    assert [hook.depth(name).messages for name in (queue_name, f"{queue_name}.to")] == [1, 2]


@pytest.mark.parametrize(
    "when", [{"delay": 3600}, {"delay": timedelta(hours=1)}, {"delay": "3600"}, {"due": "2099-01-31T12:00:00Z"}]
)
@pytest.mark.parametrize("exactly_once", [False, True])
def test_messages_are_sent_with_a_delay(
    hook: SqlQueueHook, queue_name: str, context: Any, when: dict[str, Any], exactly_once: bool
) -> None:
    hook.create_queue(queue_name, delayed=True)
    operator = SqlQueueSendOperator(
        task_id="send", queue_name=queue_name, messages=[{"body": "x"}], exactly_once=exactly_once, **when
    )
    run = context(run_id=uuid.uuid4().hex)
    assert [operator.execute(run) for _ in range(2)] == [1, 1]
    waiting = hook.client.delayed(queue_name).list()
    assert len(waiting) == (1 if exactly_once else 2)
    due = waiting[0].due
    assert due == datetime(2099, 1, 31, 12, tzinfo=timezone.utc) if "due" in when else due > datetime.now(timezone.utc)
    assert hook.depth(queue_name).messages == 0


@pytest.mark.parametrize("when", [{"delay": "soon"}, {"due": "tomorrow"}, {"delay": 1, "due": "2099-01-31T12:00:00Z"}])
def test_a_delay_that_means_nothing_fails_without_retry(
    hook: SqlQueueHook, queue_name: str, context: Any, when: dict[str, Any]
) -> None:
    operator = SqlQueueSendOperator(task_id="send", queue_name=queue_name, messages=[{"body": "x"}], **when)
    with pytest.raises(AirflowFailException, match=r"delay|due"):
        operator.execute(context())
