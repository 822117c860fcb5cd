"""Cursors, INSERT ... EXECUTE, and procedures that are called with what must be converted."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def letters(client: Any, table: str) -> str:
    client.ok(f"CREATE TABLE {table} (id int IDENTITY, x varchar(10)); INSERT {table} VALUES ('a'), ('b'), ('c')")
    return table


def test_a_loop_over_a_cursor(client: Any, letters: str) -> None:
    loop = f"""
        DECLARE c CURSOR LOCAL FAST_FORWARD FOR SELECT id, x FROM {letters} ORDER BY id
        DECLARE @id bigint, @x nvarchar(5), @s varchar(99) = ''
        OPEN c
        FETCH NEXT FROM c INTO @id, @x
        WHILE @@FETCH_STATUS = 0
        BEGIN
            SET @s = @s + CAST(@id AS varchar(9)) + @x
            FETCH NEXT FROM c INTO @id, @x
        END
        CLOSE c
        DEALLOCATE c
        SELECT @s, @@FETCH_STATUS"""
    assert client.rows(loop) == [("1a2b3c", -1)]
    assert client.rows(loop) == [("1a2b3c", -1)], "a local cursor ended with its batch"


def test_scrolling_and_cursor_variables(client: Any, letters: str) -> None:
    client.ok(f"DECLARE g SCROLL CURSOR FOR SELECT x FROM {letters} ORDER BY id FOR READ ONLY; OPEN g")
    found = client.ok("FETCH LAST FROM g; FETCH PRIOR FROM g; FETCH ABSOLUTE -3 FROM g; FETCH RELATIVE 5 FROM g")
    assert found.results == [[("c",)], [("b",)], [("a",)], []]
    assert client.rows("SELECT @@FETCH_STATUS, @@CURSOR_ROWS") == [(-1, 3)]
    client.ok("CLOSE g; DEALLOCATE g")
    text = (
        "DECLARE @c CURSOR, @n int; SET @c = CURSOR FOR SELECT COUNT(*) FROM {0}; OPEN @c; FETCH @c INTO @n; SELECT @n"
    )
    assert client.value(text.format(letters)) == 3


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("OPEN nosuch", 16916),
        ("DECLARE c CURSOR FOR SELECT 1; FETCH c", 16917),
        ("DECLARE c CURSOR LOCAL FOR SELECT 1; OPEN c; OPEN c", 16905),
        ("DECLARE c CURSOR LOCAL FOR SELECT 1; DECLARE c CURSOR LOCAL FOR SELECT 1", 16915),
        ("DECLARE c CURSOR LOCAL FOR SELECT 1; OPEN c; DECLARE @a int, @b int; FETCH c INTO @a, @b", 16924),
        ("DECLARE c CURSOR LOCAL FOR SELECT 1; OPEN c; FETCH LAST FROM c", 16911),
    ],
)
def test_errors_of_cursors(client: Any, text: str, number: int) -> None:
    assert client.error(text).number == number


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


def test_insert_what_a_system_procedure_shows(client: Any) -> None:
    client.ok(
        "CREATE TABLE #w (a char(5), b varchar(30), c sysname, d sysname, e char(5), f sysname, g varchar(32),"
        " h varchar(30), i varchar(30), j varchar(48), k sysname, l char(5), m char(5)); INSERT #w EXEC sp_who2"
    )
    assert client.value("SELECT COUNT(*) FROM #w WHERE a = CAST(@@SPID AS varchar(5))") == 1
