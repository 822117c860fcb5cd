"""What two connections see of each other: READPAST, UPDLOCK, LOCK_TIMEOUT, deadlocks, application locks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

Connect = Callable[..., Any]


@pytest.fixture
def numbers(client: Any, table: str) -> str:
    client.ok(f"CREATE TABLE {table} (k int NOT NULL PRIMARY KEY, v int); INSERT {table} VALUES (1, 0), (2, 0), (3, 0)")
    return table


def test_readpast_skips_what_another_transaction_holds(connect: Connect, numbers: str) -> None:
    one, two = connect(), connect()
    one.ok(f"BEGIN TRAN; DELETE {numbers} WHERE k = 1")
    assert two.value(f"SELECT COUNT(*) FROM {numbers} WITH (READPAST, READCOMMITTEDLOCK)") == 2
    assert two.value(f"SELECT TOP 1 k FROM {numbers} WITH (UPDLOCK, READPAST) ORDER BY k") == 2
    assert two.ok(f"DELETE FROM {numbers} WITH (READPAST)").counts == [2]
    one.ok("ROLLBACK")
    assert two.rows(f"SELECT k FROM {numbers}") == [(1,)]


@pytest.mark.parametrize("hints", ["READPAST", "UPDLOCK, READPAST"])
def test_a_change_does_not_step_over_what_others_only_read(connect: Connect, numbers: str, hints: str) -> None:
    """It waits for them instead, as its update lock becomes an exclusive one."""
    one, two = connect(), connect()
    one.ok(f"BEGIN TRAN; SELECT * FROM {numbers} WITH (READCOMMITTEDLOCK)")
    one.session.pg.execute(f"SELECT * FROM {one.session.catalog.find((numbers,), 'shop').pg} FOR KEY SHARE")
    assert two.error(f"SET LOCK_TIMEOUT 1; WITH m AS (SELECT * FROM {numbers} WITH ({hints})) DELETE m").number == 1222
    one.ok("ROLLBACK")
    assert two.ok(f"WITH m AS (SELECT * FROM {numbers} WITH ({hints})) DELETE m").counts == [3]


def test_a_shared_lock_does_not_outlive_its_statement(connect: Connect, numbers: str) -> None:
    one, two = connect(), connect()
    one.ok(f"BEGIN TRAN; SELECT * FROM {numbers} WITH (READPAST, READCOMMITTEDLOCK)")
    two.ok(f"SET LOCK_TIMEOUT 0; DELETE {numbers} WHERE k = 1")
    one.ok("COMMIT")


@pytest.mark.parametrize("hint", ["UPDLOCK", "XLOCK", "HOLDLOCK", "REPEATABLEREAD", "UPDLOCK, HOLDLOCK", "TABLOCKX"])
def test_locks_that_are_held(connect: Connect, numbers: str, hint: str) -> None:
    one, two = connect(), connect()
    one.ok(f"BEGIN TRAN; SELECT * FROM {numbers} WITH ({hint}) WHERE k = 1")
    error = two.error(f"SET LOCK_TIMEOUT 0; DELETE {numbers} WHERE k = 1")
    assert (error.number, error.severity) == (1222, 16)
    one.ok("ROLLBACK")
    assert two.ok(f"DELETE {numbers} WHERE k = 1").counts == [1]


def test_update_locks_exclude_each_other_and_not_readers(connect: Connect, numbers: str) -> None:
    one, two = connect(), connect()
    one.ok(f"BEGIN TRAN; SELECT * FROM {numbers} WITH (UPDLOCK)")
    two.ok("SET LOCK_TIMEOUT 0")
    assert two.error(f"SELECT * FROM {numbers} WITH (UPDLOCK)").number == 1222
    assert len(two.rows(f"SELECT * FROM {numbers} WITH (READCOMMITTEDLOCK)")) == 3
    assert two.value("SELECT @@LOCK_TIMEOUT") == 0


def test_a_blocking_claim_sees_what_the_other_committed(connect: Connect, numbers: str) -> None:
    one, two = connect(), connect()
    claim = (
        f"WITH c AS (SELECT TOP (1) * FROM {numbers} WITH (UPDLOCK) ORDER BY k)"
        " UPDATE c SET v = v + 1 OUTPUT inserted.v"
    )
    one.ok("BEGIN TRAN")
    assert one.value(claim) == 1
    result: list[Any] = []
    other = threading.Thread(target=lambda: result.append(two.value(claim)))
    other.start()
    _wait_for_waiter(connect)
    one.ok("COMMIT")
    other.join()
    assert result == [2]


def _wait_for_waiter(connect: Connect) -> None:
    """Return when some other connection waits for a lock."""
    watcher = connect()
    while watcher.value("SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id <> 0") == 0:
        pass


def test_deadlock(connect: Connect, numbers: str) -> None:
    one, two = connect(), connect()
    one.ok(f"BEGIN TRAN; UPDATE {numbers} SET v = 1 WHERE k = 1")
    two.ok(f"BEGIN TRAN; UPDATE {numbers} SET v = 2 WHERE k = 2")
    found: list[Any] = []
    other = threading.Thread(target=lambda: found.append(one.run(f"UPDATE {numbers} SET v = 1 WHERE k = 2; SELECT 1")))
    other.start()
    _wait_for_waiter(connect)
    found.append(two.run(f"UPDATE {numbers} SET v = 2 WHERE k = 1; SELECT 1"))
    other.join()
    losers = [recorder for recorder in found if recorder.errors]
    assert [recorder.errors for recorder in losers] == [[1205]]
    assert losers[0].messages[0].severity == 13
    assert losers[0].events[0][0] == "rollback"
    assert losers[0].results == []
    counts = {one.value("SELECT @@TRANCOUNT"), two.value("SELECT @@TRANCOUNT")}
    assert counts == {0, 1}


@pytest.mark.parametrize("level", ["SERIALIZABLE", "SNAPSHOT", "READ UNCOMMITTED"])
def test_readpast_needs_a_fitting_isolation_level(client: Any, numbers: str, level: str) -> None:
    client.ok(f"SET TRANSACTION ISOLATION LEVEL {level}")
    error = client.error(f"WITH m AS (SELECT TOP(1) * FROM {numbers} WITH (UPDLOCK, READPAST)) DELETE FROM m")
    assert error.number == 650


def test_readpast_alone_steps_over_locked_rows(connect: Connect, locking: str, table: str) -> None:
    one, two = connect(database=locking), connect(database=locking)
    numbers = f"[{locking}].dbo.{table}"
    one.ok(f"CREATE TABLE {numbers} (k int); INSERT {numbers} VALUES (1), (2), (3)")
    one.ok(f"BEGIN TRAN; DELETE {numbers} WHERE k = 1")
    assert two.value(f"SELECT COUNT(*) FROM {numbers} WITH (READPAST)") == 2
    one.ok("ROLLBACK")
    two.ok(f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT * FROM {numbers} WITH (READPAST)")


def test_hints_that_contradict_each_other(client: Any, numbers: str) -> None:
    assert client.error(f"SELECT * FROM {numbers} WITH (NOLOCK, UPDLOCK)").number == 1047
    assert client.error(f"DELETE FROM {numbers} WITH (NOLOCK)").number == 1065
    assert client.error(f"SELECT * FROM {numbers} WITH (INDEX(nope))").number == 308
    assert client.error(f"SELECT * FROM {numbers} WITH (FASTER)").number == 321


def test_serializable_upsert(connect: Connect, numbers: str) -> None:
    one, two = connect(), connect()
    one.ok(
        f"BEGIN TRAN; IF NOT EXISTS (SELECT * FROM {numbers} WITH"
        f" (UPDLOCK, HOLDLOCK) WHERE k = 9) INSERT {numbers} VALUES (9, 0)"
    )
    assert two.error(f"SET LOCK_TIMEOUT 0; INSERT {numbers} VALUES (9, 1)").number == 1222
    one.ok("COMMIT")
    assert two.error(f"INSERT {numbers} VALUES (9, 1)").number == 2627


def test_the_deadlock_priority_is_shown(client: Any) -> None:
    query = "SELECT deadlock_priority FROM sys.dm_exec_sessions WHERE session_id = @@SPID"
    for value, shown in (("LOW", -5), ("HIGH", 5), ("NORMAL", 0), ("-3", -3), ("'LOW'", -5)):
        client.ok(f"SET DEADLOCK_PRIORITY {value}")
        assert client.value(query) == shown


def test_application_locks(connect: Connect) -> None:
    one, two = connect(), connect()
    take = (
        "DECLARE @rc int; EXEC @rc = sp_getapplock @Resource = 'r', @LockMode = 'Exclusive', @LockOwner = '{}',"
        " @LockTimeout = 0; SELECT @rc"
    )
    assert one.value("BEGIN TRAN;" + take.format("Transaction")) == 0
    assert two.value(take.format("Session")) == -1
    one.ok("COMMIT")
    assert two.value(take.format("Session")) == 0
    assert two.value(take.format("Session")) == 0
    release = "DECLARE @rc int; EXEC @rc = sp_releaseapplock @Resource = 'r', @LockOwner = 'Session'; SELECT @rc"
    assert two.value(release) == 0
    assert one.value(take.format("Session")) == -1
    assert two.value(release) == 0
    assert one.value(take.format("Session")) == 0
    status, recorder = two.call("sp_getapplock", Resource="x", LockMode="Exclusive")
    assert (status, recorder.errors) == (-999, [50000])


def test_a_transaction_spans_catalogs(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int); USE [Other.Catalog]; CREATE TABLE {table} (a int)")
    client.ok(f"BEGIN TRAN; INSERT {table} VALUES (1); INSERT shop.dbo.{table} VALUES (1); ROLLBACK")
    assert client.value(f"SELECT COUNT(*) FROM shop..{table}") == client.value(f"SELECT COUNT(*) FROM {table}") == 0
