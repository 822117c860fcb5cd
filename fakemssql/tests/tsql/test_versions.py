"""READ_COMMITTED_SNAPSHOT: whether readers wait for writers, and which hints READPAST wants beside it.

Source: "Table hints (Transact-SQL)", "SET TRANSACTION ISOLATION LEVEL (Transact-SQL)", "ALTER DATABASE SET options".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

Connect = Callable[..., Any]

CHANGES = ["UPDATE {0} SET v = 1 WHERE k = 1", "DELETE {0} WHERE k = 1"]
QUERIES = [
    "SELECT COUNT(*) FROM {0}",
    "SELECT TOP (1) v FROM {0} ORDER BY k",
    "SELECT DISTINCT v FROM {0}",
    "SELECT 1 WHERE EXISTS (SELECT * FROM {0} WHERE k = 1)",
    "SELECT a.k FROM {0} AS a JOIN {0} AS b ON b.k = a.k",
    "SELECT k FROM {0} UNION SELECT v FROM {0}",
    "WITH c AS (SELECT k FROM {0}) SELECT * FROM c",
    "SELECT SUM(v) OVER (ORDER BY k) FROM {0}",
    "SELECT y.c FROM (VALUES (1)) AS x (n) OUTER APPLY (SELECT COUNT(*) AS c FROM {0} WHERE k = x.n) AS y",
    "IF (SELECT COUNT(*) FROM {0}) > 0 SELECT 1",
]


def numbers(client: Any, database: str, table: str) -> str:
    name = f"{database}.dbo.{table}"
    client.ok(f"CREATE TABLE {name} (k int NOT NULL PRIMARY KEY, v int); INSERT {name} VALUES (1, 0), (2, 0), (3, 0)")
    return name


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("query", QUERIES)
def test_without_versions_a_query_waits_for_a_writer(
    connect: Connect, client: Any, locking: str, table: str, change: str, query: str
) -> None:
    name, other = numbers(client, locking, table), connect()
    client.ok(f"BEGIN TRAN; {change.format(name)}")
    assert other.error(f"SET LOCK_TIMEOUT 0; {query.format(name)}").number == 1222
    client.ok("ROLLBACK")
    assert other.ok(query.format(name)).results


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("query", QUERIES)
def test_with_versions_it_reads_what_was_committed(
    connect: Connect, client: Any, versioned: str, table: str, change: str, query: str
) -> None:
    name, other = numbers(client, versioned, table), connect()
    before = other.rows(query.format(name))
    client.ok(f"BEGIN TRAN; {change.format(name)}")
    assert other.rows(f"SET LOCK_TIMEOUT 0; {query.format(name)}") == before
    if " JOIN " not in query:
        locked = query.replace("{0}", "{0} WITH (READCOMMITTEDLOCK)")
        assert other.error(locked.format(name)).number == 1222
    client.ok("ROLLBACK")


@pytest.mark.parametrize("hint", ["NOLOCK", "READUNCOMMITTED", "READPAST"])
def test_hints_by_which_a_query_does_not_wait(
    connect: Connect, client: Any, locking: str, table: str, hint: str
) -> None:
    name, other = numbers(client, locking, table), connect()
    client.ok(f"BEGIN TRAN; UPDATE {name} SET v = 1 WHERE k = 1")
    other.ok(f"SET LOCK_TIMEOUT 0; SELECT * FROM {name} WITH ({hint})")
    client.ok("ROLLBACK")


def test_a_query_s_locks_go_with_it(connect: Connect, client: Any, locking: str, table: str) -> None:
    name, other = numbers(client, locking, table), connect()
    client.ok(f"BEGIN TRAN; SELECT * FROM {name}")
    other.ok(f"SET LOCK_TIMEOUT 0; DELETE {name}")
    client.ok("COMMIT")


def test_rows_that_cannot_be_locked_are_read(client: Any, locking: str, table: str) -> None:
    name = numbers(client, locking, table)
    assert len(client.rows(f"SELECT * FROM {name} AS a LEFT JOIN {name} AS b ON b.k = a.k + 1")) == 3
    assert len(client.rows(f"SELECT * FROM {name} AS a FULL JOIN {name} AS b ON b.k = a.k + 1")) == 4
    counted = (
        f"WITH c AS (SELECT k FROM {name} WHERE k = 1 UNION ALL SELECT n.k FROM {name} AS n JOIN c ON n.k = c.k + 1)"
    )
    assert client.rows(f"{counted} SELECT * FROM c") == [(1,), (2,), (3,)]


READPAST = "You can only specify the READPAST lock in the READ COMMITTED or REPEATABLE READ isolation levels."


@pytest.mark.parametrize("hints", ["READPAST", "READPAST, ROWLOCK", "READPAST, READCOMMITTED"])
def test_with_versions_readpast_has_no_locks_to_read_past(
    client: Any, locking: str, versioned: str, table: str, hints: str
) -> None:
    for database in (locking, versioned):
        numbers(client, database, table)
    query = f"SELECT k FROM {{}}.dbo.{table} WITH ({hints})"
    assert len(client.rows(query.format(locking))) == 3
    error = client.error(query.format(versioned))
    assert (error.number, error.message) == (650, READPAST)


@pytest.mark.parametrize("hint", ["READCOMMITTEDLOCK", "UPDLOCK", "XLOCK", "REPEATABLEREAD", "TABLOCK"])
def test_with_versions_another_hint_may_take_them(client: Any, versioned: str, table: str, hint: str) -> None:
    name = numbers(client, versioned, table)
    assert len(client.rows(f"SELECT k FROM {name} WITH (READPAST, {hint})")) == 3
    assert client.ok(f"DELETE FROM {name} WITH (READPAST)").counts == [3]


def test_the_option_is_a_property_of_the_database(connect: Connect, client: Any, locking: str) -> None:
    options = "SELECT is_read_committed_snapshot_on, delayed_durability_desc FROM sys.databases WHERE name = "
    assert client.rows(f"{options}'{locking}'") == [(False, "DISABLED")]
    client.ok(f"ALTER DATABASE [{locking}] SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE")
    client.ok(f"ALTER DATABASE [{locking}] SET DELAYED_DURABILITY = FORCED")
    assert connect().rows(f"{options}'{locking}'") == [(True, "FORCED")]
    assert client.error("ALTER DATABASE master SET READ_COMMITTED_SNAPSHOT ON").number == 5058


def test_a_new_database_has_the_options_of_model(client: Any, table: str) -> None:
    model = client.value("SELECT is_read_committed_snapshot_on FROM sys.databases WHERE name = 'model'")
    client.ok(f"CREATE DATABASE {table}")
    query = f"SELECT is_read_committed_snapshot_on FROM sys.databases WHERE name = '{table}'"
    assert client.value(query) == model


def test_a_change_of_the_option_reaches_open_connections(
    connect: Connect, client: Any, locking: str, table: str
) -> None:
    name, other = numbers(client, locking, table), connect()
    client.ok(f"BEGIN TRAN; DELETE {name} WHERE k = 1")
    count = f"SET LOCK_TIMEOUT 0; SELECT COUNT(*) FROM {name}"
    assert other.error(count).number == 1222
    connect().ok(f"ALTER DATABASE {locking} SET READ_COMMITTED_SNAPSHOT ON")
    # They are notified, which takes a moment.
    deadline = time.monotonic() + 10
    while other.run(count).errors and time.monotonic() < deadline:
        time.sleep(0.01)
    assert other.value(count) == 3
    client.ok("ROLLBACK")
