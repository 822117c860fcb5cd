"""``SqlQueueConsumeOperator`` and ``@task.sqlqueue_consume`` on a server: ``execute``, and ``dag.test()``."""

from __future__ import annotations

import copy
import threading
import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import DAG, task

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.errors import AddressError, TooManyFailuresError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.operators import SqlQueueConsumeOperator
from tests.drains import bodies


@pytest.fixture
def error_queue(hook: SqlQueueHook, queue_name: str) -> Iterator[str]:
    name = f"{queue_name}.error"
    hook.create_queue(name)
    yield name
    hook.client.tables.drop(name, force=True)


@pytest.fixture
def make(queue_name: str, error_queue: str) -> Any:
    """Makes the operator; every failure is final unless the test says otherwise."""

    def make(python_callable: Any, op_kwargs: Any = None, **options: Any) -> SqlQueueConsumeOperator:
        flat = {name: options.pop(name) for name in ("endpoint", "max_messages") if name in options}
        defaults = {"error_queue": error_queue, "delayed_retries": 0, "immediate_retries": 0}
        return SqlQueueConsumeOperator(
            task_id="t",
            queue_name=options.pop("queue_name", queue_name),
            python_callable=python_callable,
            op_kwargs=op_kwargs,
            consume_options={**defaults, **options},
            **flat,
        )

    return make


def test_the_function_gets_the_message_and_its_arguments(
    hook: SqlQueueHook, queue_name: str, make: Any, context: Any
) -> None:
    hook.send(queue_name, [Message(body=b"1"), Message(body=b"2")])
    seen = []

    def handle(message: Any, ti: Any, suffix: str, *, hook: SqlQueueHook) -> None:
        seen.append((message.body, ti.task_id, suffix, hook.get_conn_id()))

    done = make(handle, op_kwargs={"suffix": "x"}, max_handlers=1).execute(context(task_id="t"))
    assert seen == [(b"1", "t", "x", "sqlqueue_default"), (b"2", "t", "x", "sqlqueue_default")]
    assert done["handled"] == done["messages"] == 2
    assert done.keys() == {
        "handled", "failed", "delayed", "forwarded", "duplicates", "discarded", "rolled_back", "handlers", "seconds",
        "messages",
    }  # fmt: skip


def test_functions_by_message_type_get_their_arguments(
    hook: SqlQueueHook, queue_name: str, make: Any, context: Any
) -> None:
    placed = {HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.OrderPlaced, Shop"}
    hook.send(queue_name, [Message(placed, b"1"), Message(placed, b"2"), Message({}, b"3")])
    handlers, seen = MessageHandlers(), []

    @handlers.batch("Shop.OrderPlaced")
    def handle_placed(messages: Any, ti: Any, hook: SqlQueueHook) -> None:
        seen.append(([message.body for message in messages], ti.task_id, hook.get_conn_id()))

    @handlers.default
    def handle_other(message: Any, suffix: str, client: QueueClient) -> None:
        seen.append(([message.body], suffix, client.settings.database))

    task = make(handlers, op_kwargs={"suffix": "x"}, max_handlers=1, inbox=True)
    # Airflow copies tasks.
    done = copy.deepcopy(task).execute(context(task_id="t"))
    database = hook.client.settings.database
    assert seen == [([b"1", b"2"], "t", "sqlqueue_default"), ([b"3"], "x", database)]
    assert (done["handled"], done["duplicates"]) == (3, 0)


def test_an_argument_without_a_value_is_an_error_before_anything_is_received(
    hook: SqlQueueHook, queue_name: str, make: Any, context: Any
) -> None:
    hook.send(queue_name, [Message(body=b"1")])
    handlers = MessageHandlers()
    handlers.default(lambda message, suffix: None)
    with pytest.raises(AirflowFailException, match="missing a required argument: 'suffix'"):
        make(handlers).execute(context())
    assert bodies(hook.client.queue(queue_name)) == [b"1"]


def test_messages_sent_by_the_hook_are_rolled_back_with_the_message(
    hook: SqlQueueHook, queue_name: str, error_queue: str, make: Any, context: Any
) -> None:
    hook.send(queue_name, [Message(body=b"1")])

    def handle(message: Any, hook: SqlQueueHook) -> None:
        hook.send(queue_name, [Message(body=b"sent")])
        raise ValueError

    assert make(handle, max_messages=1).execute(context())["failed"] == 1
    assert (bodies(hook.client.queue(queue_name)), bodies(hook.client.queue(error_queue))) == ([], [b"1"])


def test_messages_are_copied_to_the_audit_queue(
    hook: SqlQueueHook, queue_name: str, error_queue: str, make: Any, context: Any
) -> None:
    hook.send(queue_name, [Message(body=b"1")])
    make(lambda message: None, audit_queue=error_queue, endpoint="Shop").execute(context())
    (copy,) = hook.receive(error_queue)
    assert decode_headers(copy.headers).values[HeaderNames.PROCESSING_ENDPOINT] == "Shop"


def test_a_limit_on_failures_fails_the_task_with_its_counts(
    hook: SqlQueueHook, queue_name: str, error_queue: str, make: Any, context: Any, statsd: Any
) -> None:
    """Airflow tries it again: the cause may be gone by then."""
    hook.send(queue_name, [Message(body=b"%d" % n) for n in range(4)])

    def handle(message: Any) -> None:
        raise ValueError

    with pytest.raises(TooManyFailuresError, match="max_failed is 1"):
        make(handle, max_failed=1, max_handlers=1).execute(context())
    assert len(bodies(hook.client.queue(queue_name))) == len(bodies(hook.client.queue(error_queue))) == 2
    tags = f"conn_id=sqlqueue_default,queue=sqlqueue.dbo.{queue_name}"
    assert statsd.named("consume.failed") == {tags: 2}


def test_metrics_and_log(
    hook: SqlQueueHook, queue_name: str, make: Any, context: Any, statsd: Any, capsys: Any
) -> None:
    hook.send(queue_name, [Message(body=b"%d" % n) for n in range(4)])

    def handle(message: Any) -> None:
        if message.body == b"3":
            raise ValueError("secret of the message")

    done = make(handle).execute(context())
    tags = f"conn_id=sqlqueue_default,queue=sqlqueue.dbo.{queue_name}"
    for name, count in {"handled": 3, "failed": 1, "rolled_back": 1}.items():
        assert statsd.named(f"consume.{name}") == {tags: count}
    assert statsd.named("consume.seconds")[tags] == pytest.approx(done["seconds"] * 1000, abs=1)
    out = capsys.readouterr().out
    assert "1 message went to the error queue" in out
    assert "secret of the message" not in out


@pytest.mark.parametrize(
    ("handle", "says"),
    [
        ("shop.handle", "python_callable cannot be called"),
        (MessageHandlers(), "op_kwargs is a value of the type str"),
    ],
)
def test_a_text_in_the_place_of_a_function_or_its_arguments_fails_without_retry(
    make: Any, context: Any, handle: Any, says: str
) -> None:
    with pytest.raises(AirflowFailException, match=says):
        make(handle, op_kwargs="{'a': 1}" if isinstance(handle, MessageHandlers) else None).execute(context())


def test_a_template_may_leave_out_the_arguments(make: Any, context: Any) -> None:
    consume = make(lambda message: None)
    consume.op_kwargs = None
    assert consume.execute(context())["handled"] == 0


@pytest.mark.parametrize("arguments", [{"op_kwargs": {"other": 1}}, {"python_callable": lambda: None}])
def test_a_function_that_cannot_be_called_costs_no_message(
    hook: SqlQueueHook, queue_name: str, make: Any, context: Any, arguments: dict[str, Any]
) -> None:
    hook.send(queue_name, [Message(body=b"1")])
    handle = arguments.pop("python_callable", lambda message: None)
    with pytest.raises(AirflowFailException, match="cannot be called with a message"):
        make(handle, **arguments).execute(context())
    assert bodies(hook.client.queue(queue_name)) == [b"1"]


def test_a_killed_task_ends_after_its_current_message(
    hook: SqlQueueHook, queue_name: str, make: Any, context: Any
) -> None:
    hook.send(queue_name, [Message(body=b"%d" % n) for n in range(3)])
    killing = threading.Event()
    operator = make(lambda message: (operator.on_kill(), killing.set()), max_handlers=1, until_empty=False)
    with pytest.raises(AirflowException, match="Airflow ended the task"):
        operator.execute(context())
    assert killing.is_set()
    assert bodies(hook.client.queue(queue_name)) == [b"1", b"2"]


def test_a_task_that_is_killed_before_it_starts_receives_nothing(
    hook: SqlQueueHook, queue_name: str, make: Any, context: Any
) -> None:
    hook.send(queue_name, [Message(body=b"1")])
    operator = make(print)
    operator.on_kill()
    with pytest.raises(AirflowException, match="Airflow ended the task"):
        operator.execute(context())
    assert bodies(hook.client.queue(queue_name)) == [b"1"]


def test_a_missing_queue_fails_without_retry(make: Any, context: Any) -> None:
    with pytest.raises(AirflowFailException, match="missing"):
        make(print, queue_name="missing").execute(context())


def test_the_decorator_makes_a_task_of_the_handler(
    hook: SqlQueueHook, queue_name: str, error_queue: str, context: Any
) -> None:
    hook.send(queue_name, [Message(body=b"1"), Message(body=b"2")])
    seen = []

    @task.sqlqueue_consume(queue_name=queue_name, consume_options={"error_queue": error_queue, "max_handlers": 1})
    def handle(message: Any, ti: Any, suffix: str, hook: Any) -> None:
        seen.append((message.body, ti.task_id, suffix, hook.get_conn_id()))

    with DAG("decorated", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
        made = handle(suffix="x").operator
    assert isinstance(made, SqlQueueConsumeOperator)
    assert made.execute(context(task_id="handle"))["handled"] == 2
    assert seen == [(b"1", "handle", "x", "sqlqueue_default"), (b"2", "handle", "x", "sqlqueue_default")]


def test_the_decorator_refuses_arguments_in_the_place_of_the_message(queue_name: str) -> None:
    @task.sqlqueue_consume(queue_name=queue_name)
    def handle(message: Any, to: str) -> None: ...

    with (
        DAG("refused", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)),
        pytest.raises(TypeError, match="by name"),
    ):
        handle("orders")


def test_an_endpoint_is_found_by_its_name(hook: SqlQueueHook, context: Any) -> None:
    name = f"test.{uuid.uuid4().hex[:12]}"
    hook.create_queue(f"{name}@[shipping]", create_schema=True)
    hook.create_queue(f"{name}.error")
    options = {"error_queue": f"{name}.error", "unrecoverable": [ZeroDivisionError]}
    hook.send(f"{name}@[shipping]", [Message({}, b"x")])
    consume = SqlQueueConsumeOperator(
        task_id="t",
        endpoint=name,
        python_callable=lambda message: 1 / 0,
        consume_options=options,
        hook_params={"endpoint_schemas": {name: "shipping"}},
    )
    assert consume.execute(context())["failed"] == 1
    (failed,) = hook.receive(f"{name}.error")
    headers = decode_headers(failed.headers).values
    assert headers[HeaderNames.FAILED_Q] == f"{name}@[shipping]@[sqlqueue]"
    assert headers[HeaderNames.PROCESSING_ENDPOINT] == name
    for address in (f"{name}@[shipping]", f"{name}.error"):
        hook.client.tables.drop(address)


def test_a_task_without_a_queue_is_refused() -> None:
    with pytest.raises(AddressError, match="give queue_name or endpoint"):
        SqlQueueConsumeOperator(task_id="t", python_callable=print)
