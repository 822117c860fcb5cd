# ruff: noqa: DTZ001 - SQL Server's datetime has no zone
"""Control of flow, transactions, errors, and values: what a batch means whoever sends it."""

from __future__ import annotations

import datetime as dt
import hashlib
from decimal import Decimal
from typing import Any

import pytest

from fakemssql.contract import Attention, SqlError
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
        ("STUFF('abcdef', 2, 3, 'zz')", None, "azzef"),
        ("REPLICATE('ab', 2)", None, "abab"),
        ("LEFT('abc', 2) + RIGHT('abc', 1)", None, "abc"),
        ("CONCAT('a', NULL, 1)", None, "a1"),
        ("QUOTENAME('a]b')", None, "[a]]b]"),
        ("PARSENAME('a.b.[c.d]', 1)", None, "c.d"),
        ("PATINDEX('%[0-9]%', 'ab3')", "int", 3),
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
        ("DATENAME(month, '2024-02-10')", None, "February"),
        ("EOMONTH('2024-02-10')", "date", dt.date(2024, 2, 29)),
        ("ROUND(2.567, 1)", None, Decimal("2.600")),
        ("ABS(-3)", "int", 3),
        ("POWER(2, 10)", "int", 1024),
        ("JSON_VALUE(N'{\"a\":{\"b\":[1,\"x\"]}}', '$.a.b[1]')", None, "x"),
        ("ISJSON('{')", "int", 0),
        ("HASHBYTES('SHA2_256', 'a')", None, hashlib.sha256(b"a").digest()),
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
        ("{fn UPPER('a')}", None, "A"),
    ],
)  # fmt: skip
def test_expressions(client: Any, expression: str, kind: str | None, value: Any) -> None:
    recorder = client.ok(f"SELECT {expression} AS x")
    assert recorder.results[0][0][0] == value
    if kind is not None:
        assert str(recorder.shapes[0][0].type) == kind


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SELECT 1 FROM", 102),
        ("SELECT * FROM t WHERE", 102),
        ("SELECT FROM t", 156),
        ("SELECT 'a", 105),
        ("/* never ends", 113),
        ("SELECT 1 LIMIT 5", 102),
        ("SELECT a > 1", 102),
        ("SELECT @x", 137),
        ("DECLARE @x int; SET @y = 1", 137),
        ("SELECT * FROM @t", 1087),
        ("SELECT * FROM no_such", 208),
        ("EXEC no_such", 2812),
        ("SELECT no_such_function(1)", 195),
        ("SELECT dbo.f(1)", 4121),
        ("SELECT a.b", 4104),
        ("SELECT 1 WHERE 1", 4145),
        ("SELECT 1 / 0", 8134),
        ("SELECT 2147483647 + 1", 8115),
        ("SELECT CAST(300 AS tinyint)", 220),
        ("SELECT CAST('x' AS int)", 245),
        ("SELECT CAST('x' AS float)", 8114),
        ("SELECT CAST('x' AS uniqueidentifier)", 8169),
        ("SELECT CAST('2024-13-01' AS datetime)", 242),
        ("SELECT CAST('nope' AS datetime)", 241),
        ("SELECT CAST('nope' AS datetime2)", 241),
        ("SELECT (SELECT 1 UNION ALL SELECT 2)", 512),
        ("SELECT 1 UNION SELECT 1, 2", 205),
        ("SELECT name, COUNT(*) FROM sys.objects", 8120),
        ("SELECT x.name FROM sys.objects AS o", 4104),
        ("SELECT name FROM sys.objects a, sys.columns b", 209),
        ("COMMIT", 3902),
        ("ROLLBACK", 3903),
        ("SAVE TRAN x", 628),
        ("USE no_such", 911),
        ("CREATE TABLE nosuch.t (a int)", 2760),
        ("DROP TABLE no_such", 3701),
        ("THROW 50001, 'x', 1", 50001),
        ("RAISERROR('x %s %d', 16, 1, 'a', 5)", 50000),
        ("DECLARE @d varbinary(5) = 'abc'", 257),
        ("SELECT DATEADD(fortnight, 1, GETDATE())", 155),
        ("SELECT TOP (-1) 1", 127),
        ("SELECT CAST(1 AS banana)", 243),
        ("MERGE sys.objects AS t USING (SELECT 1 AS a) AS s ON 1 = 1 WHEN MATCHED THEN DELETE", 10713),
        ("BACKUP DATABASE x", 40517),
        ("SELECT 1 FOR XML AUTO", 40517),
        ("SET ROWCOUNT 5", 40517),
        ("SET NO_SUCH_OPTION ON", 195),
        ("SELECT FORMAT(1, 'x')", 40517),
    ],
)
def test_errors(client: Any, text: str, number: int) -> None:
    assert client.error(text).number == number


def test_statements_need_no_separators(client: Any) -> None:
    recorder = client.ok(
        "DECLARE @i int = 0 WHILE @i < 3 BEGIN SET @i += 1 IF @i = 2 CONTINUE SELECT @i END SELECT 'end'"
    )
    assert recorder.results == [[(1,)], [(3,)], [("end",)]]


def test_select_assigns_the_last_row(client: Any) -> None:
    text = "DECLARE @a int; SELECT @a = v FROM (VALUES (1), (2)) AS t(v) ORDER BY v; SELECT @a"
    assert client.value(text) == 2


def test_try_catch(client: Any) -> None:
    text = """BEGIN TRY SELECT 1 / 0 END TRY BEGIN CATCH
        SELECT ERROR_NUMBER(), ERROR_SEVERITY(), ERROR_MESSAGE(), XACT_STATE() END CATCH; SELECT ERROR_NUMBER()"""
    recorder = client.ok(text)
    assert recorder.results[-2:] == [[(8134, 16, "Divide by zero error encountered.", 0)], [(None,)]]


def test_a_missing_table_is_caught_one_level_up(client: Any) -> None:
    assert client.error("BEGIN TRY SELECT * FROM no_such END TRY BEGIN CATCH SELECT 1 END CATCH").number == 208
    text = "BEGIN TRY EXEC('SELECT * FROM no_such') END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH"
    assert client.value(text) == 208


def test_throw_in_catch_ends_the_batch(client: Any) -> None:
    recorder = client.run("BEGIN TRY THROW 50005, 'm', 3 END TRY BEGIN CATCH THROW END CATCH SELECT 1")
    assert [(m.number, m.state) for m in recorder.messages] == [(50005, 3)]
    assert recorder.results == []


def test_an_error_undoes_only_its_statement(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int NOT NULL PRIMARY KEY)")
    recorder = client.run(
        f"BEGIN TRAN; INSERT {table} VALUES (1); INSERT {table} VALUES (1); SELECT @@ERROR, @@TRANCOUNT; COMMIT"
    )
    assert recorder.errors == [2627]
    assert recorder.results == [[(2627, 1)]]
    assert client.rows(f"SELECT a FROM {table}") == [(1,)]


def test_xact_abort(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int NOT NULL PRIMARY KEY)")
    recorder = client.run(
        f"SET XACT_ABORT ON; BEGIN TRAN; INSERT {table} VALUES (1); INSERT {table} VALUES (1); SELECT 1"
    )
    assert (recorder.errors, recorder.results) == ([2627], [])
    assert [event for event, _ in recorder.events] == ["begin", "rollback"]
    assert client.value(f"SELECT @@TRANCOUNT + COUNT(*) FROM {table}") == 0


def test_an_uncommittable_transaction(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int NOT NULL PRIMARY KEY)")
    recorder = client.run(
        f"SET XACT_ABORT ON; BEGIN TRAN; BEGIN TRY INSERT {table} VALUES (1), (1) END TRY BEGIN CATCH"
        f" SELECT XACT_STATE(), @@TRANCOUNT; ROLLBACK; SELECT XACT_STATE(), @@TRANCOUNT END CATCH"
    )
    assert recorder.results == [[(-1, 1)], [(0, 0)]]
    recorder = client.run(
        f"BEGIN TRAN; BEGIN TRY INSERT {table} VALUES (1), (1) END TRY BEGIN CATCH SELECT 1 END CATCH"
    )
    assert recorder.errors == [3998]


def test_nested_transactions_and_savepoints(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int)")
    recorder = client.ok(
        f"BEGIN TRAN; BEGIN TRAN; INSERT {table} VALUES (1); SAVE TRAN s; INSERT {table} VALUES (2); ROLLBACK TRAN s;"
        " COMMIT; SELECT @@TRANCOUNT; COMMIT; SELECT @@TRANCOUNT"
    )
    assert recorder.results == [[(1,)], [(0,)]]
    assert client.rows(f"SELECT a FROM {table}") == [(1,)]


def test_identity(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int IDENTITY(10, 5), b int)")
    assert client.value(f"INSERT {table} (b) VALUES (1), (2); SELECT SCOPE_IDENTITY()") == 15
    assert client.error(f"INSERT {table} (a, b) VALUES (1, 1)").number == 544
    client.ok(f"SET IDENTITY_INSERT {table} ON; INSERT {table} (a, b) VALUES (1, 1); SET IDENTITY_INSERT {table} OFF")
    assert client.value(f"SELECT IDENT_CURRENT('{table}')") == 15
    assert client.rows(f"INSERT {table} (b) OUTPUT inserted.a, inserted.b VALUES (3)") == [(20, 3)]


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


def test_output_into(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int IDENTITY, b int); INSERT {table} (b) VALUES (1), (2), (3)")
    recorder = client.ok(
        f"DECLARE @gone TABLE (a int, b int); DELETE TOP (2) FROM {table} OUTPUT deleted.a, deleted.b INTO @gone"
        " OUTPUT deleted.b * 10 AS tenfold; SELECT a, b FROM @gone ORDER BY a"
    )
    assert [sorted(rows) for rows in recorder.results] == [[(10,), (20,)], [(1, 1), (2, 2)]]
    assert client.rows(f"UPDATE {table} SET b += 1 OUTPUT deleted.b, inserted.b") == [(3, 4)]


def test_update_from_a_join(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int, b int); INSERT {table} VALUES (1, 0), (2, 0)")
    client.ok(f"UPDATE t SET b = s.v FROM {table} AS t JOIN (VALUES (1, 5), (3, 6)) AS s(k, v) ON s.k = t.a")
    assert sorted(client.rows(f"SELECT * FROM {table}")) == [(1, 5), (2, 0)]
    client.ok(f"DELETE t FROM {table} t LEFT JOIN (VALUES (1)) AS s(k) ON s.k = t.a WHERE s.k IS NULL")
    assert client.rows(f"SELECT a FROM {table}") == [(1,)]


def test_merge_with_output(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (k int PRIMARY KEY, v int); INSERT {table} VALUES (1, 1), (2, 2)")
    rows = client.rows(
        f"MERGE {table} AS t USING (VALUES (2, 20), (3, 30)) AS"
        " s(k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.v) WHEN NOT MATCHED BY SOURCE THEN DELETE"
        " OUTPUT $action, deleted.k, inserted.k;"
    )
    assert sorted(rows) == [("DELETE", 1, None), ("INSERT", None, 3), ("UPDATE", 2, 2)]


def test_queries(client: Any) -> None:
    rows = client.rows
    values = "(VALUES (1, 'a'), (2, 'B'), (3, 'A')) AS t(n, s)"
    assert rows(f"SELECT s, COUNT(*), SUM(n) FROM {values} GROUP BY s ORDER BY s") == [("a", 2, 4), ("B", 1, 2)]
    assert len(rows(f"SELECT DISTINCT s FROM {values}")) == 2
    assert rows(f"SELECT TOP 1 WITH TIES s FROM {values} ORDER BY s DESC") == [("B",)]
    assert rows(f"SELECT TOP 50 PERCENT n FROM {values} ORDER BY n") == [(1,), (2,)]
    assert rows(f"SELECT n FROM {values} ORDER BY n OFFSET 1 ROW FETCH NEXT 1 ROW ONLY") == [(2,)]
    assert rows(f"SELECT n, LAG(n) OVER (ORDER BY n) FROM {values} WHERE s IN ('A')") == [(1, None), (3, 1)]
    assert rows("SELECT 1 UNION SELECT 1 UNION ALL SELECT 2.5 ORDER BY 1") == [(Decimal(1),), (Decimal("2.5"),)]
    assert rows("WITH r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT SUM(n) FROM r") == [(10,)]
    assert rows(f"SELECT t.n, x.m FROM {values} CROSS APPLY (SELECT t.n * 2 AS m) AS x WHERE t.n = 2") == [(2, 4)]
    assert rows("SELECT value FROM STRING_SPLIT('a,b', ',')") == [("a",), ("b",)]
    assert rows('SELECT a, b FROM OPENJSON(N\'[{"a":1,"b":"x"}]\') WITH (a int, b nvarchar(5))') == [(1, "x")]
    assert rows("SELECT STRING_AGG(s, ',') WITHIN GROUP (ORDER BY n DESC) FROM " + values) == [("A,B,a",)]


def test_temporary_tables(client: Any, connect: Any) -> None:
    client.ok("CREATE TABLE #t (a int IDENTITY PRIMARY KEY, b nvarchar(5) DEFAULT 'x'); INSERT #t DEFAULT VALUES")
    assert client.rows("SELECT * FROM #t") == [(1, "x")]
    assert client.value("SELECT CASE WHEN OBJECT_ID('tempdb..#t') IS NULL THEN 0 ELSE 1 END") == 1
    assert connect().error("SELECT * FROM #t").number == 208
    client.ok("SELECT b, 1 AS n INTO #u FROM #t; DROP TABLE #t, #u; DROP TABLE IF EXISTS #t")


def test_procedures_and_dynamic_sql(client: Any, table: str) -> None:
    client.ok(f"CREATE PROCEDURE p_{table} @a int, @b int = 5, @c int OUTPUT AS SET @c = @a + @b; RETURN 7")
    text = f"DECLARE @c int, @r int; EXEC @r = p_{table} 1, @c = @c OUTPUT; SELECT @c, @r"
    assert client.rows(text) == [(6, 7)]
    text = (
        "DECLARE @o int; EXEC sp_executesql N'SET @x = @y * 2', N'@y int, @x int OUTPUT', @y = 4, @x = @o OUT;"
        " SELECT @o"
    )
    assert client.value(text) == 8
    assert client.error(f"EXEC p_{table}").number == 201


def test_triggers(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int)")
    client.ok(f"CREATE TRIGGER tr_{table} ON {table} AFTER DELETE AS SET NOCOUNT ON")
    assert client.error(f"DELETE {table} OUTPUT deleted.a").number == 334
    client.ok(f"DECLARE @t TABLE (a int); DELETE {table} OUTPUT deleted.a INTO @t")
    client.ok(f"DISABLE TRIGGER tr_{table} ON {table}; DELETE {table} OUTPUT deleted.a")
    client.ok(f"CREATE TRIGGER tr2_{table} ON {table} AFTER INSERT AS PRINT 'x'")
    assert [message.message for message in client.ok(f"INSERT {table} VALUES (1)").messages] == ["x"]


def test_attention_leaves_the_transaction_open(conninfo: str, table: str) -> None:
    import select

    from fakemssql.tsql.engine import open_engine

    impatient = False

    def wait(fd: int) -> None:
        while not select.select([fd], [], [], 0.05)[0]:
            if impatient:
                raise Attention

    session = open_engine(conninfo, "shop", "sa", wait)
    try:
        client = _client(session)
        client.ok(f"CREATE TABLE {table} (a int); BEGIN TRAN; INSERT {table} VALUES (1)")
        impatient = True
        with pytest.raises(Attention):
            client.run("WAITFOR DELAY '00:01:00'")
        impatient = False
        assert client.rows(f"SELECT @@TRANCOUNT, COUNT(*) FROM {table}") == [(1, 1)]
    finally:
        session.close()


def _client(session: Any) -> Any:
    from importlib import util
    from pathlib import Path

    spec = util.spec_from_file_location("tsql_conftest", Path(__file__).with_name("conftest.py"))
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Client(session)


def test_a_table_made_anew_by_another_connection(connect: Any, table: str) -> None:
    one, two = connect(), connect()
    one.ok(f"CREATE TABLE {table} (a int); INSERT {table} VALUES (1)")
    for _ in range(3):
        assert two.rows(f"SELECT * FROM {table}") == [(1,)]
    one.ok(f"DROP TABLE {table}; CREATE TABLE {table} (b nvarchar(5), c int); INSERT {table} VALUES ('x', 2)")
    assert two.rows(f"SELECT * FROM {table}") == [("x", 2)]


def test_unknown_database(conninfo: str) -> None:
    from fakemssql.tsql.engine import open_engine

    with pytest.raises(SqlError) as caught:
        open_engine(conninfo, "nope", "sa", lambda fd: None)
    assert caught.value.number == 4060


def test_any_text_survives(client: Any, table: str) -> None:
    text = "a\x00b\ud800 \U0001f600 ' \\ \r\n"
    client.ok(f"CREATE TABLE {table} (t nvarchar(max), b varbinary(max))")
    kind = SqlType("nvarchar", length=-1)
    client.ok(f"INSERT {table} VALUES (@t, CAST(@t AS varbinary(max)))", t=(kind, text))
    assert client.rows(f"SELECT t, CAST(b AS nvarchar(max)) FROM {table}") == [(text, text)]


def test_catalog_views(client: Any, queue: str) -> None:
    columns = client.rows(
        f"SELECT c.name, t.name, c.max_length, c.is_nullable, c.is_identity FROM sys.columns c JOIN sys.types t"
        f" ON t.user_type_id = c.user_type_id WHERE c.object_id = OBJECT_ID('{queue}') ORDER BY c.column_id"
    )
    assert columns[0] == ("Id", "uniqueidentifier", 16, False, False)
    assert columns[5] == ("Headers", "nvarchar", -1, False, False)
    assert columns[7] == ("RowVersion", "bigint", 8, False, True)
    names = client.rows(
        f"SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH FROM INFORMATION_SCHEMA.COLUMNS"
        f" WHERE TABLE_NAME = OBJECT_NAME(OBJECT_ID('{queue}')) AND COLUMN_NAME = 'correlationid'"
    )
    assert names == [("CorrelationId", "varchar", 255)]
    assert client.value("SELECT is_read_committed_snapshot_on FROM sys.databases WHERE name = 'SHOP'") is True
    client.ok(f"ALTER INDEX Index_Expires ON {queue} DISABLE")
    filters = client.rows(
        f"SELECT filter_definition FROM sys.indexes WHERE has_filter = 1 AND object_id = OBJECT_ID('{queue}')"
    )
    assert filters == [("([Expires] IS NOT NULL)",)]
    text = f"SELECT is_disabled FROM sys.indexes WHERE name = 'Index_Expires' AND object_id = OBJECT_ID('{queue}')"
    assert client.value(text) is True
    client.ok(f"ALTER INDEX ALL ON {queue} REBUILD")
    assert client.value(text) is False


def test_undeclared_parameters(client: Any, queue: str) -> None:
    status, recorder = client.call(
        "sp_describe_undeclared_parameters", tsql=f"INSERT INTO {queue} (Id, Headers, Body) VALUES (@P1, @P2, @P3)"
    )
    assert status == 0
    assert [row[1:4:2] for row in recorder.results[0]] == [
        ("@P1", "uniqueidentifier"), ("@P2", "nvarchar(max)"), ("@P3", "varbinary(max)")
    ]  # fmt: skip
