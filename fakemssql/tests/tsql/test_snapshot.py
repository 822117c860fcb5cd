"""SNAPSHOT: one moment for a whole transaction, and who may have it.

Sources, on learn.microsoft.com: "SET TRANSACTION ISOLATION LEVEL (Transact-SQL)", "Snapshot isolation in SQL Server"
(/sql/connect/ado-net/sql/snapshot-isolation-sql-server), "ALTER DATABASE SET options (Transact-SQL)"
(/sql/t-sql/statements/alter-database-transact-sql-set-options), "Table hints (Transact-SQL)".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.waiting import waiting

Connect = Callable[..., Any]

SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT"


def test_all_statements_of_a_transaction_see_one_moment(connect: Connect, numbers: str) -> None:
    """That of its first access to data, not of BEGIN TRANSACTION; with its own changes."""
    reader, writer = connect(), connect()
    reader.ok(f"{SNAPSHOT}; BEGIN TRAN")
    writer.ok(f"UPDATE {numbers} SET v = 1 WHERE k = 1")
    query = f"SELECT v FROM {numbers} ORDER BY k"
    assert reader.rows(query) == [(1,), (0,), (0,)]
    writer.ok(f"UPDATE {numbers} SET v = 2 WHERE k = 2; INSERT {numbers} VALUES (4, 4); DELETE {numbers} WHERE k = 1")
    reader.ok(f"UPDATE {numbers} SET v = 3 WHERE k = 3")
    assert reader.rows(query) == [(1,), (0,), (3,)]
    reader.ok("COMMIT")
    assert reader.rows(query) == [(2,), (3,), (4,)]


@pytest.mark.parametrize("change", ["UPDATE {} SET v = 9 WHERE k = 1", "DELETE {} WHERE k = 1"])
def test_an_update_conflict_ends_the_transaction(connect: Connect, numbers: str, change: str) -> None:
    """Error 3960: all that the transaction did is undone, and its batch is over."""
    late, early = connect(), connect()
    late.ok(f"{SNAPSHOT}; BEGIN TRAN; UPDATE {numbers} SET v = 5 WHERE k = 2; SELECT * FROM {numbers}")
    early.ok(f"UPDATE {numbers} SET v = 1 WHERE k = 1")
    found = late.run(f"{change.format(numbers)}; SELECT 1")
    assert (found.errors, found.results, found.events[0][0]) == ([3960], [], "rollback")
    assert late.rows(f"SELECT @@TRANCOUNT, v FROM {numbers} WHERE k = 2") == [(0, 0)]


@pytest.mark.parametrize(("end", "errors"), [("COMMIT", [3960]), ("ROLLBACK", [])])
def test_a_writer_waits_for_the_other_before_there_is_a_conflict(
    connect: Connect, client: Any, numbers: str, end: str, errors: list[int]
) -> None:
    late = connect()
    late.ok(f"{SNAPSHOT}; BEGIN TRAN; SELECT * FROM {numbers}")
    client.ok(f"BEGIN TRAN; UPDATE {numbers} SET v = 1 WHERE k = 1")
    with waiting(client, late, f"UPDATE {numbers} SET v = v + 10 WHERE k = 1; COMMIT") as writer:
        client.ok(end)
    assert writer.result.errors == errors
    assert client.value(f"SELECT v FROM {numbers} WHERE k = 1") == (1 if errors else 10)


def test_an_update_lock_finds_a_conflict_early(connect: Connect, numbers: str) -> None:
    late, early = connect(), connect()
    late.ok(f"{SNAPSHOT}; BEGIN TRAN; SELECT * FROM {numbers}")
    early.ok(f"UPDATE {numbers} SET v = 1 WHERE k = 1")
    assert len(late.rows(f"SELECT * FROM {numbers} WITH (UPDLOCK) WHERE k = 2")) == 1
    assert late.error(f"SELECT * FROM {numbers} WITH (UPDLOCK) WHERE k = 1").number == 3960


def test_a_conflict_that_is_caught_leaves_nothing_to_commit(connect: Connect, numbers: str) -> None:
    late, early = connect(), connect()
    late.ok(f"{SNAPSHOT}; BEGIN TRAN; SELECT * FROM {numbers}")
    early.ok(f"UPDATE {numbers} SET v = 1 WHERE k = 1")
    caught = "BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE(); IF XACT_STATE() <> 0 ROLLBACK END CATCH"
    assert late.rows(f"BEGIN TRY UPDATE {numbers} SET v = 9 END TRY {caught}")[0][0] == 3960
    assert late.value("SELECT @@TRANCOUNT") == 0


@pytest.mark.parametrize("hints", ["READPAST", "READPAST, ROWLOCK", "READPAST, READCOMMITTED"])
def test_readpast_alone_has_no_locks_to_read_past(connect: Connect, numbers: str, hints: str) -> None:
    """Error 650, as "Table hints" has it: READPAST must be combined with other hints that require locks."""
    found = connect().error(f"{SNAPSHOT}; SELECT * FROM {numbers} WITH ({hints})")
    assert found.number == 650


@pytest.mark.parametrize("hints", ["READPAST, UPDLOCK", "READPAST, UPDLOCK, ROWLOCK", "READPAST, XLOCK"])
def test_readpast_with_hints_that_require_locks(connect: Connect, numbers: str, hints: str) -> None:
    one, two = connect(), connect()
    one.ok(f"BEGIN TRAN; UPDATE {numbers} SET v = 1 WHERE k = 1")
    assert two.rows(f"{SNAPSHOT}; SELECT k FROM {numbers} WITH ({hints}) ORDER BY k") == [(2,), (3,)]


def test_a_transaction_that_began_at_another_level(connect: Connect, numbers: str) -> None:
    """Error 3951 aborts it. It begins with its first access to data; one that began at SNAPSHOT may come back to it."""
    client = connect()
    client.ok(f"BEGIN TRAN; {SNAPSHOT}; SELECT * FROM {numbers}; SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    client.ok(f"SELECT * FROM {numbers}; {SNAPSHOT}; UPDATE {numbers} SET v = 1; COMMIT")
    client.ok(f"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN TRAN; UPDATE {numbers} SET v = 2")
    found = client.run(f"{SNAPSHOT}; SELECT * FROM {numbers}")
    assert (found.errors, found.results, found.events[0][0]) == ([3951], [], "rollback")
    assert client.rows(f"SELECT @@TRANCOUNT, MAX(v) FROM {numbers}") == [(0, 1)]


@pytest.mark.parametrize("fixture", ["locking", "versioned"])
def test_a_database_that_does_not_allow_it(
    request: pytest.FixtureRequest, connect: Connect, client: Any, table: str, fixture: str
) -> None:
    """Error 3952 for its tables, unless a hint reads them at another level."""
    database, refused = request.getfixturevalue(fixture), connect()
    numbers = f"{database}.dbo.{table}"
    client.ok(f"CREATE TABLE {numbers} (k int, v int); INSERT {numbers} VALUES (1, 0), (2, 0), (3, 0)")
    client.ok(f"ALTER DATABASE {database} SET ALLOW_SNAPSHOT_ISOLATION OFF")
    asked = "SELECT snapshot_isolation_state, snapshot_isolation_state_desc FROM sys.databases WHERE name = '{}'"
    assert client.rows(asked.format(database)) == [(0, "OFF")]
    for text in ("SELECT * FROM {}", "INSERT {} VALUES (9, 9)", "UPDATE {} SET v = 1", "DELETE {}"):
        error = refused.error(f"{SNAPSHOT}; {text.format(numbers)}")
        assert (error.number, f"'{database}'" in error.message) == (3952, True)
    assert len(refused.rows(f"SELECT * FROM {numbers} WITH (READCOMMITTED)")) == 3
    assert refused.rows("SELECT name FROM sys.databases WHERE name = 'master'; SELECT 1") == [(1,)]
    client.ok(f"ALTER DATABASE {database} SET ALLOW_SNAPSHOT_ISOLATION ON")
    assert client.rows(asked.format(database)) == [(1, "ON")]
    assert len(connect().rows(f"{SNAPSHOT}; SELECT * FROM {numbers}")) == 3


def test_databases_begin_as_model_has_it(client: Any, table: str) -> None:
    """OFF unless model is changed; ON in master and msdb."""
    client.ok(f"CREATE DATABASE {table}")
    query = "SELECT snapshot_isolation_state FROM sys.databases WHERE name = '{}'"
    assert client.value(query.format(table)) == client.value(query.format("model"))
    assert [client.value(query.format(name)) for name in ("master", "tempdb", "msdb")] == [1, 0, 1]
