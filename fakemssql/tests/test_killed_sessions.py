"""Sessions that end by KILL, and what Microsoft's driver makes of it: an idle one is restored where that can be done.

Source: "Connection resiliency in the ODBC driver"; "KILL (Transact-SQL)"; MS-TDS 2.2.7.21 SESSIONSTATE.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyodbc
import pytest

from fakemssql import FakeServer
from support.servers import Server, odbc_string_of

pyodbc.pooling = False

Connect = Callable[[], pyodbc.Connection]


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    with contextlib.ExitStack() as stack:

        def opened() -> pyodbc.Connection:
            text = server.odbc_connection_string()
            return stack.enter_context(contextlib.closing(pyodbc.connect(text, autocommit=True, timeout=20)))

        yield opened


@pytest.fixture
def admin(connect: Connect) -> pyodbc.Connection:
    return connect()


def until(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline, "never came about"
        time.sleep(0.02)


def run(connection: pyodbc.Connection, text: str) -> None:
    cursor = connection.execute(text)
    while cursor.nextset():
        pass


def spid(connection: pyodbc.Connection) -> int:
    return int(connection.execute("SELECT @@SPID").fetchval())


def is_gone(admin: pyodbc.Connection, number: int) -> bool:
    return not admin.execute("SELECT 1 FROM sys.dm_exec_sessions WHERE session_id = ?", number).fetchall()


def kill(admin: pyodbc.Connection, number: int) -> None:
    """Kill a session, and return when an idle one is restored at its next statement.

    Of a connection that was used some milliseconds ago the driver does not look whether it is still there: no event.
    """
    admin.execute(f"KILL {number}")
    until(lambda: is_gone(admin, number))
    time.sleep(0.1)


def error_of(connection: pyodbc.Connection, text: str = "SELECT 1") -> Any:
    with pytest.raises(pyodbc.Error) as raised:
        connection.execute(text).fetchall()
    return raised.value.args


def test_an_idle_session_is_restored_with_its_settings_and_its_database(connect: Connect, admin: Any) -> None:
    """Twice: what was restored once can be again."""
    connection = connect()
    run(connection, "SET LOCK_TIMEOUT 500; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; USE tempdb")
    handle = connection.cursor()
    assert handle.execute("SELECT ? + 1", 1).fetchval() == handle.execute("SELECT ? + 1", 1).fetchval() == 2
    for _ in range(2):
        kill(admin, spid(connection))
        assert handle.execute("SELECT ? + 1", 2).fetchval() == 3
        found = connection.execute("SELECT DB_NAME(), @@LOCK_TIMEOUT, @@OPTIONS & 16384").fetchone()
        assert tuple(found) == ("tempdb", 500, 16384)
        level = "SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID"
        assert connection.execute(level).fetchval() == 4


@pytest.mark.parametrize(
    "bound",
    [
        "BEGIN TRANSACTION",
        "CREATE TABLE #t (n int)",
        "EXEC sp_getapplock @Resource = N'r', @LockMode = 'Exclusive', @LockOwner = 'Session'",
    ],
)
def test_a_session_with_more_than_settings_is_not_restored(connect: Connect, admin: Any, bound: str) -> None:
    connection = connect()
    run(connection, bound)
    kill(admin, spid(connection))
    assert error_of(connection)[0] in ("08S01", "IMC05")


def test_a_session_whose_transaction_has_ended_is_restored(connect: Connect, admin: Any) -> None:
    connection = connect()
    run(connection, "BEGIN TRANSACTION; COMMIT TRANSACTION")
    kill(admin, spid(connection))
    assert connection.execute("SELECT 1").fetchval() == 1


def test_uncommitted_changes_of_a_killed_session_are_rolled_back(connect: Connect, admin: Any) -> None:
    connection = connect()
    run(admin, "CREATE TABLE dbo.killed (n int)")
    try:
        run(connection, "BEGIN TRANSACTION; INSERT INTO dbo.killed VALUES (1)")
        kill(admin, spid(connection))
        assert admin.execute("SELECT COUNT(*) FROM dbo.killed").fetchval() == 0
    finally:
        run(admin, "DROP TABLE dbo.killed")


def test_a_request_that_runs_ends_with_error_596(connect: Connect, admin: Any) -> None:
    connection = connect()
    number = spid(connection)
    running = "SELECT 1 FROM sys.dm_exec_requests WHERE session_id = ?"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(error_of, connection, "WAITFOR DELAY '00:01:00'")
        until(lambda: bool(admin.execute(running, number).fetchall()))
        admin.execute(f"KILL {number}")
        state, text = waiting.result(30)
    assert state in ("HY000", "08S01")
    assert "session is in the kill state. (596)" in text
    until(lambda: is_gone(admin, number))


def test_kill_refuses_own_and_unknown_sessions_and_transactions(admin: Any) -> None:
    for text, number in ((f"KILL {spid(admin)}", 6104), ("KILL 32766", 6106), ("BEGIN TRAN; KILL 32766", 6115)):
        assert f"({number})" in error_of(admin, text)[1]


def test_kill_needs_a_right(connect: Connect, admin: Any, server: Server) -> None:
    run(admin, "CREATE LOGIN [killer] WITH PASSWORD = N'Killing 1'; CREATE USER [killer] FOR LOGIN [killer]")
    try:
        with contextlib.closing(pyodbc.connect(odbc_string_of(server, "killer", "Killing 1"))) as killer:
            killer.autocommit = True
            assert "(6102)" in error_of(killer, f"KILL {spid(admin)}")[1]
        until(lambda: not admin.execute("SELECT 1 FROM sys.dm_exec_sessions WHERE login_name = N'killer'").fetchall())
    finally:
        run(admin, "DROP USER [killer]; DROP LOGIN [killer]")


def test_refused_recovery_is_reported_by_the_driver() -> None:
    """First that the link failed, then, of the same connection, that no recovery is possible."""
    with FakeServer() as fake, fake.switched(refuse_recovery=True):
        text = fake.odbc_connection_string()
        opened = [pyodbc.connect(text, autocommit=True) for _ in range(2)]
        kill(opened[0], spid(opened[1]))
        assert [error_of(opened[1])[0] for _ in range(2)] == ["08S01", "IMC06"]
        for connection in opened:
            connection.close()
