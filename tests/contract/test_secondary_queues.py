"""Operations on an endpoint's queue together with its secondary queues, on any server."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.endpoint.endpoint import Endpoint
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.errors import QueueNotFoundError, TooManyFailuresError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import PurgeOptions, QueueCondition
from airflow_sqlqueue.queue.tables.create import definitions_for
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.conftest import make_tables

WAIT = 60
QUEUES = ("Sales", "Sales.WEB01", "Sales.WEB02")
OTHERS = ("Sales.Retries", "error")
"""Tables beside the endpoint's queues that no operation on these may touch."""


@pytest.fixture
def client(settings: ConnectionSettings, session: Session, resolver: AddressResolver) -> QueueClient:
    """Of the test's own schema: one message in the endpoint's queue, two and three in the others, one beside them."""
    for name in (*QUEUES, *OTHERS):
        make_tables(session, *definitions_for(resolver, name, delayed=name == "Sales"))
    client = QueueClient(settings, resolver, lock_timeout=10)
    for count, name in enumerate(QUEUES, 1):
        client.queue(name).send(Message({HeaderNames.MESSAGE_ID: f"{name} {n}"}, name.encode()) for n in range(count))
    client.queue(OTHERS[0]).send([Message(body=b"beside")])
    return client


def depths(client: QueueClient) -> list[int]:
    return [client.queue(name).depth().messages for name in QUEUES]


@pytest.fixture(autouse=True)
def untouched(client: QueueClient) -> Iterator[None]:
    yield
    assert client.queue(OTHERS[0]).depth().messages == 1


def test_each_queue_is_counted_and_all_are_summed(client: QueueClient, resolver: AddressResolver) -> None:
    client.delayed("Sales").send([Message()] * 4, delay=timedelta(hours=1))
    client.queue("Sales.WEB01").send([Message(time_to_be_received=timedelta(seconds=-5))])
    found = client.queue("Sales").backlog(secondary=True)
    assert list(found.queues) == [resolver.resolve(name).canonical for name in QUEUES]
    assert [each.depth.messages for each in found.queues.values()] == [1, 2, 3]
    assert (found.depth.messages, found.depth.expired, found.delayed, found.inserted) == (6, 1, 4, 7)
    assert client.queue("Sales").backlog(kind="catalog", secondary=True).depth.total == 7
    alone = client.queue("Sales").backlog()
    assert (alone.depth.messages, alone.queues) == (1, {})


def test_the_ages_are_those_of_all_queues(client: QueueClient) -> None:
    client.queue("Sales.WEB01").send([Message({HeaderNames.TIME_SENT: "2026-01-01 00:00:00:000000 Z"})])
    client.queue("Sales").take(ids=[client.queue("Sales").peek()[0].id])
    client.queue("Sales").send([Message({HeaderNames.TIME_SENT: "2026-01-02 00:00:00:000000 Z"})])
    found = client.queue("Sales").backlog(secondary=True)
    each = list(found.queues.values())
    assert found.oldest_seconds == max(one.oldest_seconds for one in each if one.oldest_seconds is not None)
    assert found.newest_seconds == min(one.newest_seconds for one in each if one.newest_seconds is not None)
    age = client.queue("Sales").check(QueueCondition(oldest_seconds=60, secondary=True))
    assert age.met
    assert age.oldest_seconds is not None


ONE = {"headers": {HeaderNames.MESSAGE_ID: "Sales.WEB01 1"}}
CONDITIONS: list[tuple[dict[str, Any], bool, int | None]] = [
    ({"min_messages": 6}, True, 6),
    ({"min_messages": 3}, True, 3),
    ({"min_messages": 7}, False, 6),
    ({"max_messages": 6}, True, 6),
    ({"max_messages": 5}, False, 6),
    ({"min_messages": 6, "kind": "catalog"}, True, 6),
    ({"min_messages": 6, "kind": "quick"}, True, 6),
    ({"min_messages": 2, "filters": ONE}, False, 1),
    ({"min_messages": 1, "filters": ONE}, True, 1),
    ({"min_expired": 1}, False, None),
    ({"min_delayed": 1}, False, None),
]


def test_a_condition_counts_all_queues(client: QueueClient) -> None:
    sales = client.queue("Sales")
    found = [sales.check(QueueCondition.of({**condition, "secondary": True})) for condition, _, _ in CONDITIONS]
    assert [(each.met, each.messages) for each in found] == [(met, messages) for _, met, messages in CONDITIONS]
    assert not sales.check(QueueCondition(min_messages=2)).met
    for name in QUEUES[:2]:
        client.queue(name).send([Message(time_to_be_received=timedelta(seconds=-5))])
    assert sales.check(QueueCondition(min_expired=2, secondary=True)).met
    assert not sales.check(QueueCondition(min_expired=3, secondary=True)).met
    assert sales.check(QueueCondition(min_messages=7, secondary=True)).expired == 2


def test_a_purge_takes_all_queues_within_its_limits(client: QueueClient) -> None:
    sales = client.queue("Sales")
    counted = sales.purge(PurgeOptions(all_messages=True, dry_run=True, secondary=True))
    assert (counted.remaining, [each.remaining for each in counted.queues.values()]) == (6, [1, 2, 3])
    assert sales.purge(PurgeOptions(all_messages=True, dry_run=True, secondary=True, max_messages=4)).remaining == 4
    some = sales.purge(PurgeOptions(all_messages=True, confirm=True, secondary=True, max_messages=4))
    assert (some.deleted, some.remaining, some.complete) == (4, 2, False)
    assert [each.deleted for each in some.queues.values()] == [1, 2, 1]
    assert depths(client) == [0, 0, 2]
    unknown = sales.purge(PurgeOptions(older_than=timedelta(days=1), dry_run=True, secondary=True, max_seconds=1e-9))
    assert unknown.remaining is None, "the first queue is empty, and the others are not read to the end"
    rest = sales.purge(PurgeOptions(all_messages=True, confirm=True, secondary=True))
    assert (rest.deleted, rest.remaining, rest.complete) == (2, 0, True)
    assert sum(each.seconds for each in rest.queues.values()) <= rest.seconds


def test_a_purge_takes_its_queue_alone_unless_asked(client: QueueClient) -> None:
    assert client.queue("Sales").purge(PurgeOptions(all_messages=True, confirm=True)).queues == {}
    assert depths(client) == [0, 2, 3]


def test_messages_of_all_queues_are_handled(client: QueueClient) -> None:
    """All queues are at work at the same time, or the barrier would break."""
    together, seen, lock = threading.Barrier(len(QUEUES)), Counter[bytes](), threading.Lock()

    def handle(message: Envelope) -> None:
        with lock:
            seen[message.body] += 1
            is_first = seen[message.body] == 1
        if is_first:
            together.wait(WAIT)

    counts: list[int] = []
    done = client.queue("Sales").consume(
        handle, ConsumeOptions(secondary=True, max_handlers=1), on_progress=lambda done: counts.append(done.handled)
    )
    assert (done.handled, done.handlers) == (6, 3)
    assert seen == {name.encode(): count for count, name in enumerate(QUEUES, 1)}
    assert max(counts) == 6
    assert depths(client) == [0, 0, 0]


def test_the_queues_share_the_limit_of_messages(client: QueueClient) -> None:
    done = client.queue("Sales").consume(lambda message: None, ConsumeOptions(secondary=True, max_messages=4))
    assert done.handled == 4
    assert sum(depths(client)) == 2


def test_a_failed_message_goes_back_to_the_queue_of_its_instance(client: QueueClient) -> None:
    client.queue("Sales").purge(PurgeOptions(all_messages=True, confirm=True))
    client.queue("Sales.WEB02").purge(PurgeOptions(all_messages=True, confirm=True))

    def fail(message: Envelope) -> None:
        raise ValueError("no")

    options = ConsumeOptions(secondary=True, immediate_retries=0, delayed_retries=0)
    assert client.queue("Sales").consume(fail, options).failed == 2
    (one, _) = (Envelope.of(message) for message in client.queue("error").peek(2))
    assert one.headers[HeaderNames.PROCESSING_ENDPOINT] == "Sales"
    assert str(one.headers[HeaderNames.FAILED_Q]).startswith("Sales.WEB01@")
    done = client.errors.act("return", "error", all_messages=True)
    assert done.messages == 2
    assert depths(client) == [0, 2, 0]


def test_the_failure_of_one_queue_ends_all(client: QueueClient) -> None:
    def fail(message: Envelope) -> None:
        if message.body == b"Sales.WEB01":
            raise ValueError("no")

    options = ConsumeOptions(
        secondary=True, until_empty=False, immediate_retries=0, delayed_retries=0, max_failed=0, max_handlers=1
    )
    with pytest.raises(TooManyFailuresError, match=r"Sales\.WEB01"):
        client.queue("Sales").consume(fail, options)
    assert client.queue("error").depth().messages == 1


def test_a_queue_that_cannot_be_consumed_ends_all(client: QueueClient, monkeypatch: pytest.MonkeyPatch) -> None:
    find = Endpoint.find

    def found(session: Session, resolver: AddressResolver, queue_name: str, *others: Any, **named: Any) -> Endpoint:
        if queue_name.startswith("Sales.WEB01"):
            raise QueueNotFoundError("It was dropped.")
        return find(session, resolver, queue_name, *others, **named)

    monkeypatch.setattr(Endpoint, "find", found)
    with pytest.raises(QueueNotFoundError, match="dropped"):
        client.queue("Sales").consume(lambda message: None, ConsumeOptions(secondary=True, until_empty=False))


def test_all_queues_end_when_they_are_stopped(client: QueueClient) -> None:
    stop, handled = threading.Event(), Counter[bytes]()

    def handle(message: Envelope) -> None:
        handled[message.body] += 1

    def progress(done: object) -> None:
        if handled.total() == 6:
            stop.set()

    options = ConsumeOptions(secondary=True, until_empty=False, max_handlers=1)
    assert client.queue("Sales").consume(handle, options, on_progress=progress, stop=stop).handled == 6
