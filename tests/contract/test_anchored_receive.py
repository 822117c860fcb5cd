"""Receives after an anchor on a server: what becomes visible below it is received, and "empty" is said at the head.

Source: docs/design.md, "Receives after an anchor". tests/unit/test_anchor.py has a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.anchor import MAX_AGE, Anchor
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.queue.tables.create import create_queue, drop_queue
from airflow_sqlqueue.server.session import Session
from tests.conftest import Connect
from tests.contract.conftest import run_sql

Another = Callable[[], QueueTable]


class Time:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def anchor(time: Time) -> Anchor:
    return Anchor(time)


@pytest.fixture
def another(connect: Connect, queue: QueueTable) -> Iterator[Another]:
    """Makes a view of the queue through another connection."""
    sessions: list[Session] = []

    def make() -> QueueTable:
        sessions.append(connect())
        return QueueTable(sessions[-1], queue.address)

    yield make
    for session in sessions:
        session.close()


def bodies(queue: QueueTable, anchor: Anchor, limit: int = 1) -> list[bytes]:
    return [message.body for message in queue.receive(limit, anchor=anchor)]


def send(queue: QueueTable, *sent: bytes) -> None:
    queue.send([Message(body=body) for body in sent])


def test_a_late_commit_is_received_when_the_anchor_is_old(
    queue: QueueTable, another: Another, anchor: Anchor, time: Time
) -> None:
    late = another()
    with late.session.transaction():
        send(late, b"late")
        send(queue, *(b"%d" % n for n in range(4)))
        assert bodies(queue, anchor) == [b"0"]
    assert bodies(queue, anchor) == [b"1"]
    time.now += MAX_AGE
    assert [bodies(queue, anchor) for _ in range(3)] == [[b"late"], [b"2"], [b"3"]]


def test_a_queue_is_empty_when_the_head_says_so(queue: QueueTable, another: Another, anchor: Anchor) -> None:
    late = another()
    with late.session.transaction():
        send(late, b"late")
        send(queue, b"0")
        assert [bodies(queue, anchor) for _ in range(2)] == [[b"0"], []]
        send(queue, b"1")
        assert bodies(queue, anchor) == [b"1"]
    assert [bodies(queue, anchor) for _ in range(2)] == [[b"late"], []]


def test_expired_messages_after_the_anchor_do_not_make_the_queue_empty(
    queue: QueueTable, another: Another, anchor: Anchor
) -> None:
    late = another()
    with late.session.transaction():
        send(late, b"late")
        send(queue, b"0")
        queue.send([Message(body=b"1", time_to_be_received=timedelta(seconds=-5))])
        assert bodies(queue, anchor) == [b"0"]
    assert bodies(queue, anchor, 5) == [b"late"]
    assert depth(queue).total == 0


def test_the_message_of_a_dead_receiver_is_received_when_the_anchor_is_old(
    queue: QueueTable, another: Another, anchor: Anchor, time: Time
) -> None:
    send(queue, *(b"%d" % n for n in range(5)))
    dead = another()
    dead.session.begin()
    assert bodies(dead, anchor) == [b"0"]
    assert bodies(queue, anchor) == [b"1"]
    dead.session.close()
    assert bodies(queue, anchor) == [b"2"]
    time.now += MAX_AGE
    assert [bodies(queue, anchor) for _ in range(3)] == [[b"0"], [b"3"], [b"4"]]


def test_a_queue_that_is_made_again_is_read_from_its_head(queue: QueueTable, anchor: Anchor) -> None:
    send(queue, *(b"%d" % n for n in range(3)))
    assert [bodies(queue, anchor) for _ in range(3)] == [[b"0"], [b"1"], [b"2"]]
    drop_queue(queue.session, queue.address)
    create_queue(queue.session, queue.address)
    send(queue, b"new")
    (found,) = queue.receive(anchor=anchor)
    assert (found.body, found.row_version) == (b"new", 1)
    send(queue, *(b"%d" % n for n in range(2)))
    assert bodies(queue, anchor) == [b"0"]
    run_sql(queue.session, f"TRUNCATE TABLE {queue.address.qualified_name}")
    send(queue, b"newer")
    assert bodies(queue, anchor) == [b"newer"]


class Statements:
    """The receives of all sessions, by text and value."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.values: list[Any] = []

    def clear(self) -> None:
        self.texts.clear()
        self.values.clear()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Statements:
    found, results = Statements(), Session.results

    def noted(session: Session, statement: Any, *values: Any, **options: Any) -> Any:
        if statement.name == "queue.receive":
            found.texts.append(statement.text)
            found.values.append(values)
        return results(session, statement, *values, **options)

    monkeypatch.setattr(Session, "results", noted)
    return found


def test_receivers_with_one_anchor_begin_after_what_the_others_hold(
    queue: QueueTable, another: Another, anchor: Anchor, statements: Statements
) -> None:
    send(queue, *(b"%d" % n for n in range(6)))
    receivers = [queue, another(), another()]
    for receiver in receivers:
        receiver.session.begin()
    taken = [receiver.receive(anchor=anchor)[0] for receiver in receivers * 2]
    assert [message.body for message in taken] == [b"%d" % n for n in range(6)]
    assert statements.values == [(), *((message.row_version,) for message in taken[:-1])]
    for receiver in receivers:
        receiver.session.roll_back()


def test_the_server_gets_one_text_for_all_anchors_and_one_for_the_head(
    queue: QueueTable, anchor: Anchor, time: Time, statements: Statements
) -> None:
    send(queue, *(b"%d" % n for n in range(9)))
    for n in range(9):
        assert bodies(queue, anchor) == [b"%d" % n]
        time.now += MAX_AGE / 8
    at_head = [n for n, values in enumerate(statements.values) if not values]
    assert at_head == [0, 4, 8]
    texts = {text for n, text in enumerate(statements.texts) if n not in at_head}
    assert len(texts) == 1
    assert {text.replace(f"CAST({FIRST} AS", "CAST(? AS") for text in statements.texts} == texts


def test_a_receive_without_an_anchor_begins_at_the_head(queue: QueueTable, statements: Statements) -> None:
    queue.send([Message(body=b"0", time_to_be_received=timedelta(seconds=-5))])
    send(queue, b"1", b"2")
    assert [[message.body for message in queue.receive()] for _ in range(3)] == [[b"1"], [b"2"], []]
    assert set(statements.values) == {()}
