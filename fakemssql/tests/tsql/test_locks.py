"""What two connections see of each other's row locks: READPAST, UPDLOCK, and hints that hold locks.

All of it is the same with READ_COMMITTED_SNAPSHOT ON and OFF. Sources, on learn.microsoft.com: "Table hints
(Transact-SQL)" (/sql/t-sql/queries/hints-transact-sql-table), "Transaction locking and row versioning guide" with its
"Lock compatibility" (/sql/relational-databases/sql-server-transaction-locking-and-row-versioning-guide).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.waiting import waiting

Connect = Callable[..., Any]


def test_readpast_skips_what_another_transaction_holds(connect: Connect, numbers: str) -> None:
    one, two = connect(), connect()
    one.ok(f"BEGIN TRAN; DELETE {numbers} WHERE k = 1")
    assert two.value(f"SELECT COUNT(*) FROM {numbers} WITH (READPAST, READCOMMITTEDLOCK)") == 2
    assert two.value(f"SELECT TOP 1 k FROM {numbers} WITH (UPDLOCK, READPAST) ORDER BY k") == 2
    assert two.ok(f"DELETE FROM {numbers} WITH (READPAST)").counts == [2]
    one.ok("ROLLBACK")
    assert two.rows(f"SELECT k FROM {numbers}") == [(1,)]


@pytest.mark.parametrize("hints", ["READPAST", "UPDLOCK, READPAST"])
def test_a_change_does_not_skip_rows_that_others_only_read(connect: Connect, numbers: str, hints: str) -> None:
    """It waits for them instead, as its update lock becomes an exclusive one."""
    one, two = connect(), connect()
    one.ok(f"BEGIN TRAN; SELECT * FROM {numbers} WITH (REPEATABLEREAD) WHERE k = 1")
    two.ok("SET LOCK_TIMEOUT 0")
    for change in ("UPDATE m SET v = 1", "DELETE m"):
        text = f"WITH m AS (SELECT * FROM {numbers} WITH ({hints}) WHERE k <= {{}}) {change}"
        assert two.error(text.format(1)).number == 1222
        one.ok("ROLLBACK")
        assert two.ok(text.format(1)).counts == [1]
        one.ok(f"BEGIN TRAN; SELECT * FROM {numbers} WITH (REPEATABLEREAD)")


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


def test_an_update_lock_goes_together_with_held_shared_ones(connect: Connect, numbers: str) -> None:
    """And READPAST does not step over rows that others only read."""
    reader, one, two = connect(), connect(), connect()
    reader.ok(f"BEGIN TRAN; SELECT * FROM {numbers} WITH (REPEATABLEREAD)")
    one.ok("SET LOCK_TIMEOUT 0; BEGIN TRAN")
    assert len(one.rows(f"SELECT * FROM {numbers} WITH (UPDLOCK) WHERE k = 1")) == 1
    assert two.rows(f"SELECT k FROM {numbers} WITH (UPDLOCK, READPAST) ORDER BY k") == [(2,), (3,)]
    assert one.error(f"SELECT * FROM {numbers} WITH (XLOCK)").number == 1222
    assert two.rows(f"SELECT k FROM {numbers} WITH (XLOCK, READPAST)") == []


def test_readers_wait_for_rows_that_an_update_with_readpast_has_changed(connect: Connect, numbers: str) -> None:
    one, two = connect(), connect()
    assert one.ok(f"BEGIN TRAN; UPDATE {numbers} WITH (READPAST) SET v = 9 WHERE k < 3").counts[-1] == 2
    two.ok("SET LOCK_TIMEOUT 0")
    assert two.error(f"SELECT * FROM {numbers} WITH (READCOMMITTEDLOCK)").number == 1222
    assert two.rows(f"SELECT k FROM {numbers} WITH (READPAST, READCOMMITTEDLOCK)") == [(3,)]
    assert two.ok(f"UPDATE {numbers} WITH (READPAST) SET v = v + 1 OUTPUT inserted.v").results == [[(1,)]]
    one.ok("COMMIT")
    assert two.rows(f"SELECT v FROM {numbers} ORDER BY k") == [(9,), (9,), (1,)]


_MERGE = (
    "MERGE {0} AS t USING (VALUES (1, 5), (4, 5)) AS s (k, v) ON t.k = s.k WHEN MATCHED THEN {1}"
    " WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v){2};"
)


@pytest.mark.parametrize("action", ["UPDATE SET v = s.v", "DELETE"])
def test_a_merge_locks_the_rows_that_it_changes(connect: Connect, numbers: str, action: str) -> None:
    one, two = connect(), connect()
    two.ok("SET LOCK_TIMEOUT 0")
    one.ok(f"BEGIN TRAN; SELECT * FROM {numbers} WITH (REPEATABLEREAD)")
    assert two.error(_MERGE.format(numbers, action, "")).number == 1222
    one.ok(
        "ROLLBACK; BEGIN TRAN; " + _MERGE.format(numbers, action, " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 7")
    )
    assert two.rows(f"SELECT k FROM {numbers} WITH (READPAST, READCOMMITTEDLOCK)") == []
    one.ok("ROLLBACK; BEGIN TRAN; " + _MERGE.format(numbers, action, ""))
    assert two.rows(f"SELECT k FROM {numbers} WITH (READPAST, READCOMMITTEDLOCK) ORDER BY k") == [(2,), (3,)]


def test_an_exclusive_table_lock_and_readers(connect: Connect, numbers: str, versions: str) -> None:
    """Readers by locks wait for it; versions and uncommitted rows are read without locks."""
    one, two = connect(), connect()
    one.ok(f"BEGIN TRAN; SELECT * FROM {numbers} WITH (TABLOCKX)")
    two.ok("SET LOCK_TIMEOUT 0")
    for hints in ("READCOMMITTEDLOCK", "READCOMMITTEDLOCK, READPAST", "UPDLOCK, READPAST", "TABLOCK", "REPEATABLEREAD"):
        assert two.error(f"SELECT * FROM {numbers} WITH ({hints})").number == 1222
    assert len(two.rows(f"SELECT * FROM {numbers} WITH (NOLOCK)")) == 3
    plain = two.run(f"SELECT * FROM {numbers}")
    assert plain.errors == ([] if versions == "ON" else [1222])
    two.ok("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
    assert len(two.rows(f"SELECT * FROM {numbers}")) == 3


def test_a_blocking_claim_sees_what_the_other_committed(connect: Connect, client: Any, numbers: str) -> None:
    one, two = connect(), connect()
    claim = (
        f"WITH c AS (SELECT TOP (1) * FROM {numbers} WITH (UPDLOCK) ORDER BY k)"
        " UPDATE c SET v = v + 1 OUTPUT inserted.v"
    )
    one.ok("BEGIN TRAN")
    assert one.value(claim) == 1
    with waiting(client, two, claim) as waiter:
        one.ok("COMMIT")
    assert waiter.result.results == [[(2,)]]


@pytest.mark.parametrize("level", ["SERIALIZABLE", "READ UNCOMMITTED"])
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
    for hints in ("ROWLOCK, PAGLOCK", "ROWLOCK, TABLOCK", "TABLOCK, TABLOCKX", "TABLOCK, READCOMMITTEDLOCK"):
        assert client.error(f"SELECT * FROM {numbers} WITH ({hints})").number == 1047
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


def test_a_transaction_spans_catalogs(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int); USE [Other.Catalog]; CREATE TABLE {table} (a int)")
    client.ok(f"BEGIN TRAN; INSERT {table} VALUES (1); INSERT shop.dbo.{table} VALUES (1); ROLLBACK")
    assert client.value(f"SELECT COUNT(*) FROM shop..{table}") == client.value(f"SELECT COUNT(*) FROM {table}") == 0
