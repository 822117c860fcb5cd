"""The mover: what is due goes to the queue or is forwarded, once, whoever else moves and whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_sqlqueue.delayed.mover import MoveResult, move_due
from airflow_sqlqueue.delayed.table import DelayedTable
from airflow_sqlqueue.errors import ConfigurationError, NotAQueueError
from airflow_sqlqueue.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Query
from airflow_sqlqueue.tables.create import create, create_queue, delayed_definition
from tests.contract.conftest import Connect, run_sql

NOW, TOMORROW = timedelta(0), timedelta(days=1)
HEADERS = {HeaderNames.CORRELATION_ID: "c-1", HeaderNames.REPLY_TO_ADDRESS: "Sales@[dbo]@[nsb]", "Grüße": "☃ 😀"}


class Endpoint:
    """A queue, its table of delayed messages and other queues, through one connection."""

    def __init__(self, session: Session, table: ResolvedAddress, resolver: AddressResolver) -> None:
        self.session, self.resolver = session, resolver
        self.queue = QueueTable(session, table)
        self.delayed = DelayedTable(session, replace(table, table=f"{table.table}.Delayed"))
        self.others: list[ResolvedAddress] = []

    def other(self, name: str) -> QueueTable:
        address = replace(self.queue.address, table=f"{self.queue.address.table}.{name}")
        create_queue(self.session, address)
        self.others.append(address)
        return QueueTable(self.session, address)

    def move(self, **options: Any) -> MoveResult:
        return move_due(self.delayed, self.queue, self.resolver, **options)

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.queue.receive(2000)]


@pytest.fixture
def endpoint(connect: Connect, table: ResolvedAddress, address_of: AddressResolver) -> Iterator[Endpoint]:
    with connect() as session:
        endpoint = Endpoint(session, table, address_of)
        create_queue(session, table)
        create(session, delayed_definition(endpoint.delayed.address))
        yield endpoint
        for address in (endpoint.delayed.address, *endpoint.others):
            run_sql(session, f"DROP TABLE IF EXISTS {address.qualified_name}")


@pytest.mark.parametrize("layout", ["v1", "v3.0", "v4", "modern"])
def test_round_trip_on_every_layout(endpoint: Endpoint, layout: str) -> None:
    run_sql(endpoint.session, f"DROP TABLE {endpoint.queue.address.qualified_name}")
    create_queue(endpoint.session, endpoint.queue.address, layout=layout)
    endpoint.delayed.store([Message(HEADERS, b"\0\xff"), Message({}, b"")], delay=NOW)
    endpoint.delayed.store([Message(body=b"later")], delay=TOMORROW)
    moved = endpoint.move()
    assert (moved.moved, moved.forwarded, moved.failed, moved.left, moved.complete) == (2, 0, 0, 0, True)
    assert moved.next_due == endpoint.delayed.peek()[0].due
    first, second = endpoint.queue.receive(5)
    assert decode_headers(first.headers).values == HEADERS
    assert (first.body, first.recoverable, first.expires) == (b"\0\xff", True, None)
    assert (first.correlation_id, first.reply_to_address) == ("c-1", "Sales@[dbo]@[nsb]")
    assert (second.body, second.correlation_id, second.reply_to_address) == (b"", None, None)
    assert first.id != second.id


def test_headers_of_endpoints_survive_as_they_are(endpoint: Endpoint) -> None:
    texts = [
        '{"a" : "x\\/y", "Grüße":"☃ 😀"}',
        "",
        "not JSON",
        '{"n": 1}',
        f'{{"{HeaderNames.FORWARD_DESTINATION}": null}}',
    ]
    endpoint.delayed.store([Message(text) for text in texts], delay=NOW)
    assert endpoint.move().moved == 5
    assert [message.headers for message in endpoint.queue.receive(5)] == texts


def test_text_outside_ascii_survives_a_varchar_column(endpoint: Endpoint) -> None:
    run_sql(endpoint.session, f"DROP TABLE {endpoint.queue.address.qualified_name}")
    create_queue(endpoint.session, endpoint.queue.address, layout="v3.0")
    endpoint.delayed.store([Message('{"Grüße": "☃ 😀"}')], delay=NOW)
    endpoint.move()
    assert decode_headers(endpoint.queue.receive()[0].headers).values == {"Grüße": "☃ 😀"}


@pytest.mark.parametrize(
    "alteration",
    [
        "ALTER TABLE {queue} DROP COLUMN [CorrelationId], [ReplyToAddress], [Recoverable]",
        "ALTER TABLE {queue} DROP COLUMN [ReplyToAddress]",
        "ALTER TABLE {queue} ADD [Note] int NOT NULL DEFAULT 1",
        "ALTER TABLE {queue} ADD CONSTRAINT {check} CHECK ([Recoverable] = 1)",
        "ALTER TABLE {queue} ADD PRIMARY KEY ([RowVersion])",
    ],
)
def test_altered_queues(endpoint: Endpoint, alteration: str) -> None:
    queue = endpoint.queue.address
    run_sql(endpoint.session, alteration.format(queue=queue.qualified_name, check=f"[check.{queue.table}]"))
    endpoint.delayed.store((Message(body=b"%d" % n) for n in range(9)), delay=NOW)
    assert endpoint.move(chunk=4).moved == 9
    assert endpoint.bodies() == [b"%d" % n for n in range(9)]


def test_triggers_on_both_tables_are_no_obstacle(endpoint: Endpoint) -> None:
    for address, event in ((endpoint.queue.address, "INSERT"), (endpoint.delayed.address, "DELETE")):
        name = f"[{address.table}.trigger]"
        run_sql(endpoint.session, f"CREATE TRIGGER {name} ON [{address.table}] AFTER {event} AS SELECT 1, 2, 3;")
    endpoint.delayed.store((Message(body=b"%d" % n) for n in range(9)), delay=NOW)
    assert endpoint.move(chunk=4).moved == 9
    assert endpoint.bodies() == [b"%d" % n for n in range(9)]


def test_a_foreign_key_is_no_obstacle(endpoint: Endpoint) -> None:
    queue = endpoint.queue.address
    kinds = replace(queue, table=f"{queue.table}.Kinds")
    endpoint.others.append(kinds)
    run_sql(endpoint.session, f"CREATE TABLE {kinds.qualified_name} ([Kind] int NOT NULL PRIMARY KEY)")
    run_sql(endpoint.session, f"INSERT INTO {kinds.qualified_name} VALUES (1)")
    key = f"CONSTRAINT [key.{queue.table}] REFERENCES [{kinds.table}] ([Kind])"
    run_sql(endpoint.session, f"ALTER TABLE {queue.qualified_name} ADD [Kind] int NOT NULL DEFAULT 1 {key}")
    endpoint.delayed.store([Message(body=b"a")], delay=NOW)
    assert endpoint.move().moved == 1
    assert endpoint.bodies() == [b"a"]
    run_sql(endpoint.session, f"ALTER TABLE {queue.qualified_name} DROP CONSTRAINT [key.{queue.table}]")


def test_the_order_is_by_due_then_row_version(endpoint: Endpoint) -> None:
    long_ago = datetime(2020, 1, 1, tzinfo=timezone.utc)
    for n in (3, 1, 2, 0):
        endpoint.delayed.store([Message(body=b"%d%d" % (n, m)) for m in range(2)], due=long_ago + timedelta(days=n))
    assert endpoint.move(chunk=4).moved == 8
    assert endpoint.bodies() == [b"00", b"01", b"10", b"11", b"20", b"21", b"30", b"31"]


def test_bodies_of_all_sizes(endpoint: Endpoint) -> None:
    sent = [b"", bytes(range(256)), b"x" * 8001, b"y" * 3_000_000]
    endpoint.delayed.store((Message(body=body) for body in sent), delay=NOW)
    endpoint.move()
    assert endpoint.bodies() == sent


def test_a_budget_ends_a_move(endpoint: Endpoint) -> None:
    endpoint.delayed.store((Message() for _ in range(10)), delay=NOW)
    limited = endpoint.move(chunk=3, max_messages=7)
    assert (limited.moved, limited.complete) == (7, False)
    assert limited.next_due is not None
    assert limited.next_due <= datetime.now(timezone.utc) + timedelta(minutes=5)
    assert endpoint.move(max_seconds=0).moved == 0
    rest = endpoint.move()
    assert (rest.moved, rest.complete, rest.next_due) == (3, True, None)


@pytest.mark.parametrize("chunk", [0, 1_001])
def test_a_chunk_that_would_let_locks_escalate(endpoint: Endpoint, chunk: int) -> None:
    with pytest.raises(ConfigurationError, match="give 1 to 1000"):
        endpoint.move(chunk=chunk)


# Forwarding


def test_messages_are_forwarded_without_the_header(endpoint: Endpoint) -> None:
    other = endpoint.other("other")
    endpoint.delayed.store([Message(HEADERS, b"there")], delay=NOW, forward_to=other.address)
    endpoint.delayed.store([Message(HEADERS, b"here")], delay=NOW)
    endpoint.delayed.store([Message(HEADERS, b"here too")], delay=NOW, forward_to=endpoint.queue.address)
    moved = endpoint.move()
    assert (moved.moved, moved.forwarded, moved.failed, moved.left, moved.problems) == (2, 1, 0, 0, {})
    (there,) = other.receive(5)
    assert (there.body, there.correlation_id) == (b"there", "c-1")
    assert decode_headers(there.headers).values == HEADERS
    received = endpoint.queue.receive(5)
    assert [message.body for message in received] == [b"here", b"here too"]
    assert all(decode_headers(message.headers).values == HEADERS for message in received)


def test_a_destination_goes_through_the_routing_settings(endpoint: Endpoint) -> None:
    other = endpoint.other("other")
    name = other.address.table
    endpoint.resolver = replace(endpoint.resolver, queue_schemas={name: other.address.schema})
    for text in (f"{name}@[elsewhere]@[{other.address.catalog}]", name, f"{name}@WEB01"):
        endpoint.delayed.store([Message({HeaderNames.FORWARD_DESTINATION: text}, text.encode())], delay=NOW)
    assert endpoint.move().forwarded == 3


MISSING = {"missing": "does not exist", "": "is blank|no table name", "q@[s]@[no such database]": "does not exist"}


@pytest.mark.parametrize("destination", MISSING)
def test_what_cannot_be_forwarded_goes_to_the_error_queue(endpoint: Endpoint, destination: str) -> None:
    errors = endpoint.other("error")
    endpoint.delayed.store([Message({**HEADERS, HeaderNames.FORWARD_DESTINATION: destination}, b"lost")] * 3, delay=NOW)
    endpoint.delayed.store([Message(body=b"here")], delay=NOW)
    moved = endpoint.move(error_queue=errors, chunk=2)
    assert (moved.moved, moved.forwarded, moved.failed, moved.left) == (1, 0, 3, 0)
    assert list(moved.problems) == [destination]
    failed = errors.receive(5)
    assert [message.body for message in failed] == [b"lost"] * 3
    values = decode_headers(failed[0].headers).values
    assert values.items() >= HEADERS.items()
    assert HeaderNames.FORWARD_DESTINATION not in values
    assert values[HeaderNames.FAILED_Q] == destination
    assert values[HeaderNames.EXCEPTION_MESSAGE] == moved.problems[destination]
    assert endpoint.bodies() == [b"here"]


@pytest.mark.parametrize("destination", MISSING)
def test_without_an_error_queue_it_stays_and_holds_nothing_up(endpoint: Endpoint, destination: str) -> None:
    lost = Message({HeaderNames.FORWARD_DESTINATION: destination}, b"lost")
    here = Message(body=b"here")
    for _ in range(3):
        endpoint.delayed.store([lost, here, lost, here, lost], delay=NOW)
    moved = endpoint.move(chunk=2)
    assert (moved.moved, moved.forwarded, moved.failed, moved.left, moved.complete) == (6, 0, 0, 9, True)
    assert list(moved.problems) == [destination]
    assert endpoint.bodies() == [b"here"] * 6
    assert endpoint.delayed.count().due == 9


def test_a_destination_that_takes_nothing_holds_nobody_up(endpoint: Endpoint) -> None:
    """A trigger that throws: the transaction is gone, and what was to be moved with it is moved without it."""
    other, errors = endpoint.other("other"), endpoint.other("error")
    trigger = f"CREATE TRIGGER [{other.address.table}.trigger] ON [{other.address.table}] AFTER INSERT AS"
    run_sql(endpoint.session, f"{trigger} THROW 50001, N'closed', 1;")
    endpoint.delayed.store([Message(body=b"here")], delay=NOW)
    endpoint.delayed.store([Message(body=b"there")], delay=NOW, forward_to=other.address)
    moved = endpoint.move(error_queue=errors)
    assert (moved.moved, moved.forwarded, moved.failed) == (1, 0, 1)
    assert "50001" in moved.problems[other.address.canonical]
    assert [message.body for message in errors.receive(5)] == [b"there"]
    assert endpoint.bodies() == [b"here"]


def test_a_queue_that_takes_nothing_is_an_error(endpoint: Endpoint) -> None:
    run_sql(endpoint.session, f"ALTER TABLE {endpoint.queue.address.qualified_name} ADD [Tenant] int NOT NULL")
    endpoint.delayed.store([Message()], delay=NOW)
    with pytest.raises(NotAQueueError, match="'Tenant' takes no NULL"):
        endpoint.move()
    assert endpoint.delayed.count().messages == 1


# Others at work


def test_a_message_that_somebody_holds_is_passed_over(connect: Connect, endpoint: Endpoint) -> None:
    endpoint.delayed.store([Message(body=b"held"), Message(body=b"free")], delay=NOW)
    first = endpoint.delayed.peek()[0]
    with connect() as session, session.transaction():
        assert DelayedTable(session, endpoint.delayed.address).cancel([first.row_version]) == 1
        assert endpoint.move().moved == 1
    assert endpoint.bodies() == [b"free"]


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
def test_a_destination_that_is_altered_meanwhile(settings: ConnectionSettings, endpoint: Endpoint, change: str) -> None:
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
    assert endpoint.bodies() == [b"%d" % n for n in range(5)]


def test_two_movers_move_every_message_once(connect: Connect, endpoint: Endpoint) -> None:
    endpoint.delayed.store((Message(body=b"%d" % n) for n in range(600)), delay=NOW)
    start = threading.Barrier(2)

    def work(_: int) -> list[MoveResult]:
        with connect() as session:
            own = Endpoint(session, endpoint.queue.address, endpoint.resolver)
            start.wait(60)
            moves = [own.move(chunk=7, max_messages=70)]
            while own.delayed.count().messages:
                moves.append(own.move(chunk=7, max_messages=70))
            return moves

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(work, range(2))
    assert sum(move.moved for move in first + second) == 600
    assert Counter(endpoint.bodies()) == Counter(b"%d" % n for n in range(600))


KILLED = """
import sys
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.delayed.table import DelayedTable
from airflow_sqlqueue.delayed.mover import move_due
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.session import Session

url, queue, statement = sys.argv[1:]
count = 0

class Stopping(Session):
    def run(self, found, *values, sizes=None):
        global count
        count += found.name == "delayed.due"
        if found.name == statement and count == 2:
            print("here", flush=True)
            sys.stdin.read()
        return super().run(found, *values, sizes=sizes)

settings = ConnectionSettings.from_url(url)
resolver = AddressResolver(default_catalog=settings.database)
session = Stopping(settings)
delayed = DelayedTable(session, resolver.resolve(queue + ".Delayed"))
move_due(delayed, QueueTable(session, resolver.resolve(queue)), resolver, chunk=40)
"""


@pytest.mark.parametrize("statement", ["delayed.due", "delayed.move", "session.commit"])
def test_a_mover_that_is_killed_loses_and_doubles_nothing(server_url: str, endpoint: Endpoint, statement: str) -> None:
    """Killed in its second chunk of 40: the first is moved, the second is not, and the next mover does the rest."""
    other = endpoint.other("other")
    endpoint.delayed.store((Message(body=b"%d" % n) for n in range(100)), delay=NOW)
    endpoint.delayed.store((Message(body=b"%d" % n) for n in range(100, 120)), delay=NOW, forward_to=other.address)
    command = [sys.executable, "-c", KILLED, server_url, endpoint.queue.address.table, statement]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    moved = 0
    forwarded = 0
    while endpoint.delayed.next_due() is not None or moved + forwarded < 80:
        rest = endpoint.move()
        moved, forwarded = moved + rest.moved, forwarded + rest.forwarded
    assert (moved, forwarded) == (60, 20)
    assert Counter(endpoint.bodies()) == Counter(b"%d" % n for n in range(100))
    assert Counter(message.body for message in other.receive(2000)) == Counter(b"%d" % n for n in range(100, 120))
