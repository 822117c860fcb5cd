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
