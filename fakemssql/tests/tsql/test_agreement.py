"""Answers of single statements as SQL Server's documentation has them, or the refusal: none differs in silence.

Sources, on learn.microsoft.com: "CAST and CONVERT", "SAVE TRANSACTION", "SET XACT_ABORT", "CREATE TABLE" (temporary
tables), "RAISERROR", "LIKE", "Data types", "AVG", "@@ROWCOUNT", "SET statements", "Table value
constructor", "Database Engine events and errors".
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from fakemssql.types import SqlType

_FOR_EVER = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - datetime2 has no zone
_MERGE = "DECLARE @t TABLE (a int); MERGE @t AS t USING (SELECT 1 AS b) AS s ON a = b WHEN"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            (f"CONVERT(date, '03{s}04{s}2020', {n})", dt.date(2020, 4, 3))
            for n, s in ((103, "/"), (104, "."), (105, "-"))
        ),
        ("CONVERT(date, '03/04/20', 3)", dt.date(2020, 4, 3)),
        ("CONVERT(date, '03/04/2020', 101)", dt.date(2020, 3, 4)),
        ("CONVERT(date, '20.03.04', 2)", dt.date(2020, 3, 4)),
        ("CONVERT(date, TRY_CONVERT(datetime, '13/02/2024', 103))", dt.date(2024, 2, 13)),
        ("CONVERT(date, CONVERT(varchar(10), CAST('20200403' AS date), 103), 103)", dt.date(2020, 4, 3)),
        *(
            (f"CAST('{t}' AS date)", dt.date(2000, 4, 12))
            for t in ("12-Apr-2000", "Apr 12,2000", "12Apr2000", "2000 Apr 12")
        ),
        ("CAST('April 2000' AS date)", dt.date(2000, 4, 1)),
        ("CAST('3/2/4' AS date)", dt.date(2004, 3, 2)),
        ("CAST('2024/11-12' AS date)", dt.date(2024, 11, 12)),
        ("CAST('1/1/60' AS date)", dt.date(1960, 1, 1)),
        ("CAST('2024-01-02 3PM' AS time(0))", dt.time(15)),
        ("CAST('9999-12-31 23:59:59.9999999' AS datetime2)", _FOR_EVER),
        ("CAST('23:59:59.9999999' AS time)", dt.time(23, 59, 59, 999999)),
        ("DATEPART(second, CAST('1998-01-01 23:59:56.500' AS datetime2(0)))", 57),
        ("CAST(100 AS money) / CAST(339 AS money) * CAST(10000 AS money)", Decimal("2949.0000")),
        ("CAST(20 AS money) / 3", Decimal("6.6666")),
        ("CAST(CAST(12345.1 AS real) AS varchar(30))", "12345.1"),
        ("SUBSTRING(CAST(0x6162636465666768 AS binary(10)), 4, 2)", b"de"),
        ("CHARINDEX('TEST', 'this is a test' COLLATE Latin1_General_CS_AS)", 0),
        ("IIF('AB[C]D' LIKE 'ABZ[C]D' ESCAPE 'z', 1, 0)", 0),
        ("IIF('abc' LIKE '[c-a]bc', 1, 0)", 0),
        ("IIF('abc' LIKE '[^c-a]bc', 1, 0)", 1),
        ("IIF('a-c' LIKE 'a[-x]c', 1, 0)", 1),
        ("QUOTENAME('a', '`')", "`a`"),
        ("DATEPART(tzoffset, NULL)", None),
        ("CAST(NULLIF('', '') AS datetime2)", None),
        ("CAST('' AS real)", 0.0),
        ("CAST('£1,234.5' AS money)", Decimal("1234.5000")),
        ("CAST(CAST('2000-01-01 11:59:59.997' AS datetime) AS int)", 36524),
        ("CAST(CAST('2000-01-01 12:00' AS datetime) AS bigint)", 36525),
        ("CAST(1234.5678E0 AS varchar(30))", "1234.57"),
        ("CAST(-0.00012345678E0 AS varchar(30))", "-0.000123457"),
        ("CAST(999999.5E0 AS varchar(30))", "1e+006"),
        ("CAST(100000E0 AS varchar(30))", "100000"),
        ("(SELECT MAX(v) FROM (VALUES ('a'), ('B'), (NULL)) AS t(v))", "B"),
        ("(SELECT MIN(v) FROM (VALUES (N'B'), (N'a')) AS t(v))", "a"),
        ("(SELECT MAX(v COLLATE Latin1_General_BIN2) FROM (VALUES ('a'), ('B')) AS t(v))", "a"),
        ("(SELECT TOP 1 MIN(v) OVER (ORDER BY v) FROM (VALUES ('a'), ('B')) AS t(v) ORDER BY v DESC)", "a"),
    ],
)
def test_values(client: Any, text: str, value: object) -> None:
    assert client.value(f"SELECT {text}") == value


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SELECT CONVERT(date, '10-10-10', 140)", 9809),
        ("SELECT CONVERT(date, '2024-02-13', 103)", 40517),
        ("SELECT TRY_CONVERT(varchar(30), GETDATE(), 109)", 40517),
        ("SELECT TRY_CONVERT(varchar(30), GETDATE(), 999)", 281),
        ("SELECT CAST('2021-01-01 04:12:12.1234' AS datetime)", 241),
        ("SELECT CAST('2022-1-22T13:34:12.123' AS datetime)", 241),
        ("SELECT CAST(214748.3648 AS smallmoney)", 8115),
        ("SELECT CAST('8000-05-25' AS smalldatetime)", 242),
        ("SELECT CAST('x' AS smallmoney)", 293),
        ("SELECT CAST(32768 AS smallint)", 220),
        ("SELECT AVG(a) FROM (VALUES (2147483647), (2147483647)) AS v(a)", 8115),
        ("SELECT DATEPART(year, CAST('12:10' AS time))", 9810),
        ("SELECT DATEADD(day, 1, CAST('12:10' AS time))", 9810),
        ("SELECT DATEPART(hour, CAST('2026-01-01' AS date))", 9810),
        ("SELECT DATEADD(hour, 1, CAST('2026-01-01' AS date))", 9810),
        ("SELECT DATEADD(yy, -30000000, GETDATE())", 517),
        ("SELECT CAST(999999999 AS datetime)", 8115),
        ("SELECT TIMEFROMPARTS(1, 1, 1, 1, 1)", 40517),
        ("SELECT TRIM(5)", 8116),
        ("SELECT SUBSTRING(NULL, 1, 3)", 8116),
        ("SELECT 1 WHERE 'a' LIKE 'a' ESCAPE 'xy'", 506),
        ("""SELECT JSON_VALUE('{"a":{"b":1}}', 'strict $.a')""", 13623),
        ("""SELECT JSON_QUERY('{"a":1}', 'strict $.a')""", 13624),
        ("CONTINUE", 136),
        ("EXEC sp_prepare 1", 40517),
        ("BEGIN TRAN abcdefghijklmnopqrstuvwxyz12345678", 103),
        ("EXEC sp_tables @table_name = 'a', @table_name = 'b'", 8143),
        ("DECLARE @x int; EXEC sp_executesql N'SELECT @a', N'@a int', @x OUTPUT", 8162),
        (f"RAISERROR('x', 16, 1{', 1' * 21})", 2747),
        ("RAISERROR('%m', 16, 1)", 2787),
        ("RAISERROR('%d', 16, 1, 'a')", 2786),
        ("RAISERROR('%s', 16, 1, 5)", 2786),
        ("RAISERROR(5005, 10, 1)", 2732),
        ("INSERT t EXEC p", 40517),
        (f"{_MERGE} MATCHED THEN UPDATE SET a = 1 WHEN MATCHED THEN DELETE;", 5324),
        (f"{_MERGE} MATCHED AND a = 1 THEN DELETE WHEN MATCHED AND a = 2 THEN DELETE;", 10714),
        (f"{_MERGE} NOT MATCHED THEN INSERT VALUES (1) WHEN NOT MATCHED AND b = 2 THEN INSERT VALUES (2);", 10714),
        ("DECLARE @t TABLE (a varchar(5)); INSERT @t VALUES (1), ('x')", 245),
        ("DECLARE @t TABLE (a varchar(5)); INSERT @t VALUES (DEFAULT), (GETDATE()), ('x')", 241),
        ("WITH n(c) AS (SELECT 1 UNION ALL SELECT c + 1 FROM n WHERE EXISTS (SELECT * FROM n)) SELECT * FROM n", 465),
        ("WITH n(c) AS (SELECT 1 UNION ALL SELECT MAX(c) FROM n) SELECT * FROM n", 467),
        ("WITH n AS (SELECT 1 AS a), N AS (SELECT 2 AS a) SELECT * FROM n", 239),
        ("CREATE VIEW v_two_names(a, b) AS SELECT 1 AS a", 8159),
        ("CREATE VIEW v_one_name(a) AS SELECT 1 AS a, 2 AS b", 8158),
        ("CREATE TABLE #m (a int, CHECK (MAX(a) < 5))", 147),
        ("CREATE TABLE #m (a int); CREATE TRIGGER tr_m ON #m AFTER INSERT AS SELECT 1", 40517),
        ("BEGIN TRAN; DECLARE @t TABLE (a int); ROLLBACK; SELECT * FROM @t", 40517),
        ("SELECT CAST(1 AS bit) + CAST(1 AS bit)", 402),
        ("SELECT CAST(1 AS bit) - CAST(1 AS bit)", 402),
        ("SELECT 5.5E0 % 2", 402),
        ("SELECT CAST(12345.6 AS varchar(3))", 8115),
        ("SELECT CONVERT(nvarchar(3), 12345)", 8115),
        ("SELECT CAST(CAST(123 AS bigint) AS varchar(2))", 8115),
        ("SELECT CAST($123 AS varchar(2))", 234),
        ("SELECT CAST(1.5e0 AS varchar(2))", 232),
        ("SELECT CAST(NEWID() AS varchar(20))", 8170),
        ("SELECT CAST(1 AS datetime2)", 529),
        ("DECLARE @d datetime2 = 1.5", 206),
        ("CREATE TABLE #v (a int); EXEC ('CREATE VIEW v_v AS SELECT a FROM #v')", 4508),
        ("CREATE PROCEDURE p_v AS SELECT @nope", 137),
        ("CREATE PROCEDURE p_v @a int AS SELECT @a = 1, @nope = 2", 137),
        ("DECLARE @a int; SELECT @a = 1 UNION ALL SELECT 2", 10734),
        ("SELECT $ 5", 40517),
        ("SELECT TOP (SELECT 1) name FROM sys.tables", 40517),
        ("SELECT * FROM sys.sysprocesses", 40517),
        ("SELECT * FROM INFORMATION_SCHEMA.SEQUENCES", 40517),
        ("EXEC sp_helpdb", 40517),
        ("SELECT * FROM fn_helpcollations()", 40517),
    ],
)
def test_errors(client: Any, text: str, number: int) -> None:
    batches = text.split("; CREATE TRIGGER")
    for batch in batches[:-1]:
        client.ok(batch)
    assert client.error("CREATE TRIGGER" * (len(batches) > 1) + batches[-1]).number == number


def test_a_module_knows_its_parameters_and_variables(client: Any, table: str) -> None:
    client.ok(
        f"CREATE PROCEDURE p{table} @a int, @b int OUTPUT AS DECLARE @c int = @a; SET @b = @c; SELECT @c = @@ROWCOUNT;"
        " EXEC sp_executesql N'SELECT @z', N'@z int', @z = @a"
    )


@pytest.mark.parametrize(("value", "expected"), [(256, 2560), (-1, 2560), ("'x'", 2560), (f"'{'9' * 5000}'", 2560)])
def test_a_new_identity_value_beyond_its_type(client: Any, table: str, value: object, expected: int) -> None:
    client.ok(f"CREATE TABLE {table} (id tinyint IDENTITY, b int); BEGIN TRAN")
    assert client.error(f"DBCC CHECKIDENT ({table}, RESEED, {value})").number == expected
    assert client.value("SELECT @@TRANCOUNT") == 1
    client.ok("ROLLBACK")


def test_trailing_blanks_in_like_count_only_in_the_pattern_of_varchar(client: Any) -> None:
    texts = [("'a '", "'a'"), ("'a  '", "'a '"), ("'a'", "'a '"), ("N'a '", "'a'"), ("CAST('ab' AS char(9))", "'_b'")]
    found = [client.rows(f"SELECT 1 WHERE {text} LIKE {pattern}") == [(1,)] for text, pattern in texts]
    assert found == [True, True, False, False, True]
    assert client.rows("SELECT 1 WHERE 'a ' NOT LIKE 'a'") == []


def test_an_int_that_is_too_long_for_varchar_is_an_asterisk(client: Any) -> None:
    assert client.rows("DECLARE @s varchar(2) = 100; SELECT @s, CAST(1234 AS char(3)), CAST(99 AS varchar(2))") == [
        ("*", "*  ", "99")
    ]


def test_numbers_of_a_real_keep_its_digits(client: Any) -> None:
    assert client.rows("DECLARE @r real = 123457.145637867; SELECT CAST(@r AS numeric(30, 8)), CAST(@r AS int)") == [
        (Decimal("123457.14843750"), 123457)
    ]


def test_bits_turned_around(client: Any) -> None:
    assert client.rows("SELECT ~CAST(38 AS tinyint), ~38, ~CAST(1 AS bit)") == [(217, -39, False)]


def test_numbers_as_dates(client: Any) -> None:
    assert client.rows("SELECT DATEPART(day, 1), DATEDIFF(day, 0, 2.5), YEAR(366), DATEADD(day, 1, 0)") == [
        (2, 2, 1901, dt.datetime(1900, 1, 2))  # noqa: DTZ001 - datetime has no zone
    ]


def test_a_login_that_is_missing_is_in_no_server_role(client: Any) -> None:
    assert client.rows("SELECT IS_SRVROLEMEMBER('public', 'nobody'), IS_SRVROLEMEMBER('sysadmin', 'sa')") == [(None, 1)]


def test_signs_of_currencies(client: Any) -> None:
    assert client.rows("SELECT £5.5, €3, ¥1.25, CAST(N'৲100.5' AS money)") == [
        (Decimal("5.5000"), Decimal("3.0000"), Decimal("1.2500"), Decimal("100.5000"))
    ]


def test_unsigned_formats_of_raiserror(client: Any) -> None:
    assert client.error("RAISERROR('%u %x', 16, 1, -5, -11)").message == "4294967291 fffffff5"


@pytest.mark.parametrize(
    ("kind", "seed", "step"), [("tinyint", 255, 1), ("smallint", -32768, -1), ("int", 2147483647, 1)]
)
def test_an_identity_ends_with_its_type(client: Any, table: str, kind: str, seed: int, step: int) -> None:
    client.ok(f"CREATE TABLE {table} (id {kind} IDENTITY({seed}, {step}), b int); INSERT {table} (b) VALUES (1)")
    error = client.error(f"INSERT {table} (b) VALUES (2)")
    assert (error.number, error.message) == (
        8115,
        f"Arithmetic overflow error converting IDENTITY to data type {kind}.",
    )


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("REFERENCES {0}", 1774),
        ("REFERENCES {0}(nope, b)", 1774),
        ("REFERENCES {0}(nope)", 1770),
        (", FOREIGN KEY (nope) REFERENCES {0}(a)", 1769),
        (", REFERENCES {0}(a)", 142),
        (", FOREIGN KEY REFERENCES {0}(a)", 142),
        (", d AS c + 1, FOREIGN KEY (d) REFERENCES {0}(a)", 40517),
    ],
)
def test_foreign_keys_that_cannot_be(client: Any, table: str, key: str, number: int) -> None:
    client.ok(f"CREATE TABLE {table} (a int, b int, PRIMARY KEY (a, b))")
    expected = [number] if number in (142, 40517) else [number, 1750]
    assert client.run(f"CREATE TABLE {table}f (c int {key.format(table)})").errors == expected


@pytest.mark.parametrize(
    ("constraint", "number"),
    [
        ("CONSTRAINT d{0} DEFAULT 1 FOR b", 1752),
        ("DEFAULT 1 FOR d", 1754),
        ("DEFAULT 2 FOR c", 1781),
        ("CONSTRAINT {0} CHECK (a > 0)", 2714),
        ("UNIQUE (a)", 1505),
        ("UNIQUE (nope)", 1911),
        ("PRIMARY KEY (c)", 8111),
    ],
)
def test_a_constraint_that_cannot_be_made(client: Any, table: str, constraint: str, number: int) -> None:
    client.ok(
        f"CREATE TABLE {table} (a int, b AS a + 1, c int DEFAULT 1, d int IDENTITY); INSERT {table} (a) VALUES (1), (1)"
    )
    text = f"ALTER TABLE {table} ADD {constraint.format(table)}"
    assert client.run(text).errors == [number, 1750]
    # A CATCH sees the last error, and THROW reports both again.
    caught = client.run(f"BEGIN TRY {text} END TRY BEGIN CATCH SELECT ERROR_NUMBER(); THROW; END CATCH")
    assert (caught.results, caught.errors) == ([[(1750,)]], [number, 1750])


def test_identity_columns_that_cannot_be(client: Any, table: str) -> None:
    assert client.run(f"CREATE TABLE {table} (id int DEFAULT 1 IDENTITY)").errors == [1754, 1750]
    client.ok(f"CREATE TABLE {table} (id int IDENTITY)")
    assert client.run(f"ALTER TABLE {table} ADD b int IDENTITY").errors == [2744]


def test_error_1750_does_not_follow_that_of_an_index(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int); INSERT {table} VALUES (1), (1)")
    assert client.run(f"CREATE UNIQUE INDEX i ON {table} (a)").errors == [1505]


def test_temporary_tables_follow_a_savepoint(client: Any) -> None:
    client.ok("BEGIN TRAN; CREATE TABLE #one (a int); SAVE TRAN s; DROP TABLE #one; CREATE TABLE #two (a int)")
    client.ok("CREATE TABLE #one (x varchar(9)); ROLLBACK TRAN s; INSERT #one VALUES (1); COMMIT")
    assert client.value("SELECT a FROM #one") == 1
    client.ok("CREATE TABLE #two (b int); SELECT b FROM #two")


def test_a_procedure_has_temporary_tables_of_its_own(client: Any, table: str) -> None:
    client.ok(f"CREATE PROCEDURE p{table} AS CREATE TABLE #tt (b int); INSERT #tt VALUES (2); SELECT b FROM #tt")
    client.ok("CREATE TABLE #tt (a int); INSERT #tt VALUES (1)")
    assert client.value(f"EXEC p{table}") == 2
    assert client.rows("SELECT a FROM #tt") == [(1,)]
    client.ok(f"BEGIN TRAN; EXEC p{table}; ROLLBACK")
    assert client.rows("SELECT a FROM #tt") == [(1,)]


def test_names_of_savepoints_are_case_sensitive(client: Any, numbers: str) -> None:
    assert client.error("BEGIN TRAN abc; SAVE TRAN aBC; ROLLBACK TRAN ABC").number == 6401
    client.ok("ROLLBACK")
    client.ok(f"BEGIN TRAN; SAVE TRAN AbC; UPDATE {numbers} SET v = 1; SAVE TRAN aBC; UPDATE {numbers} SET v = 2")
    assert client.value(f"ROLLBACK TRAN AbC; SELECT MAX(v) FROM {numbers}; ROLLBACK") == 0
    client.ok(
        "DECLARE @n varchar(50) = 'abcdefghijklmnopqrstuvwxyz12345678'; BEGIN TRAN; SAVE TRAN @n;"
        " ROLLBACK TRAN abcdefghijklmnopqrstuvwxyz123456; ROLLBACK"
    )


def test_raiserror_in_try_dooms_under_xact_abort(client: Any) -> None:
    text = "BEGIN TRAN; BEGIN TRY RAISERROR('x', 16, 1) END TRY BEGIN CATCH SELECT XACT_STATE(); ROLLBACK END CATCH"
    assert client.value("SET XACT_ABORT OFF; " + text) == 1
    assert client.value("SET XACT_ABORT ON; " + text) == -1


def test_calls_of_procedures(client: Any, table: str) -> None:
    client.ok(f"CREATE PROCEDURE o{table} @o int OUTPUT AS SET @o = 288")
    client.ok(f"CREATE PROCEDURE i{table} @a int AS SELECT 1 UNION ALL SELECT 2; RETURN 300")
    client.ok(f"CREATE PROCEDURE n{table} AS SELECT 1")
    assert client.error(f"DECLARE @r tinyint; EXEC o{table} @r OUTPUT").number == 220
    assert client.value(f"DECLARE @r smallint; EXEC o{table} @r OUTPUT; SELECT @r") == 288
    assert client.error(f"DECLARE @r tinyint; EXEC @r = i{table} 1").number == 220
    assert client.error(f"DECLARE @x int; EXEC i{table} @x OUTPUT").number == 8162
    assert client.error(f"EXEC i{table} @a = 1, @a = 2").number == 8143
    assert client.error(f"EXEC n{table} 1").number == 8146
    assert client.value(f"EXEC i{table} 1; SELECT @@ROWCOUNT") == 1


def test_a_trigger_is_in_the_schema_of_its_table(client: Any, table: str) -> None:
    for name in ("x", "y"):
        client.ok(f"CREATE SCHEMA {name}{table}")
    client.ok(f"CREATE TABLE x{table}.t (a int)")
    assert client.error(f"CREATE TRIGGER y{table}.tr ON x{table}.t AFTER INSERT AS SELECT 1").number == 2103
    client.ok(f"CREATE TRIGGER tr{table} ON x{table}.t AFTER INSERT AS SELECT 1")
    assert client.value(f"SELECT OBJECT_ID('x{table}.tr{table}')") is not None
    client.ok(f"DROP TRIGGER x{table}.tr{table}")


def test_an_index_entry_that_is_too_long(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a varbinary(4000)); CREATE INDEX i ON {table} (a)")
    long = "".join(f"{n * 7919 % 65521:04x}" for n in range(1900))
    assert client.error(f"INSERT {table} VALUES (0x{long})").number == 1946


def test_the_whole_digits_of_a_union_of_decimals_stay(client: Any) -> None:
    text = "SELECT CAST(1E37 AS numeric(38, 0)) AS n UNION ALL SELECT CAST(1.5 AS numeric(6, 4)) ORDER BY n"
    assert client.rows(text)[0] == (2,)


def test_the_values_of_several_rows_have_one_type(client: Any) -> None:
    text = "DECLARE @t TABLE (a varchar(5)); INSERT @t VALUES (1.5), (DEFAULT), (2), (NULL); SELECT * FROM @t"
    assert client.rows(text) == [("1.5",), (None,), ("2.0",), (None,)]


@pytest.mark.parametrize("call", ["EXEC p{0}", "EXEC ('{1}')", "EXEC sp_executesql N'{1}'", "INSERT {0} VALUES (1)"])
def test_set_in_a_module_ends_with_it(client: Any, table: str, call: str) -> None:
    sets = "SET XACT_ABORT, NOCOUNT ON; SET LOCK_TIMEOUT 5; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"
    client.ok(f"CREATE PROCEDURE p{table} AS {sets}")
    client.ok(f"CREATE TABLE {table} (a int)")
    client.ok(f"CREATE TRIGGER tr{table} ON {table} AFTER INSERT AS {sets}; SELECT 1 FROM {table}")
    shown = "@@LOCK_TIMEOUT, @@OPTIONS & 16896, (SELECT transaction_isolation_level FROM sys.dm_exec_sessions s"
    shown = f"SELECT {shown} WHERE s.session_id = @@SPID)"
    own = client.rows(shown)
    assert client.rows(f"BEGIN TRAN; {call.format(table, sets)}; {shown}; COMMIT") == own
    assert client.rows(f"{sets}; SELECT @p", p=(SqlType("int"), 1)) == [(1,)]
    assert client.rows(shown) == own


def test_if_and_while_reset_error_and_row_count(client: Any) -> None:
    counted = "SELECT 1 UNION ALL SELECT 2;"
    assert client.value(f"{counted} IF @@ROWCOUNT = 2 SELECT @@ROWCOUNT") == 0
    assert client.value(f"{counted} WHILE @@ROWCOUNT = 2 SELECT @@ROWCOUNT") == 0
    assert client.run("SELECT 1 / 0; IF @@ERROR <> 0 SELECT @@ERROR").results[-1] == [(0,)]


def test_the_limits_of_severity_and_state(client: Any) -> None:
    found = client.run("RAISERROR('x', -1, -5); RAISERROR('x', 99, 300) WITH LOG").messages
    assert [(message.severity, message.state) for message in found] == [(0, 1), (25, 255)]


@pytest.mark.parametrize(("text", "number"), [("SELECT * FROM nope", 208), ("SELECT FROM", 156), ("SELECT @nope", 137)])
def test_an_error_of_compilation_ends_its_scope_alone(client: Any, text: str, number: int) -> None:
    for call in (f"EXEC (N'{text}')", f"EXEC sp_executesql N'{text}'", f"EXEC (N'EXEC (N''{text}'') SELECT 1')"):
        found = client.run(f"BEGIN TRAN; {call}; SELECT @@TRANCOUNT; ROLLBACK")
        assert (found.errors, found.results[-1]) == ([number], [(1,)])
        assert client.value(f"BEGIN TRY {call} END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH") == number
    assert client.run(f"SET XACT_ABORT ON; EXEC (N'{text}'); SELECT 1").results == []


def test_an_error_of_compilation_ends_a_procedure_and_its_own_catch(client: Any, table: str) -> None:
    client.ok(f"CREATE PROCEDURE p{table} AS BEGIN TRAN; BEGIN TRY SELECT * FROM nope END TRY BEGIN CATCH END CATCH")
    found = client.run(f"EXEC p{table}; SELECT @@TRANCOUNT; ROLLBACK")
    assert (found.errors, found.results) == ([208, 266], [[(1,)]])


def test_parameters_of_a_dynamic_text_have_defaults(client: Any) -> None:
    text = "EXEC sp_executesql N'SELECT @a + @b', N'@a int, @b int = 5'"
    assert (client.value(f"{text}, 1"), client.value(f"{text}, 1, 2"), client.value(f"{text}, 1, NULL")) == (6, 3, None)


@pytest.mark.parametrize(("kind", "value"), [("varchar(3)", "abc"), ("nvarchar(3)", "abc"), ("varchar(9)", "abcdef")])
def test_a_value_is_cut_to_the_parameter_of_a_dynamic_text(client: Any, kind: str, value: str) -> None:
    text = f"EXEC sp_executesql N'SELECT @a, DATALENGTH(@a)', N'@a {kind}', @a = @v"
    for given in ("varchar(9)", "nvarchar(max)"):
        found = client.rows(f"DECLARE @v {given} = 'abcdef'; {text}")
        assert found == [(value, len(value) * (2 if kind.startswith("n") else 1))]


def test_an_error_of_a_foreign_key_names_the_other_table(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE p{table} (a int PRIMARY KEY); INSERT p{table} VALUES (1)")
    client.ok(f"CREATE TABLE c{table} (a int REFERENCES p{table}); INSERT c{table} VALUES (1)")
    for text, other in ((f"INSERT c{table} VALUES (2)", "p"), (f"DELETE p{table}", "c")):
        assert f'table "dbo.{other}{table}"' in client.error(text).message
