"""The views that tell of sessions, what they run and what they wait for."""

from __future__ import annotations

import time
from threading import Event, Thread
from typing import Any

import pytest

from fakemssql.contract import Client
from fakemssql.tsql.engine import Engines
from fakemssql.types import SqlType
from support.engine_client import Client as EngineClient

_SESSION = (
    "SELECT login_name, host_name, program_name, client_interface_name, host_process_id, status, DB_NAME(database_id),"
    " open_transaction_count, transaction_isolation_level, lock_timeout, is_user_process FROM sys.dm_exec_sessions"
    " WHERE session_id = {0}"
)
_TEXT = (
    "SELECT t.text FROM sys.dm_exec_connections AS c CROSS APPLY sys.dm_exec_sql_text(c.most_recent_sql_handle) AS t"
    " WHERE c.session_id = {0}"
)


@pytest.fixture
def other(connect: Any) -> Any:
    found = connect()
    found.engine.introduce(Client("sa", "büro", "Sales 'Endpoint\\", "ODBC", 4711, "10.0.0.7", 5123, 8000, True))
    return found


def _spid(client: Any) -> int:
    return int(client.value("SELECT @@SPID"))


def test_identity_of_a_session(client: Any, other: Any) -> None:
    number = _spid(other)
    assert client.rows(_SESSION.format(number)) == [
        ("sa", "büro", "Sales 'Endpoint\\", "ODBC", 4711, "sleeping", "shop", 0, 2, -1, True)
    ]
    assert other.rows("SELECT HOST_NAME(), APP_NAME()") == [("büro", "Sales 'Endpoint\\")]
    assert client.rows(
        "SELECT client_net_address, client_tcp_port, net_packet_size, encrypt_option, net_transport"
        f" FROM sys.dm_exec_connections WHERE session_id = {number}"
    ) == [("10.0.0.7", 5123, 8000, "TRUE", "TCP")]
    properties = "SELECT CONNECTIONPROPERTY('client_net_address'), CONNECTIONPROPERTY('net_transport')"
    assert other.rows(properties) == [("10.0.0.7", "TCP")]


def test_a_session_sees_its_own_rows(other: Any) -> None:
    other.ok("USE [Other.Catalog]; SET LOCK_TIMEOUT 500; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN TRAN")
    row = other.rows(_SESSION.format("@@SPID"))[0]
    assert row[5:10] == ("running", "Other.Catalog", 1, 3, 500)
    transaction = (
        "SELECT t.transaction_id - CURRENT_TRANSACTION_ID(), DATEDIFF(hour, a.transaction_begin_time, GETUTCDATE())"
        " FROM sys.dm_tran_session_transactions t JOIN sys.dm_tran_active_transactions a"
        " ON a.transaction_id = t.transaction_id WHERE t.session_id = @@SPID"
    )
    assert other.rows(transaction) == [(0, 0)]
    other.ok("ROLLBACK")
    assert other.rows(transaction) == []


@pytest.mark.parametrize("text", ["SELECT 1 /* ä€😀 */", "", "SELECT 2 --" + "x" * 40000])
def test_the_text_of_the_last_batch(client: Any, other: Any, text: str) -> None:
    number = _spid(other)
    other.ok(text)
    found = client.value(_TEXT.format(number))
    assert text.startswith(found)
    assert len(found) >= min(len(text), 28000)


def test_the_text_of_a_request_with_parameters(client: Any, other: Any) -> None:
    number = _spid(other)
    other.ok("SELECT @a", a=(SqlType("nvarchar", length=9), "secret"))
    assert client.value(_TEXT.format(number)) == "(@a nvarchar(9))SELECT @a"
    other.call("sp_tables")
    assert client.value(_TEXT.format(number)) == "sp_tables"
    buffer = client.value(f"SELECT event_info FROM sys.dm_exec_input_buffer({number}, NULL)")
    assert buffer == "sp_tables"
    # An old handle does not give a new text.
    handle = client.value(f"SELECT most_recent_sql_handle FROM sys.dm_exec_connections WHERE session_id = {number}")
    other.ok("SELECT 3")
    count = "SELECT COUNT(*) FROM sys.dm_exec_sql_text(@h)"
    assert client.value(count, h=(SqlType("varbinary", length=64), handle)) == 0


def test_a_request_that_waits(client: Any, other: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int); INSERT {table} VALUES (1); BEGIN TRAN; UPDATE {table} SET a = 2")
    number, text = _spid(other), f"UPDATE {table} SET a = 3"
    thread = Thread(target=other.ok, args=(text,))
    thread.start()
    request = (
        "SELECT r.status, r.command, r.wait_type, r.blocking_session_id - @@SPID, t.text, r.sql_handle"
        " FROM sys.dm_exec_requests r CROSS APPLY sys.dm_exec_sql_text(r.sql_handle) t"
        f" WHERE r.session_id = {number} AND r.wait_type IS NOT NULL"
    )
    deadline = time.monotonic() + 10
    while not (rows := client.rows(request)) and time.monotonic() < deadline:
        pass
    assert [row[:5] for row in rows] == [("suspended", "UPDATE", "LCK_M_X", 0, text)]
    locks = "SELECT DISTINCT request_mode FROM sys.dm_tran_locks WHERE resource_associated_entity_id = OBJECT_ID('{0}')"
    assert ("IX",) in client.rows(locks.format(table))
    assert (
        client.value(f"SELECT blocking_session_id - @@SPID FROM sys.dm_os_waiting_tasks WHERE session_id = {number}")
        == 0
    )
    client.ok("COMMIT")
    thread.join()
    assert client.rows(f"SELECT * FROM sys.dm_exec_requests WHERE session_id = {number}") == []


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("WITH m AS (SELECT * FROM t WITH (UPDLOCK)) DELETE FROM m OUTPUT deleted.a", "DELETE"),
        ("(@P1 int,@P2 nvarchar(9)) insert t VALUES (@P1)", "INSERT"),
        ("WITH m AS (SELECT 1 AS deleted) SELECT * FROM m", "SELECT"),
        ("WAITFOR DELAY '0:0:1'", "WAITFOR"),
        ("DECLARE @a int", "SELECT"),
    ],
)
def test_the_command_of_a_request(client: Any, text: str, command: str) -> None:
    assert client.session.pg.query("SELECT mssql.command_of($1)", text) == [[command]]


def test_a_busy_session_is_seen_whole(client: Any, other: Any) -> None:
    number = _spid(other)
    texts = ("SELECT 1", "SELECT 22 --" + "x" * 20000)
    done = Event()

    def work() -> None:
        while not done.is_set():
            for text in texts:
                other.ok(text)

    thread = Thread(target=work)
    thread.start()
    found: list[str] = []
    for _ in range(2_000):
        # Between the view of connections and the function the session may have gone on to its next text.
        found += [row[0] for row in client.rows(_TEXT.format(number))]
        if len(found) > 50:
            break
    done.set()
    thread.join()
    assert set(found) <= {*texts, "SELECT @@SPID"}
    assert len(found) > 50


def test_an_idle_session_is_seen_however_much_it_has_done(client: Any, other: Any) -> None:
    """The number of what it has told is kept in bytes, of which some are zero at times."""
    number = _spid(other)
    for statement in ["SELECT 1"] * 150 + ["SET LOCK_TIMEOUT 500"] + ["SELECT 1"] * 150:
        other.ok(statement)
        assert client.value(f"SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE session_id = {number}") == 1


def test_sessions_that_ended_are_gone(client: Any, other: Any) -> None:
    number, path = _spid(other), other.session.backend.file.path
    # As a process that was killed leaves them: its connection ends, its file stays.
    other.session.pg.close()
    deadline = time.monotonic() + 10
    while client.rows(_SESSION.format(number)) and time.monotonic() < deadline:
        pass
    assert path.exists()
    assert client.rows(_SESSION.format(number)) == []
    other.engine.close()
    assert not path.exists()


def test_a_session_is_gone_although_its_connection_waits_for_the_next(client: Any, engines: Engines) -> None:
    first = engines.open("shop", "sa", lambda fd: None)
    number = first.session.spid
    EngineClient(first).ok("SELECT 'the text of the first'")
    assert client.value(_TEXT.format(number)) == "SELECT 'the text of the first'"
    first.close()
    assert client.rows(_SESSION.format(number)) == client.rows(_TEXT.format(number)) == []
    assert client.error(f"KILL {number}").number == 6106
    second = engines.open("shop", "sa", lambda fd: None)
    assert second.session.spid == number, "another connection"
    assert len(client.rows(_SESSION.format(number))) == 1
    assert client.rows(_TEXT.format(number)) in ([], [("",)])
    second.close()


def test_the_server(client: Any) -> None:
    text = "SELECT cpu_count, DATEDIFF(day, sqlserver_start_time, GETUTCDATE()) FROM sys.dm_os_sys_info"
    assert client.rows(text)[0][1] in (0, 1)
