"""AFTER triggers with bodies: what they see, what they leave, and what their errors undo."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def audited(client: Any, table: str) -> str:
    client.ok(
        f"CREATE TABLE {table} (id int IDENTITY, x int, y AS (x + 1));"
        f" CREATE TABLE log_{table} (k int IDENTITY(1000, 1), act varchar(1), o int, n int)"
    )
    client.ok(
        f"""CREATE TRIGGER tr_{table} ON {table} AFTER INSERT, UPDATE, DELETE AS
        BEGIN
            IF @@ROWCOUNT = 0 RETURN
            SET NOCOUNT ON
            IF UPDATE(x) PRINT 'x'
            INSERT log_{table} (act, o, n)
            SELECT CASE WHEN d.id IS NULL THEN 'I' WHEN i.id IS NULL THEN 'D' ELSE 'U' END, d.x, i.y
            FROM inserted i FULL JOIN deleted d ON i.id = d.id
            IF EXISTS (SELECT 1 FROM inserted WHERE x = 666) BEGIN ROLLBACK TRANSACTION; RETURN END
            IF EXISTS (SELECT 1 FROM inserted WHERE x = 777) THROW 50010, 'stop', 1
        END"""
    )
    return table


def test_a_trigger_sees_what_changed(client: Any, audited: str) -> None:
    found = client.ok(f"INSERT {audited} (x) VALUES (1), (2); SELECT @@ROWCOUNT, SCOPE_IDENTITY(), @@IDENTITY")
    assert found.results == [[(2, 2, 1001)]]
    assert [message.message for message in found.messages] == ["x"]
    assert found.counts[-2:] == [2, 1]
    client.ok(f"UPDATE {audited} SET x = x + 10 WHERE id = 1")
    found = client.ok(
        f"DECLARE @t TABLE (i int); WITH m AS (SELECT TOP (1) * FROM {audited} WITH (UPDLOCK, READPAST) ORDER BY id)"
        " DELETE FROM m OUTPUT deleted.id INTO @t; SELECT i FROM @t"
    )
    assert (found.results, found.messages) == ([[(1,)]], [])
    client.ok(f"DELETE {audited} WHERE id = 99")
    assert client.rows(f"SELECT act, o, n FROM log_{audited} ORDER BY k") == [
        ("I", None, 2),
        ("I", None, 3),
        ("U", 1, 12),
        ("D", 11, None),
    ]
    assert client.value("SELECT @@TRANCOUNT") == 0


@pytest.mark.parametrize("change", ["DELETE FROM m", "UPDATE m SET x = 5"])
def test_a_trigger_sees_columns_that_the_expression_does_not_show(client: Any, audited: str, change: str) -> None:
    client.ok(f"INSERT {audited} (x) VALUES (1), (2); DELETE log_{audited}")
    shown = "id" if change.startswith("DELETE") else "x"
    client.ok(f"WITH m AS (SELECT TOP (1) {shown} FROM {audited} ORDER BY id) {change}")
    new = None if change.startswith("DELETE") else 6
    assert client.rows(f"SELECT o, n FROM log_{audited}") == [(1, new)]


def test_triggers_fire_triggers_but_not_themselves(client: Any, audited: str) -> None:
    client.ok(f"CREATE TRIGGER t2_{audited} ON log_{audited} FOR INSERT AS INSERT log_{audited} (act) VALUES ('2')")
    client.ok(f"INSERT {audited} (x) SELECT 1 UNION ALL SELECT 2")
    assert client.value(f"SELECT COUNT(*) FROM log_{audited}") == 3


@pytest.mark.parametrize(("value", "number"), [(666, 3609), (777, 50010)])
def test_a_rollback_in_a_trigger(client: Any, audited: str, value: int, number: int) -> None:
    found = client.run(f"BEGIN TRAN; INSERT {audited} (x) VALUES (1); INSERT {audited} (x) VALUES ({value}); SELECT 1")
    assert (found.errors, found.results) == ([number], [])
    assert client.run(f"INSERT {audited} (x) VALUES ({value}); SELECT 1").errors == [number]
    text = f"BEGIN TRY INSERT {audited} (x) VALUES ({value}) END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH"
    assert client.value(text) == number
    assert client.rows(f"SELECT @@TRANCOUNT, COUNT(*) FROM {audited}") == [(0, 0)]
    assert client.value(f"SELECT COUNT(*) FROM log_{audited}") == 0


def test_assignment_with_output_into(client: Any, audited: str) -> None:
    text = f"""INSERT {audited} (x) VALUES (1); DECLARE @a int; DECLARE @t TABLE (x int)
        UPDATE {audited} SET @a = x = 5 OUTPUT inserted.x INTO @t; SELECT @a, x FROM @t"""
    assert client.rows(text) == [(5, 5)]


@pytest.mark.parametrize("begin", ["", "BEGIN TRAN; "])
def test_a_trigger_that_leaves_the_transaction_uncommittable(client: Any, table: str, begin: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int)")
    client.ok(
        f"CREATE TRIGGER r{table} ON {table} AFTER INSERT AS BEGIN TRY SELECT 1/0 END TRY BEGIN CATCH"
        " SELECT XACT_STATE() END CATCH"
    )
    found = client.run(f"{begin}INSERT {table} VALUES (1); SELECT 2")
    assert (found.errors, found.results[-1]) == ([3616], [(-1,)])
    assert client.rows(f"SELECT COUNT(*), @@TRANCOUNT FROM {table}") == [(0, 0)]
    end = "ROLLBACK" if begin else "SELECT @@TRANCOUNT"
    caught = client.run(
        f"{begin}BEGIN TRY INSERT {table} VALUES (1) END TRY BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE();"
        f" {end} END CATCH"
    )
    assert (caught.errors, caught.results[1]) == ([], [(3616, -1 if begin else 0)])
    assert client.value("SELECT @@TRANCOUNT") == 0
