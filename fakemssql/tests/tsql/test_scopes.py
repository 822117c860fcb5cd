"""Scopes: what a procedure, a dynamic text and a dropped table leave behind; variables that rows add to."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from fakemssql.types import SqlType

LETTERS = "CREATE TABLE #letters (id int IDENTITY, x varchar(10)); INSERT #letters VALUES ('a'), ('b'), ('c')"


def test_identity_outlives_its_table(client: Any, table: str) -> None:
    client.ok("CREATE TABLE #gone (id int IDENTITY(7, 1), x int); INSERT #gone VALUES (1); DROP TABLE #gone")
    assert client.rows("SELECT @@IDENTITY, SCOPE_IDENTITY()") == [(Decimal(7), Decimal(7))]
    client.ok(f"CREATE TABLE {table} (id int IDENTITY(3, 1), x int); INSERT {table} VALUES (1); DROP TABLE {table}")
    assert client.value("SELECT @@IDENTITY") == 3
    client.ok(f"BEGIN TRAN; CREATE TABLE {table} (id int IDENTITY, x int); INSERT {table} VALUES (1); ROLLBACK")
    client.ok("SELECT @@IDENTITY")


@pytest.mark.parametrize("identity", ["", " IDENTITY"])
def test_a_table_that_another_session_has_replaced_has_no_identity_of_this_one(
    client: Any, connect: Any, table: str, identity: str
) -> None:
    """Its first one is not read before the next one is made."""
    client.ok(f"CREATE TABLE {table} (id int IDENTITY(3, 1), x int)")
    client.ok(f"INSERT {table} (x) VALUES (1)")
    connect().ok(f"DROP TABLE {table}; CREATE TABLE {table} (id bigint{identity}, x int)")
    client.ok(f"INSERT {table} (x) VALUES (@x)", x=(SqlType("int"), 1))
    assert client.rows(f"SELECT x FROM {table}") == [(1,)]


def test_identity_that_was_given(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (id int IDENTITY, x int); INSERT {table} VALUES (1), (2)")
    client.ok(f"SELECT id, x INTO #copy FROM {table}; DROP TABLE #copy")
    client.ok(f"SET IDENTITY_INSERT {table} ON; INSERT {table} (id, x) VALUES (70, 1); SET IDENTITY_INSERT {table} OFF")
    assert client.rows("SELECT @@IDENTITY, SCOPE_IDENTITY()") == [(70, 70)]
    client.ok("EXEC sp_executesql @statement = NULL; DECLARE @s nvarchar(max); EXEC sp_executesql @s")


def test_scope_identity_is_of_the_scope(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (id int IDENTITY(50, 1), x int)")
    client.ok(
        f"CREATE PROCEDURE p_{table} AS CREATE TABLE #inner (id int IDENTITY(100, 1), x int);"
        " INSERT #inner (x) VALUES (1); SELECT SCOPE_IDENTITY()"
    )
    found = client.ok(f"INSERT {table} VALUES (1); EXEC p_{table}; SELECT SCOPE_IDENTITY(), @@IDENTITY")
    assert found.results == [[(Decimal(100),)], [(Decimal(50), Decimal(100))]]


def test_temporary_tables_end_with_their_procedure(client: Any, table: str) -> None:
    client.ok(f"CREATE PROCEDURE p_{table} AS CREATE TABLE #mine (x int); INSERT #mine VALUES (1); SELECT x FROM #mine")
    assert client.ok(f"EXEC p_{table}; EXEC p_{table}").results == [[(1,)], [(1,)]]
    assert client.error("EXEC sp_executesql N'CREATE TABLE #y (x int)'; SELECT * FROM #y").number == 208
    assert client.error("EXEC ('CREATE TABLE #z (x int)'); SELECT * FROM #z").number == 208
    client.ok("CREATE TABLE #w (x int)", a=(SqlType("int"), 1))
    assert client.error("SELECT * FROM #w").number == 208


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("DECLARE @n int = 1; SELECT @n = @n + MAX(id) FROM #letters; SELECT @n", 4),
        ("DECLARE @a int, @b int; SELECT @a = 5, @b = @a + 1; SELECT @b", 6),
    ],
)
def test_rows_add_to_a_variable(connect: Callable[[], Any], text: str, value: object) -> None:
    client = connect()
    client.ok(LETTERS)
    assert client.value(text) == value
