"""Batches for a Python function, and filters of operators, on a server: ``execute``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import HeaderNames, Message, ReceivedMessage
from airflow_sqlqueue.operators import SqlQueueConsumeOperator, SqlQueueDrainOperator, SqlQueuePurgeOperator
from airflow_sqlqueue.sensors import SqlQueueDepthSensor
from airflow_sqlqueue.triggers import SqlQueueDepthTrigger

Messages = Iterator[ReceivedMessage]


def python_drain(queue_name: str, staging: Any, **arguments: Any) -> SqlQueueDrainOperator:
    return SqlQueueDrainOperator(task_id="task", queue_name=queue_name, staging=staging, **arguments)


def numbers(hook: SqlQueueHook, queue_name: str, count: int) -> None:
    endpoints = ("Sales", "Billing")
    messages = [Message({HeaderNames.ORIGINATING_ENDPOINT: endpoints[n % 2]}, b"%d" % n) for n in range(count)]
    hook.send(queue_name, messages)


@pytest.mark.parametrize("stage", ["files", "table"])
def test_a_function_gets_the_messages_in_order(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, run_id: str, stage: str
) -> None:
    numbers(hook, queue_name, 50)

    def total(messages: Messages, batch: Batch, hook: SqlQueueHook, ti: Any, factor: int) -> list[Any]:
        seen = [int(message.body) for message in messages]
        assert seen == list(range(50))
        return [sum(seen) * factor, batch.batch_id, hook.client.batches.list(queue_name)[0].state, ti.run_id]

    staging = str(tmp_path) if stage == "files" else None
    done = python_drain(queue_name, staging, stage=stage, python_callable=total, op_kwargs={"factor": 2}).execute(
        context()
    )
    assert done["result"] == [2450, done["batch"]["batch_id"], "sealed", run_id]
    assert done["batch"]["state"] == "consumed"


def test_a_batch_whose_result_xcom_cannot_store_stays(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any
) -> None:
    numbers(hook, queue_name, 3)
    results: list[Any] = [b"bytes", "text"]
    task = python_drain(queue_name, str(tmp_path), python_callable=lambda messages: results.pop(0))
    with pytest.raises(AirflowFailException, match="XCom cannot store the result"):
        task.execute(context())
    assert hook.client.batches.list(queue_name)[0].state == "sealed"
    done = task.execute(context())
    assert (done["result"], done["batch"]["state"]) == ("text", "consumed")


@pytest.mark.parametrize("do_xcom_push", [True, False])
@pytest.mark.parametrize("kind", ["generator", "coroutine", "asynchronous generator"])
def test_a_batch_that_no_code_has_read_stays(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, kind: str, do_xcom_push: bool
) -> None:
    """A function may return what only runs when somebody asks it to, as that of a method or a lambda."""

    async def coroutine() -> None:
        raise AssertionError

    async def asynchronous_generator() -> AsyncIterator[None]:
        yield

    results: dict[str, Callable[[Messages], Any]] = {
        "generator": lambda messages: (message.body for message in messages),
        "coroutine": lambda messages: coroutine(),
        "asynchronous generator": lambda messages: asynchronous_generator(),
    }
    numbers(hook, queue_name, 3)
    task = python_drain(queue_name, str(tmp_path), python_callable=results[kind], do_xcom_push=do_xcom_push)
    with pytest.raises(AirflowFailException, match="so nothing ran"):
        task.execute(context())
    assert hook.client.batches.list(queue_name)[0].state == "sealed"


def test_a_function_that_fails_gets_the_same_batch_again(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any
) -> None:
    numbers(hook, queue_name, 20)
    got: list[tuple[str, list[bytes]]] = []

    def fails_at_first(messages: Messages, batch: Batch) -> None:
        got.append((batch.batch_id, [message.body for message in messages]))
        if len(got) == 1:
            raise ValueError("the sink is away")

    task = python_drain(queue_name, str(tmp_path), python_callable=fails_at_first)
    with pytest.raises(ValueError, match="the sink is away"):
        task.execute(context())
    assert hook.client.batches.list(queue_name)[0].state == "sealed"
    numbers(hook, queue_name, 5)
    task = python_drain(queue_name, str(tmp_path / "other"), python_callable=fails_at_first)
    assert task.execute(context())["batch"]["state"] == "consumed", "the retry may have another folder for new batches"
    assert got[0] == got[1]
    task.execute(context())
    assert len(got) == 2, "a consumed batch is not handed out again"
    assert hook.depth(queue_name).messages == 5


def test_uncallable_functions_are_refused_before_the_drain(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any
) -> None:
    def generator(messages: Messages) -> Iterator[int]:
        yield 1

    async def coroutine(messages: Messages) -> None:
        pass

    def too_much(messages: Messages, something: int) -> None:
        pass

    numbers(hook, queue_name, 2)
    for function, sentence in ((generator, "generator"), (coroutine, "asynchronous"), (too_much, "something")):
        with pytest.raises(AirflowFailException, match=sentence):
            python_drain(queue_name, str(tmp_path), python_callable=function).execute(context())
    assert hook.depth(queue_name).messages == 2


def test_operators_take_filters(hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any) -> None:
    numbers(hook, queue_name, 40)
    done = python_drain(queue_name, str(tmp_path), filters={"endpoint": "Sales"}).execute(context())
    assert done["batch"]["messages"] == 20
    with pytest.raises(AirflowFailException, match="another filter"):
        python_drain(queue_name, str(tmp_path), filters={"endpoint": "Billing"}).execute(context())
    with pytest.raises(AirflowFailException, match="since is not a time"):
        python_drain(queue_name, str(tmp_path), filters={"since": "soon"}).execute(context())
    sensor = SqlQueueDepthSensor(
        task_id="s", queue_name=queue_name, wait_for={"min_messages": 20, "filters": {"endpoint": "Billing"}}
    )
    assert sensor.poke(context()).xcom_value == {"messages": 20, "expired": 0}
    path, arguments = sensor.trigger().serialize()
    assert SqlQueueDepthTrigger(**arguments).serialize() == (path, arguments)
    hook.create_queue(f"{queue_name}.error")
    seen: list[bytes] = []
    consume = SqlQueueConsumeOperator(
        task_id="c",
        queue_name=queue_name,
        python_callable=lambda message: seen.append(message.body),
        filters={"endpoint": "Billing"},
        max_messages=1,
        consume_options={"max_handlers": 1, "error_queue": f"{queue_name}.error"},
    )
    consume.execute(context())
    hook.client.tables.drop(f"{queue_name}.error")
    assert seen == [b"1"]
    purge = SqlQueuePurgeOperator(task_id="p", queue_name=queue_name, filters={"endpoint": "Billing"}, confirm=True)
    assert purge.execute(context())["deleted"] == 19
    assert hook.depth(queue_name).messages == 0


def test_each_run_copies_what_is_new(hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any) -> None:
    """The copy is named after DAG and task, and the sensor counts what it does not have."""
    got: list[list[bytes]] = []
    task = python_drain(
        queue_name,
        str(tmp_path),
        copy=True,
        incremental=True,
        renew=True,
        python_callable=lambda messages: got.append([message.body for message in messages]),
    )
    numbers(hook, queue_name, 3)
    task.execute(context())
    (copy,) = hook.client.copies.list(queue_name)
    ti = context()["ti"]
    assert (copy.name, copy.messages) == (f"{ti.dag_id}.{ti.task_id}", 3)
    sensor = SqlQueueDepthSensor(
        task_id="s", queue_name=queue_name, wait_for={"min_messages": 2, "incremental": copy.name}
    )
    assert not sensor.poke(context())
    hook.send(queue_name, [Message(body=b"new 1"), Message(body=b"new 2")])
    assert sensor.poke(context()).xcom_value == {"messages": 2, "expired": 0}
    path, arguments = sensor.trigger().serialize()
    assert SqlQueueDepthTrigger(**arguments).serialize() == (path, arguments)
    task.execute(context())
    assert got == [[b"0", b"1", b"2"], [b"new 1", b"new 2"]]
    task.incremental = "another copy"
    task.execute(context())
    assert len(got[-1]) == 5
    task.incremental = "True"
    numbers(hook, queue_name, 1)
    task.execute(context())
    assert len(got[-1]) == 1, "a template renders True to its word, which is no name: other tasks would have it too"
    for without in ("False", "None", None, False):
        task.incremental = without
        task.execute(context(run_id=f"without {without!r}"))
        assert len(got[-1]) == 6, without
    assert {each.name for each in hook.client.copies.list(queue_name)} == {copy.name, "another copy"}
    task.incremental, task.copy = "another copy", False
    with pytest.raises(AirflowFailException, match="give copy as well"):
        task.execute(context())
    assert hook.depth(queue_name).messages == 6
