"""Handling what matches a filter, and leaving the rest."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.queue import MessageFilter, browsing
from airflow_sqlqueue.queue.browsing import find
from tests.contract.endpoint.conftest import AT_ONCE, Consume, Seen, options
from tests.drains import bodies

SALES = MessageFilter(endpoint="Sales")
WAIT = 60


def send_some_matching(orders: Queue, count: int) -> tuple[list[bytes], list[bytes]]:
    """Each third message matches; the bodies of those, and of the others."""
    numbers = [b"%d" % n for n in range(count)]
    endpoints = ["Sales" if n % 3 == 2 else "Billing" for n in range(count)]
    orders.send(Message({HeaderNames.ORIGINATING_ENDPOINT: e}, b) for e, b in zip(endpoints, numbers, strict=True))
    return numbers[2::3], [number for number in numbers if number not in numbers[2::3]]


def test_only_matching_messages_are_handled(consume: Consume, orders: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "PAGE", 4)
    matching, others = send_some_matching(orders, 60)
    seen = Seen()
    assert consume(seen, where=SALES).handled == 20
    assert (seen.bodies, bodies(orders)) == (matching, others)


def test_a_message_that_fails_is_tried_again_at_once(consume: Consume, orders: Queue, error: Queue) -> None:
    matching, others = send_some_matching(orders, 9)

    def fails(message: Any) -> None:
        if message.body == matching[0]:
            raise ValueError("never")

    seen = Seen(fails)
    done = consume(seen, AT_ONCE, where=SALES)
    assert (done.handled, done.failed, done.rolled_back) == (2, 1, 3)
    assert seen.bodies == [matching[0]] * 3 + matching[1:]
    assert (bodies(error), bodies(orders)) == ([matching[0]], others)


def test_several_handlers_share_the_matching_messages(orders: Queue) -> None:
    matching, others = send_some_matching(orders, 60)
    together = threading.Barrier(3)
    seen = Seen(lambda message: together.wait(WAIT) if len(seen.bodies) <= 3 else None)
    done = orders.consume(seen, options(max_handlers=3, where=SALES))
    assert (done.handled, done.handlers) == (20, 3)
    assert (sorted(seen.bodies, key=int), bodies(orders)) == (matching, others)


def test_messages_that_roll_back_behind_the_search_are_found(orders: Queue) -> None:
    """Another receiver has the first message, and rolls it back when the search is past it."""
    matching, others = send_some_matching(orders, 12)
    with orders.open() as table:
        table.session.begin()
        (first, *_) = find(table, SALES)
        assert len(table.take([first.row_version])) == 1
        seen = Seen(lambda message: table.session.roll_back() if message.body == matching[1] else None)
        orders.consume(seen, options(where=SALES))
    assert seen.bodies == [*matching[1:], matching[0]]
    assert bodies(orders) == others
