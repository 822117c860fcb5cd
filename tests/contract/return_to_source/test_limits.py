"""Returns from an error queue, on any server: rate, time limit and dry run."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_sqlqueue.errors import TransactionError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.errors.bulk_action import Clock
from tests.contract.conftest import run_sql
from tests.contract.return_to_source.conftest import Make, failed, headers_of


class FakeClock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.clock = Clock(lambda: self.now, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_the_rate_is_kept(error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    error.send(failed("Sales") for _ in range(10))
    time = FakeClock()
    assert give_back(error, clock=time.clock, rate=4).seconds == 2.0
    assert time.slept == [1.0, 1.0]
    assert depth(sales).messages == 10


def test_messages_that_never_failed_move_at_a_rate(error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    """As those of a replay, which waits in a queue of its own."""
    error.send(Message({"NServiceBus.MessageId": f"id-{number}", "own": "kept"}) for number in range(6))
    time = FakeClock()
    moved = give_back(error, clock=time.clock, rate=2, to_queue="Sales")
    assert (moved.messages, moved.left, moved.seconds) == (6, {}, 2.0)
    assert (depth(error).messages, [headers_of(each)["own"] for each in sales.peek(10)]) == (0, ["kept"] * 6)


def test_a_return_ends_with_its_limits(error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    error.send(failed("Sales") for _ in range(20))
    some = give_back(error, max_messages=7)
    assert (some.messages, some.complete, some.unseen) == (7, False, 0)
    time = FakeClock()
    more = give_back(error, clock=time.clock, rate=2, max_seconds=2.5)
    assert (more.messages, more.complete, more.seconds) == (6, False, 2.0)
    rest = give_back(error, max_messages=7)
    assert (rest.messages, rest.complete) == (7, True)
    assert (depth(error).messages, depth(sales).messages) == (0, 20)


def test_a_limited_return_takes_the_oldest_of_all_queues(
    make: Make, error: QueueTable, sales: QueueTable, give_back: Any
) -> None:
    """Messages that stay use up no limit: later ones come in their place."""
    billing, closed = make("Billing"), make("Closed")
    run_sql(error.session, f"ALTER TABLE {closed.address.qualified_name} ADD CHECK (1 = 0)")
    names = ("Closed", "Sales", "Billing", "Gone") * 4
    error.send(failed(name, b"%d" % number) for number, name in enumerate(names))
    expected = {sales.address.canonical: 2, billing.address.canonical: 2}
    assert give_back(error, max_messages=4).destinations == expected
    assert [message.body for message in (*sales.peek(), *billing.peek())] == [b"1", b"5", b"2", b"6"]


def test_a_dry_run_moves_nothing(error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    error.send([*(failed("Sales") for _ in range(150)), failed("Gone")])
    done = give_back(error, dry_run=True, rate=1)
    assert (done.destinations, done.left) == ({sales.address.canonical: 150}, {"the failed queue does not exist": 1})
    assert (done.dry_run, done.complete, done.unseen) == (True, True, 0)
    assert (depth(error).messages, depth(sales).messages) == (151, 0)


def test_a_return_is_no_part_of_a_transaction(error: QueueTable, give_back: Any) -> None:
    with pytest.raises(TransactionError, match="outside of a transaction"), error.session.transaction():
        give_back(error)
