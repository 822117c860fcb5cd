"""The operators that create, send and purge on a server, over ODBC: ``execute``, without a metadata database."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, ObjectStoragePath, XComArg

from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.envelope import Envelope, reply
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.operators import (
    SqlQueueConsumeOperator,
    SqlQueueCreateOperator,
    SqlQueueDrainOperator,
    SqlQueueDrainToSparkOperator,
    SqlQueueFailedMessagesOperator,
    SqlQueueForwardOperator,
    SqlQueuePublishOperator,
    SqlQueuePurgeExpiredOperator,
    SqlQueuePurgeOperator,
    SqlQueueSendOperator,
)
from airflow_sqlqueue.sensors import SqlQueueDepthSensor


def test_create_makes_tables_once(live: str, context: Any) -> None:
    name = f"test.{uuid.uuid4().hex[:12]}"
    address = f"{name}@[dbo]@[sqlqueue]"
    assert SqlQueueCreateOperator(task_id="first", queue_name=name).execute(context()) == [address]
    again = SqlQueueCreateOperator(task_id="again", queue_name=name, delayed=True)
    assert again.execute(context()) == [f"{name}.Delayed@[dbo]@[sqlqueue]"]
    assert again.execute(context()) == []


def test_create_tells_how_a_table_differs(live: str, context: Any, capfd: Any) -> None:
    name = f"test.{uuid.uuid4().hex[:12]}"
    SqlQueueCreateOperator(task_id="old", queue_name=name, layout="v1").execute(context())
    SqlQueueCreateOperator(task_id="new", queue_name=name, layout="v4").execute(context())
    assert "the column Headers is varchar(max) NOT NULL, not nvarchar(max) NOT NULL" in capfd.readouterr().out


def test_create_refuses_a_table_that_is_no_queue_without_retry(hook: SqlQueueHook, context: Any) -> None:
    name = f"test.{uuid.uuid4().hex[:12]}"
    hook.run(f"CREATE TABLE {hook.client.resolve(name).qualified_name} ([Id] int NOT NULL)", autocommit=True)
    with pytest.raises(AirflowFailException, match="is not a queue table"):
        SqlQueueCreateOperator(task_id="t", queue_name=name).execute(context())


@pytest.mark.parametrize("function", [False, True])
def test_messages_that_are_no_list_fail_without_retry(queue_name: str, context: Any, function: bool) -> None:
    with DAG("dag", schedule=None):
        for number, given in enumerate([None, XComArg(EmptyOperator(task_id="make"))]):
            messages: Any = (lambda context, given=given: given) if function else given
            send = SqlQueueSendOperator(task_id=f"send{number}", queue_name=queue_name, messages=messages)
            publish = SqlQueuePublishOperator(task_id=f"publish{number}", message_type="Shop.A", messages=messages)
            for task in (send, publish):
                with pytest.raises(AirflowFailException, match="messages is a value of the type"):
                    task.execute(context())


def test_send_fills_in_headers_and_repeats_its_ids(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    operator = SqlQueueSendOperator(
        task_id="send",
        queue_name=queue_name,
        messages=lambda context: [{"body": {"for": context["ti"].dag_id}}, {"body": "<x/>", "time_to_be_received": 60}],
        enclosed_message_types="Shop.Messages.PlaceOrder",
    )
    assert operator.execute(context(dag_id="shop")) == 2
    assert operator.execute(context(dag_id="shop")) == 2
    rows = hook.receive(queue_name, 10)
    headers = [decode_headers(row.headers).values for row in rows]
    assert [row.body for row in rows] == [b'{"for":"shop"}', b"<x/>"] * 2
    assert [row.expires is None for row in rows] == [True, False] * 2
    ids = [values[HeaderNames.MESSAGE_ID] for values in headers]
    assert ids[:2] == ids[2:]
    assert ids[0] != ids[1]
    assert headers[0][HeaderNames.ORIGINATING_ENDPOINT] == "airflow.shop"
    assert headers[0][HeaderNames.ENCLOSED_MESSAGE_TYPES] == "Shop.Messages.PlaceOrder"


def test_ids_of_keys_survive_a_retry_that_sends_fewer_in_another_order(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any
) -> None:
    (tmp_path / "b").write_bytes(b"from a file")
    path = ObjectStoragePath(f"file://{tmp_path}/b")
    tries = [
        [{"key": "a", "message_type": "Shop.A"}, {"key": "b", "body": path, "reply_to": "Sales"}, {"key": "c"}],
        [{"key": "c"}, {"key": "b", "body": path, "reply_to": "Sales"}],
    ]
    operator = SqlQueueSendOperator(
        task_id="send", queue_name=queue_name, messages=lambda context: tries.pop(0), enclosed_message_types="Shop.Any"
    )
    assert [operator.execute(context()), operator.execute(context())] == [3, 2]
    first_a, first_b, first_c, again_c, again_b = (Envelope.of(row) for row in hook.receive(queue_name, 10))
    assert (again_b.identity, again_c.identity) == (first_b.identity, first_c.identity)
    assert again_b.row_id == first_b.row_id == uuid.UUID(first_b.identity.message_id)
    assert [one.content.message_type for one in (first_a, first_b)] == ["Shop.A", "Shop.Any"]
    assert (first_b.body, first_b.routing.reply_to_address) == (b"from a file", "Sales")
    assert hook.depth(queue_name).messages == 0


def test_a_body_that_cannot_be_read_yet_is_tried_again_and_nothing_is_sent(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any
) -> None:
    missing = ObjectStoragePath(f"file://{tmp_path}/missing")
    operator = SqlQueueSendOperator(task_id="t", queue_name=queue_name, messages=[{}, {"body": missing}])
    with pytest.raises(FileNotFoundError):
        operator.execute(context())
    assert hook.depth(queue_name).messages == 0


def test_a_reply_reaches_the_queue_that_the_request_names(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    SqlQueueSendOperator(
        task_id="t", queue_name=queue_name, messages=[{"reply_to": hook.client.resolve(queue_name)}]
    ).execute(context())
    (request,) = hook.receive(queue_name)
    address, answer = reply(request, {"ok": True}, endpoint="airflow.dag")
    hook.send(address, [answer])
    (received,) = hook.receive(queue_name)
    assert Envelope.of(received).identity.correlation_id == Envelope.of(request).identity.message_id
    assert Envelope.of(received).json() == {"ok": True}


def test_a_repeated_task_sends_once_where_it_keeps_the_ledger(
    hook: SqlQueueHook, queue_name: str, context: Any
) -> None:
    operator = SqlQueueSendOperator(task_id="s", queue_name=queue_name, messages=[{}, {}], exactly_once=True)
    assert [operator.execute(context(run_id="one")), operator.execute(context(run_id="one"))] == [2, 2]
    assert operator.execute(context(run_id="two")) == 2
    assert hook.depth(queue_name).messages == 4


def test_a_message_that_cannot_be_sent_fails_without_retry_and_sends_nothing(
    hook: SqlQueueHook, queue_name: str, context: Any
) -> None:
    operator = SqlQueueSendOperator(task_id="t", queue_name=queue_name, messages=[{}, {"body": {1}}])
    with pytest.raises(AirflowFailException, match="Message 1 cannot be sent"):
        operator.execute(context())
    assert hook.depth(queue_name).messages == 0


def test_purge_deletes_expired_messages(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    hook.send(queue_name, [Message({}, b"", timedelta(seconds=-1)), Message({}, b"stays")])
    count = SqlQueuePurgeExpiredOperator(task_id="count", queue_name=queue_name, only_count=True).execute(context())
    assert (count["deleted"], count["remaining"]) == (0, 1)
    purged = SqlQueuePurgeExpiredOperator(task_id="purge", queue_name=queue_name).execute(context())
    assert (purged["deleted"], purged["remaining"], purged["complete"]) == (1, 0, True)
    assert [message.body for message in hook.client.queue(queue_name).peek()] == [b"stays"]


def test_purge_deletes_old_ones_and_all(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    old = {"NServiceBus.TimeSent": "2020-01-01 00:00:00:000000 Z"}
    hook.send(queue_name, [Message(old), Message({"NServiceBus.TimeSent": None}, b"undated"), Message(old)])
    week = timedelta(days=7)
    purge = SqlQueuePurgeOperator(task_id="old", queue_name=queue_name, older_than=week, confirm=True, max_messages=1)
    assert purge.execute(context())["deleted"] == 1
    purge.max_messages = None
    purged = purge.execute(context())
    assert (purged["deleted"], purged["remaining"], purged["undated"], purged["complete"]) == (1, 0, 1, True)
    count = SqlQueuePurgeOperator(task_id="count", queue_name=queue_name, all_messages=True, only_count=True)
    assert count.execute(context())["remaining"] == 1
    every = SqlQueuePurgeOperator(task_id="all", queue_name=queue_name, all_messages=True, confirm=True)
    assert every.execute(context())["deleted"] == 1
    assert hook.depth(queue_name).total == 0


def test_tasks_take_the_secondary_queues_too(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    """All of them by the same option, in the mapping of each task."""
    machine = f"{queue_name}.WEB01"
    hook.create_queue(machine)
    hook.create_queue("error")
    both = {"secondary": True}
    named = {"endpoint": queue_name}
    sent = SqlQueueSendOperator(task_id="s", endpoint=queue_name, instance="WEB01", messages=[{"body": "x"}] * 3)
    assert sent.execute(context()) == 3
    hook.send(queue_name, [Message()])
    assert hook.depth(machine).messages == 3
    sensor = SqlQueueDepthSensor(task_id="w", wait_for={"min_messages": 4, **both}, **named)
    assert sensor.poke(context()).xcom_value == {"messages": 4, "expired": 0}
    assert sensor.trigger().serialize()[1]["wait_for"] == '{"kind": "exact", "min_messages": 4, "secondary": true}'
    handle = SqlQueueConsumeOperator(
        task_id="c", python_callable=lambda message: None, max_messages=2, consume_options=both, **named
    )
    assert handle.execute(context())["handled"] == 2
    purge = SqlQueuePurgeOperator(task_id="p", all_messages=True, confirm=True, purge_options=both, **named)
    purged = purge.execute(context())
    assert (purged["deleted"], len(purged["queues"])) == (2, 2)
    assert sum(each["deleted"] for each in purged["queues"].values()) == 2
    hook.client.tables.drop(machine)


def test_a_missing_queue_is_not_retried(live: str, context: Any) -> None:
    with pytest.raises(AirflowFailException, match=r"test\.missing"):
        SqlQueuePurgeExpiredOperator(task_id="t", queue_name="test.missing").execute(context())


def test_a_cleared_task_that_names_another_queue_fails_without_retry(queue_name: str, context: Any) -> None:
    """The send of its run is in the ledger, for the first queue."""
    send = SqlQueueSendOperator(task_id="s", queue_name=queue_name, messages=[{}], exactly_once=True)
    assert send.execute(context()) == 1
    send.queue_name = f"{queue_name}.other"
    SqlQueueCreateOperator(task_id="c", queue_name=send.queue_name).execute(context())
    with pytest.raises(AirflowFailException, match="take another id, which in Airflow is another run"):
        send.execute(context())


@pytest.mark.parametrize("rendered", ["", " ", "None"])
def test_an_age_that_a_template_renders_to_nothing_deletes_nothing(
    hook: SqlQueueHook, queue_name: str, context: Any, rendered: str
) -> None:
    """The filter beside it would delete messages of any age."""
    hook.send(queue_name, [Message({HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.A"})])
    filters = {"message_type": "Shop.A"}
    purge = SqlQueuePurgeOperator(
        task_id="p", queue_name=queue_name, filters=filters, older_than="{{ x }}", confirm=True
    )
    delete = SqlQueueFailedMessagesOperator(
        task_id="d",
        queue_name=queue_name,
        action="purge_archive",
        filters=filters,
        older_than="{{ x }}",
        confirm=True,
    )
    for task in (purge, delete):
        task.older_than = rendered
        with pytest.raises(AirflowFailException, match=f"^older_than is '{rendered}': give a time, or leave it out"):
            task.execute(context())
    assert hook.depth(queue_name).messages == 1


@pytest.mark.parametrize(
    ("rendered", "name"),
    [
        ({"older_than": None}, "older_than"),
        ({"filters": None}, "filters"),
        ({"filters": {"message_type": "Shop.A", "until": None}}, "until"),
    ],
    ids=["age", "filter", "condition"],
)
def test_a_condition_that_a_native_template_renders_to_nothing_takes_nothing(
    hook: SqlQueueHook, queue_name: str, context: Any, rendered: dict[str, Any], name: str, tmp_path: Path
) -> None:
    """The conditions beside it, or none, would take messages that it keeps."""
    hook.send(queue_name, [Message({HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.A"})])
    given: dict[str, Any] = {
        "queue_name": queue_name,
        "filters": {"message_type": "Shop.A", "until": "{{ x }}"},
    }
    deletion = given | {"older_than": "0s", "confirm": True}
    tasks: list[Any] = [
        SqlQueuePurgeOperator(task_id="p", **deletion),
        SqlQueueFailedMessagesOperator(task_id="d", action="purge_archive", **deletion),
    ]
    if name != "older_than":
        tasks += [
            SqlQueueFailedMessagesOperator(task_id="r", action="return", **given),
            SqlQueueForwardOperator(task_id="f", to_queue=f"{queue_name}.other", **given),
            SqlQueueDrainOperator(task_id="s", staging=str(tmp_path), **given),
            SqlQueueConsumeOperator(task_id="c", python_callable=print, **given),
        ]
    for task in tasks:
        for field, value in ({"filters": {"message_type": "Shop.A", "until": "2999-01-01"}} | rendered).items():
            setattr(task, field, value)
        with pytest.raises(AirflowFailException, match=f"^{name} is None, as a template or a task gives it"):
            task.execute(context())
    assert hook.depth(queue_name).messages == 1


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (SqlQueueDrainOperator, "redaction"),
        (SqlQueueDrainOperator, "data_bus"),
        (SqlQueueDrainOperator, "wait_for"),
        (SqlQueueDrainToSparkOperator, "application"),
        (SqlQueueDrainToSparkOperator, "spark_conn_id"),
        (SqlQueueDepthSensor, "wait_for"),
        (SqlQueueSendOperator, "delay"),
        (SqlQueueSendOperator, "due"),
        (SqlQueueSendOperator, "instance"),
    ],
)
def test_a_task_does_not_do_without_a_field_that_renders_to_nothing(
    hook: SqlQueueHook, queue_name: str, context: Any, cls: Any, name: str, tmp_path: Path
) -> None:
    """A drain would stage private data, or run no job, and a send would not wait."""
    hook.send(queue_name, [Message()])
    others = {SqlQueueDepthSensor: {}, SqlQueueSendOperator: {"messages": [{}]}}.get(cls, {"staging": str(tmp_path)})
    task = cls(task_id="t", queue_name=queue_name, **others, **{name: "{{ x }}"})
    setattr(task, name, None)
    with pytest.raises(AirflowFailException, match=f"^{name} is None, as a template or a task gives it"):
        task.execute(context())
    assert hook.depth(queue_name).messages == 1
