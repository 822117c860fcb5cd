"""Statements: control of flow, queries, changes, procedures, triggers, and what the catalog shows of them."""

from __future__ import annotations

import itertools
import select
from decimal import Decimal
from typing import Any

import pytest

from fakemssql.contract import Attention, SqlError
from fakemssql.tsql.engine import Engines
from support.engine_client import Client, Recorder


def test_statements_need_no_separators(client: Any) -> None:
    recorder = client.ok(
        "DECLARE @i int = 0 WHILE @i < 3 BEGIN SET @i += 1 IF @i = 2 CONTINUE SELECT @i END SELECT 'end'"
    )
    assert recorder.results == [[(1,)], [(3,)], [("end",)]]


def test_select_assigns_the_last_row(client: Any) -> None:
    text = "DECLARE @a int; SELECT @a = v FROM (VALUES (1), (2)) AS t(v) ORDER BY v; SELECT @a"
    assert client.value(text) == 2


def test_identity(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int IDENTITY(10, 5), b int)")
    assert client.value(f"INSERT {table} (b) VALUES (1), (2); SELECT SCOPE_IDENTITY()") == 15
    assert client.error(f"INSERT {table} (a, b) VALUES (1, 1)").number == 544
    client.ok(f"SET IDENTITY_INSERT {table} ON; INSERT {table} (a, b) VALUES (1, 1); SET IDENTITY_INSERT {table} OFF")
    assert client.value(f"SELECT IDENT_CURRENT('{table}')") == 15
    assert client.rows(f"INSERT {table} (b) OUTPUT inserted.a, inserted.b VALUES (3)") == [(20, 3)]


@pytest.mark.parametrize(
    ("identity", "given", "current", "following"),
    [
        ("1, 1", "SELECT 50", 50, 51),
        ("1, 1", "VALUES (50), (7)", 50, 51),
        ("1, 1", "VALUES (-7)", 1, 2),
        ("-1, -5", "VALUES (-50), (-7)", -50, -55),
        ("-1, -5", "VALUES (7)", -1, -6),
    ],
)
def test_explicit_identity_values(
    client: Any, table: str, identity: str, given: str, current: int, following: int
) -> None:
    for name in (table, f"#{table}"):
        client.ok(f"CREATE TABLE {name} (a int IDENTITY({identity}), b int); INSERT {name} (b) VALUES (1)")
        client.ok(f"SET IDENTITY_INSERT {name} ON; INSERT {name} (a) {given}; SET IDENTITY_INSERT {name} OFF")
        assert client.rows(f"INSERT {name} (b) OUTPUT inserted.a VALUES (2)") == [(following,)]
    client.ok(f"TRUNCATE TABLE {table}; SET IDENTITY_INSERT {table} ON")
    client.ok(f"INSERT {table} (a) {given}; SET IDENTITY_INSERT {table} OFF")
    assert client.value(f"SELECT IDENT_CURRENT('{table}')") == current
    assert client.rows(f"INSERT {table} (b) OUTPUT inserted.a VALUES (2)")[0][0] in (current, following)


def test_first_explicit_identity_values(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int IDENTITY(5, 2), b int); SET IDENTITY_INSERT {table} ON")
    client.ok(f"INSERT {table} (a) VALUES (-1)")
    assert client.value(f"SELECT IDENT_CURRENT('{table}')") == 5
    client.ok(f"MERGE {table} AS t USING (VALUES (5)) AS s(a) ON 1 = 0 WHEN NOT MATCHED THEN INSERT (a) VALUES (s.a);")
    client.ok(f"SET IDENTITY_INSERT {table} OFF")
    assert client.rows(f"INSERT {table} (b) OUTPUT inserted.a VALUES (2)") == [(7,)]


def test_output_into(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int IDENTITY, b int); INSERT {table} (b) VALUES (1), (2), (3)")
    recorder = client.ok(
        f"DECLARE @gone TABLE (a int, b int); DELETE TOP (2) FROM {table} OUTPUT deleted.a, deleted.b INTO @gone"
        " OUTPUT deleted.b * 10 AS tenfold; SELECT a, b FROM @gone ORDER BY a"
    )
    assert [sorted(rows) for rows in recorder.results] == [[(10,), (20,)], [(1, 1), (2, 2)]]
    assert client.rows(f"UPDATE {table} SET b += 1 OUTPUT deleted.b, inserted.b") == [(3, 4)]


def test_output_refuses_subqueries_and_targets_with_constraints(client: Any, table: str) -> None:
    """Subqueries; as its target, a table with a check or a foreign key, its own or one that refers to it."""
    client.ok(f"CREATE TABLE {table} (a int PRIMARY KEY); CREATE TABLE c_{table} (a int CHECK (a > 0))")
    client.ok(f"CREATE TABLE f_{table} (a int REFERENCES {table} (a)); CREATE TABLE q_{table} (a int)")
    delete = f"DELETE FROM q_{table} OUTPUT deleted.a"
    assert client.error(f"DELETE FROM {table} OUTPUT (SELECT 1)").number == 10706
    assert client.error(f"{delete} INTO c_{table}").number == 333
    assert [client.error(f"{delete} INTO {name}").number for name in (table, f"f_{table}")] == [332, 332]
    client.ok(f"DROP TABLE f_{table}; INSERT q_{table} VALUES (1); {delete} INTO {table}")
    assert client.rows(f"SELECT a FROM {table}") == [(1,)]


def test_the_most_rows_of_values(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int)")
    rows = ", ".join(["(1)"] * 1001)
    assert client.error(f"INSERT {table} VALUES {rows}").number == 10738
    client.ok(f"INSERT {table} SELECT v.a FROM (VALUES {rows}) AS v (a); INSERT {table} VALUES {rows[5:]}")
    assert client.value(f"SELECT COUNT(*) FROM {table}") == 2001


def test_a_filtered_index_needs_an_option_of_every_writer(client: Any, table: str) -> None:
    """Not of a procedure, which keeps that of its CREATE."""
    client.ok(f"CREATE TABLE {table} (a int NULL); CREATE INDEX i ON {table} (a) WHERE a IS NOT NULL")
    client.ok(f"CREATE PROCEDURE p_{table} AS INSERT {table} VALUES (1)")
    client.ok("SET QUOTED_IDENTIFIER OFF")
    for text in (f"INSERT {table} VALUES (2)", f"DELETE TOP (1) FROM {table}", f"UPDATE {table} SET a = 3"):
        assert client.error(text).number == 1934
    client.ok(f"EXEC p_{table}; SELECT * FROM {table}")
    client.ok(f"DROP INDEX i ON {table}; INSERT {table} VALUES (2)")
    assert client.value(f"SELECT COUNT(*) FROM {table}") == 2


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
    assert rows(f"SELECT TOP 1 s FROM {values} ORDER BY s DESC") == [("B",)]
    assert rows(f"SELECT n FROM {values} ORDER BY n OFFSET 1 ROW FETCH NEXT 1 ROW ONLY") == [(2,)]
    assert rows(f"SELECT n, RANK() OVER (ORDER BY n) FROM {values} WHERE s IN ('A')") == [(1, 1), (3, 2)]
    assert rows("SELECT 1 UNION SELECT 1 UNION ALL SELECT 2.5 ORDER BY 1") == [(Decimal(1),), (Decimal("2.5"),)]
    assert rows("WITH r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT SUM(n) FROM r") == [(10,)]
    assert rows(f"SELECT t.n, x.m FROM {values} CROSS APPLY (SELECT t.n * 2 AS m) AS x WHERE t.n = 2") == [(2, 4)]


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


def test_a_table_made_anew_by_another_connection(connect: Any, table: str) -> None:
    one, two = connect(), connect()
    one.ok(f"CREATE TABLE {table} (a int); INSERT {table} VALUES (1)")
    for _ in range(3):
        assert two.rows(f"SELECT * FROM {table}") == [(1,)]
    one.ok(f"DROP TABLE {table}; CREATE TABLE {table} (b nvarchar(5), c int); INSERT {table} VALUES ('x', 2)")
    assert two.rows(f"SELECT * FROM {table}") == [("x", 2)]


def test_unknown_database(engines: Engines) -> None:
    with pytest.raises(SqlError) as caught:
        engines.open("nope", "sa", lambda fd: None)
    assert caught.value.number == 4060


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
    assert client.value("SELECT is_read_committed_snapshot_on FROM sys.databases WHERE name = 'MASTER'") is False
    client.ok(f"ALTER INDEX Index_Expires ON {queue} DISABLE")
    filters = client.rows(
        f"SELECT filter_definition FROM sys.indexes WHERE has_filter = 1 AND object_id = OBJECT_ID('{queue}')"
    )
    assert filters == [("([Expires] IS NOT NULL)",)]
    text = f"SELECT is_disabled FROM sys.indexes WHERE name = 'Index_Expires' AND object_id = OBJECT_ID('{queue}')"
    assert client.value(text) is True
    client.ok(f"ALTER INDEX ALL ON {queue} REBUILD")
    assert client.value(text) is False


@pytest.mark.parametrize("operator", ["=", "<>", "!=", "<", "<=", ">", ">=", "!<", "!>"])
def test_a_condition_of_integers_is_that_of_a_query(client: Client, operator: str) -> None:
    sides = ["@@TRANCOUNT", "@@ROWCOUNT", "@@ERROR", "0", "1", "2147483648", "@i", "@big", "@null", "@small"]
    declared = "DECLARE @i int = -1, @big bigint = 9223372036854775807, @null int, @small tinyint = 1;"
    for left, right in itertools.product(sides, repeat=2):
        condition = f"{left} {operator} {right}"
        queried = client.value(f"{declared} BEGIN TRAN; SELECT CASE WHEN {condition} THEN 1 ELSE 0 END; COMMIT")
        branched = client.value(f"{declared} BEGIN TRAN; IF {condition} SELECT 1 ELSE SELECT 0; COMMIT")
        assert branched == queried, condition


def test_a_loop_without_a_query_can_be_cancelled(engines: Engines) -> None:
    class Impatient(Recorder):
        def message(self, error: SqlError) -> None:
            super().message(error)
            assert len(self.messages) < 100, "it was cancelled at the tenth"

    recorder = Impatient()

    def wait(fd: int) -> None:
        if len(recorder.messages) >= 10:
            raise Attention
        select.select([fd], [], [])

    engine = engines.open("shop", "sa", wait)
    with pytest.raises(Attention):
        engine.batch("WHILE 1 = 1 PRINT 'x'", recorder)
    recorder.messages.clear()
    engine.close()
