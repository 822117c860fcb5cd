"""Limits on failures, and what happens when one is reached."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.endpoint.consumer import Consumer
from airflow_sqlqueue.endpoint.options import SLOW_DOWN, ConsumeOptions, ConsumeResult
from airflow_sqlqueue.errors import ConfigurationError, TooManyFailuresError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.server.transactions import MODES, NONE
from tests.conftest import Connect
from tests.contract.endpoint.conftest import AT_ONCE, ONCE, Consume, Seen, failing, numbered, options
from tests.drains import bodies

WAIT = 60
SLOW = {"max_consecutive_failures": 3, "on_consecutive_failures": SLOW_DOWN}


class Pauses(threading.Event):
    """Event for the end of consuming that records the waits for it and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(timeout)
        return self.is_set()


def fail(message: Envelope) -> None:
    raise ValueError("the database is down")


@pytest.mark.parametrize("mode", MODES)
def test_max_failed_ends_it_with_the_message_after(orders: Queue, error: Queue, consume: Consume, mode: str) -> None:
    orders.send(numbered(10))
    with pytest.raises(TooManyFailuresError, match="4 messages went to the error queue, and max_failed is 3"):
        consume(fail, transaction_mode=mode, max_failed=3)
    assert (len(bodies(error)), len(bodies(orders))) == (4, 6)


def test_as_many_failed_messages_as_allowed_end_nothing(orders: Queue, error: Queue, consume: Consume) -> None:
    orders.send(numbered(10))
    done = consume(failing(lambda number: number <= 3), max_failed=3)
    assert (done.failed, done.handled) == (3, 7)


def test_no_failed_message_is_allowed(client: QueueClient, orders: Queue, error: Queue, consume: Consume) -> None:
    """However it fails: malformed, in its retries, or by hand."""
    orders.send([Message("malformed"), *numbered(1)])
    with pytest.raises(TooManyFailuresError, match="1 message went"):
        consume(Seen(), max_failed=0)
    orders.send(numbered(1))
    with pytest.raises(TooManyFailuresError, match="1 message went"):
        consume(fail, AT_ONCE, max_failed=0)
    assert len(bodies(error)) == 2
    with pytest.raises(TooManyFailuresError, match="1 message went"):
        consume(lambda message: client.errors.fail(message, ValueError("no")), max_failed=0)


def test_failures_in_a_row_end_it_and_keep_the_messages(orders: Queue, error: Queue, consume: Consume) -> None:
    """Of each message all attempts but the last: the next receive of it would give it up."""
    orders.send(numbered(10))
    with pytest.raises(TooManyFailuresError, match="after 7 failed attempts in a row"):
        consume(fail, AT_ONCE, max_consecutive_failures=7)
    assert bodies(error) == [b"0", b"1"]
    assert bodies(orders) == [b"%d" % n for n in range(2, 10)]


def test_a_success_in_between_starts_the_count_again(orders: Queue, consume: Consume) -> None:
    orders.send(numbered(12))
    done = consume(failing(lambda number: number % 3 != 0), max_consecutive_failures=3)
    assert (done.handled, done.failed) == (4, 8)


def test_malformed_messages_are_no_failures_in_a_row(orders: Queue, consume: Consume) -> None:
    """They say nothing about what the handler needs."""
    orders.send([Message("malformed")] * 5)
    assert consume(Seen(), max_consecutive_failures=2).failed == 5


def test_in_the_mode_none_each_failure_costs_a_message(orders: Queue, error: Queue, consume: Consume) -> None:
    orders.send(numbered(10))
    with pytest.raises(TooManyFailuresError):
        consume(fail, transaction_mode=NONE, max_consecutive_failures=3)
    assert (len(bodies(error)), len(bodies(orders))) == (3, 7)


REFUSING = {
    "a constraint": "ALTER TABLE {0.qualified_name} ADD CHECK (DATALENGTH([Body]) > 1)",
    "a trigger": """CREATE TRIGGER [{0.schema}].[note] ON {0.qualified_name} AFTER INSERT AS BEGIN
        SET NOCOUNT ON; DECLARE @notes TABLE ([Note] int NOT NULL); INSERT INTO @notes SELECT NULL; END""",
}
"""Statements after which a table refuses rows.

The error of the trigger is one that an alteration of the table may cause too, so the layout is read once more.
"""


@pytest.mark.parametrize(("mode", "refusing"), [*((mode, "a trigger") for mode in MODES), (MODES[0], "a constraint")])
def test_messages_that_the_error_queue_refuses_go_to_quarantine(
    client: QueueClient, orders: Queue, error: Queue, consume: Consume, mode: str, refusing: str
) -> None:
    """In the mode none they are in no queue any more when their function fails."""
    client.run_sql(REFUSING[refusing].format(client.resolve("error")))
    before = len(client.quarantine.list("orders"))
    orders.send(numbered(2))
    assert consume(fail, transaction_mode=mode).failed == 2
    assert (bodies(orders), bodies(error)) == ([], [])
    assert len(client.quarantine.list("orders")) == before + 2


@pytest.mark.parametrize("mode", MODES)
def test_messages_wait_for_what_handlers_need(
    connect: Connect, resolver: AddressResolver, orders: Queue, error: Queue, mode: str
) -> None:
    """At most one message for each attempt goes to the error queue, and each failed attempt has a longer pause."""
    orders.send(numbered(100))
    stop, seen = Pauses(), failing(lambda number: 20 < number <= 30)
    settings = options(ONCE, transaction_mode=mode, **SLOW)
    done = Consumer(connect, resolver, "orders", seen, settings, stop=stop).run()
    assert (done.handled, done.failed) == (90, 10)
    assert len(bodies(error)) == 10
    assert bodies(orders) == []
    assert stop.seconds == [1, 2, 4, 8, 16, 32, 60, 60]


def test_pauses_begin_anew_after_a_success(connect: Connect, resolver: AddressResolver, orders: Queue) -> None:
    orders.send(numbered(20))
    stop, seen = Pauses(), failing(lambda number: number in {1, 2, 3, 4, 6, 7, 8, 9})
    settings = options(ONCE, slow_down_seconds=0.25, **SLOW)
    assert Consumer(connect, resolver, "orders", seen, settings, stop=stop).run().handled == 12
    assert stop.seconds == [0.25, 0.5, 0.25, 0.5]


def test_a_slow_consumer_has_one_handler_until_a_message_succeeds(
    orders: Queue, error: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """Then the others come back: they are at work at the same time, or the barrier would break."""
    orders.send(numbered(43))
    together, at_work, lock = threading.Barrier(3), [0], threading.Lock()
    attempts: list[int] = []

    def work(message: Envelope) -> None:
        with lock:
            at_work[0] += 1
            attempts.append(at_work[0])
            number = len(attempts)
        try:
            if number <= 3:
                together.wait(WAIT)
            if number <= 12:
                raise ValueError("the database is down")
            if number > 13:
                together.wait(WAIT)
        finally:
            with lock:
                at_work[0] -= 1

    with caplog.at_level(logging.WARNING):
        done = orders.consume(work, options(ONCE, max_handlers=3, slow_down_seconds=0.001, **SLOW))
    # Of the first three handlers two may begin another attempt before the third one has failed.
    assert set(attempts[6:13]) == {1}
    assert (done.handled, done.failed) == (31, 12)
    assert caplog.text.count("slows down to one message at a time after 3 failed attempts in a row") == 1
    assert caplog.text.count("goes on as before") == 1
    assert len(bodies(error)) == 12


def test_a_stop_ends_a_pause(orders: Queue) -> None:
    orders.send(numbered(10))
    stop, found = threading.Event(), list[ConsumeResult]()

    def work(message: Envelope) -> None:
        threading.Timer(0.1, stop.set).start()
        raise ValueError

    settings = options(ONCE, max_consecutive_failures=1, on_consecutive_failures=SLOW_DOWN, slow_down_seconds=1_000)
    consuming = threading.Thread(target=lambda: found.append(orders.consume(work, settings, stop=stop)))
    consuming.start()
    consuming.join(WAIT)
    assert (found[0].rolled_back, found[0].failed) == (1, 0)
    assert len(bodies(orders)) == 10


def test_a_pause_ends_with_the_limit_of_time(orders: Queue, consume: Consume) -> None:
    orders.send(numbered(10))
    done = consume(fail, max_seconds=1, slow_down_seconds=1_000, **SLOW)
    assert done.rolled_back == 3
    assert done.seconds < WAIT


def test_a_slow_consumer_keeps_both_limits(orders: Queue, error: Queue, consume: Consume) -> None:
    orders.send(numbered(20))
    with pytest.raises(TooManyFailuresError, match="max_failed is 8"):
        consume(fail, max_failed=8, slow_down_seconds=0.001, **SLOW)
    assert (len(bodies(error)), len(bodies(orders))) == (9, 11)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_failed": -1},
        {"max_consecutive_failures": 0},
        {"on_consecutive_failures": "stop"},
        {"slow_down_seconds": 0},
        {"max_consecutive_failures": 24},
        {"max_consecutive_failures": 2, "max_handlers": 1, "immediate_retries": 1},
    ],
)
def test_limits_that_cannot_be_used_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        ConsumeOptions(**settings)


def test_limits_that_can_be_used() -> None:
    ConsumeOptions(max_consecutive_failures=25)
    ConsumeOptions(max_consecutive_failures=1, on_consecutive_failures=SLOW_DOWN)
    ConsumeOptions(max_consecutive_failures=1, transaction_mode=NONE)
