"""The drivers that people use, on whatever server the session has."""

# ruff: noqa: DTZ001 - SQL Server's datetimes are naive

from __future__ import annotations

import contextlib
import datetime as dt
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymssql
import pyodbc
import pytest

from support.servers import Server

pyodbc.pooling = False

FREETDS = Path("/usr/lib/x86_64-linux-gnu/odbc/libtdsodbc.so")
Connect = Callable[..., pyodbc.Connection]


def freetds() -> str:
    if "FreeTDS" in pyodbc.drivers():
        return "FreeTDS"
    if FREETDS.exists():
        return str(FREETDS)
    pytest.skip("FreeTDS is not installed")


@pytest.fixture(params=["no", "yes", "strict", "freetds"])
def variant(request: pytest.FixtureRequest) -> str:
    """Microsoft's driver with each kind of encryption, and FreeTDS."""
    return str(request.param)


@pytest.fixture
def connect(server: Server, variant: str) -> Iterator[Connect]:
    """Opens connections of the variant, and closes them."""
    driver = freetds() if variant == "freetds" else None
    if variant == "strict" and os.environ.get("FAKEMSSQL_TEST_SERVER"):
        pytest.skip("the certificate of a named server is not known")
    encrypt = variant if driver is None else "no"
    text = server.odbc_connection_string(encrypt=encrypt, driver=driver)
    with contextlib.ExitStack() as stack:

        def opened(*, extra: str = "", **options: Any) -> pyodbc.Connection:
            options = {"autocommit": True, "timeout": 20, **options}
            return stack.enter_context(contextlib.closing(pyodbc.connect(text + extra, **options)))

        yield opened


@pytest.fixture
def cursor(connect: Connect) -> pyodbc.Cursor:
    return connect().cursor()


@pytest.fixture
def table(server: Server) -> Iterator[str]:
    """A table; named before ``connect`` in a test, it is dropped after the test's connections were closed."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    with contextlib.closing(pyodbc.connect(server.odbc_connection_string(), autocommit=True)) as connection:
        connection.execute(f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY, body nvarchar(max) NULL)")
        yield f"dbo.{name}"
        connection.execute(f"DROP TABLE dbo.{name}")


TYPED: list[tuple[str, Any]] = [
    ("bit", True),
    ("tinyint", 255),
    ("smallint", -32768),
    ("int", -2147483648),
    ("bigint", 2**63 - 1),
    ("real", 1.5),
    ("float", -1.25e300),
    ("decimal(38,10)", Decimal("-1234567890123456789012345678.0123456789")),
    ("numeric(9,2)", Decimal("1.25")),
    ("money", Decimal("-922337203685477.5807")),
    ("smallmoney", Decimal("214748.3647")),
    ("char(4)", "ab  "),
    ("varchar(10)", "äb€"),
    ("varchar(max)", "x" * 9000),
    ("nchar(4)", "aΩ  "),
    ("nvarchar(40)", "Ω😀"),
    ("nvarchar(max)", "Ω😀" * 3000),
    ("binary(4)", b"\x01\x02\x03\x00"),
    ("varbinary(10)", b"\x00\xff"),
    ("varbinary(max)", bytes(range(256)) * 40),
    ("uniqueidentifier", uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")),
    ("date", dt.date(2024, 2, 29)),
    ("time(6)", dt.time(23, 59, 59)),
    ("datetime", dt.datetime(2024, 5, 6, 7, 8, 9, 997000)),
    ("smalldatetime", dt.datetime(2024, 5, 6, 7, 8)),
    ("datetime2(6)", dt.datetime(2024, 5, 6, 7, 8, 9, 123456)),
]


def comparable(declared: str, value: Any) -> Any:
    """FreeTDS gives a GUID as text, and pads no binary; both drivers give what was stored."""
    if declared == "uniqueidentifier" and isinstance(value, str):
        return uuid.UUID(value)
    return value


@pytest.mark.parametrize(("declared", "value"), TYPED, ids=[declared for declared, _ in TYPED])
def test_values_of_every_type(cursor: pyodbc.Cursor, variant: str, declared: str, value: Any) -> None:
    row = cursor.execute(f"SELECT CAST(? AS {declared}) AS a, CAST(NULL AS {declared}) AS b", value).fetchone()
    assert comparable(declared, row.a) == value
    assert row.b is None
    assert [column[0] for column in cursor.description] == ["a", "b"]


def test_fractions_of_seconds(cursor: pyodbc.Cursor, variant: str) -> None:
    if variant == "freetds":
        pytest.skip("FreeTDS gives times without their fractions")
    # pyodbc sends a time without its fraction, so it is a text here.
    row = cursor.execute("SELECT CAST(? AS time(6)) AS a, CAST(? AS datetime2(6)) AS b", "23:59:59.999999", None)
    assert row.fetchval() == dt.time(23, 59, 59, 999999)


@pytest.mark.parametrize(("declared", "value"), TYPED, ids=[declared for declared, _ in TYPED])
def test_columns_of_every_type(cursor: pyodbc.Cursor, variant: str, declared: str, value: Any) -> None:
    cursor.execute(f"CREATE TABLE #t (a {declared} NULL)")
    cursor.execute("INSERT INTO #t (a) VALUES (?)", value)
    cursor.execute("INSERT INTO #t (a) VALUES (?)", None) if "binary" not in declared else None
    rows = cursor.execute("SELECT a FROM #t").fetchall()
    assert comparable(declared, next(row.a for row in rows if row.a is not None)) == value
    cursor.execute("DROP TABLE #t")


def test_a_statement_prepared_once_and_run_many_times(table: str, cursor: pyodbc.Cursor) -> None:
    for number in range(50):
        cursor.execute(f"INSERT INTO {table} (id, body) VALUES (?, ?)", number, f"body {number}")
        assert cursor.rowcount == 1
    rows = cursor.execute(f"SELECT id, body FROM {table} WHERE id >= ? ORDER BY id", 47).fetchall()
    assert [tuple(row) for row in rows] == [(47, "body 47"), (48, "body 48"), (49, "body 49")]


def test_fast_executemany(table: str, cursor: pyodbc.Cursor, variant: str) -> None:
    if variant == "freetds":
        pytest.skip("pyodbc's fast_executemany is made for Microsoft's driver")
    cursor.fast_executemany = True
    cursor.executemany(f"INSERT INTO {table} (id, body) VALUES (?, ?)", [(n, f"Ω{n}") for n in range(1000)])
    assert cursor.execute(f"SELECT COUNT(*) FROM {table}").fetchval() == 1000
    assert cursor.execute(f"SELECT body FROM {table} WHERE id = 999").fetchval() == "Ω999"
    with pytest.raises(pyodbc.IntegrityError):
        cursor.executemany(f"INSERT INTO {table} (id, body) VALUES (?, ?)", [(2000, "new"), (5, "again"), (2001, "")])


def test_a_body_of_16_megabytes(cursor: pyodbc.Cursor) -> None:
    body = os.urandom(1024) * (16 * 1024)
    assert cursor.execute("SELECT CAST(? AS varbinary(max))", body).fetchval() == body
    text = "aΩ" * (4 * 1024 * 1024)
    assert cursor.execute("SELECT CAST(? AS nvarchar(max))", text).fetchval() == text


def test_several_result_sets(table: str, cursor: pyodbc.Cursor) -> None:
    cursor.execute(
        f"SELECT 1 AS a; INSERT INTO {table} (id) VALUES (1), (2); SELECT 2 AS b, 3 AS c; SELECT id FROM {table}"
    )
    found: list[Any] = []
    while True:
        found.append([tuple(row) for row in cursor.fetchall()] if cursor.description else cursor.rowcount)
        if not cursor.nextset():
            break
    assert found == [[(1,)], 2, [(2, 3)], [(1,), (2,)]]


def test_print_arrives_as_a_message(cursor: pyodbc.Cursor) -> None:
    cursor.execute("PRINT N'hällo'; SELECT 1 AS a")
    messages = list(cursor.messages)
    while not cursor.description and cursor.nextset():
        messages += cursor.messages
    assert any("hällo" in text for _, text in messages)
    assert cursor.fetchval() == 1


def test_errors_have_their_numbers(table: str, cursor: pyodbc.Cursor) -> None:
    with pytest.raises(pyodbc.ProgrammingError, match=r"\(50000\)") as caught:
        cursor.execute("RAISERROR('raised %d', 16, 1, 7)")
    assert "raised 7" in str(caught.value)
    with pytest.raises(pyodbc.ProgrammingError, match=r"\(208\)"):
        cursor.execute("SELECT * FROM no_such_table")
    cursor.execute(f"INSERT INTO {table} (id) VALUES (1)")
    with pytest.raises(pyodbc.IntegrityError, match=r"\(2627\)"):
        cursor.execute(f"INSERT INTO {table} (id) VALUES (1)")
    assert cursor.execute("SELECT 1").fetchval() == 1


def test_an_error_after_a_result(cursor: pyodbc.Cursor) -> None:
    cursor.execute("SELECT 1 AS a; RAISERROR('late', 16, 1)")
    assert cursor.fetchall()[0].a == 1
    with pytest.raises(pyodbc.Error, match="late"):
        cursor.nextset()


def test_cancel_from_another_thread(cursor: pyodbc.Cursor) -> None:
    timer = threading.Timer(0.3, cursor.cancel)
    timer.start()
    with pytest.raises(pyodbc.Error) as caught:
        cursor.execute("WAITFOR DELAY '00:00:30'")
    timer.join()
    assert caught.value.args[0] in {"HY008", "HY000"}
    assert cursor.execute("SELECT 1").fetchval() == 1


def test_query_timeout(connect: Connect) -> None:
    connection = connect()
    connection.timeout = 1
    with pytest.raises(pyodbc.OperationalError, match="HYT00"):
        connection.execute("WAITFOR DELAY '00:00:30'")
    assert connection.execute("SELECT 1").fetchval() == 1


def test_closing_a_cursor_with_rows_left(table: str, cursor: pyodbc.Cursor) -> None:
    cursor.executemany(f"INSERT INTO {table} (id, body) VALUES (?, ?)", [(n, "x" * 4000) for n in range(300)])
    cursor.execute(f"SELECT a.id, a.body FROM {table} AS a CROSS JOIN {table} AS b")
    assert cursor.fetchone() is not None
    assert cursor.execute("SELECT 7").fetchval() == 7


def test_transactions(table: str, connect: Connect) -> None:
    writer, reader = connect(autocommit=False), connect()
    count = f"SELECT COUNT(*) FROM {table} WITH (READCOMMITTEDLOCK, READPAST)"
    writer.execute(f"INSERT INTO {table} (id) VALUES (1)")
    assert writer.execute("SELECT @@TRANCOUNT").fetchval() == 1
    assert reader.execute(count).fetchval() == 0
    writer.rollback()
    writer.execute(f"INSERT INTO {table} (id) VALUES (2)")
    writer.commit()
    assert reader.execute(count).fetchval() == 1
    reader.execute("BEGIN TRANSACTION")
    reader.execute(f"DELETE FROM {table}")
    reader.execute("ROLLBACK TRANSACTION")
    assert reader.execute(count).fetchval() == 1


def test_a_wrong_password(server: Server, variant: str) -> None:
    driver = freetds() if variant == "freetds" else None
    text = server.odbc_connection_string(driver=driver).replace(server.password, "not the password")
    with pytest.raises(pyodbc.Error, match="18456"):
        pyodbc.connect(text, timeout=20)


def test_an_unknown_database(server: Server, variant: str) -> None:
    driver = freetds() if variant == "freetds" else None
    known, unknown = (f"DATABASE={{{name}}}" for name in (server.databases[0], "no_such_database"))
    text = server.odbc_connection_string(driver=driver).replace(known, unknown)
    # FreeTDS shows the last of the two errors that SQL Server gives.
    with pytest.raises(pyodbc.Error, match="18456" if variant == "freetds" else "4060"):
        pyodbc.connect(text, timeout=20)


def test_the_odbc_catalogue(table: str, cursor: pyodbc.Cursor) -> None:
    name = table.removeprefix("dbo.")
    assert [row.table_name for row in cursor.tables(table=name)] == [name]
    assert [row.column_name for row in cursor.columns(table=name)] == ["id", "body"]


@pytest.fixture(params=["7.1", "7.2", "7.4"])
def dblib(server: Server, request: pytest.FixtureRequest) -> Iterator[pymssql.Connection]:
    login = server.host, server.user, server.password, server.databases[0]
    connection = pymssql.connect(*login, port=str(server.port), login_timeout=20, tds_version=request.param)
    assert str(connection._conn.tds_version) == request.param
    yield connection
    connection.close()


def test_pymssql(dblib: pymssql.Connection) -> None:
    cursor = dblib.cursor()
    cursor.execute("CREATE TABLE #p (id int PRIMARY KEY, body nvarchar(max), raw varbinary(max), at datetime)")
    at = dt.datetime(2024, 5, 6, 7, 8, 9, 997000)
    cursor.execute("INSERT INTO #p VALUES (%d, %s, %s, %s)", (1, "Ω😀" * 3000, b"\x00\xff", at))
    cursor.executemany("INSERT INTO #p (id, body) VALUES (%d, %s)", [(n, f"b{n}") for n in range(2, 20)])
    cursor.execute("SELECT * FROM #p ORDER BY id")
    rows = cursor.fetchall()
    assert rows[0] == (1, "Ω😀" * 3000, b"\x00\xff", at)
    assert rows[1][:3] == (2, "b2", None)
    assert len(rows) == 19
    dblib.rollback()
    with pytest.raises(pymssql.Error) as caught:
        cursor.execute("SELECT * FROM #p")
    assert caught.value.args[0] == 208


def test_pymssql_refused(server: Server) -> None:
    with pytest.raises(pymssql.OperationalError) as caught:
        pymssql.connect(server.host, server.user, "wrong", "master", port=str(server.port), login_timeout=20)
    assert "18456" in str(caught.value)


def test_pooled_connections_are_reset(server: Server) -> None:
    pytest.importorskip("mssql_python")
    import mssql_python

    words = f"SERVER={server.host},{server.port};UID={server.user};PWD={{{server.password}}};"
    text = words + f"DATABASE={server.databases[0]};Encrypt=no;TrustServerCertificate=yes;"
    mssql_python.pooling(max_size=1, idle_timeout=60)
    with contextlib.closing(mssql_python.connect(text)) as connection:
        connection.autocommit = False
        cursor = connection.cursor()
        first = cursor.execute("SELECT @@SPID").fetchone()[0]
        cursor.execute("CREATE TABLE #left (a int)")
    with contextlib.closing(mssql_python.connect(text)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        assert cursor.execute("SELECT @@SPID").fetchone()[0] == first
        assert cursor.execute("SELECT @@TRANCOUNT").fetchone()[0] == 0
        assert cursor.execute("SELECT OBJECT_ID('tempdb..#left')").fetchone()[0] is None


def test_a_session_is_known_by_what_its_client_says(connect: Connect) -> None:
    text = (
        "SELECT s.program_name, APP_NAME(), s.host_name, HOST_NAME(), c.client_net_address FROM sys.dm_exec_sessions s"
        " JOIN sys.dm_exec_connections c ON c.session_id = s.session_id WHERE s.session_id = @@SPID"
    )
    program, app, host, name, address = connect(extra=";APP=Sales;WSID=box").execute(text).fetchone()
    assert program == app
    assert host == name == "box"
    assert address
