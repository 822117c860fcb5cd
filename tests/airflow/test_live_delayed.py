"""Delayed messages, events and requests through the hook and the operators, on a server, over ODBC."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_sqlqueue.errors import ConfigurationError, NoReplyError, QueueNotFoundError, TransactionError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.operators import SqlQueueMoveDelayedOperator, SqlQueuePublishOperator, SqlQueueSendOperator
from airflow_sqlqueue.queue.publishing.subscriptions import Subscription

NOW = timedelta(0)
PLACED = "Shop.OrderPlaced"


@pytest.fixture
def hook(live: str, queue_name: str) -> SqlQueueHook:
    hook = SqlQueueHook(live)
    hook.create_queue(queue_name, delayed=True)
    return hook


@pytest.fixture
def table(hook: SqlQueueHook) -> Iterator[str]:
    """A subscription table of the test's own."""
    name = f"test.{uuid.uuid4().hex[:12]}"
    columns = "QueueAddress nvarchar(200) NOT NULL, Endpoint nvarchar(200) NOT NULL, Topic nvarchar(200) NOT NULL"
    hook.client.run_sql(f"CREATE TABLE [dbo].[{name}] ({columns}, PRIMARY KEY (Endpoint, Topic))")
    yield name
    hook.client.run_sql(f"DROP TABLE [dbo].[{name}]")


def test_send_list_cancel_and_move(hook: SqlQueueHook, queue_name: str) -> None:
    assert (
        hook.client.delayed(queue_name).send([Message(body=b"%d" % n) for n in range(3)], delay=timedelta(hours=1)) == 3
    )
    hook.client.delayed(queue_name).send(
        [Message({HeaderNames.MESSAGE_ID: "m"})], due=datetime(2031, 1, 1, tzinfo=timezone.utc)
    )
    hook.client.delayed(queue_name).send([Message(body=b"now")], delay=NOW)
    now, first, *_ = hook.client.delayed(queue_name).list()
    assert len(hook.client.delayed(queue_name).list(2)) == 2
    assert hook.client.delayed(queue_name).cancel(row_versions=[first.row_version]) == 1
    assert hook.client.delayed(queue_name).cancel(message_id="m") == 1
    with pytest.raises(ConfigurationError, match="give one"):
        hook.client.delayed(queue_name).cancel()
    assert hook.client.delayed(queue_name).move().moved == 1
    assert [message.body for message in hook.receive(queue_name, 5)] == [b"now"]
    assert now not in hook.client.delayed(queue_name).list()


def test_a_message_goes_through_another_queue(hook: SqlQueueHook, queue_name: str) -> None:
    other = f"{queue_name}.other"
    hook.create_queue(other)
    hook.client.delayed(other).send([Message(body=b"a")], delay=NOW, through=queue_name)
    (waiting,) = hook.client.delayed(queue_name).list()
    values = decode_headers(waiting.headers).values
    assert values.pop(HeaderNames.TIME_SENT) is not None
    assert values == {HeaderNames.FORWARD_DESTINATION: hook.client.resolve(other).canonical}
    assert hook.client.delayed(queue_name).move().forwarded == 1
    assert [message.body for message in hook.receive(other)] == [b"a"]
    hook.client.tables.drop(other)


def test_delayed_sends_are_part_of_a_transaction(hook: SqlQueueHook, queue_name: str) -> None:
    def fail() -> None:
        with hook.transaction():
            hook.client.delayed(queue_name).send([Message()], delay=NOW)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    assert hook.client.delayed(queue_name).list() == []
    with hook.transaction(), pytest.raises(TransactionError, match="outside the transaction"):
        hook.client.delayed(queue_name).move()


@pytest.mark.parametrize("due", [5, [], "None"])
def test_a_value_that_is_no_due_time_fails_without_retry(
    hook: SqlQueueHook, queue_name: str, context: Any, due: Any
) -> None:
    send = SqlQueueSendOperator(task_id="t", queue_name=queue_name, messages=[{}], due="{{ due }}")
    send.due = due
    with pytest.raises(AirflowFailException, match="due is not a time: write it as"):
        send.execute(context())


def test_the_mover_returns_counts_and_logs_problems(
    hook: SqlQueueHook, queue_name: str, context: Any, capfd: Any
) -> None:
    hook.client.delayed(queue_name).send([Message(body=b"secret body")], delay=NOW)
    hook.client.delayed(queue_name).send([Message({HeaderNames.FORWARD_DESTINATION: "test.nowhere"})], delay=NOW)
    hook.client.delayed(queue_name).send([Message()], delay=timedelta(days=1))
    moved = SqlQueueMoveDelayedOperator(task_id="t", queue_name=queue_name).execute(context())
    counts = {name: moved[name] for name in ("moved", "forwarded", "failed", "left", "busy", "complete")}
    assert counts == {"moved": 1, "forwarded": 0, "failed": 0, "left": 1, "busy": False, "complete": True}
    assert "secret body" not in json.dumps(moved)
    assert datetime.fromisoformat(moved["next_due"]) <= datetime.now(timezone.utc)
    printed = capfd.readouterr().out
    assert "No message could be forwarded to 'test.nowhere'" in printed
    assert "secret body" not in printed
    error = f"{queue_name}.error"
    hook.create_queue(error)
    again = SqlQueueMoveDelayedOperator(task_id="t", queue_name=queue_name, error_queue=error).execute(context())
    assert (again["failed"], hook.depth(error).messages) == (1, 1)
    hook.client.tables.drop(error, force=True)


def test_a_mover_that_cannot_work_fails_without_retry(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    with pytest.raises(AirflowFailException, match="chunk must be 1 to 1,000"):
        SqlQueueMoveDelayedOperator(task_id="t", queue_name=queue_name, move_options={"chunk": 0}).execute(context())
    with pytest.raises(AirflowFailException, match="does not exist"):
        SqlQueueMoveDelayedOperator(task_id="t", queue_name="test.missing").execute(context())


def test_subscribe_and_publish(hook: SqlQueueHook, queue_name: str, table: str, context: Any) -> None:
    assert hook.client.subscriptions_in(table).subscribe(queue_name, [PLACED, "Shop.IEvent"]) == 2
    assert hook.client.subscriptions_in(table).subscribe("Other", [PLACED], queue_name=queue_name) == 1
    address = hook.client.resolve(queue_name).canonical
    assert hook.client.subscriptions_in(table).list()[0] == Subscription("Shop.IEvent", queue_name, address)
    operator = SqlQueuePublishOperator(
        task_id="publish",
        message_type=f"{PLACED}, Shop",
        base_types=["Shop.IEvent"],
        messages=lambda context: [{"body": {"order": 1}}, {"body": {"order": 2}}],
        subscription_table=table,
    )
    assert operator.execute(context(dag_id="shop")) == {"messages": 2, "queues": 1, "copies": 2}
    first, second = hook.receive(queue_name, 5)
    values = decode_headers(first.headers).values
    assert (first.body, second.body) == (b'{"order":1}', b'{"order":2}')
    assert values[HeaderNames.MESSAGE_INTENT] == "Publish"
    assert values[HeaderNames.ENCLOSED_MESSAGE_TYPES] == f"{PLACED}, Shop;Shop.IEvent"
    assert values[HeaderNames.ORIGINATING_ENDPOINT] == "airflow.shop"
    operator.execute(context(dag_id="shop"))
    again = decode_headers(hook.receive(queue_name)[0].headers).values
    assert again[HeaderNames.MESSAGE_ID] == values[HeaderNames.MESSAGE_ID]
    assert hook.client.subscriptions_in(table).unsubscribe("Other", [PLACED, "Shop.IEvent"]) == 1


def test_events_are_published_in_the_transaction_of_the_receive(
    hook: SqlQueueHook, queue_name: str, table: str
) -> None:
    hook.client.subscriptions_in(table).subscribe(queue_name, [PLACED])

    def fail() -> None:
        with hook.transaction():
            assert hook.client.subscriptions_in(table).publish([PLACED], [Message()]).copies == 1
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    assert hook.depth(queue_name).messages == 0


@pytest.mark.parametrize("message_type", ["", "Shop.A;Shop.B"])
def test_an_event_of_no_type_fails_without_retry(
    hook: SqlQueueHook, table: str, context: Any, message_type: str
) -> None:
    operator = SqlQueuePublishOperator(task_id="t", message_type=message_type, messages=[{}], subscription_table=table)
    with pytest.raises(AirflowFailException, match="is not the name of one type"):
        operator.execute(context())


def answer(hook: SqlQueueHook, queue_name: str) -> None:
    """Act as an endpoint: reply once a request is there."""
    while not (asked := hook.receive(queue_name)):
        pass
    values = decode_headers(asked[0].headers).values
    reply = Message({HeaderNames.CORRELATION_ID: values[HeaderNames.CORRELATION_ID]}, b"re:" + asked[0].body)
    hook.send(values[HeaderNames.REPLY_TO_ADDRESS] or "", [reply])


@pytest.mark.parametrize("shared", [False, True])
def test_a_request_gets_its_reply(hook: SqlQueueHook, queue_name: str, shared: bool) -> None:
    reply_queue = f"{queue_name}.replies" if shared else None
    if reply_queue:
        hook.create_queue(reply_queue)
    with ThreadPoolExecutor(1) as pool:
        answering = pool.submit(answer, SqlQueueHook(hook.get_conn_id()), queue_name)
        reply = hook.queue(queue_name).request(Message(body=b"ping"), timeout=60, reply_queue=reply_queue)
        answering.result(60)
    assert reply.body == b"re:ping"
    if reply_queue:
        hook.client.tables.drop(reply_queue)


def test_a_request_without_a_reply(hook: SqlQueueHook, queue_name: str) -> None:
    with pytest.raises(NoReplyError, match="within 0 seconds"):
        hook.queue(queue_name).request(Message(), timeout=0)
    address = decode_headers(hook.receive(queue_name)[0].headers).values[HeaderNames.REPLY_TO_ADDRESS]
    with pytest.raises(QueueNotFoundError):
        hook.depth(address or "")
    with hook.transaction(), pytest.raises(TransactionError, match="outside the transaction"):
        hook.queue(queue_name).request(Message(), timeout=0)
