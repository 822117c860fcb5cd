"""Transactions of a session and transactions that calls join, on any server."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from contextvars import copy_context
from dataclasses import replace
from functools import partial

import pyodbc
import pytest

from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.errors import ConfigurationError, LockTimeoutError, SqlQueueError, TransactionError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.connection import open_connection
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from airflow_sqlqueue.server.transactions import current_transaction, transaction
from tests.contract.conftest import Connect, run_sql


class Interrupted(Exception):
    """A handler that fails."""


def waiting(queue: QueueTable) -> list[bytes]:
    return [message.body for message in queue.peek(100)]


def other(queue: QueueTable, session: Session) -> QueueTable:
    return QueueTable(session, queue.address)


# A session's own transactions


def test_a_nested_transaction_is_part_of_the_outer_one(queue: QueueTable, connect: Connect) -> None:
    session = queue.session
    with connect() as watcher:
        with session.transaction():
            with session.transaction():
                queue.send([Message(body=b"a")])
            assert waiting(other(queue, watcher)) == []
            queue.send([Message(body=b"b")])
        assert waiting(other(queue, watcher)) == [b"a", b"b"]
    assert not session.in_transaction


def test_a_failed_inner_transaction_takes_the_outer_one_with_it(queue: QueueTable) -> None:
    session = queue.session

    def swallow_and_go_on() -> None:
        with session.transaction():
            queue.send([Message(body=b"a")])
            with suppress(Interrupted), session.transaction():
                queue.send([Message(body=b"b")])
                raise Interrupted
            with pytest.raises(TransactionError, match="failed before"):
                queue.send([Message(body=b"c")])

    with pytest.raises(TransactionError, match="is rolled back"):
        swallow_and_go_on()
    assert waiting(queue) == []
    refused = pytest.raises(TransactionError, match="is rolled back")
    with refused, session.transaction(), suppress(Interrupted), session.transaction():
        raise Interrupted


@pytest.mark.parametrize(
    "wrong", ["SELECT 1/0", "INSERT INTO [no such table] VALUES (1)", "SELEC", "THROW 50001, N'x', 1"]
)
def test_after_an_error_nothing_is_committed_on_its_own(queue: QueueTable, wrong: str) -> None:
    """A program that catches a statement's error inside a transaction must not send outside of one unnoticed."""
    session = queue.session

    def swallow_and_go_on() -> None:
        with session.transaction():
            queue.send([Message(body=b"a")])
            with pytest.raises(SqlQueueError):
                run_sql(session, wrong)
            queue.send([Message(body=b"b")])

    with pytest.raises(TransactionError, match="failed before"):
        swallow_and_go_on()
    assert waiting(queue) == []
    queue.send([Message(body=b"again")])
    assert waiting(queue) == [b"again"]


def test_a_session_serves_on_while_its_error_is_looked_at(queue: QueueTable) -> None:
    """The exception keeps the driver's cursor alive, unread results included."""
    queue.send([Message(body=b"kept")])
    wrong = f"SELECT * FROM {queue.address.qualified_name}; SELECT 1/0"
    with suppress(SqlQueueError), queue.session.transaction():
        assert len(queue.receive()) == 1
        run_sql(queue.session, wrong)
    with pytest.raises(SqlQueueError) as caught:
        run_sql(queue.session, wrong)
    assert caught.value.__cause__ is not None
    assert waiting(queue) == [b"kept"]


def test_the_lock_timeout_is_restored_after_a_doomed_transaction(queue: QueueTable, connect: Connect) -> None:
    session = queue.session
    queue.send([Message(body=b"a")])
    with connect() as holder, holder.transaction():
        other(queue, holder).receive()
        with pytest.raises(LockTimeoutError), session.transaction(), session.lock_timeout(0):
            run_sql(session, f"SELECT COUNT(*) FROM {queue.address.qualified_name} WITH (XLOCK, ROWLOCK)")
    assert run_sql(session, "SELECT @@LOCK_TIMEOUT")[0][0] == 10_000


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0.25, 250), (0, 0), (-1, 0)])
def test_a_lock_timeout_that_has_passed_does_not_wait(session: Session, seconds: float, milliseconds: int) -> None:
    """For the server, -1 would be to wait without an end."""
    with session.lock_timeout(5):
        with session.lock_timeout(seconds):
            assert run_sql(session, "SELECT @@LOCK_TIMEOUT")[0][0] == milliseconds
        assert run_sql(session, "SELECT @@LOCK_TIMEOUT")[0][0] == 5_000
    assert run_sql(session, "SELECT @@LOCK_TIMEOUT")[0][0] == 10_000


def test_a_session_is_closed_at_the_end_of_its_block(connect: Connect) -> None:
    with connect() as session:
        assert run_sql(session, "SELECT 1")[0][0] == 1
    with pytest.raises(SqlQueueError):
        run_sql(session, "SELECT 1")


# Connections that are lent


def test_a_lent_connection_takes_part_and_cannot_commit(queue: QueueTable) -> None:
    table = queue.address.qualified_name
    session = queue.session
    insert = (
        f"INSERT INTO {table} (Id, Recoverable, Headers, Body) VALUES (NEWID(), 1, N'', CONVERT(varbinary(max), ?))"
    )

    def send_and_fail(fail: bool) -> None:
        with session.transaction():
            connection = session.enlisted_connection()
            with connection.cursor() as cursor:
                cursor.execute(insert, b"a")
            connection.execute(insert, b"b")
            connection.commit()
            connection.close()
            queue.send([Message(body=b"c")])
            if fail:
                raise Interrupted

    with pytest.raises(Interrupted):
        send_and_fail(True)
    assert waiting(queue) == []
    send_and_fail(False)
    assert waiting(queue) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("how", ["rollback", "error", "autocommit", "block"])
def test_a_lent_connection_dooms_the_transaction(queue: QueueTable, how: str) -> None:
    def go_on() -> None:
        with queue.session.transaction():
            connection = queue.session.enlisted_connection()
            if how == "rollback":
                connection.rollback()
            elif how == "block":
                with suppress(Interrupted), connection:
                    raise Interrupted
            elif how == "error":
                with pytest.raises(pyodbc.Error):
                    connection.execute("SELECT 1/0").fetchall()
            else:
                connection.autocommit = True
            insert = f"INSERT INTO {queue.address.qualified_name} (Id, Recoverable, Headers, Body)"
            with pytest.raises(TransactionError):
                connection.execute(f"{insert} VALUES (NEWID(), 1, N'', 0x61)")
            queue.send([Message()])

    with pytest.raises(TransactionError):
        go_on()
    assert waiting(queue) == []


@pytest.mark.parametrize("fail", [False, True])
def test_a_lent_connection_is_in_the_transaction_from_its_first_statement(queue: QueueTable, fail: bool) -> None:
    """A connection that was lent in an earlier transaction too."""
    session, table = queue.session, queue.address.qualified_name
    insert = f"INSERT INTO {table} (Id, Recoverable, Headers, Body) VALUES (NEWID(), 1, N'', 0x61)"
    with session.transaction():
        connection = session.enlisted_connection()
        cursor = connection.cursor()
    for statement in (connection, cursor):
        with suppress(Interrupted), session.transaction():
            statement.execute(insert)
            if fail:
                raise Interrupted
    assert waiting(queue) == [] if fail else [b"a", b"a"]


def test_a_lent_connection_is_that_of_its_thread(queue: QueueTable) -> None:
    with queue.session.transaction(), ThreadPoolExecutor(1) as pool:
        lent = queue.session.enlisted_connection()
        cursor = lent.execute("SELECT 1")
        for call in (lent.cursor, lent.rollback, partial(lent.execute, "SELECT 1"), cursor.fetchall, cursor.__iter__):
            with pytest.raises(TransactionError, match="get the connection in each call"):
                pool.submit(call).result(10)
        assert cursor.fetchall()[0][0] == 1


def test_a_lent_connection_is_used_as_one_of_pyodbc(queue: QueueTable) -> None:
    """With ``with`` and ``for``, and by libraries that set autocommit off; a rollback of theirs dooms the block."""
    session, table = queue.session, queue.address.qualified_name
    insert = f"INSERT INTO {table} (Id, Recoverable, Headers, Body) VALUES (NEWID(), 1, N'', ?)"
    with session.transaction(), session.enlisted_connection() as connection:
        connection.autocommit = False
        assert connection.autocommit is False
        with pytest.raises(TransactionError, match="leave autocommit off"):
            connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.executemany(insert, [(b"a",), (b"b",), (b"c",)])
            cursor.execute(f"SELECT Body FROM {table} ORDER BY RowVersion")
            assert cursor.fetchone()[0] == b"a"
            assert [row[0] for row in cursor.fetchmany(1)] == [b"b"]
            assert [row[0] for row in cursor] == [b"c"]
            assert cursor.nextset() is False
        connection.commit()
        connection.close()
    assert waiting(queue) == [b"a", b"b", b"c"]
    undone = f"DELETE FROM {table}"

    def roll_back() -> None:
        with session.transaction():
            connection.execute(undone)
            connection.rollback()

    with pytest.raises(TransactionError):
        roll_back()
    assert waiting(queue) == [b"a", b"b", b"c"]
    with suppress(Interrupted), session.transaction(), session.enlisted_connection() as connection:
        connection.execute(undone)
        raise Interrupted
    assert waiting(queue) == [b"a", b"b", b"c"]


# How a transaction begins


def count(session: Session) -> int:
    return int(run_sql(session, "SELECT @@TRANCOUNT")[0][0])


def test_a_transaction_without_a_statement_leaves_nothing_open(session: Session) -> None:
    with session.transaction():
        assert session.in_transaction
    assert count(session) == 0


@pytest.mark.parametrize("text", ["SELECT 1/0", "SELECT 1 FROM [no such table]"])
def test_a_first_statement_that_fails_leaves_nothing_open(session: Session, queue: QueueTable, text: str) -> None:
    with pytest.raises(SqlQueueError), session.transaction():
        session.run(Query("test", "run it", text, ours=True))
    assert count(session) == 0
    with session.transaction():
        assert count(session) == 1
        queue.send([Message(body=b"a")])
    assert waiting(queue) == [b"a"]


def test_a_first_statement_that_may_only_stand_alone_is_part_of_it(session: Session, schema: str) -> None:
    with suppress(Interrupted), session.transaction():
        run_sql(session, f"CREATE VIEW [{schema}].[v] AS SELECT 1 AS [n]")
        raise Interrupted
    assert run_sql(session, f"SELECT OBJECT_ID(N'[{schema}].[v]')")[0][0] is None


@pytest.mark.parametrize("inside", [True, False])
def test_a_limit_of_rows_that_a_statement_left_loses_no_message(queue: QueueTable, inside: bool) -> None:
    """In its transaction, in the next one, and without any. fakemssql refuses it, and the recorder reads the texts."""
    session = queue.session

    def leave() -> None:
        with suppress(pyodbc.Error):
            session.enlisted_connection().execute("SET ROWCOUNT 3")

    with suppress(TransactionError), session.transaction():
        if inside:
            leave()
        queue.send([Message(body=b"a")] * 10)
    if not inside:
        leave()
    waits = len(queue.peek(100))
    assert waits in (0, 10)
    queue.send([Message(body=b"b")] * 10)
    with session.transaction():
        queue.send([Message(body=b"c")] * 10)
    assert len(queue.peek(100)) == waits + 20
    with session.transaction():
        assert len(queue.receive(waits + 20)) == waits + 20
    assert waiting(queue) == []


@pytest.mark.parametrize(
    "left",
    [
        *("SET LOCK_TIMEOUT -1", "SET LOCK_TIMEOUT 0", "SET TEXTSIZE 0"),
        *("SET QUOTED_IDENTIFIER OFF", "SET ARITHABORT OFF", "SET NOCOUNT, XACT_ABORT OFF"),
    ],
)
def test_the_settings_that_a_statement_left_end_with_its_transaction(queue: QueueTable, left: str) -> None:
    """A message is received and sent as before: not cut, under the lock timeout, without error 1934."""
    session, read = queue.session, Query("test", "read it", "SELECT @@LOCK_TIMEOUT, @@OPTIONS")
    queue.send([Message(body=b"a" * 5000)])
    before = session.run(read)
    with session.transaction():
        session.enlisted_connection().execute(left)
    with session.transaction():
        (received,) = queue.receive()
        queue.send([Message(body=received.body)])
        assert [tuple(row) for row in session.run(read)] == [tuple(row) for row in before]
    assert waiting(queue) == [b"a" * 5000]


@pytest.mark.parametrize("left", ["BEGIN TRANSACTION", "SET IMPLICIT_TRANSACTIONS ON; BEGIN TRANSACTION"])
def test_a_transaction_that_a_statement_left_open_is_not_taken_for_committed(
    queue: QueueTable, connect: Connect, left: str
) -> None:
    session = queue.session
    queue.send([Message(body=b"a")])

    def handle(lend: bool) -> None:
        with session.transaction():
            queue.receive(1)
            session.enlisted_connection().execute(left) if lend else run_sql(session, left)

    for lend in (False, True):
        with pytest.raises(TransactionError, match="began another transaction and left that open"):
            handle(lend)
        assert count(session) == 0
        with connect() as watcher:
            assert waiting(other(queue, watcher)) == [b"a"]
    with session.transaction():
        session.enlisted_connection().execute("BEGIN TRANSACTION; COMMIT TRANSACTION")
        queue.receive(1)
    assert waiting(queue) == []


def test_neither_is_that_of_a_part(queue: QueueTable) -> None:
    """A trigger of the queue leaves a transaction open."""
    session, batch_id = queue.session, uuid.uuid4()
    queue.send([Message(body=b"a")])
    ledger = Ledger(session, queue.address.catalog)
    ledger.create()
    ledger.open(batch_id, queue.address.canonical, 1)
    session.begin()
    queue.receive(1)
    run_sql(session, "BEGIN TRANSACTION")
    with pytest.raises(TransactionError, match="left that open"):
        ledger.commit_part(
            batch_id, Part(uuid.uuid4(), "x", messages=1, bytes=1, min_row_version=1, max_row_version=1), "worker"
        )
    session.roll_back()
    assert (waiting(queue), ledger.parts(batch_id)) == ([b"a"], [])


SETTINGS = {
    "SET XACT_ABORT OFF": "SELECT @@OPTIONS & 16384",
    "SET IMPLICIT_TRANSACTIONS ON": "SELECT 2 - (@@OPTIONS & 2)",
    **dict.fromkeys([f"SET TRANSACTION ISOLATION LEVEL {level}" for level in ("READ UNCOMMITTED", "SERIALIZABLE")], ""),
}
"""Settings that a statement may change, and queries that must not return 0 in the next transaction."""


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("left", SETTINGS)
def test_the_next_transaction_resets_options_that_a_statement_set(
    queue: QueueTable, connect: Connect, left: str, chained: bool
) -> None:
    session = queue.session
    queue.send([Message(body=b"a"), Message(body=b"b")])
    session.enlisted_connection().execute(left)
    for body in (b"a", b"b"):
        with session.transaction():
            # READPAST is an error at any other level than READ COMMITTED and REPEATABLE READ (650).
            assert [message.body for message in queue.receive(1)] == [body]
            if SETTINGS[left]:
                assert run_sql(session, SETTINGS[left])[0][0] != 0
            session.enlisted_connection().execute(left)
            if chained:
                session.chain()
    with connect() as watcher:
        assert waiting(other(queue, watcher)) == []


def open_transactions(session: Session) -> int:
    """Return @@TRANCOUNT, past the session."""
    return int(session._connection.execute("SELECT @@TRANCOUNT").fetchval())


def send_and_fail(queue: QueueTable) -> None:
    with queue.session.transaction():
        queue.send([Message(body=b"b")])
        raise Interrupted


def test_a_chained_commit_begins_the_next_transaction(queue: QueueTable, connect: Connect) -> None:
    session = queue.session
    with session.transaction():
        queue.send([Message(body=b"a")])
        session.chain()
    assert (session.in_transaction, open_transactions(session)) == (False, 1)
    with connect() as watcher:
        assert waiting(other(queue, watcher)) == [b"a"]
        with pytest.raises(Interrupted):
            send_and_fail(queue)
        assert open_transactions(session) == 0
        with session.transaction():
            queue.send([Message(body=b"c")])
        assert open_transactions(session) == 0, "a chain is one link long"
        assert waiting(other(queue, watcher)) == [b"a", b"c"]


STATEMENTS: dict[str, Callable[[QueueTable], object]] = {
    "ours": lambda queue: queue.send([Message(body=b"b")]),
    "ours, without parameters": lambda queue: queue.receive(),
    "the caller's": lambda queue: run_sql(queue.session, f"DELETE FROM {queue.address.qualified_name}"),
    "a driver's": lambda queue: queue.session.enlisted_connection().execute(
        f"DELETE FROM {queue.address.qualified_name}"
    ),
}


@pytest.mark.parametrize("run", STATEMENTS.values(), ids=STATEMENTS)
def test_a_statement_outside_of_a_chained_transaction_commits(
    queue: QueueTable, connect: Connect, run: Callable[[QueueTable], object]
) -> None:
    with queue.session.transaction():
        queue.send([Message(body=b"a")])
        queue.session.chain()
    run(queue)
    assert open_transactions(queue.session) == 0
    with connect() as watcher, watcher.lock_timeout(0):
        assert len(waiting(other(queue, watcher))) != 1


def test_a_transaction_without_a_statement_is_not_chained(session: Session) -> None:
    with session.transaction():
        session.chain()
    assert open_transactions(session) == 0
    with session.transaction():
        assert session.value(Query("test.count", "count", "SELECT @@TRANCOUNT")) == 1


@pytest.mark.parametrize("level", ["SERIALIZABLE", "READ UNCOMMITTED"])
def test_a_connection_begins_at_read_committed(queue: QueueTable, monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    """A pooled connection may bring another isolation level ("SET TRANSACTION ISOLATION LEVEL", Remarks)."""
    queue.send([Message(body=b"a")])

    def used(settings: ConnectionSettings) -> pyodbc.Connection:
        connection = open_connection(settings)
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        return connection

    monkeypatch.setattr("airflow_sqlqueue.server.session.open_connection", used)
    with Session(queue.session.settings) as session:
        assert [message.body for message in other(queue, session).receive(1)] == [b"a"]


# Transactions that calls join


def test_receives_and_sends_commit_together(queue: QueueTable, connect: Connect, settings: ConnectionSettings) -> None:
    queue.send([Message(body=b"in")])

    def handle(fail: bool) -> None:
        with transaction(settings, connect) as begun:
            assert current_transaction(settings) is begun
            assert begun.sending is begun.receiving
            received = other(queue, begun.receiving).receive()
            other(queue, begun.sending).send(Message(body=b"out of " + message.body) for message in received)
            assert waiting(queue) == []
            if fail:
                raise Interrupted

    with pytest.raises(Interrupted):
        handle(True)
    assert current_transaction(settings) is None
    assert waiting(queue) == [b"in"]
    handle(False)
    assert waiting(queue) == [b"out of in"]


@pytest.mark.parametrize(("mode", "left"), [("receive_only", [b"in", b"ghost"]), ("none", [b"ghost"])])
def test_other_modes_send_at_once(
    queue: QueueTable, connect: Connect, settings: ConnectionSettings, mode: str, left: list[bytes]
) -> None:
    """Without a transaction a failure loses received messages."""
    queue.send([Message(body=b"in")])

    def handle() -> None:
        with transaction(settings, connect, mode) as begun:
            assert len(other(queue, begun.receiving).receive()) == 1
            other(queue, begun.sending).send([Message(body=b"ghost")])
            assert waiting(queue) == [b"ghost"]
            raise Interrupted

    with pytest.raises(Interrupted):
        handle()
    assert waiting(queue) == left


@pytest.mark.parametrize("mode", ["sends_atomic_with_receive", "receive_only", "none"])
def test_a_block_that_joins_and_fails_takes_all_with_it_if_there_is_a_transaction(
    queue: QueueTable, connect: Connect, settings: ConnectionSettings, mode: str
) -> None:
    queue.send([Message(body=b"in")])

    def receive_and_fail() -> None:
        with transaction(settings, connect, mode) as joined:
            assert len(other(queue, joined.receiving).receive()) == 1
            raise Interrupted

    ends = nullcontext() if mode == "none" else pytest.raises(TransactionError)
    with ends, transaction(settings, connect, mode), suppress(Interrupted):
        receive_and_fail()
    assert waiting(queue) == ([] if mode == "none" else [b"in"])


def test_another_server_or_ledger_schema_is_refused(connect: Connect, settings: ConnectionSettings) -> None:
    with transaction(settings, connect) as begun:
        assert current_transaction(replace(settings, database="another")) is begun
        for change in ({"host": "other.example.com"}, {"user": "somebody"}, {"ledger_schema": "another"}):
            with pytest.raises(TransactionError, match="cannot commit together"):
                current_transaction(replace(settings, **change))
    assert current_transaction(replace(settings, host="other.example.com")) is None


def test_another_mode_inside_a_transaction_is_refused(connect: Connect, settings: ConnectionSettings) -> None:
    with transaction(settings, connect) as begun:
        with transaction(settings, connect) as same:
            assert same is begun
        with pytest.raises(TransactionError, match="same mode"), transaction(settings, connect, "receive_only"):
            pass
    with pytest.raises(ConfigurationError, match="no transaction mode 'all'"), transaction(settings, connect, "all"):
        pass


def test_a_thread_of_its_own_does_not_join(connect: Connect, settings: ConnectionSettings) -> None:
    seen: list[object] = []
    with transaction(settings, connect):
        thread = threading.Thread(target=lambda: seen.append(current_transaction(settings)))
        thread.start()
        thread.join(10)
    assert seen == [None]


def test_another_thread_with_its_context_is_refused_until_it_is_over(
    connect: Connect, settings: ConnectionSettings
) -> None:
    """As ``asyncio.to_thread`` does: two threads on one connection crash the driver."""
    with ThreadPoolExecutor(1) as pool:
        with transaction(settings, connect):
            context = copy_context()
            with pytest.raises(TransactionError, match="that of another thread"):
                pool.submit(context.run, current_transaction, settings).result(10)
        assert pool.submit(context.run, current_transaction, settings).result(10) is None
