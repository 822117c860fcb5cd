"""Returns from an error queue, on any server: crashes and other programs lose or double no message."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from airflow_sqlqueue.errors import DeadlockError, SqlQueueError
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.errors.bulk_action import ErrorQueueResult
from tests.contract.conftest import Connect, run_sql
from tests.contract.return_to_source.conftest import Make, failed, returned
from tests.drains import bodies


def test_messages_received_meanwhile_are_not_returned(
    connect: Connect, make: Make, error: QueueTable, sales: QueueTable, give_back: Any
) -> None:
    make("Billing")
    error.send([failed("Sales", b"first"), failed("Billing", b"second")])
    with connect() as other:

        def take_the_second(done: ErrorQueueResult) -> None:
            if not done.left:
                assert [message.body for message in QueueTable(other, error.address).receive()] == [b"second"]

        done = give_back(error, on_progress=take_the_second)
    assert (done.messages, done.left) == (1, {"not there, or locked by others": 1})


def test_messages_that_fail_again_are_not_returned_twice(error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    error.send(failed("Sales", b"%d" % n) for n in range(3))

    def fail_again(done: ErrorQueueResult) -> None:
        error.send(failed("Sales", message.body) for message in sales.receive())

    assert give_back(error, rows_per_transaction=1, on_progress=fail_again).messages == 3
    assert (bodies(error), bodies(sales)) == ([b"0", b"1", b"2"], [])


def test_a_queue_that_is_altered_meanwhile_gets_all(error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    error.send(failed("Sales", b"%d" % n) for n in range(4))

    def alter(done: ErrorQueueResult) -> None:
        if done.messages == 1:
            name = sales.address.qualified_name
            run_sql(error.session, f"ALTER TABLE {name} DROP COLUMN [ReplyToAddress]")

    assert give_back(error, rows_per_transaction=1, on_progress=alter).messages == 4
    assert bodies(QueueTable(sales.session, sales.address)) == [b"0", b"1", b"2", b"3"]


def test_a_deadlock_is_tried_again(
    error: QueueTable, sales: QueueTable, give_back: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    error.send(failed("Sales", b"%d" % n) for n in range(3))
    send, victims = QueueTable.send, [True, True]

    def chosen_twice(queue: QueueTable, messages: Any) -> int:
        sent = send(queue, messages)
        if victims:
            victims.pop()
            raise DeadlockError("chosen")
        return sent

    monkeypatch.setattr(QueueTable, "send", chosen_twice)
    assert give_back(error).messages == 3
    assert (bodies(sales), bodies(error), victims) == ([b"0", b"1", b"2"], [], [])


def test_a_broken_connection_loses_nothing(
    connect: Connect, error: QueueTable, sales: QueueTable, resolver: AddressResolver
) -> None:
    error.send(failed("Sales", b"%d" % n) for n in range(6))
    with connect() as session:

        def cut(done: ErrorQueueResult) -> None:
            session.close()

        queue = QueueTable(session, error.address)
        with pytest.raises(SqlQueueError):
            returned(queue, resolver, rows_per_transaction=2, on_progress=cut)
    assert (bodies(sales), bodies(error)) == ([b"0", b"1"], [b"2", b"3", b"4", b"5"])


def test_two_returns_at_once_return_every_message_once(
    connect: Connect, error: QueueTable, sales: QueueTable, resolver: AddressResolver
) -> None:
    error.send(failed("Sales", b"%d" % n) for n in range(400))
    start = Barrier(2)

    def run() -> ErrorQueueResult:
        with connect() as session:
            start.wait(30)
            return returned(QueueTable(session, error.address), resolver, rows_per_transaction=5)

    with ThreadPoolExecutor(2) as pool:
        first, second = (future.result(120) for future in [pool.submit(run), pool.submit(run)])
    assert first.messages + second.messages == 400
    assert Counter(bodies(sales)) == Counter(b"%d" % n for n in range(400))
    assert bodies(error) == []
