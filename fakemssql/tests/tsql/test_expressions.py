# ruff: noqa: DTZ001 - SQL Server's datetime has no zone
"""Values and their types: what expressions give, and how values change on their way into columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from fakemssql.types import SqlType


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("7 / 2", "int", 3),
        ("-7 % 3", "int", -1),
        ("7.0 / 2", None, Decimal("3.5")),
        ("1 + '2'", "int", 3),
        ("'a' + 'b'", "varchar(2)", "ab"),
        ("'a' + NULL", "varchar(2)", None),
        ("N'a' + 'b'", "nvarchar(2)", "ab"),
        ("LEN('ab  ')", "int", 2),
        ("LEN(N'\U0001f600')", "int", 2),
        ("DATALENGTH(N'ab ')", "int", 6),
        ("DATALENGTH('ab ')", "int", 3),
        ("ISNULL(NULL, 'x')", None, "x"),
        ("COALESCE(NULL, 1, 2)", "int", 1),
        ("NULLIF(1, 1)", "int", None),
        ("IIF(1 = 2, 'a', 'b')", "varchar(1)", "b"),
        ("CHARINDEX('B', 'abab', 3)", "int", 4),
        ("SUBSTRING('hello', 0, 3)", None, "he"),
        ("REPLACE('aXa', 'x', '-')", None, "a-a"),
        ("REPLICATE('ab', 2)", None, "abab"),
        ("LEFT('abc', 2) + RIGHT('abc', 1)", None, "abc"),
        ("QUOTENAME('a]b')", None, "[a]]b]"),
        ("PARSENAME('a.b.[c.d]', 1)", None, "c.d"),
        ("CAST(1.5 AS int)", "int", 1),
        ("CAST(-1 AS bit)", "bit", True),
        ("CAST('true' AS bit)", "bit", True),
        ("CAST(0x41 AS varchar(5))", "varchar(5)", "A"),
        ("CAST(N'aé' AS varbinary(10))", "varbinary(10)", b"a\x00\xe9\x00"),
        ("CONVERT(varbinary(10), 'aé')", "varbinary(10)", b"a\xe9"),
        ("CONVERT(nvarchar(10), 0x41004200)", "nvarchar(10)", "AB"),
        ("CONVERT(varbinary(10), '0x4142', 1)", "varbinary(10)", b"AB"),
        ("CONVERT(varchar(10), 0x4142, 2)", "varchar(10)", "4142"),
        ("CAST(N'Ж' AS varchar(5))", "varchar(5)", "?"),
        ("CAST('abcdef' AS varchar(3))", "varchar(3)", "abc"),
        ("CAST('ab' AS char(4))", "char(4)", "ab  "),
        ("TRY_CAST('x' AS int)", "int", None),
        ("TRY_CONVERT(datetime, '2020-02-30')", "datetime", None),
        ("CONVERT(varchar(30), CAST('2024-02-03T04:05:06.789' AS datetime), 121)", None, "2024-02-03 04:05:06.790"),
        ("CONVERT(varchar(30), CAST('2024-02-03 04:05:06' AS datetime), 126)", None, "2024-02-03T04:05:06"),
        ("CONVERT(varchar(30), CAST('2024-02-03 14:05:06' AS datetime))", None, "Feb  3 2024  2:05PM"),
        ("CONVERT(varchar(8), CAST('2024-02-03' AS date), 112)", None, "20240203"),
        ("CAST('2024-01-01 00:00:00.005' AS datetime)", "datetime", dt.datetime(2024, 1, 1, 0, 0, 0, 7000)),
        ("CAST('2024-01-01 23:59:59.999' AS datetime)", "datetime", dt.datetime(2024, 1, 2)),
        ("DATEADD(month, 1, CAST('2024-01-31' AS date))", "date", dt.date(2024, 2, 29)),
        ("DATEADD(ms, 10, CAST('2024-01-01' AS datetime))", "datetime", dt.datetime(2024, 1, 1, 0, 0, 0, 10000)),
        ("DATEDIFF(day, '2024-01-01 23:59', '2024-01-02 00:01')", "int", 1),
        ("DATEDIFF(year, '2023-12-31', '2024-01-01')", "int", 1),
        ("DATEDIFF_BIG(ms, '2000-01-01', '2100-01-01')", "bigint", 3155760000000),
        ("DATEPART(weekday, '2024-02-10')", "int", 7),
        ("JSON_VALUE(N'{\"a\":{\"b\":[1,\"x\"]}}', '$.a.b[1]')", None, "x"),
        ("ISJSON('{')", "int", 0),
        ("NCHAR(8364) + NCHAR(70000)", None, None),
        ("NCHAR(8364)", "nchar(1)", "\u20ac"),
        ("CASE WHEN 'A' = 'a ' THEN 1 ELSE 0 END", "int", 1),
        ("CASE WHEN 'A' = 'a' COLLATE Latin1_General_BIN2 THEN 1 ELSE 0 END", "int", 0),
        ("CASE WHEN 'abc' LIKE 'A[a-c]%' THEN 1 ELSE 0 END", "int", 1),
        ("CASE WHEN '5%' LIKE '5!%' ESCAPE '!' THEN 1 ELSE 0 END", "int", 1),
        ("CASE WHEN NULL = NULL THEN 1 ELSE 0 END", "int", 0),
        ("5 & 3 | 8 ^ 1", "int", 8),
        ("~5", "int", -6),
        ("2147483648", "numeric(10,0)", Decimal(2147483648)),
        ("0x0A", "varbinary(1)", b"\n"),
        ("$1.5", "money", Decimal("1.5000")),
    ],
)  # fmt: skip
def test_expressions(client: Any, expression: str, kind: str | None, value: Any) -> None:
    recorder = client.ok(f"SELECT {expression} AS x")
    assert recorder.results[0][0][0] == value
    if kind is not None:
        assert str(recorder.shapes[0][0].type) == kind


def test_assignment_conversions(client: Any, table: str) -> None:
    client.ok(
        f"CREATE TABLE {table} (b bit, v varchar(3), n nvarchar(2), d datetime, t tinyint, x varbinary(2), m money)"
    )
    client.ok(f"INSERT {table} VALUES (7, N'aЖ', N'ab  ', '2024-01-01 00:00:00.004', 255, 0x01, 1.23456)")
    assert client.rows(f"SELECT * FROM {table}") == [
        (True, "a?", "ab", dt.datetime(2024, 1, 1, 0, 0, 0, 3000), 255, b"\x01", Decimal("1.2346"))
    ]
    error = client.error(f"INSERT {table} (v) VALUES ('abcd')")
    assert error.number == 2628
    assert "column 'v'. Truncated value: 'abc'" in error.message
    assert client.error(f"INSERT {table} (t) VALUES (256)").number == 220
    assert client.error(f"INSERT {table} (x) VALUES ('ab')").number == 257
    assert client.error(f"INSERT {table} (n) VALUES (N'\U0001f600x')").number == 2628


def test_any_text_survives(client: Any, table: str) -> None:
    text = "a\x00b\ud800 \U0001f600 ' \\ \r\n"
    client.ok(f"CREATE TABLE {table} (t nvarchar(max), b varbinary(max))")
    kind = SqlType("nvarchar", length=-1)
    client.ok(f"INSERT {table} VALUES (@t, CAST(@t AS varbinary(max)))", t=(kind, text))
    assert client.rows(f"SELECT t, CAST(b AS nvarchar(max)) FROM {table}") == [(text, text)]


def test_signs_and_the_first_of_two_json_keys(client: Any) -> None:
    assert client.rows("SELECT - - 3, - -(3), -(-3)") == [(3, 3, 3)]
    recorder = client.ok("DECLARE @b tinyint = 2, @s smallint = 2; SELECT -@b, -@s")
    assert recorder.results == [[(-2, -2)]]
    assert [column.type.name for column in recorder.shapes[0]] == ["smallint", "smallint"]
    assert client.value("""SELECT JSON_VALUE('{"a":1,"a":2}', '$.a')""") == "1"
    error = client.error("SELECT 1 a, 2 a INTO #dup")
    assert (error.number, "'#dup'" in error.message) == (2705, True)
