"""The operator that sends a request and waits for its reply, with an endpoint that answers."""

from __future__ import annotations

import asyncio
import json
import traceback
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.execution_time.comms import SetXCom

from airflow_sqlqueue import reply
from airflow_sqlqueue.errors import ConfigurationError, NoReplyError, ServerUnreachableError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.envelope.outgoing import Sender
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.operators import SqlQueueRequestOperator
from airflow_sqlqueue.operators.base import task_key
from airflow_sqlqueue.operators.results import check_result
from airflow_sqlqueue.triggers import SqlQueueReplyTrigger

BODY = b'{"price": "secret"}'


@pytest.fixture
def replies(hook: SqlQueueHook) -> Iterator[str]:
    name = f"test.{uuid.uuid4().hex[:12]}"
    hook.create_queue(name)
    yield name
    hook.client.tables.drop(name, force=True)


Ask = Callable[..., SqlQueueRequestOperator]


@pytest.fixture
def ask(queue_name: str, replies: str) -> Ask:
    def make(**options: Any) -> SqlQueueRequestOperator:
        arguments = {"message": {"body": {"article": 4}}, "poll_interval": 0.05, "deferrable": True, **options}
        return SqlQueueRequestOperator(task_id="task", queue_name=queue_name, reply_queue=replies, **arguments)

    return make


@pytest.fixture
def answer(hook: SqlQueueHook, queue_name: str) -> Callable[[], None]:
    """Act as the endpoint: receive one request and reply to its reply address."""

    def once() -> None:
        (request,) = hook.receive(queue_name, 2)
        address, message = reply(request, BODY, endpoint="Pricing", message_type="Shop.Price")
        hook.send(address, [message])

    return once


def deferred(operator: SqlQueueRequestOperator, context: Any) -> SqlQueueReplyTrigger:
    with pytest.raises(TaskDeferred) as raised:
        operator.execute(context)
    trigger = raised.value.trigger
    assert isinstance(trigger, SqlQueueReplyTrigger)
    assert raised.value.kwargs == {"message_id": trigger.correlation_id}
    return trigger


async def event_of(trigger: SqlQueueReplyTrigger) -> Any:
    path, arguments = trigger.serialize()
    assert path == "airflow_sqlqueue.triggers.reply.SqlQueueReplyTrigger"
    again = SqlQueueReplyTrigger(**json.loads(json.dumps(arguments)))
    async for event in again.run():
        return event.payload


def test_the_reply_is_waited_for_deferred_and_handed_on(
    hook: SqlQueueHook, replies: str, ask: Ask, answer: Callable[[], None], context: Any
) -> None:
    def price(received: Envelope, key: str) -> int:
        return len(received.json()[key])

    operator = ask(python_callable=price, op_kwargs={"key": "price"})
    hook.send(replies, [Message({HeaderNames.CORRELATION_ID: "another's"})])
    trigger = deferred(operator, context())
    answer()
    event = asyncio.run(event_of(trigger))
    done = operator.execute_complete(context(), event, message_id=trigger.correlation_id)
    assert done["result"] == len("secret")
    assert (done["reply"]["message_type"], done["reply"]["error_code"]) == ("Shop.Price", None)
    assert done["reply"]["bytes"] == len(BODY)
    assert done["message_id"] == trigger.correlation_id
    assert "secret" not in json.dumps([done, event])
    assert hook.depth(replies).messages == 1, "the reply of another request"


def test_a_retry_sends_no_second_request(
    hook: SqlQueueHook, queue_name: str, ask: Ask, answer: Callable[[], None], context: Any
) -> None:
    first = deferred(ask(), context())
    assert deferred(ask(), context()).correlation_id == first.correlation_id
    assert hook.depth(queue_name).messages == 1
    answer()
    assert ask().execute(context())["message_id"] == first.correlation_id
    assert hook.depth(queue_name).messages == 0


def test_the_id_of_a_request_cannot_be_known_beforehand(
    hook: SqlQueueHook, replies: str, ask: Ask, answer: Callable[[], None], context: Any
) -> None:
    """Or a reply could be put into the queue before the request, by a sender who sees nothing of it."""
    key = "\0".join(map(str, task_key(context())))
    (known,) = Sender(key=key, endpoint="airflow.dag").messages([{}])
    first = deferred(ask(), context())
    hook.send(replies, [Message({HeaderNames.CORRELATION_ID: str(known.id)}, b"planted")])
    answer()
    done = ask().execute(context())
    assert done["message_id"] == first.correlation_id != str(known.id)
    assert done["reply"]["bytes"] == len(BODY)
    hook.client.run_sql("DELETE FROM [sqlqueue].[Send]")
    assert deferred(ask(), context()).correlation_id != first.correlation_id


def test_another_run_asks_again(hook: SqlQueueHook, queue_name: str, ask: Ask, context: Any) -> None:
    triggers = [deferred(ask(), each) for each in (context(), context(map_index=0), context(run_id=uuid.uuid4().hex))]
    assert len({trigger.correlation_id for trigger in triggers}) == 3
    headers = [decode_headers(head.headers).values for head in hook.client.queue(queue_name).browse(10)]
    assert {each[HeaderNames.MESSAGE_ID] for each in headers} == {trigger.correlation_id for trigger in triggers}


@pytest.mark.parametrize("error", [RuntimeError("not now"), ServerUnreachableError("not now")], ids=repr)
@pytest.mark.parametrize("deferrable", [True, False])
def test_a_reply_that_the_callable_refuses_is_there_for_the_next_try(
    ask: Ask, answer: Callable[[], None], context: Any, error: Exception, deferrable: bool
) -> None:
    """A poll passes over a server that is away, but not over an error of the callable, as of another server's hook."""

    def refuse(received: Envelope) -> None:
        raise error

    deferred(ask(), context())
    answer()
    with pytest.raises(type(error), match="not now"):
        ask(python_callable=refuse, deferrable=deferrable, wait_timeout=0).execute(context())
    assert ask(python_callable=lambda received: "taken").execute(context())["result"] == "taken"


class Opaque:
    def __repr__(self) -> str:
        return "s3cret"


REFUSED: list[Any] = [
    b"s3cret",
    {"of": [b"s3cret"]},
    Opaque(),
    {"s3cret": float("nan")},
    [float("-inf")],
    2**64,
    "s3cret\0",
    {"s3cret\ud800": 1},
    {"__classname__": "s3cret"},
]
STORED: list[Any] = [None, True, 1.5, 2**63, "text", {"a": [1, None]}, (1, 2), {1, 2}, uuid.UUID(int=1), timedelta(1)]


def test_a_reply_whose_result_xcom_cannot_store_stays(
    hook: SqlQueueHook, replies: str, ask: Ask, answer: Callable[[], None], context: Any
) -> None:
    deferred(ask(), context())
    answer()
    for result in REFUSED:
        with pytest.raises(AirflowFailException, match="XCom cannot store the result of python_callable") as raised:
            ask(python_callable=lambda received, result=result: result).execute(context())
        assert "s3cret" not in "".join(traceback.format_exception(raised.value))
        assert hook.depth(replies).messages == 1, type(result)
    assert ask(python_callable=lambda received: "again").execute(context())["result"] == "again"


def test_a_request_is_not_taken_for_its_own_reply(hook: SqlQueueHook, queue_name: str, ask: Ask, context: Any) -> None:
    task = ask(deferrable=False)
    for spelling in ("{}", "{}@[dbo]", "{}@[dbo]@[sqlqueue]"):
        task.reply_queue = spelling.format(queue_name.upper())
        with pytest.raises(AirflowFailException, match="is its own reply queue"):
            task.execute(context())
        with pytest.raises(ConfigurationError, match="is its own reply queue"):
            hook.queue(queue_name).request(Message(), timeout=0, reply_queue=task.reply_queue)
    assert hook.depth(queue_name).messages == 0


def test_a_call_that_cannot_work_is_refused_before_the_request_is_sent(
    hook: SqlQueueHook, queue_name: str, ask: Ask, context: Any
) -> None:
    calls: list[tuple[dict[str, Any], str]] = [
        ({"python_callable": print, "op_kwargs": "{'a': 1}"}, "op_kwargs is a value of the type str"),
        ({"python_callable": "shop.price_of"}, "python_callable cannot be called"),
        ({"python_callable": lambda reply: None, "op_kwargs": {"a": 1}}, "cannot be called with a message"),
    ]
    for given, says in calls:
        with pytest.raises(AirflowFailException, match=says):
            ask(**given).execute(context())
    assert hook.depth(queue_name).messages == 0


def test_a_result_that_xcom_can_store_is_accepted(ask: Ask, context: Any) -> None:
    for result in STORED:
        check_result(ask(), context(), result)
        SetXCom(key="k", value=BaseXCom.serialize_value(result), dag_id="d", run_id="r", task_id="t")


def test_a_task_without_xcom_may_return_anything(ask: Ask, context: Any) -> None:
    for result in REFUSED:
        check_result(ask(do_xcom_push=False), context(), result)


def test_a_backend_of_xcom_decides_about_what_airflows_own_refuses(
    ask: Ask, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Backend(BaseXCom):
        @staticmethod
        def serialize_value(value: Any, **of: Any) -> Any:
            asked.append(of["task_id"])
            if not isinstance(value, bytes):
                raise TypeError("s3cret")
            return "stored elsewhere"

    monkeypatch.setattr("airflow.sdk.execution_time.xcom.XCom", Backend)
    check_result(ask(), context(), {"a": 1})
    assert asked == [], "it may write a file for each question"
    check_result(ask(), context(), b"bytes")
    assert asked == ["task"]
    with pytest.raises(ConfigurationError, match="XCom cannot store"):
        check_result(ask(), context(), Opaque())


def test_a_reply_that_is_gone_again_is_waited_for(
    hook: SqlQueueHook, replies: str, ask: Ask, answer: Callable[[], None], context: Any
) -> None:
    trigger = deferred(ask(), context())
    answer()
    event = asyncio.run(event_of(trigger))
    (taken,) = hook.receive(replies, 2)
    with pytest.raises(TaskDeferred):
        ask().execute_complete(context(), event, message_id=trigger.correlation_id)
    hook.send(replies, [Message(decode_headers(taken.headers).values, taken.body)])
    done = ask().execute_complete(context(), event, message_id=trigger.correlation_id)
    assert done["reply"]["bytes"] == len(BODY)


def test_no_reply_in_time_fails_the_try(ask: Ask, replies: str, context: Any) -> None:
    with pytest.raises(NoReplyError, match=f"No reply came to {replies}"):
        ask(deferrable=False, wait_timeout=0.1).execute(context())
    with pytest.raises(NoReplyError):
        ask().resume_execution("__fail__", {"error": "Trigger timeout"}, context())


def test_ids_of_ones_own_are_refused(ask: Ask, context: Any) -> None:
    for message in ({"key": "mine"}, {"correlation_id": "mine"}, {"headers": {HeaderNames.MESSAGE_ID: "mine"}}):
        with pytest.raises(AirflowFailException, match="has its own ids"):
            ask(message=message).execute(context())


def test_a_function_may_make_the_request(hook: SqlQueueHook, queue_name: str, ask: Ask, context: Any) -> None:
    deferred(ask(message=lambda context: {"body": context["ti"].run_id}), context(run_id="the run"))
    assert hook.client.queue(queue_name).peek(1)[0].body == b"the run"
    with pytest.raises(AirflowFailException, match="not a mapping"):
        ask(message=lambda context: "text").execute(context())
