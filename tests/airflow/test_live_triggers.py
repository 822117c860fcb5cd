"""The triggers on a server, in an event loop, without a triggerer: shared connections, retries and errors."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import ConfigurationError, LoginFailedError, QueueNotFoundError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from airflow_sqlqueue.triggers import (
    SqlQueueDepthEventTrigger,
    SqlQueueDepthTrigger,
    SqlQueueMessageEventTrigger,
    SqlQueueReplyTrigger,
    SqlQueueStrandedBatchTrigger,
    poller,
)
from airflow_sqlqueue.triggers.base import found_in
from airflow_sqlqueue.versions.airflow import SHARED_STREAMS
from fakemssql import FakeServer
from tests.airflow.tasks import run_coroutine
from tests.airflow.versions import needs

"""Within which everything happens, on a machine that has other things to do as well."""
FAST = {"poll_interval": 0.05}
APP = "waits"
OURS = f"SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE program_name = '{APP}'"

own = pytest.mark.skipif("SQLQUEUE_TEST_SERVER" in os.environ, reason="that server is not ours to stop")


@pytest.fixture(autouse=True)
def _mark(monkeypatch: pytest.MonkeyPatch, live: str) -> None:
    """The triggers' connections are known by their application's name."""
    values = json.loads(os.environ["AIRFLOW_CONN_SQLQUEUE_DEFAULT"])
    values["extra"]["keywords"] = {"APP": APP}
    monkeypatch.setenv("AIRFLOW_CONN_SQLQUEUE_DEFAULT", json.dumps(values))


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """A server that a test may stop; ``sqlqueue_default`` leads there."""
    with FakeServer(databases=["sqlqueue"]) as server:
        values = json.loads(os.environ["AIRFLOW_CONN_SQLQUEUE_DEFAULT"])
        values |= {"port": server.port, "login": server.user, "password": server.password}
        # Without its own attempts to restore a session, for more than a minute, the driver reports a lost one at once.
        values["extra"]["keywords"]["ConnectRetryCount"] = "0"
        monkeypatch.setenv("AIRFLOW_CONN_SQLQUEUE_DEFAULT", json.dumps(values))
        yield server


async def first_of(trigger: Any) -> Any:
    """The payload of the first event, as the triggerer waits for it."""
    try:
        async with aclosing(trigger.run()) as events:
            return (await anext(events)).payload
    finally:
        await trigger.cleanup()


@asynccontextmanager
async def events_of(trigger: Any) -> AsyncIterator[AsyncIterator[TriggerEvent]]:
    async with aclosing(trigger.run()) as events:
        yield events
    await trigger.cleanup()


async def until(look: Callable[[], Any]) -> None:
    while not await asyncio.to_thread(look):
        await asyncio.sleep(0.05)


def test_a_trigger_fires_when_the_condition_is_met(hook: Any, queue_name: str) -> None:
    async def story() -> None:
        waiting = asyncio.create_task(
            first_of(SqlQueueDepthTrigger(queue_name=queue_name, wait_for={"min_messages": 2}, **FAST))
        )
        hook.send(queue_name, [Message()])
        assert not (await asyncio.wait([waiting], timeout=0.5))[0]
        hook.send(queue_name, [Message()])
        assert found_in(await waiting) == {"messages": 2, "expired": 0}

    run_coroutine(story)


def test_triggers_of_a_server_share_one_connection_until_the_last_ends(
    hook: Any, queue_name: str, server_url: str
) -> None:
    client = QueueClient.from_url(server_url)

    async def story() -> None:
        triggers = [
            SqlQueueDepthTrigger(queue_name=queue_name, wait_for={"min_messages": n + 1}, **FAST) for n in range(20)
        ]
        tasks = [asyncio.create_task(first_of(trigger)) for trigger in triggers]
        hook.send(queue_name, [Message()])
        await tasks[0]
        assert client.run_sql(OURS)[0][0] == 1
        for task in tasks[1:]:
            task.cancel()
        await asyncio.wait(tasks)
        await until(lambda: client.run_sql(OURS)[0][0] == 0)

    run_coroutine(story)
    assert poller._pollers == {}


@pytest.fixture
def locked(hook: Any) -> Iterator[list[str]]:
    """Queues whose tables another transaction has locked."""
    names = [f"test.locked.{uuid.uuid4().hex[:12]}" for _ in range(3)]
    with hook.client.session() as holder:
        for name in names:
            hook.create_queue(name)
        holder.begin()
        for name in names:
            table = hook.client.resolve(name).qualified_name
            holder.run(Query("lock", "lock a test's table", f"SELECT COUNT(*) FROM {table} WITH (TABLOCKX, HOLDLOCK)"))
        yield names
        holder.roll_back()
    for name in names:
        hook.client.tables.drop(name, force=True)


def test_locked_queues_delay_no_trigger_of_another_queue(
    hook: Any, queue_name: str, locked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No poll waits for a lock while another one is due, or the queue that is free would wait for an hour."""
    monkeypatch.setattr(poller, "LOCK_TIMEOUT", 3_600.0)

    async def story() -> None:
        free = asyncio.create_task(first_of(SqlQueueDepthTrigger(queue_name=queue_name, poll_interval=0)))
        waiting = [asyncio.create_task(first_of(SqlQueueDepthTrigger(queue_name=name, **FAST))) for name in locked]
        assert not (await asyncio.wait([free, *waiting], timeout=2))[0]
        hook.send(queue_name, [Message()])
        assert found_in(await free) == {"messages": 1, "expired": 0}
        for task in waiting:
            assert not task.done()
            task.cancel()
        await asyncio.wait(waiting)

    run_coroutine(story)


def test_a_locked_queue_counts_as_one_without_messages_until_it_is_free(
    hook: Any, locked: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    trigger = SqlQueueDepthTrigger(queue_name=locked[0], **FAST)

    async def story() -> None:
        waiting = asyncio.create_task(first_of(trigger))
        await until(lambda: caplog.records)
        assert not (await asyncio.wait([waiting], timeout=2.5))[0]
        assert len(caplog.records) == 1, "the reason is logged once"
        waiting.cancel()
        await asyncio.wait([waiting])

    with caplog.at_level(logging.WARNING, logger=poller.__name__):
        run_coroutine(story)


@pytest.mark.parametrize(("lock_timeout", "milliseconds"), [(30, 1_000), (0.2, 200)])
def test_a_poll_waits_for_a_lock_for_a_second_at_most(server_url: str, lock_timeout: float, milliseconds: int) -> None:
    client = QueueClient.from_url(server_url, lock_timeout=lock_timeout)

    def look(session: Any) -> int:
        return int(session.value(Query("lock_timeout", "read the lock timeout", "SELECT @@LOCK_TIMEOUT")))

    async def story() -> None:
        watch = await poller.Watch.open(poller.Source(lock_timeout, lambda: client, lambda _: look), 0.05)
        try:
            assert await watch.found() == milliseconds
        finally:
            watch.close()

    run_coroutine(story)


def test_a_queue_that_is_missing_ends_the_wait_with_its_sentence(live: str) -> None:
    event = run_coroutine(lambda: first_of(SqlQueueDepthTrigger(queue_name="test.missing", **FAST)))
    with pytest.raises(QueueNotFoundError, match=r"test\.missing.* does not exist"):
        found_in(event)


@pytest.mark.parametrize(
    ("change", "error"), [({"password": "wrong"}, LoginFailedError), ({"schema": ""}, ConfigurationError)]
)
def test_a_connection_that_cannot_be_used_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, str], error: type[Exception]
) -> None:
    values = json.loads(os.environ["AIRFLOW_CONN_SQLQUEUE_DEFAULT"]) | change
    monkeypatch.setenv("AIRFLOW_CONN_SQLQUEUE_DEFAULT", json.dumps(values))
    event = run_coroutine(lambda: first_of(SqlQueueDepthTrigger(queue_name="q", **FAST)))
    with pytest.raises(error):
        found_in(event)
    assert "wrong" not in json.dumps(event)


@own
def test_a_server_that_is_lost_is_waited_for(
    own_server: FakeServer, caplog: pytest.LogCaptureFixture, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "random_pause", lambda _: 0.1)
    client = QueueClient(ConnectionSettings.from_url(own_server.url()))
    client.tables.create(queue_name)

    def attempts() -> int:
        return sum("Trying again in" in record.getMessage() for record in caplog.records)

    async def story() -> None:
        waiting = asyncio.create_task(first_of(SqlQueueDepthTrigger(queue_name=queue_name, **FAST)))
        await until(lambda: poller._pollers)
        await asyncio.to_thread(own_server.kill)
        await until(lambda: attempts() >= 2)
        await asyncio.to_thread(own_server.start)
        client.queue(queue_name).send([Message()])
        assert found_in(await waiting) == {"messages": 1, "expired": 0}

    with caplog.at_level(logging.WARNING):
        run_coroutine(story)


@own
def test_a_server_that_refuses_the_login_for_a_while_is_waited_for(
    own_server: FakeServer, queue_name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It has taken it before: so does a server that starts, whose databases come later than its logins."""
    monkeypatch.setattr(poller, "random_pause", lambda _: 0.1)
    monkeypatch.setattr(poller, "_REFUSALS", 10_000)
    settings = ConnectionSettings.from_url(own_server.url())
    admin = QueueClient(settings)
    admin.tables.create(queue_name)
    admin.run_sql("CREATE LOGIN [waiter] WITH PASSWORD = N'Waiting 1'")
    admin.run_sql("CREATE USER [waiter] FOR LOGIN [waiter]; ALTER ROLE [db_owner] ADD MEMBER [waiter]")
    waiter = QueueClient(replace(settings, user="waiter", password="Waiting 1"))
    looked = threading.Event()

    def look(session: Any) -> bool | None:
        looked.set()
        return depth(waiter.queue(queue_name).open_in(session)).messages > 0 or None

    def restart() -> None:
        admin.run_sql("ALTER LOGIN [waiter] DISABLE")
        own_server.kill()
        own_server.start()

    async def story() -> None:
        watch = await poller.Watch.open(poller.Source("waiter", lambda: waiter, lambda _: look), 0.05)
        try:
            found = asyncio.create_task(watch.found())
            await until(looked.is_set)
            await asyncio.to_thread(restart)
            await until(lambda: any("refused the login" in record.getMessage() for record in caplog.records))
            admin.run_sql("ALTER LOGIN [waiter] ENABLE")
            admin.queue(queue_name).send([Message()])
            assert await found
        finally:
            watch.close()

    with caplog.at_level(logging.WARNING):
        run_coroutine(story)


def test_an_event_trigger_signals_as_long_as_the_queue_is_not_empty(hook: Any, queue_name: str) -> None:
    trigger = SqlQueueDepthEventTrigger(queue_name=queue_name, repeat_interval=0.05, **FAST)

    async def story() -> None:
        async with events_of(trigger) as events:
            hook.send(queue_name, [Message({}, b"secret")] * 3)
            payloads = [(await anext(events)).payload for _ in range(3)]
            assert payloads == [{"queue_name": queue_name, "messages": 3, "expired": 0}] * 3
            hook.purge(queue_name)
            hook.receive(queue_name, 3)
            following = asyncio.create_task(anext(events))  # type: ignore[arg-type]
            assert not (await asyncio.wait([following], timeout=0.5))[0]
            hook.send(queue_name, [Message()])
            assert (await following).payload["messages"] == 1

    run_coroutine(story)


def test_an_event_trigger_signals_messages_that_match(hook: Any, queue_name: str) -> None:
    wait_for = {"filters": {"headers": {"Shop.List": "a"}}, "min_messages": 2}
    trigger = SqlQueueDepthEventTrigger(queue_name=queue_name, wait_for=wait_for, repeat_interval=0.05, **FAST)

    async def story() -> None:
        async with events_of(trigger) as events:
            hook.send(queue_name, [Message({"Shop.List": "b"})] * 3 + [Message({"Shop.List": "a"})])
            following = asyncio.create_task(anext(events))  # type: ignore[arg-type]
            assert not (await asyncio.wait([following], timeout=0.5))[0]
            hook.send(queue_name, [Message({"Shop.List": "a"})])
            assert (await following).payload == {"queue_name": queue_name, "messages": 2, "expired": 0}

    run_coroutine(story)


def test_an_event_trigger_stays_and_logs_an_error_once(
    live: str, hook: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = []

    def random_pause(failures: int) -> float:
        pauses.append(failures)
        return 0.01

    monkeypatch.setattr(poller, "random_pause", random_pause)
    name = f"test.{uuid.uuid4().hex[:12]}"
    trigger = SqlQueueDepthEventTrigger(queue_name=name, **FAST)

    async def story() -> None:
        async with events_of(trigger) as events:
            following = asyncio.create_task(anext(events))  # type: ignore[arg-type]
            await until(lambda: len(pauses) >= 3)
            hook.create_queue(name)
            hook.send(name, [Message()])
            assert (await following).payload["queue_name"] == name

    run_coroutine(story)
    assert pauses[:3] == [1, 2, 3]
    assert "".join(capfd.readouterr()).count("is not watched") == 1
    hook.client.tables.drop(name, force=True)


HOOK_PARAMS = {"queue_schemas": {"b": "x", "a": "y"}, "allowed_catalogs": {"two", "one"}, "lock_timeout": 5}


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (SqlQueueDepthTrigger, {"wait_for": {"max_messages": 0}}),
        (SqlQueueDepthEventTrigger, {"wait_for": {"oldest_seconds": 600}}),
        (SqlQueueDepthEventTrigger, {"poll_interval": 5, "wait_for": {"min_messages": 1}}),
        (SqlQueueReplyTrigger, {"correlation_id": "c"}),
        pytest.param(
            SqlQueueMessageEventTrigger,
            {"message_types": ("b", "a"), "headers": ["h"]},
            marks=needs(SHARED_STREAMS),
        ),
        (SqlQueueStrandedBatchTrigger, {}),
    ],
)
def test_a_trigger_serializes_to_the_same_hash_each_time(cls: Any, options: dict[str, Any]) -> None:
    trigger = cls(queue_name="q", hook_params=HOOK_PARAMS, **options)
    path, arguments = trigger.serialize()
    again = type(trigger)(**json.loads(json.dumps(arguments)))
    assert again.serialize() == (path, arguments)
    assert BaseEventTrigger.hash(path, again.serialize()[1]) == BaseEventTrigger.hash(path, arguments)
    assert path == f"{type(trigger).__module__}.{type(trigger).__name__}"


def test_the_order_of_arguments_does_not_change_the_hash() -> None:
    turned = {**dict(reversed(HOOK_PARAMS.items())), "queue_schemas": {"a": "y", "b": "x"}}
    one, two = (SqlQueueDepthEventTrigger(queue_name="q", hook_params=params) for params in (HOOK_PARAMS, turned))
    assert json.dumps(one.serialize()) == json.dumps(two.serialize())


def test_pauses_grow_from_a_second_to_a_minute_at_random() -> None:
    pauses = [[poller.random_pause(failures) for _ in range(50)] for failures in range(1, 12)]
    assert all(1 <= pause <= 60 for some in pauses for pause in some)
    assert all(len(set(some)) > 1 for some in pauses)
    assert max(pauses[0]) <= 2
    assert min(pauses[-1]) >= 30
