"""Number of handlers, and their end."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from contextvars import ContextVar
from typing import Any
from unittest.mock import patch

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.endpoint.consumer import Consumer
from airflow_sqlqueue.endpoint.options import ConsumeOptions, ConsumeResult
from airflow_sqlqueue.endpoint.recoverability import RecoverabilityOptions
from airflow_sqlqueue.errors import ConfigurationError, TransactionError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue.anchor import MAX_AGE, Anchor
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.transactions import MODES, NONE
from tests.conftest import Connect
from tests.contract.endpoint.conftest import AT_ONCE, Consume, Seen, numbered, options
from tests.drains import bodies

WAIT = 60


def test_there_are_as_many_handlers_as_messages_wait_up_to_the_maximum(orders: Queue) -> None:
    """All of them are at work at the same time, or the barrier would break."""
    together = threading.Barrier(3)
    orders.send(numbered(9))
    seen = Seen(lambda message: together.wait(WAIT))
    done = orders.consume(seen, options(max_handlers=3))
    assert (done.handled, done.handlers) == (9, 3)
    assert sorted(seen.bodies) == [b"%d" % n for n in range(9)]


def test_few_messages_have_few_handlers(orders: Queue) -> None:
    orders.send(numbered(1))
    assert orders.consume(Seen(), options(max_handlers=8)).handlers == 1


def test_handlers_come_and_go_with_the_messages(orders: Queue) -> None:
    """While one is at work, another takes what is sent meanwhile; when all is done, one waits for more."""
    stop, second, third = threading.Event(), threading.Event(), threading.Event()

    def work(message: Envelope) -> None:
        if message.body == b"0":
            send_in_a_thread(orders, 1)
            assert second.wait(WAIT)
        elif not second.is_set():
            second.set()
        else:
            third.set()
            stop.set()

    orders.send(numbered(1))
    consumed: list[ConsumeResult] = []
    settings = options(max_handlers=2, until_empty=False, poll_seconds=0.1)
    # The second message is found where the first handler has looked for it, so it is sent before that one is handled.
    orders.send(numbered(2)[1:])
    consuming = threading.Thread(target=lambda: consumed.append(orders.consume(work, settings, stop=stop)))
    consuming.start()
    assert third.wait(WAIT)
    consuming.join(WAIT)
    assert (consumed[0].handled, consumed[0].handlers) == (3, 2)


def send_in_a_thread(queue: Queue, count: int) -> None:
    """Outside of the handler's transaction."""
    sending = threading.Thread(target=queue.send, args=([*numbered(count + 1)][1:],))
    sending.start()
    sending.join()


def test_a_consumer_ends_after_max_messages(orders: Queue) -> None:
    orders.send(numbered(10))
    done = orders.consume(Seen(), options(max_handlers=3, max_messages=4))
    assert done.messages == 4
    assert len(bodies(orders)) == 6


def test_consuming_is_no_part_of_a_transaction(client: QueueClient, orders: Queue) -> None:
    orders.send(numbered(1))
    with client.transaction(), pytest.raises(TransactionError, match="outside the transaction"):
        client.queue("orders").consume(Seen())
    assert bodies(orders) == [b"0"]


def test_an_interrupt_of_the_main_thread_ends_the_handlers(orders: Queue) -> None:
    main = threading.get_ident()
    orders.send(numbered(1))
    # A process that was started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            orders.consume(lambda message: signal.pthread_kill(main, signal.SIGINT), options(until_empty=False))
    finally:
        signal.signal(signal.SIGINT, before)
    assert not [each.name for each in threading.enumerate() if each.name.startswith("message handler")]


def test_attempts_that_fail_do_not_count_as_messages(orders: Queue, consume: Consume) -> None:
    orders.send(numbered(2))
    done = consume(lambda message: 1 / 0, AT_ONCE, max_messages=1)
    assert (done.messages, done.failed, done.rolled_back) == (1, 1, 3)
    assert bodies(orders) == [b"1"]


def test_a_handler_at_work_is_not_cut_short_and_no_other_begins(
    orders: Queue, connect: Connect, resolver: AddressResolver
) -> None:
    orders.send(numbered(2))
    now = [0.0]

    def work(message: Envelope) -> None:
        now[0] += 100

    consumer = Consumer(connect, resolver, "orders", work, options(max_seconds=60), clock=lambda: now[0])
    assert consumer.run().handled == 1
    assert bodies(orders) == [b"1"]


def test_waiting_ends_at_its_timeout(orders: Queue, consume: Consume) -> None:
    done = consume(Seen(), until_empty=False, max_seconds=0.1, poll_seconds=30)
    assert done.messages == 0
    assert done.seconds < 20


def test_a_stop_ends_it_after_the_message_under_way(orders: Queue) -> None:
    stop = threading.Event()
    orders.send(numbered(3))
    done = orders.consume(lambda message: stop.set(), options(until_empty=False), stop=stop)
    assert done.handled == 1
    assert bodies(orders) == [b"1", b"2"]


def test_handlers_see_the_callers_context_variables(orders: Queue, consume: Consume) -> None:
    name: ContextVar[str] = ContextVar("name")
    name.set("task")
    orders.send(numbered(1))
    found: list[str] = []
    consume(lambda message: found.append(name.get()))
    assert found == ["task"]


def test_progress_is_reported_after_each_message(orders: Queue) -> None:
    orders.send(numbered(3))
    told: list[int] = []
    orders.consume(Seen(), options(max_handlers=2), on_progress=lambda done: told.append(done.handled))
    assert told == [1, 2, 3]


def test_two_consumers_share_a_queue(client: QueueClient, orders: Queue) -> None:
    orders.send(numbered(60))
    seen, done = Seen(), []

    def run() -> None:
        done.append(client.queue("orders").consume(seen, options(max_handlers=2)).handled)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert sum(done) == 60
    assert sorted(seen.bodies) == sorted(b"%d" % n for n in range(60))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (ConsumeOptions, {"max_messages": 0}),
        (ConsumeOptions, {"max_seconds": -1}),
        (ConsumeOptions, {"max_handlers": 0}),
        (ConsumeOptions, {"poll_seconds": 0.01}),
        (ConsumeOptions, {"transaction_mode": "distributed"}),
        (RecoverabilityOptions, {"immediate_retries": -1}),
        (RecoverabilityOptions, {"delayed_retry_seconds": -1}),
        (RecoverabilityOptions, {"error_queue": ""}),
    ],
)
def test_options_that_cannot_be_used_are_refused(kind: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))[:5]):
        kind(**settings)


@pytest.mark.parametrize("mode", MODES)
def test_a_message_takes_two_round_trips(orders: Queue, consume: Consume, mode: str) -> None:
    """BEGIN with the receive, and COMMIT; the rest of a run does not grow with the messages."""
    execute, trips = Session._execute, Counter[int]()

    def counted(session: Session, *arguments: Any) -> list[Any]:
        trips[count] += 1
        return execute(session, *arguments)

    for count in (2, 12):
        orders.send(numbered(count))
        with patch.object(Session, "_execute", counted):
            assert consume(Seen(), transaction_mode=mode).handled == count
    assert trips[12] - trips[2] == 20


@pytest.mark.parametrize("mode", MODES)
def test_receives_and_counts_begin_after_the_last_message(
    orders: Queue, consume: Consume, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Without a transaction there is no COMMIT to begin the next one, which a receive with a parameter needs."""
    received, counted, results = list[Any](), list[Any](), Session.results
    monkeypatch.setattr(Anchor.__init__, "__defaults__", (lambda: 100.0, MAX_AGE))

    def noted(session: Session, statement: Any, *values: Any, **options: Any) -> Any:
        if statement.name == "queue.receive":
            received.append(values)
        if statement.name.startswith("queue.depth_up_to"):
            counted.append(values[1])
        return results(session, statement, *values, **options)

    monkeypatch.setattr(Session, "results", noted)
    head, firsts = (), list[int]()
    for max_handlers in (1, 2):
        orders.send(numbered(3))
        firsts.append(orders.peek(1)[0].row_version)
        assert consume(Seen(), transaction_mode=mode, max_handlers=max_handlers).handled == 3
    if mode == NONE:
        assert set(received) == {head}
        assert set(counted) == {FIRST}
    else:
        assert received[:5] == [head, *((firsts[0] + n,) for n in range(3)), head]
        assert counted[0] == firsts[1]


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != NONE])
def test_a_failed_message_is_the_next_one(orders: Queue, consume: Consume, mode: str) -> None:
    failed: list[bytes] = []

    def fail_first(message: Any) -> None:
        if message.body in (b"1", b"2") and message.body not in failed:
            failed.append(message.body)
            raise ValueError

    orders.send(numbered(5))
    seen = Seen(fail_first)
    consume(seen, AT_ONCE, transaction_mode=mode)
    assert seen.bodies == [b"0", b"1", b"1", b"2", b"2", b"3", b"4"]
