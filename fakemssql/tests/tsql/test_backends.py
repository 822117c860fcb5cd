"""A session meets nothing of the session that its backend served before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fakemssql.contract import SqlError
from fakemssql.switches import Switches
from fakemssql.tsql.engine import Engines
from support.engine_client import Client

STATE = """
SELECT @@TRANCOUNT, XACT_STATE(), DB_NAME(), @@LOCK_TIMEOUT, @@IDENTITY, SCOPE_IDENTITY(), @@ROWCOUNT, @@ERROR,
    @@OPTIONS, @@DATEFIRST, OBJECT_ID('tempdb..#t'), SUSER_NAME(), USER_NAME(),
    (SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID),
    (SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_type = 'APPLICATION')
"""


@pytest.fixture
def following(conninfo: str) -> Iterator[Callable[..., Client]]:
    """Opens sessions, each on the backend of the last one, which has ended."""
    engines, opened = Engines(conninfo), []

    def make(login: str = "sa", password: str | None = None) -> Client:
        if opened:
            opened[-1].engine.close()
        opened.append(Client(engines.open("shop", login, lambda fd: None, password)))
        assert len({client.session.spid for client in opened}) == 1, "another backend"
        return opened[-1]

    yield make
    opened[-1].engine.close()
    engines.close()


@pytest.mark.parametrize(
    "text",
    [
        "SET LOCK_TIMEOUT 5; SET XACT_ABORT ON; SET NOCOUNT ON; SET DATEFIRST 3; SET IMPLICIT_TRANSACTIONS ON",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; USE [Other.Catalog]",
        "BEGIN TRAN; CREATE TABLE {0} (a int IDENTITY, b int); INSERT {0} (b) VALUES (1); SAVE TRAN s",
        "CREATE TABLE {0} (a int IDENTITY, b int); INSERT {0} (b) VALUES (1); SET IDENTITY_INSERT {0} ON",
        "CREATE TABLE #t (a int IDENTITY); INSERT #t DEFAULT VALUES; DECLARE @t TABLE (a int); INSERT @t VALUES (1)",
        "EXEC sp_getapplock 'a', 'Exclusive', 'Session'; BEGIN TRAN; EXEC sp_getapplock 'b', 'Exclusive'",
        "SET XACT_ABORT ON; BEGIN TRAN; SELECT 1/0",
        "BEGIN TRAN; SET XACT_ABORT ON; BEGIN TRY SELECT 1/0 END TRY BEGIN CATCH SELECT XACT_STATE() END CATCH",
    ],
)
def test_no_state_of_a_session_stays(following: Callable[..., Client], table: str, text: str) -> None:
    before = following().rows(STATE)
    following().run(text.format(table))
    assert following().rows(STATE) == before


def test_uncommitted_changes_of_a_session_are_forgotten(following: Callable[..., Client], table: str) -> None:
    following().ok(f"BEGIN TRAN; CREATE TABLE {table} (a int); SELECT * FROM {table}")
    assert following().run(f"SELECT * FROM {table}").errors == [208]


def test_a_temporary_table_of_one_name_and_other_columns(following: Callable[..., Client]) -> None:
    for columns, row in (("a int", (1,)), ("a nvarchar(5), b int", ("1", None)), ("a int", (1,))):
        for _ in range(3):
            client = following()
            client.ok(f"CREATE TABLE #t ({columns})")
            client.ok("INSERT #t (a) VALUES (1)")
            assert client.rows("SELECT * FROM #t") == [row]


def test_changes_of_other_sessions_are_seen(
    following: Callable[..., Client], connect: Callable[..., Client], table: str
) -> None:
    other = connect()
    other.ok(f"CREATE TABLE {table} (a int); INSERT {table} VALUES (1)")
    for number in range(5):
        assert following().rows(f"SELECT * FROM {table}") == [(1,) * (number + 1)]
        other.ok(f"ALTER TABLE {table} ADD a{number} int NOT NULL DEFAULT 1")


def test_a_login_is_asked_for_its_own_permissions(
    following: Callable[..., Client], connect: Callable[..., Client], table: str
) -> None:
    other = connect()
    other.ok(f"CREATE LOGIN l{table} WITH PASSWORD = 'Aa1-geheim!'; CREATE USER l{table}; CREATE TABLE {table} (a int)")
    text = f"SELECT * FROM {table}"
    assert following().rows(text) == []
    assert following(f"l{table}", "Aa1-geheim!").run(text).errors == [229]
    other.ok(f"GRANT SELECT ON {table} TO l{table}")
    assert following(f"l{table}", "Aa1-geheim!").rows(text) == []
    other.ok(f"REVOKE SELECT ON {table} FROM l{table}")
    assert following(f"l{table}", "Aa1-geheim!").run(text).errors == [229]


def test_a_refused_login_leaves_the_backend_to_the_next(conninfo: str) -> None:
    engines = Engines(conninfo)
    first = engines.open("shop", "sa", lambda fd: None)
    first.close()
    for database, login, password in (("nope", "sa", None), ("shop", "nobody", "x")):
        with pytest.raises(SqlError):
            engines.open(database, login, lambda fd: None, password)
    second = engines.open("shop", "sa", lambda fd: None)
    assert second.session.spid == first.session.spid
    second.close()
    engines.close()


def test_switches_hold_for_the_sessions_that_they_are_for(conninfo: str) -> None:
    switched: dict[str, Any] = {}
    engines = Engines(conninfo, lambda: Switches(dict(switched)))
    for edition in (None, 6, None, 5):
        switched.clear()
        if edition is not None:
            switched["EngineEdition"] = edition
        client = Client(engines.open("shop", "sa", lambda fd: None))
        assert client.value("SELECT CAST(SERVERPROPERTY('EngineEdition') AS int)") == (edition or 3)
        client.engine.close()
    engines.close()


def test_a_backend_that_has_ended_is_not_used_again(conninfo: str, client: Client) -> None:
    engines = Engines(conninfo)
    first = engines.open("shop", "sa", lambda fd: None)
    client.session.pg.query("SELECT pg_terminate_backend($1::int)", first.session.spid)
    first.close()
    second = engines.open("shop", "sa", lambda fd: None)
    assert Client(second).value("SELECT 1") == 1
    second.close()
    engines.close()
