"""Measurements. Ratios compare pyodbc on fakemssql with psycopg on fakemssql's PostgreSQL, measured in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import product

import psycopg
import pyodbc
from figures import Figure
from processes import Spent, cpu, ended, memory, spent

from fakemssql import FakeServer

TURNS = 3
_DIGITS = "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))"
_PLACE = """SELECT format('%%I.%%I', s.pg_name, o.pg_name) FROM mssql.objects AS o
JOIN mssql.schemas AS s USING (database_id, schema_id) WHERE o.name = %s"""


def connect(server: FakeServer) -> pyodbc.Connection:
    return pyodbc.connect(server.odbc_connection_string(), autocommit=True)


def pid_of(server: FakeServer) -> int:
    assert server.pid is not None
    return server.pid


def starts(turns: int = TURNS) -> list[Figure]:
    """Time from a start to the end of the first query, with new data and with the data of an earlier start."""
    fresh, again, work = [], [], []
    for _ in range(turns):
        server = FakeServer()
        for times, begin, end in ((fresh, server.start, server.kill), (again, server.restart, server.stop)):
            start = time.perf_counter()
            begin()
            with closing(connect(server)) as connection:
                connection.execute("SELECT 1").fetchall()
            times.append(time.perf_counter() - start)
            if times is fresh:
                work.append(cpu(pid_of(server)) + ended(pid_of(server)))
            end()
    return [
        Figure("start to the first query", min(fresh), "s", at_most=2.0, note=f"the best of {turns}"),
        Figure("processor time of it", min(work), "s", at_most=3.0, note="initdb has most of it"),
        Figure("the same on data that are there", min(again), "s", at_most=2.0),
    ]


@contextmanager
def many(server: FakeServer, count: int) -> Iterator[Spent]:
    """Open ``count`` connections that each run a query, and measure the time of opening them."""
    with ExitStack() as stack:
        with spent(pid_of(server)) as found:
            for _ in range(count):
                connection = stack.enter_context(closing(connect(server)))
                connection.execute("SELECT 1").fetchall()
        yield found


def connections(server: FakeServer, count: int = 20) -> list[Figure]:
    """Memory of an open connection, and the time to open one with a new process and with a waiting process."""
    before = memory(pid_of(server))
    with many(server, count) as new:
        each = (memory(pid_of(server)) - before) / count
    _settled(server)
    times = []
    for _ in range(count):
        with many(server, 1) as found:
            times.append(found.wall)
    note = f"processor time: {1000 * new.server / count:.1f} ms there, {1000 * new.client / count:.1f} ms here"
    return [
        Figure("memory of a connection", each, "MB", at_most=40.0, note=f"of {count}, shared pages once"),
        Figure("a connection with a new process", 1000 * new.wall / count, "ms", note=note),
        Figure("processor time of it", 1000 * new.cpu / count, "ms", at_most=30.0),
        Figure("a connection to one that waits", 1000 * min(times), "ms", at_most=30.0, note=f"the best of {count}"),
    ]


def _settled(server: FakeServer, patience: float = 20.0) -> None:
    """Wait until closed connections use no more processor time."""
    deadline, last = time.monotonic() + patience, -1.0
    while time.monotonic() < deadline and abs(cpu(pid_of(server)) - last) > 0.005:
        last = cpu(pid_of(server))
        time.sleep(0.2)


def idle(server: FakeServer, count: int = 50, seconds: float = 5.0) -> list[Figure]:
    """Share of a core that idle connections use, compared with the server without connections."""
    _settled(server)
    with spent(pid_of(server)) as without:
        time.sleep(seconds)
    with many(server, count):
        _settled(server)
        with spent(pid_of(server)) as found:
            time.sleep(seconds)
    note = f"without them {without.server / without.wall:.4f}"
    return [Figure(f"{count} idle connections", found.server / found.wall, "cores", at_most=0.05, note=note)]


def filled(connection: pyodbc.Connection, name: str, rows: int) -> None:
    """Make a table with a key and three columns of 1 KB, of different types."""
    connection.execute(f"CREATE TABLE {name} (n bigint IDENTITY, b varbinary(max), t nvarchar(512), c varchar(1024))")
    digits = ", ".join(f"{_DIGITS} AS d{i}(n)" for i in range(6))
    connection.execute(
        f"INSERT {name} (b, t, c) SELECT TOP ({rows}) CAST(REPLICATE('x', 1024) AS varbinary(max)),"  # noqa: S608
        f" REPLICATE(N'x', 512), REPLICATE('x', 1024) FROM {digits}"
    )


def reads(server: FakeServer, rows: int = 50_000, turns: int = TURNS) -> list[Figure]:
    """Rate of SELECTs that fetch rows of 1 KB, by pyodbc here and by psycopg from PostgreSQL, in turns."""
    found = []
    with closing(connect(server)) as ours, psycopg.connect(server._conninfo, autocommit=True) as theirs:
        filled(ours, "bench_reads", rows)
        place = theirs.execute(_PLACE, ["bench_reads"]).fetchone()
        assert place is not None
        for column, kind in (("b", "varbinary"), ("t", "nvarchar"), ("c", "varchar")):
            spans: dict[str, list[Spent]] = {"ours": [], "theirs": []}
            for _, side in product(range(turns), spans):
                with spent(pid_of(server)) as span:
                    if side == "ours":
                        got = len(ours.execute(f"SELECT n, {column} FROM bench_reads").fetchall())  # noqa: S608
                    else:
                        cursor = theirs.execute(f"SELECT n, {column} FROM {place[0]}", binary=True)  # noqa: S608
                        got = len(cursor.fetchall())
                assert got == rows
                spans[side].append(span)
            best = {side: min(span.wall for span in each) for side, each in spans.items()}
            work = {side: min(span.cpu for span in each) for side, each in spans.items()}
            found += [
                Figure(f"rows of 1 KB, {kind}", rows / best["ours"], "rows/s", at_least=25_000),
                Figure("against psycopg", best["theirs"] / best["ours"], "of its rate", at_least=0.1),
                Figure("processor time, against psycopg", work["ours"] / work["theirs"], "times", at_most=12.0),
            ]
        ours.execute("DROP TABLE bench_reads")
    return found


_QUEUE = """CREATE TABLE bench_queue (Id uniqueidentifier NOT NULL, Recoverable bit NOT NULL, Expires datetime,
Headers nvarchar(max) NOT NULL, Body varbinary(max), RowVersion bigint IDENTITY(1,1) NOT NULL);
CREATE INDEX Index_RowVersion ON bench_queue (RowVersion)"""
_SEND = "INSERT INTO bench_queue (Id, Recoverable, Headers, Body) VALUES (?, 1, ?, ?)"
_RECEIVE = """WITH m AS (SELECT TOP (1) * FROM bench_queue WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
ORDER BY RowVersion) DELETE FROM m OUTPUT deleted.Id, deleted.Headers, deleted.Body"""
_PG_QUEUE = """CREATE TABLE bench_queue (id uuid NOT NULL, recoverable bool NOT NULL, expires timestamp,
headers text NOT NULL, body bytea, version bigint GENERATED ALWAYS AS IDENTITY);
CREATE INDEX ON bench_queue (version)"""
_PG_SEND = "INSERT INTO bench_queue (id, recoverable, headers, body) VALUES (%s, true, %s, %s)"
_PG_RECEIVE = """WITH m AS MATERIALIZED (SELECT ctid FROM bench_queue ORDER BY version LIMIT 1 FOR UPDATE SKIP LOCKED)
DELETE FROM bench_queue AS d USING m WHERE d.ctid = m.ctid RETURNING d.id, d.headers, d.body"""


def statements(server: FakeServer, count: int = 1_000, turns: int = TURNS) -> list[Figure]:
    """Rate of messages of 1 KB, sent and received one by one, each in a transaction, like clients of a queue."""
    message = ("6f9619ff-8b86-d011-b42d-00c04fc964ff", "x" * 200, b"x" * 800)
    spans: dict[str, list[Spent]] = {}

    def measured(name: str, each: Callable[[], object]) -> None:
        with spent(pid_of(server)) as span:
            for _ in range(count):
                assert each() is not None
        spans.setdefault(name, []).append(span)

    with closing(connect(server)) as ours, psycopg.connect(server._conninfo, autocommit=True) as theirs:
        ours.execute(_QUEUE)
        theirs.execute(_PG_QUEUE)
        for _ in range(turns):
            measured("INSERT", lambda: ours.execute(_SEND, message))
            measured("PG INSERT", lambda: theirs.execute(_PG_SEND, message))
            measured("receive", lambda: ours.execute(_RECEIVE).fetchone())
            measured("PG receive", lambda: theirs.execute(_PG_RECEIVE).fetchone())
        ours.execute("DROP TABLE bench_queue")
        theirs.execute("DROP TABLE bench_queue")
    found = []
    for name, label in (("INSERT", "single INSERTs of 1 KB"), ("receive", "receives of 1 KB")):
        here, there = (min(span.wall for span in spans[key]) for key in (name, f"PG {name}"))
        work, base = (min(span.cpu for span in spans[key]) for key in (name, f"PG {name}"))
        found += [
            Figure(label, count / here, "a second"),
            Figure("against psycopg", there / here, "of its rate", at_least=0.05),
            Figure("processor time, against psycopg", work / base, "times", at_most=12.0),
        ]
    return found
