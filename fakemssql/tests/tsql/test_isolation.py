"""What a transaction sees of others' at each isolation level, with and without READ_COMMITTED_SNAPSHOT.

Sources, on learn.microsoft.com: "SET TRANSACTION ISOLATION LEVEL (Transact-SQL)"
(/sql/t-sql/statements/set-transaction-isolation-level-transact-sql), "Table hints (Transact-SQL)"
(/sql/t-sql/queries/hints-transact-sql-table), "Transaction locking and row versioning guide"
(/sql/relational-databases/sql-server-transaction-locking-and-row-versioning-guide).

A statement that would wait gets error 1222 here, under LOCK_TIMEOUT 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.waiting import waiting

Connect = Callable[..., Any]

LEVELS = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "SNAPSHOT"]
WAITS = 1222


def at(client: Any, level: str) -> Any:
    """``client`` at an isolation level; what waits gets error 1222."""
    client.ok(f"SET LOCK_TIMEOUT 0; SET TRANSACTION ISOLATION LEVEL {level}")
    return client


def outcome(client: Any, text: str) -> Any:
    """The value of a query, the count of a change, or the number of its error."""
    found = client.run(text)
    return found.errors[0] if found.errors else found.results[-1][0][0] if found.results else found.counts[-1]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("change", ["UPDATE {} SET v = 1 WHERE k = 1", "DELETE {} WHERE k = 1"])
@pytest.mark.parametrize("transaction", ["", "BEGIN TRAN; "])
def test_uncommitted_changes(
    connect: Connect, numbers: str, versions: str, level: str, change: str, transaction: str
) -> None:
    """READ COMMITTED, REPEATABLE READ and SERIALIZABLE wait for them; row versions are read without waiting."""
    writer, reader = connect(), at(connect(), level)
    writer.ok(f"BEGIN TRAN; {change.format(numbers)}")
    found = outcome(reader, f"{transaction}SELECT SUM(1 - v) FROM {numbers}")
    by_versions = level == "SNAPSHOT" or (level == "READ COMMITTED" and versions == "ON")
    if level == "READ UNCOMMITTED":
        assert found in (2, 3), "it does not wait"
    else:
        assert found == (3 if by_versions else WAITS)


@pytest.mark.parametrize("level", LEVELS)
def test_a_row_that_was_read_is_read_again(connect: Connect, numbers: str, level: str) -> None:
    """REPEATABLE READ and SERIALIZABLE hold shared locks to the transaction's end; SNAPSHOT reads the old version."""
    reader, writer = at(connect(), level), at(connect(), "READ COMMITTED")
    query = f"SELECT v FROM {numbers} WHERE k = 1"
    assert reader.value(f"BEGIN TRAN; {query}") == 0
    held = level in ("REPEATABLE READ", "SERIALIZABLE")
    for change in (
        f"UPDATE {numbers} SET v = 7 WHERE k = 1",
        f"UPDATE {numbers} WITH (READPAST) SET v = 7 WHERE k = 1",
    ):
        assert outcome(writer, change) == (WAITS if held else 1)
    assert outcome(writer, f"DELETE {numbers} WITH (READPAST) WHERE k = 2") == (WAITS if level == "SERIALIZABLE" else 1)
    assert reader.value(query) == (0 if held or level == "SNAPSHOT" else 7)
    reader.ok("COMMIT")
    assert outcome(writer, f"UPDATE {numbers} SET v = 8 WHERE k = 1") == 1
    assert reader.value(query) == 8


@pytest.mark.parametrize("level", LEVELS)
def test_phantoms(connect: Connect, numbers: str, level: str) -> None:
    """SERIALIZABLE locks the range that was read against inserts; SNAPSHOT does not see them."""
    reader, writer = at(connect(), level), at(connect(), "READ COMMITTED")
    query = f"SELECT COUNT(*) FROM {numbers} WHERE k BETWEEN 1 AND 9"
    assert reader.value(f"BEGIN TRAN; {query}") == 3
    serial = level == "SERIALIZABLE"
    assert outcome(writer, f"INSERT {numbers} VALUES (4, 0)") == (WAITS if serial else 1)
    assert reader.value(query) == (3 if serial or level == "SNAPSHOT" else 4)
    reader.ok("COMMIT")
    assert outcome(writer, f"INSERT {numbers} VALUES (5, 0)") == 1


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_levels_by_locks_see_what_was_committed_since_they_began(connect: Connect, numbers: str, level: str) -> None:
    """Rows not yet read are not locked, and are changed without a conflict."""
    reader, writer = at(connect(), level), connect()
    reader.ok(f"CREATE TABLE other_{numbers.split('.')[-1]} (a int); BEGIN TRAN")
    reader.ok(f"SELECT * FROM other_{numbers.split('.')[-1]}")
    writer.ok(f"UPDATE {numbers} SET v = 5 WHERE k = 2")
    assert reader.value(f"SELECT v FROM {numbers} WHERE k = 2") == 5
    assert reader.ok(f"UPDATE {numbers} SET v = v + 1 WHERE k = 2; COMMIT").counts[0] == 1
    assert writer.value(f"SELECT v FROM {numbers} WHERE k = 2") == 6


@pytest.mark.parametrize("query", ["SELECT * FROM {0}", "SELECT * FROM {0} AS a LEFT JOIN {0} AS b ON b.k = a.k + 1"])
def test_two_that_are_serializable_read_together(connect: Connect, numbers: str, query: str) -> None:
    one, two = at(connect(), "SERIALIZABLE"), at(connect(), "SERIALIZABLE")
    for each in (one, two):
        each.ok(f"BEGIN TRAN; {query.format(numbers)}")
    assert one.error(f"UPDATE {numbers} SET v = 1 WHERE k = 1").number == WAITS


def test_inserts_of_two_that_are_serializable(connect: Connect, numbers: str) -> None:
    """An INSERT locks the key that it inserts, no range."""
    one, two = at(connect(), "SERIALIZABLE"), at(connect(), "SERIALIZABLE")
    one.ok(f"BEGIN TRAN; INSERT {numbers} VALUES (10, 0)")
    two.ok(f"BEGIN TRAN; INSERT {numbers} VALUES (20, 0); COMMIT")
    one.ok("COMMIT")


_HINTS = {"READCOMMITTEDLOCK": (), "REPEATABLEREAD": ("update",), "SERIALIZABLE": ("update", "insert")}


@pytest.mark.parametrize("hint", _HINTS)
def test_hints_read_one_table_at_another_level(connect: Connect, numbers: str, hint: str) -> None:
    """They take the locks of that level, READ_COMMITTED_SNAPSHOT or not."""
    reader, writer = at(connect(), "READ COMMITTED"), at(connect(), "READ COMMITTED")
    writer.ok(f"BEGIN TRAN; UPDATE {numbers} SET v = 1 WHERE k = 1")
    assert outcome(reader, f"SELECT COUNT(*) FROM {numbers} WITH ({hint})") == WAITS
    writer.ok("ROLLBACK")
    assert reader.value(f"BEGIN TRAN; SELECT COUNT(*) FROM {numbers} WITH ({hint})") == 3
    kept = _HINTS[hint]
    assert outcome(writer, f"UPDATE {numbers} SET v = 1 WHERE k = 1") == (WAITS if "update" in kept else 1)
    assert outcome(writer, f"INSERT {numbers} VALUES (4, 0)") == (WAITS if "insert" in kept else 1)
    reader.ok("COMMIT")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM {0} AS a LEFT JOIN {0} AS b ON b.k = a.k + 1",
        "WITH c AS (SELECT k FROM {0} WHERE k = 1 UNION ALL SELECT n.k FROM {0} AS n JOIN c ON n.k = c.k + 1)"
        " SELECT * FROM c",
    ],
)
def test_rows_whose_locks_cannot_be_held_are_not_read_as_if_they_were(client: Any, numbers: str, query: str) -> None:
    """fakemssql refuses them at REPEATABLE READ; at SERIALIZABLE the table is locked."""
    level = "SET TRANSACTION ISOLATION LEVEL {}; BEGIN TRAN; "
    assert client.error(level.format("REPEATABLE READ") + query.format(numbers)).number == 40517
    assert len(client.rows("ROLLBACK; " + level.format("SERIALIZABLE") + query.format(numbers))) == 3
    client.ok("ROLLBACK")


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_hints_that_lower_the_level(connect: Connect, numbers: str, versions: str, level: str) -> None:
    reader, writer = at(connect(), level), at(connect(), "READ COMMITTED")
    reader.ok(f"BEGIN TRAN; SELECT * FROM {numbers} WITH (READCOMMITTED)")
    assert outcome(writer, f"BEGIN TRAN; UPDATE {numbers} SET v = 7") == 3
    reader.ok(f"SELECT * FROM {numbers} WITH (NOLOCK)")
    found = outcome(reader, f"SELECT SUM(v) FROM {numbers} WITH (READCOMMITTED)")
    assert found == (0 if versions == "ON" else WAITS)


def test_the_level_changes_within_a_transaction(connect: Connect, numbers: str) -> None:
    """What was read before keeps its locks."""
    reader, writer = at(connect(), "REPEATABLE READ"), at(connect(), "READ COMMITTED")
    reader.ok(f"BEGIN TRAN; SELECT * FROM {numbers} WHERE k = 1; SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    reader.ok(f"SELECT * FROM {numbers} WHERE k = 2")
    assert outcome(writer, f"UPDATE {numbers} SET v = 1 WHERE k = 2") == 1
    assert outcome(writer, f"UPDATE {numbers} SET v = 1 WHERE k = 1") == WAITS


def test_a_reader_that_waited_reads_what_was_committed(connect: Connect, client: Any, locking: str, table: str) -> None:
    name = f"{locking}.dbo.{table}"
    client.ok(f"CREATE TABLE {name} (k int); INSERT {name} VALUES (1); BEGIN TRAN; UPDATE {name} SET k = 2")
    with waiting(client, connect(), f"SELECT k FROM {name}") as reader:
        client.ok("COMMIT")
    assert reader.result.results == [[(2,)]]
