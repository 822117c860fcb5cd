"""Tasks whose server is away when they begin, and tasks whose connection no waiting helps."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_sqlqueue.errors import LoginFailedError, UntrustedServerError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import SqlQueueConsumeOperator
from airflow_sqlqueue.sensors import SqlQueueDepthSensor
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.airflow.tasks import drain_task
from tests.faults.proxy import Proxy

VARIABLE = "AIRFLOW_CONN_SQLQUEUE_DEFAULT"


@pytest.fixture
def edit(live: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Edits the connection; without a change it is the right one again."""
    right = json.loads(os.environ[VARIABLE])

    def make(**changes: Any) -> None:
        extra = {**right["extra"], **changes.pop("extra", {})}
        monkeypatch.setenv(VARIABLE, json.dumps({**right, **changes, "extra": extra}))

    return make


@contextmanager
def warned(logger: str) -> Iterator[threading.Event]:
    """Set with the first warning."""
    event = threading.Event()

    class Noticed(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            event.set()

    handler = Noticed(logging.WARNING)
    logging.getLogger(logger).addHandler(handler)
    try:
        yield event
    finally:
        logging.getLogger(logger).removeHandler(handler)


@pytest.mark.parametrize("renew", [False, True])
def test_a_drain_waits_for_a_server_that_comes_some_seconds_later(
    hook: SqlQueueHook, server: Any, queue_name: str, tmp_path: Path, context: Any, edit: Any, renew: bool
) -> None:
    """Before it looks for what earlier tries and runs have left, too."""
    hook.send(queue_name, [Message()] * 3)
    with (
        Proxy(ConnectionSettings.from_url(server.url("sqlqueue")), listening=False) as proxy,
        ThreadPoolExecutor(1) as pool,
        warned("airflow_sqlqueue.server.reconnecting") as waits,
    ):
        edit(host="127.0.0.1", port=proxy.settings.port, extra={"encrypt": "no"})
        draining = pool.submit(drain_task(queue_name, str(tmp_path), renew=renew).execute, context())
        assert waits.wait(30)
        proxy.listen()
        assert draining.result(60)["batch"]["messages"] == 3


def test_a_task_that_waits_in_its_process_sees_that_its_connection_was_repaired(
    hook: SqlQueueHook, server: Any, queue_name: str, tmp_path: Path, context: Any, edit: Any
) -> None:
    """The server has moved after the task had reached it."""
    operator = drain_task(queue_name, str(tmp_path), wait_for={"min_messages": 1}, poll_interval=0.05, deferrable=False)
    looked = threading.Event()
    with Proxy(ConnectionSettings.from_url(server.url("sqlqueue"))) as proxy, ThreadPoolExecutor(1) as pool:
        proxy.set_trap("RowVersion", "before", lambda link: looked.set())
        edit(host="127.0.0.1", port=proxy.settings.port, extra={"encrypt": "no"})
        waiting = pool.submit(operator.execute, context())
        assert looked.wait(30)
        edit()
        proxy.stop()
        hook.send(queue_name, [Message()])
        assert waiting.result(60)["batch"]["messages"] == 1


TASKS = {
    "drain": lambda name, folder: drain_task(name, str(folder)),
    "consume": lambda name, folder: SqlQueueConsumeOperator(task_id="task", queue_name=name, python_callable=print),
    "sensor": lambda name, folder: SqlQueueDepthSensor(task_id="task", queue_name=name, deferrable=True),
}


@pytest.mark.parametrize("task", TASKS)
def test_a_certificate_that_is_not_trusted_fails_a_task_without_retries(
    queue_name: str, tmp_path: Path, context: Any, edit: Any, task: str, caplog: pytest.LogCaptureFixture
) -> None:
    edit(extra={"encrypt": "yes", "trust_server_certificate": False})
    with pytest.raises(AirflowFailException, match="No trusted encrypted connection") as failed:
        TASKS[task](queue_name, tmp_path).execute(context())
    assert isinstance(failed.value.__cause__, UntrustedServerError)
    assert "again" not in caplog.text


@pytest.mark.parametrize("task", TASKS)
def test_a_wrong_password_is_tried_once_in_a_try(
    queue_name: str, tmp_path: Path, context: Any, edit: Any, task: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Airflow's retries stay: a server that fails over may refuse a login that is right."""
    edit(password="not it")
    with pytest.raises(LoginFailedError):
        TASKS[task](queue_name, tmp_path).execute(context())
    assert "again" not in caplog.text


def test_a_connection_that_is_not_there_is_named(
    queue_name: str, tmp_path: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(AirflowFailException, match="Airflow has no connection 'sqlqueue_default': create it"):
        drain_task(queue_name, str(tmp_path)).execute(context())
