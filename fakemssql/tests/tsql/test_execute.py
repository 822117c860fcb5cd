"""The refusal of INSERT ... EXECUTE, and procedures that are called with what must be converted."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("source", ["EXEC ('SELECT 5')", "EXEC sp_pkeys 't'", "EXECUTE sp_executesql N'SELECT 1'"])
def test_insert_execute_is_refused(client: Any, table: str, source: str) -> None:
    client.ok(f"CREATE TABLE {table} (id int)")
    assert client.error(f"INSERT {table} {source}").number == 40517
    assert client.value(f"SELECT COUNT(*) FROM {table}") == 0


def test_arguments_are_converted(client: Any, table: str) -> None:
    client.ok(f"CREATE PROCEDURE {table} @a int, @b varchar(3) = 'x' AS SELECT @a, @b")
    assert client.rows(f"EXEC {table} '12', 345") == [(12, "345")]
    assert client.rows(f"DECLARE @p sysname = '{table}'; EXEC @p @b = 'abcdef', @a = 1.9") == [(1, "abc")]
    error = client.error(f"EXEC {table} 'abc'")
    assert (error.number, error.message) == (8114, "Error converting data type varchar to int.")
    assert client.error(f"EXEC {table} @a = 1, 2").number == 119


def test_default_as_an_argument(client: Any, table: str) -> None:
    client.ok(f"""CREATE PROCEDURE {table} @a varchar(10) = 'da', @b varchar(10) = 'db' OUTPUT, @c int = 3 AS
        SELECT @a, @b, @c; SET @b = 'out'""")
    assert client.rows(f"EXEC {table} DEFAULT, 'x'") == [("da", "x", 3)]
    assert client.rows(f"EXEC {table} 'x', DEFAULT, 5") == [("x", "db", 5)]
    assert client.rows(f"EXEC {table} DEFAULT, @c = DEFAULT, @b = 'x'") == [("da", "x", 3)]
    text = f"DECLARE @r int, @b varchar(10) = 'in'; EXEC @r = {table} DEFAULT, @b OUT; SELECT @r, @b"
    assert client.ok(text).results == [[("da", "in", 3)], [(0, "out")]]
    client.ok(f"ALTER PROCEDURE {table} @a int, @b int = 2 AS SELECT @a, @b")
    assert client.error(f"EXEC {table} DEFAULT, 1").number == 201
