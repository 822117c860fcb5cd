"""A statement is compiled again if what it was compiled from has changed, and only then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.engine_client import Client

Connect = Callable[..., Client]

OTHER_CHANGES = [
    "CREATE TABLE {0} (a int)",
    "CREATE INDEX i ON {0} (a)",
    "ALTER TABLE {0} ADD b int",
    "CREATE SCHEMA s{0}",
    "CREATE DATABASE d{0}",
    "DROP DATABASE d{0}",
    "DROP TABLE {0}",
]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM kept{0}",
        "UPDATE kept{0} SET a = a",
        "SELECT * FROM v{0}",
        "SELECT COUNT(*) FROM sys.databases WHERE database_id < 5",
        "SELECT name FROM [Other.Catalog].sys.tables",
        "SELECT OBJECT_ID('nothing')",
    ],
)
def test_changes_of_other_objects_compile_nothing_again(connect: Connect, table: str, text: str) -> None:
    client, other = connect(), connect()
    other.ok(f"CREATE TABLE kept{table} (a int)")
    other.ok(f"CREATE VIEW v{table} AS SELECT a FROM kept{table}")
    for _ in range(3):
        client.ok(text.format(table))
    prepared = set(client.session.pg.prepared)
    for change in OTHER_CHANGES:
        other.ok(change.format(table))
        for _ in range(2):  # the second use of a plan prepares it
            client.ok(text.format(table))
    client.ok("CREATE TABLE #t (a int)")
    for _ in range(2):
        client.ok(text.format(table))
    assert {name for name in client.session.pg.prepared - prepared if name.startswith(b"p")} == set()


def test_texts_that_say_the_same_share_a_prepared_statement(connect: Connect, table: str) -> None:
    client, other = connect(), connect()
    other.ok(f"CREATE TABLE {table} (a int); INSERT {table} VALUES (1)")
    texts = [f"SELECT a FROM {table} -- {number}" for number in range(3)]
    prepared = set(client.session.pg.prepared)
    for text in texts * 2:
        assert client.rows(text) == [(1,)]
    assert len([name for name in client.session.pg.prepared - prepared if name.startswith(b"p")]) == 1
    other.ok(f"ALTER TABLE {table} ALTER COLUMN a varchar(20)")
    client.ok("SET XACT_ABORT ON; BEGIN TRAN")
    for text in texts * 2:
        assert client.rows(text) == [("1",)]
    client.ok("COMMIT")


@pytest.mark.parametrize(
    ("before", "text", "change", "rows"),
    [
        ("CREATE TABLE {0} (a int)", "SELECT * FROM {0}", "ALTER TABLE {0} ADD b int", [(1, None)]),
        ("CREATE TABLE {0} (a int)", "SELECT * FROM {0}", "DROP TABLE {0}; CREATE TABLE {0} (b int, c int)", []),
        (
            "CREATE TABLE {0} (a int); CREATE SYNONYM s{0} FOR {0}; CREATE TABLE u{0} (b int); INSERT u{0} VALUES (2)",
            "SELECT * FROM s{0}",
            "DROP SYNONYM s{0}; CREATE SYNONYM s{0} FOR u{0}",
            [(2,)],
        ),
        (
            "CREATE TABLE {0} (a int); EXEC('CREATE VIEW v{0} AS SELECT a FROM {0}')",
            "SELECT * FROM v{0}",
            "DROP VIEW v{0}; EXEC('CREATE VIEW v{0} AS SELECT a + 1 AS b FROM {0}')",
            [(2,)],
        ),
        ("CREATE TABLE {0} (a int)", "SELECT OBJECT_ID('{0}') - OBJECT_ID('{0}')", "DROP TABLE {0}", [(None,)]),
        (
            "CREATE TABLE {0} (a int); CREATE DATABASE d{0}; EXEC d{0}.sys.sp_executesql N'CREATE TABLE {0} (a int)'",
            "SELECT COUNT(*) FROM d{0}.sys.tables",
            "DROP DATABASE d{0}; CREATE DATABASE d{0}",
            [(0,)],
        ),
    ],
    ids=["column", "table", "synonym", "view", "no table", "database"],
)
def test_a_change_of_what_a_statement_reads_is_seen(
    connect: Connect, table: str, before: str, text: str, change: str, rows: list[tuple[object, ...]]
) -> None:
    client, other = connect(), connect()
    other.ok(before.format(table))
    other.ok(f"INSERT {table} VALUES (1)")
    first = [client.rows(text.format(table)) for _ in range(3)]
    assert first[0] == first[1] == first[2] != rows
    other.ok(change.format(table))
    assert client.rows(text.format(table)) == rows


def test_a_view_finds_a_table_that_comes_into_its_schema(connect: Connect, table: str) -> None:
    client, other = connect(), connect()
    other.ok(f"CREATE SCHEMA s{table}")
    other.ok(f"CREATE TABLE {table} (a int); INSERT {table} VALUES (1)")
    other.ok(f"CREATE VIEW s{table}.v AS SELECT a FROM {table}")
    assert [client.rows(f"SELECT * FROM s{table}.v") for _ in range(3)] == [[(1,)]] * 3
    other.ok(f"CREATE TABLE s{table}.{table} (a int); INSERT s{table}.{table} VALUES (2)")
    assert client.rows(f"SELECT * FROM s{table}.v") == [(2,)]


def test_a_readers_locks_follow_the_setting_of_the_database(connect: Connect, locking: str, table: str) -> None:
    client, other = connect(), connect()
    name = f"{locking}.dbo.{table}"
    other.ok(f"CREATE TABLE {name} (a int); INSERT {name} VALUES (1)")
    text = f"SET LOCK_TIMEOUT 0; SELECT * FROM {name}"
    for _ in range(3):
        assert client.rows(text) == [(1,)]
    other.ok(f"BEGIN TRAN; UPDATE {name} SET a = 2")
    assert client.run(text).errors == [1222]
    connect().ok(f"ALTER DATABASE {locking} SET READ_COMMITTED_SNAPSHOT ON")
    assert client.rows(text) == [(1,)]
