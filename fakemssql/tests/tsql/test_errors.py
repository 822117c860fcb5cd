"""Errors and transactions: the numbers, what is caught, and what an error undoes."""

from __future__ import annotations

import select
from typing import Any

import pytest

from fakemssql.contract import Attention
from fakemssql.tsql.engine import Engines
from fakemssql.tsql.pg import Pg
from support.engine_client import Client

_TEXTS = """DECLARE @t TABLE (greek nvarchar(9) COLLATE Greek_CI_AS, exact nvarchar(9) COLLATE Latin1_General_CS_AS,
    plain nvarchar(9))"""


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
        ("SELECT 1 WHERE N'a' COLLATE Greek_CI_AS = N'a' COLLATE Latin1_General_CI_AS", 468),
        (f"{_TEXTS}; SELECT 1 FROM @t WHERE greek = plain", 468),
        (f"{_TEXTS}; SELECT 1 FROM @t WHERE greek LIKE exact", 468),
        (f"{_TEXTS}; SELECT 1 FROM @t WHERE SUBSTRING(greek, 1, 1) IN (SELECT plain FROM @t)", 468),
        (f"{_TEXTS}; SELECT greek + plain FROM @t", 468),
        (f"{_TEXTS}; SELECT COALESCE(greek, plain) FROM @t", 451),
        (f"{_TEXTS}; INSERT @t (plain) SELECT CASE WHEN 1 = 1 THEN greek ELSE plain END FROM @t", 451),
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
        ("SELECT 1 AS a FOR JSON PATH", 40517),
        ("DECLARE c CURSOR LOCAL FOR SELECT 1", 40517),
        ("DECLARE @c CURSOR", 40517),
        ("DECLARE @c int; SET @c = CURSOR FOR SELECT 1", 40517),
        ("FETCH NEXT FROM c", 40517),
        ("EXECUTE AS USER = 'dbo'", 40517),
        ("REVERT", 40517),
        ("CREATE PROCEDURE p WITH EXECUTE AS OWNER AS SELECT 1", 40517),
        ("CREATE SEQUENCE s AS int", 40517),
        ("SELECT NEXT VALUE FOR s", 40517),
        ("DROP SEQUENCE s", 40517),
        ("ALTER AUTHORIZATION ON SCHEMA::dbo TO dbo", 40517),
        ("SELECT HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE')", 40517),
        ("SET STATISTICS XML ON", 40517),
        ("SET STATISTICS IO, PROFILE ON", 40517),
        ("SET SHOWPLAN_XML ON", 40517),
        ("EXEC sp_who", 40517),
        ("SELECT * FROM sys.fn_my_permissions(NULL, 'SERVER')", 40517),
        ("SELECT * FROM OPENJSON(N'{}')", 40517),
        ("SET ROWCOUNT 5", 40517),
        ("SET NO_SUCH_OPTION ON", 195),
        ("SELECT FORMAT(1, 'x')", 40517),
    ],
)
def test_errors(client: Any, text: str, number: int) -> None:
    assert client.error(text).number == number


@pytest.mark.parametrize(
    "condition",
    [
        *("greek = plain COLLATE Latin1_General_CI_AS", "greek = plain COLLATE database_default", "greek = N'A'"),
        *("exact = N'A' COLLATE Latin1_General_CI_AS", "exact <> N'A'", "ISNULL(exact, N'A') <> N'A'"),
        "COALESCE(exact, greek) COLLATE Greek_CI_AS = plain",
    ],
)
def test_an_explicit_collation_decides(client: Any, condition: str) -> None:
    """Before that of a column, which decides before that of a literal. An assignment takes a text without collation."""
    rows = f"{_TEXTS}; INSERT @t VALUES (N'a', N'a', N'x'); UPDATE @t SET plain = COALESCE(exact, greek)"
    assert client.value(f"{rows}; SELECT COUNT(*) FROM @t WHERE {condition}") == 1


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


def test_attention_leaves_the_transaction_open(engines: Engines, table: str) -> None:
    impatient = False

    def wait(fd: int) -> None:
        while not select.select([fd], [], [], 0.05)[0]:
            if impatient:
                raise Attention

    session = engines.open("shop", "sa", wait)
    try:
        client = Client(session)
        client.ok(f"CREATE TABLE {table} (a int); BEGIN TRAN; INSERT {table} VALUES (1)")
        impatient = True
        with pytest.raises(Attention):
            client.run("WAITFOR DELAY '00:01:00'")
        impatient = False
        assert client.rows(f"SELECT @@TRANCOUNT, COUNT(*) FROM {table}") == [(1, 1)]
    finally:
        session.close()


def test_the_rollback_of_a_cancelled_statement_is_not_cancelled(conninfo: str) -> None:
    """The attention of a client is there until its request ends: every wait tells of it."""

    def wait(fd: int) -> None:
        raise Attention

    pg = Pg(conninfo, wait)
    try:
        with pg.undisturbed():
            assert pg.query("SELECT 7 FROM pg_sleep(0.05)") == [["7"]]
        with pytest.raises(Attention):
            pg.query("SELECT 7 FROM pg_sleep(60)")
    finally:
        pg.close()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SELECT 1 AS a ORDER BY a OFFSET 0 ROWS FETCH NEXT 0 ROWS ONLY", 10744),
        ("WAITFOR DELAY '25:00'", 148),
        ("WAITFOR DELAY '00:60'", 148),
    ],
)
def test_values_out_of_range(client: Any, text: str, number: int) -> None:
    assert client.error(text).number == number
