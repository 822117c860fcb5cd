"""The trigger on messages, in Airflow's own shared stream, without a triggerer: its commits."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from airflow_sqlqueue import untrusted
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.triggers import SqlQueueMessageEventTrigger, poller
from airflow_sqlqueue.versions.airflow import SHARED_STREAMS
from fakemssql import FakeServer
from tests import zoo
from tests.airflow.tasks import run_coroutine
from tests.airflow.versions import needs

pytestmark = needs(SHARED_STREAMS)

TYPES = HeaderNames.ENCLOSED_MESSAGE_TYPES
SECRET = b"secret body"
PLACED, CHANGED = "Shop.OrderPlaced", "Shop.OrderChanged"

own = pytest.mark.skipif("SQLQUEUE_TEST_SERVER" in os.environ, reason="that server is not ours to stop")


@pytest.fixture
def error_queue(hook: Any) -> Iterator[str]:
    name = f"test.errors.{uuid.uuid4().hex[:12]}"
    hook.create_queue(name)
    yield name
    hook.client.tables.drop(name, force=True)


@pytest.fixture
def make(queue_name: str, error_queue: str) -> Callable[..., SqlQueueMessageEventTrigger]:
    def trigger(**arguments: Any) -> SqlQueueMessageEventTrigger:
        return SqlQueueMessageEventTrigger(
            **{"queue_name": queue_name, "error_queue": error_queue, "poll_interval": 0.05, **arguments}
        )

    return trigger


def order(message_type: str = PLACED, **headers: str) -> Message:
    return Message({TYPES: f"{message_type}, Shop", **headers}, SECRET)


async def until(look: Callable[[], Any]) -> None:
    while not await asyncio.to_thread(look):
        await asyncio.sleep(0.05)


class Triggerer:
    """Airflow's stream manager and what its runner does with a trigger's events; storing them is left to the test."""

    def __init__(self) -> None:
        from airflow.triggers.shared_stream import SharedStreamManager

        self.now = 0.0
        self.manager = SharedStreamManager(ack_timeout=1, _now=lambda: self.now)
        self.stored: list[tuple[int, Any]] = []
        self.unconfirmed: list[int] = []
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, trigger: Any) -> None:
        number, key = len(self._tasks), trigger.shared_stream_key()
        stream = trigger.filter_shared_stream(self.manager.subscribe(trigger_id=number, trigger=trigger, key=key))

        async def fire() -> None:
            async for event in stream:
                seq = self.manager.bind_pending_event(trigger_id=number, key=key)
                self.stored.append((number, event.payload))
                assert seq is not None
                self.unconfirmed.append(seq)

        self._tasks.append(asyncio.create_task(fire()))

    async def events(self, count: int) -> list[Any]:
        await until(lambda: len(self.stored) >= count)
        return [payload for _, payload in self.stored]

    def confirm(self) -> None:
        self.manager.confirm_persisted(self.unconfirmed)
        self.unconfirmed = []

    async def stop(self) -> None:
        await self.manager.stop_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def triggerer(*triggers: Any) -> AsyncIterator[Triggerer]:
    running = Triggerer()
    try:
        for trigger in triggers:
            running.start(trigger)
        yield running
    finally:
        await running.stop()


def left(hook: Any, queue_name: str) -> int:
    """Messages of the queue that are not locked."""
    with hook.client.queue(queue_name).open() as queue:
        queue.session.begin()
        found = len(queue.receive(100))
        queue.session.roll_back()
    return found


def test_a_message_leaves_the_queue_when_its_event_is_stored_and_not_before(
    hook: Any, queue_name: str, make: Any
) -> None:
    hook.send(queue_name, [order(**{HeaderNames.CORRELATION_ID: "c", "Shop.Order": "7"}), order(), Message()])

    async def story() -> None:
        async with triggerer(make(headers=["Shop.Order", "Shop.Missing"])) as running:
            events = await running.events(3)
            await asyncio.sleep(0.3)
            assert hook.depth(queue_name).messages == 3
            assert hook.receive(queue_name, 3) == []
            running.confirm()
            await until(lambda: hook.depth(queue_name).messages == 0)
            first = events[0]
            assert SECRET.decode() not in json.dumps(events)
            assert [event["message_type"] for event in events] == [PLACED, PLACED, None]
            assert (first["queue_name"], first["correlation_id"]) == (queue_name, "c")
            assert first["headers"] == {"Shop.Order": "7"}
            assert first["message_id"] == first["id"]
            assert [event["row_version"] for event in events] == [1, 2, 3]
            hook.send(queue_name, [order()])
            await running.events(4)

    run_coroutine(story)
    assert poller._pollers == {}


def test_unstored_events_are_back_in_the_queue_when_the_triggerer_ends(hook: Any, queue_name: str, make: Any) -> None:
    """Of one round, some events are stored and some are not: none is lost, and one that is stored may come again."""
    hook.send(queue_name, [order()] * 3)

    async def story() -> None:
        async with triggerer(make()) as running:
            await running.events(3)
            running.manager.confirm_persisted(running.unconfirmed[:1])
            await asyncio.sleep(0.3)
        assert left(hook, queue_name) == 2
        async with triggerer(make()) as running:
            assert [event["row_version"] for event in await running.events(2)] == [2, 3]
            running.confirm()
            await until(lambda: hook.depth(queue_name).messages == 0)

    run_coroutine(story)


def test_a_message_whose_event_one_of_two_triggers_does_not_store_comes_again(
    hook: Any, queue_name: str, make: Any, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(poller, "random_pause", lambda _: 0.05)
    hook.send(queue_name, [order()])

    async def story() -> None:
        async with triggerer(make(), make(headers=["Shop.Order"])) as running:
            await running.events(2)
            of_first = [number for number, _ in running.stored].index(0)
            running.manager.confirm_persisted([running.unconfirmed[of_first]])
            running.unconfirmed = []
            running.now += 2
            await running.events(3)
            assert [(number, payload["row_version"]) for number, payload in running.stored[2:]] == [(0, 1)]
            running.confirm()
            await until(lambda: hook.depth(queue_name).messages == 0)
            hook.send(queue_name, [order()])
            await running.events(4)

    run_coroutine(story)
    said = "".join(capfd.readouterr())
    assert said.count("Airflow did not store every event in time") == said.count("is not watched") == 1


def test_unaccepted_and_unreadable_messages_go_to_the_error_queue(
    hook: Any, queue_name: str, error_queue: str, make: Any
) -> None:
    hook.send(queue_name, [order(CHANGED), order(), order("Shop.Other"), order()])
    table = hook.client.resolve(queue_name).qualified_name
    hook.client.run_sql(f"UPDATE {table} SET [Headers] = N'no json' WHERE [RowVersion] = 4")

    async def story() -> None:
        async with triggerer(make(message_types=[PLACED]), make(message_types=[CHANGED])) as running:
            events = await running.events(2)
            running.confirm()
            await until(lambda: hook.depth(queue_name).messages == 0)
            await until(lambda: hook.depth(error_queue).messages == 2)
            assert sorted(event["message_type"] for event in events) == [CHANGED, PLACED]

    run_coroutine(story)
    assert hook.client.errors.triage(error_queue).matched == 2
    failed, unreadable = hook.receive(error_queue, 2)
    headers = Envelope.of(failed)
    assert failed.body == unreadable.body == SECRET
    assert headers.failure.failed_queue == hook.client.resolve(queue_name).canonical
    assert "No trigger of the queue accepts" in (headers.failure.exception_message or "")
    assert unreadable.headers == "no json"


def test_a_zoo_of_hostile_rows_ends_no_triggerer(hook: Any, queue_name: str, error_queue: str, make: Any) -> None:
    """Airflow sends events as msgpack and stores them as JSON: one that it cannot encode would end the triggerer."""
    from airflow.sdk.execution_time.comms import _new_encoder

    with hook.client.queue(queue_name).open() as queue:
        sent = zoo.insert(queue.session, queue.address, zoo.SHORT, **zoo.QUEUE)
    hook.send(queue_name, [order(**{HeaderNames.CORRELATION_ID: "good"}) for _ in range(100)])
    names = [name for name in zoo.NAMES if untrusted.is_text(name)]

    async def story() -> list[Any]:
        async with triggerer(make(headers=names, max_held=1_000)) as running:
            while hook.depth(queue_name).messages:
                await asyncio.sleep(0.05)
                running.confirm()
            return [payload for _, payload in running.stored]

    events = run_coroutine(story)
    assert len([event for event in events if event["correlation_id"] == "good"]) == 100
    for event in events:
        _new_encoder().encode(event)
        text = json.dumps(event)
        assert len(text) < 10_000
        assert not {"\\u0000", "\\ud800"} & set(text.split('"'))
    assert len(events) + hook.depth(error_queue).messages == sent + 100
    assert hook.depth(error_queue).messages >= len(zoo.TEXTS) - 6


def test_expired_messages_go_without_an_event(hook: Any, queue_name: str, make: Any) -> None:
    hook.send(queue_name, [order(), order()])
    table = hook.client.resolve(queue_name).qualified_name
    hook.client.run_sql(f"UPDATE {table} SET [Expires] = DATEADD(hour, -1, GETUTCDATE()) WHERE [RowVersion] = 1")

    async def story() -> None:
        async with triggerer(make(max_held=1)) as running:
            assert [event["row_version"] for event in await running.events(1)] == [2]
            running.confirm()
            await until(lambda: hook.depth(queue_name).messages == 0)

    run_coroutine(story)


def test_triggers_of_one_queue_and_error_queue_share_a_receiver(make: Any) -> None:
    one, two = make(message_types=[PLACED]), make(message_types=[CHANGED], headers=["x"])
    assert one.shared_stream_key() == two.shared_stream_key()
    assert one.shared_stream_key() != make(error_queue="other").shared_stream_key()
    with pytest.raises(NotImplementedError):
        one.run()


def test_a_receiver_goes_on_without_its_error_queue_only_when_it_is_there(
    hook: Any, queue_name: str, make: Any, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(poller, "random_pause", lambda _: 0.05)
    missing = f"test.errors.{uuid.uuid4().hex[:12]}"
    hook.send(queue_name, [order()])

    async def story() -> None:
        async with triggerer(make(error_queue=missing)) as running:
            await asyncio.sleep(1)
            assert running.stored == []
            assert left(hook, queue_name) == 1
            hook.create_queue(missing)
            await running.events(1)

    run_coroutine(story)
    assert "".join(capfd.readouterr()).count("is not watched") == 1
    hook.client.tables.drop(missing, force=True)


@own
def test_a_server_that_dies_between_receive_and_commit_loses_no_message(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "random_pause", lambda _: 0.1)
    with FakeServer(databases=["sqlqueue"]) as server:
        connection(
            host=server.host,
            port=server.port,
            login=server.user,
            password=server.password,
            schema="sqlqueue",
            extra={"encrypt": "yes", "trust_server_certificate": True},
        )
        from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

        hook = SqlQueueHook()
        for name in ("orders", "error"):
            hook.create_queue(name)
        hook.send("orders", [order()] * 2)
        trigger = SqlQueueMessageEventTrigger(queue_name="orders", poll_interval=0.05)

        async def story() -> None:
            async with triggerer(trigger) as running:
                await running.events(2)
                await asyncio.to_thread(server.kill)
                running.confirm()
                await asyncio.to_thread(server.start)
                again = await running.events(4)
                assert [event["row_version"] for event in again] == [1, 2, 1, 2]
                running.confirm()
                await until(lambda: hook.depth("orders").messages == 0)

        run_coroutine(story)
