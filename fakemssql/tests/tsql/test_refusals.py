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


def test_similar_statements_that_stay_allowed(client: Any, table: str) -> None:
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
    [
        *("SQRT(4)", "STDEV(a)", "NTILE(2) OVER (ORDER BY a)", "STDEV(a) OVER ()", "CHOOSE(1, 2)", "ROUND(2.5, 1)"),
        *("SESSION_CONTEXT(N'k')", "LAG(a) OVER (ORDER BY a)", "STRING_AGG('a', ',')", "STUFF('ab', 1, 1, 'c')"),
        *("CONCAT('a', 1)", "PATINDEX('%a%', 'a')", "HASHBYTES('MD5', 'a')", "ISNUMERIC('1')", "EOMONTH('2024-02-10')"),
        *("OBJECTPROPERTY(1, 'IsTable')", "COL_NAME(1, 1)", "STATS_DATE(1, 1)", "DATABASEPROPERTYEX('x', 'Status')"),
        *("DATENAME(month, '2024-02-10')", "CHAR(65)", "ABS(a)", "POWER(2, a)", "FLOOR(1.5)"),
    ],
)
def test_unneeded_functions_are_refused_by_their_names(client: Any, call: str) -> None:
    error = client.error(f"SELECT {call} FROM (VALUES (1)) v(a)")
    assert (error.number, error.message) == (40517, f"{call.split('(')[0]} is not supported by fakemssql.")


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("SELECT TOP 50 PERCENT a FROM q", "TOP PERCENT"),
        ("SELECT TOP 1 WITH TIES a FROM q ORDER BY a", "TOP WITH TIES"),
        ("INSERT TOP (1) INTO q SELECT 1", "INSERT TOP"),
        ("MERGE TOP (1) q USING q AS s ON 1 = 0 WHEN MATCHED THEN DELETE;", "MERGE TOP"),
        ("SELECT a FROM q GROUP BY ALL a", "GROUP BY ALL"),
        ("SELECT SYSDATETIME() AT TIME ZONE 'UTC'", "AT TIME ZONE"),
        ("SELECT 1 WHERE 1 IS DISTINCT FROM 2", "IS DISTINCT FROM"),
        ("SELECT 1 WHERE 1 = ANY (SELECT 1)", "A comparison with ALL, ANY or SOME"),
        ("SELECT {fn UPPER('a')}", "An ODBC escape"),
        ("SELECT 1 WHERE 'a' LIKE 'a' {escape '!'}", "An ODBC escape"),
        ("SELECT TRIM(LEADING 'a' FROM 'ab')", "TRIM (LEADING ...)"),
        ("SELECT TRIM('a' FROM 'ab')", "TRIM ... FROM"),
        ("SELECT STRING_AGG('a', ',') WITHIN GROUP (ORDER BY 1)", "WITHIN GROUP"),
        ("SELECT value FROM STRING_SPLIT('a,b', ',')", "STRING_SPLIT"),
        ("SELECT value FROM GENERATE_SERIES(1, 5)", "GENERATE_SERIES"),
        (
            "DECLARE @s int = 0; SELECT @s += n FROM (VALUES (1)) AS v(n)",
            "A SELECT that adds row after row to a variable",
        ),
        ("SELECT 1 OPTION (HASH JOIN)", "The query hint HASH"),
        ("CREATE INDEX i ON q (a) WITH (RESUMABLE = OFF)", "RESUMABLE"),
        (
            "CREATE INDEX i ON q (a) WITH (ONLINE = ON (WAIT_AT_LOW_PRIORITY (MAX_DURATION = 1,"
            " ABORT_AFTER_WAIT = SELF)))",
            "WAIT_AT_LOW_PRIORITY",
        ),
        ("UPDATE STATISTICS q WITH SAMPLE 50 PERCENT", "UPDATE STATISTICS ... WITH SAMPLE"),
        ("DBCC CHECKIDENT ('q') WITH TABLERESULTS", "DBCC ... WITH TABLERESULTS"),
    ],
)
def test_unneeded_syntax_is_refused_by_its_name(client: Any, text: str, feature: str) -> None:
    error = client.error(text)
    assert (error.number, error.message) == (40517, f"{feature} is not supported by fakemssql.")
