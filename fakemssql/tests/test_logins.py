"""Logins over pyodbc, on whatever server the session has; what a restart leaves of them, on a server of its own."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator

import pyodbc
import pytest

from fakemssql import FakeServer
from support.servers import Server, odbc_string_of

pyodbc.pooling = False

PASSWORD = f"Pa55}};-{uuid.uuid4().hex}"
Connect = Callable[..., pyodbc.Connection]


@pytest.fixture
def administrator(server: Server) -> Iterator[pyodbc.Connection]:
    with contextlib.closing(pyodbc.connect(server.odbc_connection_string(), autocommit=True, timeout=20)) as connection:
        yield connection


@pytest.fixture
def name(administrator: pyodbc.Connection) -> Iterator[str]:
    """A login with a user, and a table of that name."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    administrator.execute(f"CREATE LOGIN {name} WITH PASSWORD = '{PASSWORD}', CHECK_POLICY = OFF")
    administrator.execute(f"CREATE USER {name} FOR LOGIN {name}; CREATE TABLE dbo.{name} (id int NOT NULL)")
    yield name
    administrator.execute(f"DROP TABLE dbo.{name}; DROP USER {name}; DROP LOGIN {name}")


@pytest.fixture
def connect(server: Server, administrator: pyodbc.Connection, name: str) -> Iterator[Connect]:
    """Opens connections of the login, and closes them before it is dropped."""
    with contextlib.ExitStack() as stack:

        def opened(password: str = PASSWORD, database: str | None = None) -> pyodbc.Connection:
            connection = pyodbc.connect(odbc_string_of(server, name, password, database), autocommit=True, timeout=20)
            return stack.enter_context(contextlib.closing(connection))

        yield opened


def test_logins_that_are_admitted(name: str, connect: Connect) -> None:
    row = connect().execute("SELECT SUSER_SNAME(), USER_NAME(), IS_SRVROLEMEMBER('sysadmin')").fetchone()
    assert tuple(row) == (name, name, 0)
    with pytest.raises(pyodbc.Error, match="18456") as caught:
        connect("wrong")
    assert caught.value.args[0] == "28000"
    with pytest.raises(pyodbc.Error, match="4060"):
        connect(database="no such database")


def test_reader_and_writer(administrator: pyodbc.Connection, name: str, connect: Connect) -> None:
    mine = connect()
    refusal = f"The SELECT permission was denied on the object '{name}'"
    with pytest.raises(pyodbc.ProgrammingError, match=refusal) as caught:
        mine.execute(f"SELECT * FROM dbo.{name}")
    assert (caught.value.args[0], "(229)" in caught.value.args[1]) == ("42000", True)
    for role in ("db_datareader", "db_datawriter"):
        administrator.execute(f"ALTER ROLE {role} ADD MEMBER {name}")
    assert mine.execute(f"INSERT INTO dbo.{name} VALUES (?)", 4).rowcount == 1
    assert mine.execute(f"DELETE FROM dbo.{name} OUTPUT deleted.id").fetchval() == 4
    with pytest.raises(pyodbc.ProgrammingError, match="CREATE TABLE permission denied in database"):
        mine.execute(f"CREATE TABLE dbo.{name}_2 (a int)")
    administrator.execute(f"DENY DELETE ON dbo.{name} TO {name}")
    with pytest.raises(pyodbc.ProgrammingError, match="The DELETE permission was denied"):
        mine.execute(f"DELETE FROM dbo.{name}")


def test_the_connection_is_free_after_a_refusal_that_rolled_back(name: str, connect: Connect) -> None:
    mine = connect()
    mine.execute("SET XACT_ABORT ON; BEGIN TRANSACTION")
    kept = mine.cursor()
    with pytest.raises(pyodbc.ProgrammingError, match="1088"):
        kept.execute(f"TRUNCATE TABLE dbo.{name}")
    assert mine.execute("SELECT @@TRANCOUNT").fetchval() == 0


def test_logins_and_permissions_survive_a_restart() -> None:
    with FakeServer() as server:
        with contextlib.closing(pyodbc.connect(server.odbc_connection_string(), autocommit=True)) as administrator:
            administrator.execute(f"CREATE LOGIN kept WITH PASSWORD = '{PASSWORD}'; CREATE USER kept")
            administrator.execute("CREATE TABLE t (a int); GRANT SELECT ON t TO kept; INSERT INTO t VALUES (3)")
        server.restart()
        with contextlib.closing(pyodbc.connect(odbc_string_of(server, "kept", PASSWORD))) as kept:
            assert kept.execute("SELECT a FROM t").fetchval() == 3
            with pytest.raises(pyodbc.ProgrammingError, match="229"):
                kept.execute("DELETE FROM t")
        log = (server.data / "server.log").read_text() + (server.data / "postgres.log").read_text()
        assert PASSWORD not in log
