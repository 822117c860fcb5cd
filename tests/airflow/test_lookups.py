"""Lookups of connections from an event loop: none in a thread that Airflow's triggerer does not know."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from airflow.jobs.triggerer_job_runner import TriggerCommsDecoder
from airflow.providers.common.compat.sdk import BaseHook
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import GetConnection, _ResponseFrame
from asgiref.sync import SyncToAsync

import airflow_sqlqueue
from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.hooks.lookups import look_up
from airflow_sqlqueue.notifications import SqlQueueNotifier
from airflow_sqlqueue.triggers import (
    SqlQueueDepthEventTrigger,
    SqlQueueDepthTrigger,
    SqlQueueMessageEventTrigger,
    SqlQueueReplyTrigger,
    SqlQueueStrandedBatchTrigger,
)
from airflow_sqlqueue.versions.airflow import SHARED_STREAMS
from fakemssql import FakeServer
from tests.airflow.tasks import run_coroutine
from tests.airflow.test_live_message_trigger import triggerer
from tests.airflow.test_live_triggers import events_of, first_of
from tests.airflow.versions import needs

PACKAGE = Path(airflow_sqlqueue.__file__).parent
ELSEWHERE = {"to_thread", "run_in_executor", "sync_to_async", "async_to_sync", "run_coroutine_threadsafe"}
"""Ways from an event loop to a thread and back."""
FAST = {"poll_interval": 0.05}


@pytest.fixture
def tokens(server: Any, connection: Any, monkeypatch: pytest.MonkeyPatch, queue_name: str) -> Iterator[str]:
    """A queue whose connection is looked up, and then another one for each login: its access token."""
    if not isinstance(server, FakeServer):
        pytest.skip("a real server takes tokens of a real tenant only")
    monkeypatch.setenv("AIRFLOW__SQLQUEUE__TOKEN_HOSTS", server.host)
    extra = {"trust_server_certificate": True, "access_token_conn_id": "entra"}
    connection("generic", {"sqlqueue_access_token": True}, conn_id="entra", password=server.access_token())
    connection(host=server.host, port=server.port, schema="sqlqueue", extra=extra)
    client = QueueClient.from_url(server.url())
    client.tables.create(f"{queue_name}.error")
    yield queue_name
    client.tables.drop(f"{queue_name}.error")


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """The event loops that threads with a lookup know, by connection."""
    found: dict[str, list[Any]] = {}
    get = BaseHook.get_connection

    def get_connection(conn_id: str) -> Any:
        found.setdefault(conn_id, []).append(getattr(SyncToAsync.threadlocal, "main_event_loop", None))
        return get(conn_id)

    monkeypatch.setattr(BaseHook, "get_connection", staticmethod(get_connection))
    return found


async def one_event(trigger: Any) -> Any:
    if isinstance(trigger, SqlQueueMessageEventTrigger):
        async with triggerer(trigger) as running:
            return await running.events(1)
    if isinstance(trigger, SqlQueueDepthEventTrigger):
        async with events_of(trigger) as events:
            return await anext(events)
    waiting = asyncio.create_task(first_of(trigger))
    await asyncio.wait([waiting], timeout=1)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        return await waiting


async def notified(queue_name: str) -> None:
    await SqlQueueNotifier(queue_name=queue_name, message_type="Ops.RunLate", context={"dag_run": {"dag_id": "d"}})


WAITS: dict[str, Callable[[str], Any]] = {
    "depth": lambda name: one_event(SqlQueueDepthTrigger(queue_name=name, **FAST)),
    "depth event": lambda name: one_event(SqlQueueDepthEventTrigger(queue_name=name, **FAST)),
    "message event": lambda name: one_event(
        SqlQueueMessageEventTrigger(queue_name=name, error_queue=f"{name}.error", **FAST)
    ),
    "reply": lambda name: one_event(SqlQueueReplyTrigger(queue_name=name, correlation_id="c", **FAST)),
    "stranded": lambda name: one_event(SqlQueueStrandedBatchTrigger(queue_name=name, **FAST)),
    "notifier": notified,
}
KINDS = [pytest.param(kind, marks=needs(SHARED_STREAMS)) if kind == "message event" else kind for kind in WAITS]


@pytest.mark.parametrize("kind", KINDS)
def test_every_lookup_is_in_a_thread_that_knows_the_event_loop(
    tokens: str, looked_up: dict[str, list[Any]], kind: str
) -> None:
    async def story() -> None:
        await WAITS[kind](tokens)
        loop = asyncio.get_running_loop()
        assert looked_up.keys() == {"sqlqueue_default", "entra"}
        assert all(known is loop for loops in looked_up.values() for known in loops)

    SqlQueueNotifier(queue_name=tokens, message_type="Ops.Any").notify({})
    looked_up.clear()
    run_coroutine(story)


class Supervisor:
    """The other end of a triggerer's channel: it answers requests for connections from the environment's."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self.asked = end, 0
        self.answering = threading.Thread(target=self._answer, daemon=True)
        self.answering.start()

    def _answer(self) -> None:
        # The other end may close with an answer unread, or before it is sent.
        with self._end.makefile("rb") as requests, suppress(OSError):
            while head := requests.read(4):
                number, request, *_ = msgspec.msgpack.decode(requests.read(struct.unpack(">I", head)[0]))
                body = None
                if request["type"] == "GetConnection":
                    self.asked += 1
                    values = json.loads(os.environ[f"SUPERVISED_{request['conn_id'].upper()}"])
                    fields = {"login": None, "password": None, "port": None, **values, "conn_id": request["conn_id"]}
                    body = {"type": "ConnectionResult", **fields, "extra": json.dumps(values["extra"])}
                self._end.sendall(bytes(_ResponseFrame(id=number, body=body).as_bytes()))


@pytest.fixture
def channel(tokens: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, Supervisor]]:
    """A triggerer's channel, the only way to the connections."""
    for conn_id in ("SQLQUEUE_DEFAULT", "ENTRA"):
        monkeypatch.setenv(f"SUPERVISED_{conn_id}", os.environ[f"AIRFLOW_CONN_{conn_id}"])
        monkeypatch.delenv(f"AIRFLOW_CONN_{conn_id}")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        supervisor = Supervisor(theirs)
        yield ours, supervisor
    supervisor.answering.join(60)
    assert not supervisor.answering.is_alive()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_lookups_beside_others_of_the_triggerer_get_their_own_answers(
    tokens: str, channel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's own channel, which its event loop uses each second."""
    ours, supervisor = channel

    async def story() -> None:
        reader, writer = await asyncio.open_connection(sock=ours)
        comms = TriggerCommsDecoder(async_writer=writer, async_reader=reader, socket=ours)
        if hasattr(comms, "start_reader"):
            await comms.start_reader()
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", comms, raising=False)

        async def ask() -> None:
            while True:
                answer = await comms.asend(GetConnection(conn_id="entra"))
                assert getattr(answer, "conn_id", None) == "entra"

        asking = asyncio.create_task(ask())
        try:
            for _ in range(20):
                await WAITS["notifier"](tokens)
                assert not asking.done(), asking.result()
            found = await first_of(SqlQueueDepthTrigger(queue_name=tokens, wait_for={"min_messages": 20}, **FAST))
            assert found["status"] == "met", found
        finally:
            asking.cancel()
            if (reading := getattr(comms, "_reader_task", None)) is not None:
                reading.cancel()
            writer.close()

    run_coroutine(story)
    assert supervisor.asked > 40


def test_a_lookup_goes_on_if_its_caller_is_cancelled() -> None:
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        go_on.wait(60)
        ended.set()

    async def story() -> None:
        caller = asyncio.create_task(look_up(work))
        await asyncio.to_thread(began.wait, 60)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        go_on.set()
        assert await asyncio.to_thread(ended.wait, 60)

    run_coroutine(story)


def test_no_other_module_goes_from_an_event_loop_to_a_thread() -> None:
    """The receiver's own thread has one connection's statements, whose lookups come back to the loop."""
    allowed = {("hooks/lookups.py", "sync_to_async"), ("hooks/lookups.py", "run_coroutine_threadsafe")}
    allowed.add(("triggers/receiver.py", "run_in_executor"))
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for name in (getattr(node, "attr", None), getattr(node, "id", None), getattr(node, "name", None))
        if name in ELSEWHERE
    }
    assert found == allowed
