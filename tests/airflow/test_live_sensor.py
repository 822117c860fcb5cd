"""The sensor on a server, over ODBC: its pokes, without a metadata database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import condition
from airflow_sqlqueue.sensors import SqlQueueDepthSensor
from tests.airflow.versions import AirflowRescheduleException


def test_the_sensor_pokes_until_there_is_enough(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    sensor = SqlQueueDepthSensor(
        task_id="t", queue_name=queue_name, wait_for={"min_messages": "3"}, poke_interval=0, timeout=60
    )
    hook.send(queue_name, [Message()] * 2)
    assert not sensor.poke(context())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(sensor.execute, context())
        hook.send(queue_name, [Message()] * 2)
        assert waiting.result(60) == {"messages": 4, "expired": 0}


def test_the_sensor_gives_its_slot_back_between_pokes(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    sensor = SqlQueueDepthSensor(task_id="t", queue_name=queue_name, mode="reschedule", poke_interval=90)
    with pytest.raises(AirflowRescheduleException):
        sensor.execute(context())
    hook.send(queue_name, [Message()])
    assert sensor.execute(context()) == {"messages": 1, "expired": 0}


def test_expired_messages_at_the_head_do_not_count(
    hook: SqlQueueHook, queue_name: str, context: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(condition, "EXPIRED_ALLOWANCE", 2)
    hook.send(queue_name, [*[Message({}, b"", timedelta(seconds=-1))] * 5, *[Message()] * 2])
    sensor = SqlQueueDepthSensor(task_id="t", queue_name=queue_name, wait_for={"min_messages": 2})
    assert sensor.poke(context()).xcom_value == {"messages": 2, "expired": 5}
    sensor.wait_for = {"min_messages": 3}
    assert not sensor.poke(context())


def test_a_count_that_stopped_says_so(hook: SqlQueueHook, queue_name: str, context: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(condition, "EXPIRED_ALLOWANCE", 2)
    hook.send(queue_name, [Message()] * 5)
    sensor = SqlQueueDepthSensor(task_id="t", queue_name=queue_name, wait_for={"min_messages": 2})
    log = Mock()
    monkeypatch.setattr(SqlQueueDepthSensor, "log", log)
    for count in (2, 6):
        sensor.wait_for = {"min_messages": count}
        sensor.poke(context())
    assert [tuple(map(str, call.args[2:])) for call in log.info.call_args_list] == [
        ("at least 4 messages, 0 expired", "min_messages=2"),
        ("5 messages, 0 expired", "min_messages=6"),
    ]


def test_a_queue_that_does_not_exist_fails_the_sensor_at_once(live: str, context: Any) -> None:
    with pytest.raises(AirflowFailException, match="does not exist"):
        SqlQueueDepthSensor(task_id="t", queue_name="test.missing").poke(context())


@pytest.mark.parametrize("kind", ["quick", "catalog"])
def test_a_poke_may_read_no_rows(hook: SqlQueueHook, queue_name: str, context: Any, kind: str) -> None:
    sensor = SqlQueueDepthSensor(task_id="t", queue_name=queue_name, wait_for={"min_messages": 2, "kind": kind})
    hook.send(queue_name, [Message()])
    assert not sensor.poke(context())
    hook.send(queue_name, [Message({}, b"", timedelta(seconds=-1))])
    found = sensor.poke(context())
    assert found
    assert found.xcom_value == {"messages": 2, "expired": None}


def test_the_sensor_waits_for_an_age(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    sensor = SqlQueueDepthSensor(task_id="t", queue_name=queue_name, wait_for={"oldest_seconds": "600"})
    assert not sensor.poke(context())
    young = format_time(datetime.now(timezone.utc))
    hook.send(queue_name, [Message({"NServiceBus.TimeSent": young})])
    found = sensor.poke(context())
    assert not found
    assert 0 <= found.xcom_value["oldest_seconds"] < 300
    sensor.wait_for = {"oldest_seconds": "600", "min_messages": 1}
    assert sensor.poke(context())
    sensor.wait_for = {"oldest_seconds": "600", "min_messages": None}
    hook.receive(queue_name)
    hook.send(queue_name, [Message({"NServiceBus.TimeSent": "2020-01-01 00:00:00:000000 Z"})])
    assert sensor.poke(context())
