"""The sensor that waits in the triggerer, up to where Airflow takes over and from where it gives back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from importlib import import_module
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, TaskDeferred
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_sqlqueue import QueueCondition
from airflow_sqlqueue.errors import ConfigurationError, LoginFailedError, QueueNotFoundError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import MessageFilter
from airflow_sqlqueue.sensors import SqlQueueDepthSensor, depth
from airflow_sqlqueue.triggers import SqlQueueDepthTrigger
from airflow_sqlqueue.triggers.base import failed
from airflow_sqlqueue.versions.airflow import TRIGGER_TEMPLATES
from tests.airflow.versions import needs


def waiting(queue_name: str, **options: Any) -> SqlQueueDepthSensor:
    return SqlQueueDepthSensor(task_id="t", queue_name=queue_name, deferrable=True, **options)


def test_the_sensor_pokes_once_before_it_defers(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    sensor = waiting(queue_name, wait_for={"min_messages": "2", "oldest_seconds": "60"}, poke_interval=7, timeout=90)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context())
    assert deferred.value.trigger.serialize() == (
        "airflow_sqlqueue.triggers.depth.SqlQueueDepthTrigger",
        {
            "queue_name": queue_name,
            "wait_for": '{"kind": "exact", "min_messages": 2, "oldest_seconds": 60.0}',
            "poll_interval": 7.0,
            "sqlqueue_conn_id": "sqlqueue_default",
            "hook_params": None,
        },
    )
    assert deferred.value.timeout == timedelta(seconds=90)
    assert deferred.value.method_name == "execute_complete"
    hook.send(queue_name, [Message({"NServiceBus.TimeSent": None})] * 2)
    assert sensor.execute(context()) == {"messages": 2, "expired": 0, "oldest_seconds": None}


@needs(TRIGGER_TEMPLATES)
def test_a_sensor_that_starts_in_the_triggerer_has_the_arguments_of_its_trigger() -> None:
    """Templates are rendered there: ``running/test_waiting.py``. Airflow keeps objects other than JSON's as texts."""
    wait_for = {"min_messages": "2", "filters": MessageFilter(since=datetime(2026, 1, 31, tzinfo=timezone.utc))}
    hook_params = {"allowed_schemas": {"dbo", "sales"}, "allowed_catalogs": ("shop",)}
    options: dict[str, Any] = {"wait_for": wait_for, "hook_params": hook_params, "poke_interval": 7, "timeout": 90}
    sensor = SqlQueueDepthSensor(task_id="t", queue_name="orders", start_from_trigger=True, **options)
    assert sensor.deferrable
    start = sensor.start_trigger_args
    assert (start.next_method, start.timeout) == ("execute_complete", timedelta(seconds=90))
    module, _, name = start.trigger_cls.rpartition(".")
    trigger = getattr(import_module(module), name)(**json.loads(json.dumps(start.trigger_kwargs)))
    assert trigger.serialize() == waiting("orders", **options).trigger().serialize()


@needs(TRIGGER_TEMPLATES)
@pytest.mark.parametrize("name", ["queue_name", "wait_for", "min_messages", "sqlqueue_conn_id"])
def test_a_sensor_with_the_output_of_another_task_pokes_once_before_it_defers(name: str) -> None:
    """Airflow's triggerer resolves no such output: its trigger would get a reference."""
    with DAG("dag", schedule=None):
        output: Any = EmptyOperator(task_id="before").output
        given: dict[str, Any] = {name: output} if name != "min_messages" else {"wait_for": {name: output}}
        sensor = SqlQueueDepthSensor(task_id="t", start_from_trigger=True, **{"queue_name": "orders", **given})
    assert sensor.deferrable
    assert sensor.start_trigger_args is None
    assert sensor.upstream_task_ids == {"before"}


@needs(TRIGGER_TEMPLATES)
def test_a_condition_reaches_the_triggerer_as_a_mapping() -> None:
    condition = QueueCondition(min_messages=2, oldest_seconds=60.0)
    sensor = SqlQueueDepthSensor(task_id="t", queue_name="q", wait_for=condition, start_from_trigger=True)
    trigger = SqlQueueDepthTrigger(**json.loads(json.dumps(sensor.start_trigger_args.trigger_kwargs)))
    assert trigger.condition == condition


def test_a_sensor_starts_in_the_triggerer_only_where_it_renders_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth, "TRIGGER_TEMPLATES", replace(TRIGGER_TEMPLATES, is_available=False, installed="3.2.0"))
    with pytest.raises(ConfigurationError, match=r"start_from_trigger needs Airflow 3\.3 or later, and 3\.2\.0 is"):
        SqlQueueDepthSensor(task_id="t", queue_name="orders", start_from_trigger=True)


def test_a_server_that_does_not_answer_the_first_read_is_waited_for(connection: Any, context: Any) -> None:
    connection(host="127.0.0.1", port=1)
    with pytest.raises(TaskDeferred):
        waiting("q").execute(context())


def test_the_trigger_finds_the_same_as_a_poke(context: Any) -> None:
    event = {"status": "met", "found": {"messages": 3, "expired": 0}}
    assert waiting("q").execute_complete(context(), event) == {"messages": 3, "expired": 0}


def test_an_error_of_the_trigger_is_that_of_a_poke(context: Any) -> None:
    missing = failed(QueueNotFoundError("The queue q does not exist.")).payload
    with pytest.raises(AirflowFailException, match="The queue q does not exist"):
        waiting("q").execute_complete(context(), missing)
    with pytest.raises(QueueNotFoundError):
        waiting("q", soft_fail=True).execute_complete(context(), missing)
    with pytest.raises(LoginFailedError):
        waiting("q").execute_complete(context(), failed(LoginFailedError("No.")).payload)
    with pytest.raises(AirflowException, match="The conn_id `x` isn't defined"):
        waiting("q").execute_complete(context(), failed(AirflowException("The conn_id `x` isn't defined")).payload)
    with pytest.raises(AirflowException, match="an event that this task does not know"):
        waiting("q").execute_complete(context(), {"status": "running"})


@pytest.mark.parametrize("default", ["True", "False"])
def test_the_configuration_says_whether_a_sensor_defers(default: str) -> None:
    program = (
        "from airflow_sqlqueue.sensors import SqlQueueDepthSensor as S; "
        "print(S(task_id='t', queue_name='q').deferrable, S(task_id='t', queue_name='q', deferrable=False).deferrable)"
    )
    environment = {**os.environ, "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": default}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"{default} False"
