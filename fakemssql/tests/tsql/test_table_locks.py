"""Locks on whole tables: those that hints take, and those that definitions wait for."""

from __future__ import annotations

from typing import Any

import pytest

_DEFINITIONS = [
    "ALTER TABLE {0} ADD b int",
    "ALTER TABLE {0} DROP COLUMN x",
    "ALTER TABLE {0} ALTER COLUMN x bigint",
    "CREATE INDEX j ON {0} (x)",
    "CREATE INDEX i ON {0} (x) WITH (DROP_EXISTING = ON)",
    "ALTER INDEX i ON {0} DISABLE",
    "DROP INDEX i ON {0}",
    "TRUNCATE TABLE {0}",
    "DROP TABLE {0}",
]


@pytest.fixture
def held(client: Any, table: str) -> str:
    """A table with an uncommitted row of ``client``."""
    client.ok(f"CREATE TABLE {table} (a int INDEX i, x int); INSERT {table} VALUES (1, 1)")
    client.ok(f"BEGIN TRAN; UPDATE {table} SET a = 2")
    return table


@pytest.mark.parametrize("text", _DEFINITIONS)
def test_a_definition_waits_no_longer_than_the_lock_timeout(client: Any, connect: Any, held: str, text: str) -> None:
    other = connect()
    found = other.run(f"SET LOCK_TIMEOUT 20; {text.format(held)}")
    assert found.errors == [1222]
    assert other.value("SELECT @@TRANCOUNT") == 0
    client.ok("ROLLBACK")
    other.ok(text.format(held))


def test_a_definition_that_timed_out_leaves_its_transaction(client: Any, connect: Any, held: str) -> None:
    other = connect()
    other.ok(f"SET LOCK_TIMEOUT 20; BEGIN TRAN; CREATE TABLE o_{held} (a int)")
    text = f"BEGIN TRY ALTER TABLE {held} ADD b int END TRY BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE() END CATCH"
    assert other.rows(text) == [(1222, 1)]
    other.ok(f"COMMIT; SELECT * FROM o_{held}")


@pytest.mark.parametrize("hints", ["TABLOCKX", "TABLOCK, XLOCK", "TABLOCK, HOLDLOCK", "HOLDLOCK, UPDLOCK"])
def test_hints_keep_writers_out_to_the_end_of_the_transaction(
    client: Any, connect: Any, table: str, hints: str
) -> None:
    client.ok(
        f"CREATE TABLE {table} (a int); INSERT {table} VALUES (1); BEGIN TRAN; SELECT * FROM {table} WITH ({hints})"
    )
    other = connect()
    other.ok("SET LOCK_TIMEOUT 20")
    for text in (
        "INSERT {0} VALUES (2)",
        "DELETE {0}",
        "SELECT * FROM {0} WITH (TABLOCKX)",
        "ALTER TABLE {0} ADD b int",
    ):
        assert other.error(text.format(table)).number == 1222
    client.ok("COMMIT")
    other.ok(f"INSERT {table} VALUES (2)")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM {0} WITH (TABLOCKX, NOWAIT)",
        "SELECT * FROM {0} WITH (UPDLOCK, NOWAIT)",
        "INSERT {0} WITH (TABLOCKX, NOWAIT) VALUES (1, 1)",
        "DELETE FROM {0} WITH (NOWAIT)",
        "UPDATE {0} WITH (PAGLOCK, NOWAIT) SET a = 3",
    ],
)
def test_nowait_does_not_wait(client: Any, connect: Any, held: str, text: str) -> None:
    assert connect().error(text.format(held)).number == 1222


def test_shared_table_locks_go_together(client: Any, connect: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int); BEGIN TRAN; SELECT * FROM {table} WITH (TABLOCK, HOLDLOCK)")
    assert connect().rows(f"SET LOCK_TIMEOUT 20; SELECT * FROM {table} WITH (TABLOCK)") == []


@pytest.mark.parametrize("change", ["INSERT {0} VALUES (2)", "DELETE {0}", "UPDATE {0} SET x = 2"])
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_shared_table_lock_is_granted_only_while_no_transaction_writes(
    client: Any, connect: Any, table: str, change: str, end: str
) -> None:
    """Lock compatibility: a write holds IX on the table to the end of its transaction, and S does not go with IX."""
    client.ok(f"CREATE TABLE {table} (a bigint IDENTITY(1,1), x int INDEX i); INSERT {table} VALUES (1)")
    other, probe = connect(), f"SELECT TOP (1) 1 FROM {table} WITH (TABLOCK, HOLDLOCK)"
    other.ok("SET LOCK_TIMEOUT 0")
    assert other.rows(probe) == [(1,)]
    client.ok(f"BEGIN TRAN; {change.format(table)}")
    assert other.error(probe).number == 1222
    client.ok(end)
    assert len(other.rows(probe)) == (0 if (change, end) == ("DELETE {0}", "COMMIT") else 1)
    client.ok(f"BEGIN TRAN; INSERT {table} VALUES (3); COMMIT")


def test_a_shared_table_lock_ends_with_its_statement(client: Any, connect: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a bigint IDENTITY(1,1), x int); INSERT {table} VALUES (1)")
    client.ok(f"BEGIN TRAN; SELECT TOP (1) 1 FROM {table} WITH (TABLOCK)")
    connect().ok(f"SET LOCK_TIMEOUT 0; INSERT {table} VALUES (2)")
    client.ok("COMMIT")


def test_identity_values_are_given_in_order_committed_in_any_and_not_given_back(
    client: Any, connect: Any, table: str
) -> None:
    client.ok(f"CREATE TABLE {table} (a bigint IDENTITY(1,1) PRIMARY KEY, x int); INSERT {table} VALUES (1)")
    client.ok(f"BEGIN TRAN; INSERT {table} VALUES (2)")
    other = connect()
    other.ok(f"INSERT {table} VALUES (3); BEGIN TRAN; INSERT {table} VALUES (4); ROLLBACK; INSERT {table} VALUES (5)")
    seen = f"SELECT a FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) ORDER BY a"
    last = f"SELECT CAST(last_value AS bigint) FROM sys.identity_columns WHERE object_id = OBJECT_ID('{table}')"
    assert other.rows(seen) == [(1,), (3,), (5,)]
    assert other.value(last) == 5
    client.ok("COMMIT")
    assert other.rows(seen) == [(1,), (2,), (3,), (5,)]
    other.ok(f"TRUNCATE TABLE {table}")
    assert other.value(last) is None
