"""Errors that SQL Server finds before it runs anything, by number."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("DECLARE @x int, @x int", 134),
        ("DECLARE @x int; DECLARE @X varchar(3)", 134),
        ("RETURN 5", 178),
        ("SELECT 1 WHERE COUNT(*) > 1", 147),
        ("SELECT a FROM (VALUES (1)) v(a) WHERE ROW_NUMBER() OVER (ORDER BY a) = 1", 4108),
        ("SELECT 1 FROM (VALUES (1)) v(a) GROUP BY ROW_NUMBER() OVER (ORDER BY a)", 4108),
        ("CREATE TABLE #m (a int PRIMARY KEY, b int PRIMARY KEY)", 8110),
        ("CREATE TABLE #m (a int, b nosuchtype)", 2715),
        ("DECLARE @x nosuchtype", 2715),
        ("SELECT CAST(1 AS nosuchtype)", 243),
        ("DECLARE @t TABLE (a int); INSERT @t VALUES (1, 2)", 213),
        ("DECLARE @t TABLE (a int, b int); INSERT @t VALUES (1)", 213),
        ("DECLARE @t TABLE (a int); INSERT @t VALUES (1), (2, 3)", 10709),
        ("DECLARE @t TABLE (a int); INSERT @t (a) VALUES (1, 2)", 110),
        ("DECLARE @t TABLE (a int, b int); INSERT @t (a, b) VALUES (1)", 109),
        ("DECLARE @n int = 1; DECLARE @t TABLE (a int); UPDATE @t SET @n = @n + 1, a = @n", 40517),
        ("DECLARE @n int = 1; DECLARE @t TABLE (a int); UPDATE @t SET @n += a", 40517),
    ],
)
def test_numbers(client: Any, text: str, number: int) -> None:
    assert client.error(text).number == number


def test_statements_that_stay_allowed(client: Any, table: str) -> None:
    text = (
        "DECLARE @n int = 1, @m int; DECLARE @t TABLE (a int); INSERT @t VALUES (4);"
        " UPDATE @t SET @m = a = a + @n; SELECT @m"
    )
    assert client.value(text) == 5
    assert client.value("DECLARE @i int = 0; WHILE @i < 2 BEGIN DECLARE @j int; SET @i += 1 END; SELECT @i") == 2
    client.ok(f"CREATE PROCEDURE {table} @a int WITH RECOMPILE, EXECUTE AS CALLER AS RETURN @a + 1")
    assert client.value(f"DECLARE @a int; EXEC @a = {table} 4; SELECT @a") == 5
    client.ok("SELECT a FROM (VALUES (1)) v(a) GROUP BY a HAVING COUNT(*) > 0 ORDER BY ROW_NUMBER() OVER (ORDER BY a)")
    assert "#2" in client.error("CREATE TABLE #m (a int, b nosuchtype)").message


@pytest.mark.parametrize(
    "call",
    ["SQRT(4)", "STDEV(a)", "NTILE(2) OVER (ORDER BY a)", "STDEV(a) OVER ()", "CHOOSE(1, 2)", "SESSION_CONTEXT(N'k')"],
)
def test_an_unsupported_function_is_refused_by_name(client: Any, call: str) -> None:
    error = client.error(f"SELECT {call} FROM (VALUES (1)) v(a)")
    assert (error.number, error.message) == (40517, f"{call.split('(')[0]} is not supported by fakemssql.")
