"""The mover: every message is moved once, beside other movers and after crashes, on any server."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.delayed.mover import MoveOptions, MoveResult, move_due
from airflow_sqlqueue.queue.delayed.table import DelayedTable
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from tests.contract.conftest import Connect, run_sql
from tests.contract.mover.conftest import NOW, Endpoint
from tests.forks import kill_where_it_halts


def test_a_locked_message_is_passed_over(connect: Connect, endpoint: Endpoint) -> None:
    endpoint.delayed.store([Message(body=b"held"), Message(body=b"free")], delay=NOW)
    first = endpoint.delayed.peek()[0]
    with connect() as session, session.transaction():
        assert DelayedTable(session, endpoint.delayed.address).cancel([first.row_version]) == 1
        assert endpoint.move().moved == 1
    assert endpoint.bodies() == [b"free"]


def test_a_locked_message_between_two_others_is_passed_over(connect: Connect, endpoint: Endpoint) -> None:
    """The statement that moves reads the range of due times between the two."""
    now = datetime.now(timezone.utc)
    for minutes in (3, 2, 1):
        endpoint.delayed.store([Message(body=b"%d" % minutes)], due=now - timedelta(minutes=minutes))
    held = endpoint.delayed.peek()[1]
    with connect() as session, session.transaction():
        assert DelayedTable(session, endpoint.delayed.address).cancel([held.row_version]) == 1
        assert endpoint.move().moved == 2
    assert endpoint.bodies() == [b"3", b"1"]


class AlteringSession(Session):
    """Has something done before the second statement of a name."""

    count = 0

    def __init__(self, settings: ConnectionSettings, before: str, alter: Callable[[], object]) -> None:
        self.before, self.alter = before, alter
        super().__init__(settings)

    def run(self, statement: Query, *values: Any, sizes: Any = None) -> list[Any]:
        if statement.name == self.before:
            self.count += 1
            if self.count == 2:
                self.alter()
        return super().run(statement, *values, sizes=sizes)


@pytest.mark.parametrize("change", ["ALTER TABLE {other} DROP COLUMN [Recoverable]", "DROP TABLE {other}"])
def test_a_destination_that_is_altered_or_dropped_meanwhile_loses_nothing(
    settings: ConnectionSettings, endpoint: Endpoint, change: str
) -> None:
    other, errors = endpoint.other("other"), endpoint.other("error")
    endpoint.delayed.store((Message(body=b"%d" % n) for n in range(3)), delay=NOW, forward_to=other.address)
    text = change.format(other=other.address.qualified_name)
    with AlteringSession(settings, "delayed.due", lambda: run_sql(endpoint.session, text)) as session:
        moving = Endpoint(session, endpoint.queue.address, endpoint.resolver)
        # The first look at what is due finds the destination out, the second moves to it.
        moved = moving.move(chunk=3, error_queue=QueueTable(session, errors.address))
    assert moved.left == 0
    if "DROP TABLE" in change:
        assert (moved.forwarded, moved.failed) == (0, 3)
        assert [message.body for message in errors.receive(5)] == [b"0", b"1", b"2"]
    else:
        assert (moved.forwarded, moved.failed) == (3, 0)
        assert [message.body for message in other.receive(5)] == [b"0", b"1", b"2"]


class PausingSession(Session):
    """Stops before a statement until it may go on."""

    def __init__(self, settings: ConnectionSettings, before: str) -> None:
        self.before, self.reached, self.go_on = before, threading.Event(), threading.Event()
        super().__init__(settings)

    def run(self, statement: Query, *values: Any, sizes: Any = None) -> list[Any]:
        if statement.name == self.before:
            self.reached.set()
            assert self.go_on.wait(60)
        return super().run(statement, *values, sizes=sizes)


def test_a_second_mover_returns_at_once(settings: ConnectionSettings, endpoint: Endpoint) -> None:
    endpoint.delayed.store((Message(body=b"%d" % n) for n in range(5)), delay=NOW)
    with PausingSession(settings, "delayed.move") as session, ThreadPoolExecutor(1) as pool:
        other = Endpoint(session, endpoint.queue.address, endpoint.resolver)
        running = pool.submit(other.move, chunk=2)
        try:
            assert session.reached.wait(60)
            busy = endpoint.move()
        finally:
            session.go_on.set()
        assert (busy.busy, busy.moved, busy.complete) == (True, 0, False)
        assert running.result(60).moved == 5
    assert endpoint.move().busy is False
    with Session(settings) as session:
        next_one = Endpoint(session, endpoint.queue.address, endpoint.resolver)
        assert next_one.move().busy is False, "the lock does not last as long as the session"
    assert endpoint.bodies() == [b"%d" % n for n in range(5)]


def test_two_movers_move_every_message_once(connect: Connect, endpoint: Endpoint) -> None:
    endpoint.delayed.store((Message(body=b"%d" % n) for n in range(150)), delay=NOW)
    start = threading.Barrier(2)

    def work(_: int) -> list[MoveResult]:
        with connect() as session:
            own = Endpoint(session, endpoint.queue.address, endpoint.resolver)
            start.wait(60)
            moves = [own.move(chunk=7, max_messages=28)]
            while own.delayed.count().messages:
                moves.append(own.move(chunk=7, max_messages=28))
            return moves

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(work, range(2))
    assert sum(move.moved for move in first + second) == 150
    assert Counter(endpoint.bodies()) == Counter(b"%d" % n for n in range(150))


def move_and_halt(halt: Callable[[], None], url: str, table: str, statement: str) -> None:
    """Halt before the statement in the second chunk of 40."""
    chunks = 0

    class Halting(Session):
        def run(self, found: Query, *values: Any, sizes: Any = None) -> list[Any]:
            nonlocal chunks
            chunks += found.name == "delayed.due"
            if found.name == statement and chunks == 2:
                halt()
            return super().run(found, *values, sizes=sizes)

    settings = ConnectionSettings.from_url(url)
    resolver = AddressResolver(default_catalog=settings.database)
    with Halting(settings) as session:
        delayed = DelayedTable(session, resolver.resolve(f"{table}.Delayed"))
        move_due(delayed, QueueTable(session, resolver.resolve(table)), resolver, MoveOptions(chunk=40))


@pytest.mark.parametrize("statement", ["delayed.due", "delayed.move", "session.commit"])
def test_a_mover_that_is_killed_loses_and_duplicates_nothing(
    server_url: str, endpoint: Endpoint, statement: str
) -> None:
    """Killed in its second chunk of 40: the first is moved, the second is not, and the next mover does the rest."""
    other = endpoint.other("other")
    endpoint.delayed.store((Message(body=b"%d" % n) for n in range(100)), delay=NOW)
    endpoint.delayed.store((Message(body=b"%d" % n) for n in range(100, 120)), delay=NOW, forward_to=other.address)
    kill_where_it_halts(move_and_halt, server_url, endpoint.queue.address.table, statement)
    moved = 0
    forwarded = 0
    while endpoint.delayed.next_due() is not None or moved + forwarded < 80:
        rest = endpoint.move()
        moved, forwarded = moved + rest.moved, forwarded + rest.forwarded
    assert (moved, forwarded) == (60, 20)
    assert Counter(endpoint.bodies()) == Counter(b"%d" % n for n in range(100))
    assert Counter(message.body for message in other.receive(2000)) == Counter(b"%d" % n for n in range(100, 120))
