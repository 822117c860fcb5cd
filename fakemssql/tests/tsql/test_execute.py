"""INSERT ... EXECUTE, and procedures that are called with what must be converted."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def letters(client: Any, table: str) -> str:
    client.ok(f"CREATE TABLE {table} (id int IDENTITY, x varchar(10)); INSERT {table} VALUES ('a'), ('b'), ('c')")
    return table


def test_insert_execute(client: Any, letters: str) -> None:
    found = client.ok(f"INSERT {letters} (x) EXEC ('SELECT ''y'' UNION ALL SELECT ''z''; SELECT 5'); SELECT @@ROWCOUNT")
    assert found.results == [[(3,)]]
    assert found.counts[0] == 3
    text = f"""DECLARE @t TABLE (a int, b varchar(3))
        INSERT @t EXEC sp_executesql N'SELECT id, x FROM {letters} WHERE id > @m', N'@m int', 5
        SELECT * FROM @t"""
    assert client.rows(text) == [(6, "5")]
    assert client.error(f"INSERT {letters} (x) EXEC ('SELECT 1, 2')").number == 213
    assert client.error(f"INSERT {letters} (x) EXEC ('SELECT 1/0')").number == 8134
    assert client.value(f"SELECT COUNT(*) FROM {letters}") == 6


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


def test_insert_what_a_system_procedure_shows(client: Any, table: str) -> None:
    text = f"""CREATE TABLE {table} (id int PRIMARY KEY)
        DECLARE @k TABLE (q sysname, o sysname, t sysname, c sysname, n smallint, k sysname)
        INSERT @k EXEC sp_pkeys '{table}'; SELECT t, c, n FROM @k"""
    assert client.rows(text) == [(table, "id", 1)]
