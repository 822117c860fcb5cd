"""Triggers that wait for a server they cannot reach, whose connection is repaired meanwhile: each kind sees it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import LoginFailedError, StatementError
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.triggers import (
    SqlQueueDepthEventTrigger,
    SqlQueueDepthTrigger,
    SqlQueueMessageEventTrigger,
    SqlQueueReplyTrigger,
    SqlQueueStrandedBatchTrigger,
    poller,
)
from airflow_sqlqueue.triggers.base import ServerTrigger, found_in
from airflow_sqlqueue.versions.airflow import SHARED_STREAMS
from tests.airflow.tasks import run_coroutine
from tests.airflow.test_live_message_trigger import triggerer
from tests.airflow.test_live_triggers import events_of, first_of, until
from tests.airflow.versions import needs

VARIABLE = "AIRFLOW_CONN_SQLQUEUE_DEFAULT"
FAST = {"poll_interval": 0.05}

ONE_EVENT: dict[str, Callable[[str], Any]] = {
    "depth": lambda name: SqlQueueDepthTrigger(queue_name=name, **FAST),
    "reply": lambda name: SqlQueueReplyTrigger(queue_name=name, correlation_id="c", **FAST),
    "stranded": lambda name: SqlQueueStrandedBatchTrigger(queue_name=name, older_than=0, **FAST),
}
EVENTS: dict[str, Callable[[str], Any]] = {
    "depth event": lambda name: SqlQueueDepthEventTrigger(queue_name=name, **FAST),
    "message event": lambda name: SqlQueueMessageEventTrigger(queue_name=name, error_queue=f"{name}.error", **FAST),
}


async def one_event(trigger: Any) -> Any:
    return found_in(await first_of(trigger))


async def event(trigger: Any) -> Any:
    if isinstance(trigger, SqlQueueMessageEventTrigger):
        async with triggerer(trigger) as running:
            return (await running.events(1))[0]
    async with events_of(trigger) as events:
        return (await anext(events)).payload


class Connection:
    """The connection ``sqlqueue_default``, with counts of its lookups and its refused logins by triggers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._environment = monkeypatch
        self._right = json.loads(os.environ[VARIABLE])
        self.lookups = self.refused = 0
        look_up = ServerTrigger._client

        def counted(trigger: ServerTrigger) -> QueueClient:
            self.lookups += 1
            return look_up(trigger)

        def session(*arguments: Any, **options: Any) -> Session:
            try:
                return Session(*arguments, **options)
            except LoginFailedError:
                self.refused += 1
                raise

        monkeypatch.setattr(ServerTrigger, "_client", counted)
        monkeypatch.setattr(poller, "Session", session)

    def edit(self, **changes: Any) -> None:
        extra = {**self._right["extra"], **changes.pop("extra", {})}
        self._environment.setenv(VARIABLE, json.dumps({**self._right, **changes, "extra": extra}))

    def repair(self) -> None:
        self.edit()


@pytest.fixture
def connection_now(live: str, monkeypatch: pytest.MonkeyPatch) -> Connection:
    monkeypatch.setattr(poller, "random_pause", lambda _: 0.05)
    monkeypatch.setattr(poller, "LONGEST_PAUSE", 0.05)
    return Connection(monkeypatch)


@pytest.fixture(scope="module")
def drained(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A queue with a batch, which stays stranded."""
    client, name = QueueClient.from_url(server_url), f"test.{uuid.uuid4().hex[:10]}"
    client.tables.create(name, ledger=True)
    client.tables.create(f"{name}.error")
    client.queue(name).send([Message(body=b"x")])
    client.queue(name).drain(tmp_path_factory.mktemp("drained"))
    yield name
    for table in (name, f"{name}.error"):
        client.tables.drop(table, force=True)


@pytest.fixture
def queue(live: str, server_url: str, drained: str) -> str:
    """A queue with all that the triggers wait for."""
    reply = {HeaderNames.CORRELATION_ID: "c", HeaderNames.MESSAGE_INTENT: "Reply"}
    client = QueueClient.from_url(server_url)
    client.run_sql(f"TRUNCATE TABLE [{drained}]")
    client.queue(drained).send([Message(reply)])
    return drained


@pytest.fixture
def dead_port() -> Iterator[int]:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        yield int(silent.getsockname()[1])


def sees(trigger: Any, wait: Callable[[Any], Awaitable[Any]], connection: Connection, until_then: Any) -> Any:
    async def story() -> Any:
        waiting = asyncio.create_task(wait(trigger))
        await until(until_then)
        assert not waiting.done()
        connection.repair()
        return await waiting

    return run_coroutine(story)


KINDS_OF_EVENTS = ["depth event", pytest.param("message event", marks=needs(SHARED_STREAMS))]


@pytest.mark.parametrize("kind", [*ONE_EVENT, *KINDS_OF_EVENTS])
def test_a_trigger_sees_that_the_server_has_moved(
    connection_now: Connection, queue: str, dead_port: int, kind: str
) -> None:
    connection_now.edit(host="127.0.0.1", port=dead_port)
    make, wait = (ONE_EVENT[kind], one_event) if kind in ONE_EVENT else (EVENTS[kind], event)
    assert sees(make(queue), wait, connection_now, lambda: connection_now.lookups >= 3)
    run_coroutine(lambda: until(lambda: not poller._pollers))


@pytest.mark.parametrize("kind", KINDS_OF_EVENTS)
def test_an_event_trigger_tries_a_wrong_password_once_and_sees_its_repair(
    connection_now: Connection, queue: str, kind: str
) -> None:
    """Each further try could lock the login."""
    connection_now.edit(password="not it")
    assert sees(EVENTS[kind](queue), event, connection_now, lambda: connection_now.lookups >= 6)
    assert connection_now.refused == 1


def test_many_that_wait_with_a_wrong_password_try_it_once(connection_now: Connection, queue: str) -> None:
    connection_now.edit(password="not it")

    async def story() -> None:
        waiting = [asyncio.create_task(event(EVENTS["depth event"](queue))) for _ in range(20)]
        await until(lambda: connection_now.lookups >= 6)
        waiting.append(asyncio.create_task(event(EVENTS["depth event"](queue))))
        seen = connection_now.lookups
        await until(lambda: connection_now.lookups >= seen + 20)
        connection_now.repair()
        await asyncio.gather(*waiting)

    run_coroutine(story)
    assert connection_now.refused == 1


@pytest.mark.parametrize("kind", KINDS_OF_EVENTS)
def test_an_event_trigger_sees_that_the_certificate_is_trusted_now(
    connection_now: Connection, queue: str, kind: str
) -> None:
    connection_now.edit(extra={"encrypt": "yes", "trust_server_certificate": False})
    assert sees(EVENTS[kind](queue), event, connection_now, lambda: connection_now.lookups >= 3)


def test_a_task_that_waits_sees_that_the_password_of_a_login_was_changed(
    connection_now: Connection, queue: str, server_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The login was taken when it began to wait."""
    admin = QueueClient.from_url(server_url)
    login = f"l_{uuid.uuid4().hex[:10]}"
    admin.run_sql(f"CREATE LOGIN [{login}] WITH PASSWORD = N'Waiting 1'")
    admin.run_sql(f"CREATE USER [{login}] FOR LOGIN [{login}]; ALTER ROLE [db_owner] ADD MEMBER [{login}]")
    connection_now.edit(login=login, password="Waiting 1")
    sessions = f"SELECT [session_id] FROM sys.dm_exec_sessions WHERE [login_name] = N'{login}'"

    def change_password() -> None:
        admin.run_sql(f"ALTER LOGIN [{login}] WITH PASSWORD = N'Waiting 2'")
        for (number,) in admin.run_sql(sessions):
            admin.run_sql(f"KILL {number}")

    def refused() -> bool:
        return any("refused the login" in record.getMessage() for record in caplog.records)

    async def story() -> Any:
        waiting = asyncio.create_task(
            one_event(SqlQueueDepthTrigger(queue_name=queue, wait_for={"min_messages": 2}, **FAST))
        )
        await until(lambda: admin.run_sql(sessions))
        await asyncio.to_thread(change_password)
        await until(refused)
        connection_now.edit(login=login, password="Waiting 2")
        admin.queue(queue).send([Message()])
        return await waiting

    with caplog.at_level(logging.WARNING):
        assert run_coroutine(story) == {"messages": 2, "expired": 0}
    admin.run_sql(f"DROP USER [{login}]")


def test_a_task_whose_login_is_refused_at_first_waits_no_more(connection_now: Connection, queue: str) -> None:
    connection_now.edit(password="not it")
    with pytest.raises(LoginFailedError):
        run_coroutine(lambda: one_event(ONE_EVENT["depth"](queue)))
    assert connection_now.refused == 1


def test_a_session_is_replaced_after_an_error_that_may_mean_that_it_is_broken(live: str, server_url: str) -> None:
    """A trigger whose check fails so ends its wait; the others continue with a working session."""
    client = QueueClient.from_url(server_url)
    sessions: list[Session] = []

    def breaks(session: Session) -> bool | None:
        sessions.append(session)
        raise StatementError("Could not look: the driver failed with state XX000.")

    def looks(session: Session) -> bool | None:
        sessions.append(session)
        return True

    async def story() -> None:
        watches = [
            await poller.Watch.open(poller.Source(n, lambda: client, lambda _, look=look: look), 0.05)  # type: ignore[misc]
            for n, look in enumerate((breaks, looks))
        ]
        with pytest.raises(StatementError):
            await watches[0].found()
        assert await watches[1].found()
        for watch in watches:
            watch.close()

    run_coroutine(story)
    first, second = sessions
    assert first is not second


def test_a_trigger_keeps_its_connection_while_airflow_does_not_find_it(
    connection_now: Connection, queue: str, dead_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody is at work on it: it is away, then it is there again."""
    connection_now.edit(host="127.0.0.1", port=dead_port)

    def remove() -> bool:
        if connection_now.lookups >= 2:
            monkeypatch.delenv(VARIABLE, raising=False)
        return connection_now.lookups >= 5

    assert sees(ONE_EVENT["depth"](queue), one_event, connection_now, remove)
