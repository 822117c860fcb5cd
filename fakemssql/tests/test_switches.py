"""Faults and pretences that a test switches on: they hold for connections that are opened in the block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyodbc
import pytest

from fakemssql import FakeServer
from fakemssql.switches import Switches

pyodbc.pooling = False


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeServer]:
    with FakeServer() as found:
        yield found


@contextlib.contextmanager
def connected(fake: FakeServer) -> Iterator[pyodbc.Connection]:
    text = fake.odbc_connection_string()
    with contextlib.closing(pyodbc.connect(text, autocommit=True, timeout=20)) as connection:
        yield connection


EDITION = "SELECT CAST(SERVERPROPERTY('EngineEdition') AS int), SERVERPROPERTY('ProductLevel')"


def test_switched_server_properties(fake: FakeServer) -> None:
    with connected(fake) as before, fake.switched(properties={"engineedition": 6}), connected(fake) as inside:
        assert tuple(inside.execute(EDITION).fetchone()) == (6, "RTM")
        assert tuple(before.execute(EDITION).fetchone()) == (3, "RTM"), "it was open before"
        with fake.switched(), connected(fake) as within:
            assert tuple(within.execute(EDITION).fetchone()) == (3, "RTM")
        with connected(fake) as again:
            assert tuple(again.execute(EDITION).fetchone()) == (6, "RTM")
    with connected(fake) as after:
        assert tuple(after.execute(EDITION).fetchone()) == (3, "RTM")


def test_a_transaction_is_lost_in_silence_once(fake: FakeServer) -> None:
    with fake.switched(lose_transaction_at=2), connected(fake) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE dbo.lost (n int)")
        cursor.execute("BEGIN TRANSACTION")
        cursor.execute("INSERT INTO dbo.lost VALUES (1)")
        cursor.execute("INSERT INTO dbo.lost VALUES (?)", 2)  # the second request in the transaction
        assert cursor.execute("SELECT @@TRANCOUNT").fetchval() == 0
        with pytest.raises(pyodbc.Error, match="3902"):
            cursor.execute("COMMIT TRANSACTION")
        assert [row.n for row in cursor.execute("SELECT n FROM dbo.lost")] == [2], "committed on its own"
        cursor.execute("BEGIN TRANSACTION")
        for n in (3, 4, 5):
            cursor.execute("INSERT INTO dbo.lost VALUES (?)", n)
        cursor.execute("COMMIT TRANSACTION")
        assert [row.n for row in cursor.execute("SELECT n FROM dbo.lost ORDER BY n")] == [2, 3, 4, 5]


def test_switches_end_with_the_server(fake: FakeServer) -> None:
    with contextlib.ExitStack() as never_left:
        never_left.enter_context(fake.switched(properties={"EngineEdition": 6}))
        fake.kill()
        fake.restart()
        with connected(fake) as connection:
            assert tuple(connection.execute(EDITION).fetchone()) == (3, "RTM")


def test_requests_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="from 1"):
        Switches(lose_transaction_at=0)


def test_a_driver_does_not_report_a_failed_description(fake: FakeServer) -> None:
    """What makes None dangerous: the caller sees a statement that succeeded, and committed on its own."""
    with connected(fake) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE dbo.told (n int)")
        cursor.execute("SET XACT_ABORT ON")
        cursor.execute("BEGIN TRANSACTION")
        cursor.execute("INSERT INTO dbo.told VALUES (1)")
        cursor.execute("INSERT INTO dbo.told SELECT ?", None)
        assert cursor.execute("SELECT @@TRANCOUNT").fetchval() == 0
        assert [row.n for row in cursor.execute("SELECT n FROM dbo.told")] == [None]
        cursor.execute("BEGIN TRANSACTION")
        cursor.execute("INSERT INTO dbo.told VALUES (?)", None)
        assert cursor.execute("SELECT @@TRANCOUNT").fetchval() == 1, "VALUES tell the type"


def test_without_rowlock_readpast_may_meet_a_page_lock(fake: FakeServer) -> None:
    with (
        connected(fake) as holder,
        connected(fake) as before,
        fake.switched(page_locks=True),
        connected(fake) as inside,
    ):
        holder.execute("CREATE TABLE dbo.pages (n int); INSERT INTO dbo.pages VALUES (1), (2)")
        holder.execute("BEGIN TRANSACTION; DELETE FROM dbo.pages WHERE n = 1")
        query = "SELECT COUNT(*) FROM dbo.pages WITH (READPAST, READCOMMITTEDLOCK{})"
        for connection in (before, inside):
            connection.execute("SET LOCK_TIMEOUT 0")
            assert connection.execute(query.format(", ROWLOCK")).fetchval() == 1
        assert before.execute(query.format("")).fetchval() == 1
        with pytest.raises(pyodbc.Error, match="1222"):
            inside.execute(query.format(""))
        with pytest.raises(pyodbc.Error, match="1222"):
            before.execute("SELECT COUNT(*) FROM dbo.pages WITH (READPAST, PAGLOCK)")
        with pytest.raises(pyodbc.Error, match="1222"):
            inside.execute("DELETE TOP (1) FROM dbo.pages WITH (READPAST)")
        holder.execute("ROLLBACK TRANSACTION")


def test_switched_failures_of_reads_under_nolock(fake: FakeServer) -> None:
    with connected(fake) as before, fake.switched(failing_dirty_reads=2), connected(fake) as inside:
        before.execute("CREATE TABLE dbo.moved (n int)")
        query = "SELECT COUNT(*) FROM dbo.moved WITH (NOLOCK)"
        assert before.execute(query).fetchval() == 0
        assert inside.execute("SELECT COUNT(*) FROM dbo.moved").fetchval() == 0
        inside.execute("SET XACT_ABORT ON; BEGIN TRANSACTION")
        for _ in range(2):
            with pytest.raises(pyodbc.Error, match="601"):
                inside.execute(query)
            assert inside.execute("SELECT @@TRANCOUNT").fetchval() == 0
        assert inside.execute(query).fetchval() == 0
