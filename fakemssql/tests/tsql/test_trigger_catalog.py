"""Triggers in the catalog, OUTPUT beside them, INSTEAD OF triggers that are refused, views that are written through."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def logged(client: Any, table: str) -> str:
    client.ok(
        f"CREATE TABLE {table} (id int IDENTITY(10, 1), x int DEFAULT 5, t varchar(9), y AS (x + 1));"
        f" CREATE TABLE log_{table} (k int IDENTITY, o int, n int, t varchar(9), y int, id int)"
    )
    return table


def _instead_of_delete(client: Any, table: str) -> None:
    client.ok(
        f"CREATE TRIGGER DELETE_{table} ON {table} INSTEAD OF DELETE AS INSERT log_{table} (o) SELECT x FROM deleted"
    )


def test_statements_with_an_instead_of_trigger_are_refused(client: Any, logged: str) -> None:
    _instead_of_delete(client, logged)
    client.ok(f"INSERT {logged} (x) VALUES (1); UPDATE {logged} SET x = 2")
    refused = client.error(f"DELETE {logged}")
    said = f"The INSTEAD OF DELETE trigger of '{logged}' is not supported by fakemssql."
    assert (refused.number, refused.message) == (40517, said)
    assert client.error(f"DELETE q FROM {logged} AS q").number == 40517
    client.ok(f"CREATE VIEW v_{logged} AS SELECT DISTINCT x FROM {logged}")
    client.ok(f"CREATE TRIGGER tv_{logged} ON v_{logged} INSTEAD OF INSERT AS PRINT 1")
    assert client.error(f"INSERT v_{logged} VALUES (1)").number == 40517
    assert client.error(f"CREATE TRIGGER n ON v_{logged} AFTER INSERT AS PRINT 1").number == 8197
    client.ok(f"DISABLE TRIGGER DELETE_{logged} ON {logged}; DELETE {logged}")
    assert client.value(f"SELECT COUNT(*) FROM {logged}") == 0


def test_output_depends_on_the_event_and_state_of_triggers(client: Any, logged: str) -> None:
    client.ok(f"CREATE TRIGGER a_{logged} ON {logged} AFTER INSERT AS PRINT 'x'")
    _instead_of_delete(client, logged)
    insert, delete = f"INSERT {logged} (x) OUTPUT inserted.x VALUES (1)", f"DELETE {logged} OUTPUT deleted.x"
    assert client.error(insert).number == client.error(delete).number == 334
    assert client.rows(f"UPDATE {logged} SET x = 1 OUTPUT inserted.x") == []
    client.ok(f"ALTER TABLE {logged} DISABLE TRIGGER ALL")
    assert client.rows(insert) == client.rows(delete) == [(1,)]
    client.ok(f"ENABLE TRIGGER a_{logged} ON {logged}")
    assert client.error(insert).number == 334
    assert client.rows(delete) == []


def test_rows_of_the_catalog(client: Any, logged: str) -> None:
    client.ok(f"CREATE TRIGGER a_{logged} ON dbo.{logged} WITH EXECUTE AS CALLER FOR INSERT, UPDATE AS PRINT 1")
    _instead_of_delete(client, logged)
    client.ok(f"DISABLE TRIGGER a_{logged} ON {logged}")
    text = (
        "SELECT t.name, e.type, e.type_desc, t.is_disabled, t.is_instead_of_trigger, t.parent_class_desc"
        f" FROM sys.triggers t JOIN sys.trigger_events e ON e.object_id = t.object_id"
        f" WHERE t.parent_id = OBJECT_ID('{logged}') ORDER BY e.type"
    )
    assert client.rows(text) == [
        (f"a_{logged}", 1, "INSERT", True, False, "OBJECT_OR_COLUMN"),
        (f"a_{logged}", 2, "UPDATE", True, False, "OBJECT_OR_COLUMN"),
        (f"DELETE_{logged}", 3, "DELETE", False, True, "OBJECT_OR_COLUMN"),
    ]
    client.ok(f"CREATE OR ALTER TRIGGER dbo.a_{logged} ON {logged} AFTER DELETE AS PRINT 'b'")
    client.ok(f"ALTER TRIGGER a_{logged} ON {logged} FOR UPDATE NOT FOR REPLICATION AS PRINT 'c'")
    assert client.rows(text)[0][:3] == (f"a_{logged}", 2, "UPDATE")
    client.ok(f"DROP TRIGGER IF EXISTS dbo.a_{logged}, DELETE_{logged}, nope")
    assert client.rows(text) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("CREATE TRIGGER n ON {0} INSTEAD OF DELETE AS PRINT 1", 2111),
        ("CREATE TRIGGER n ON nope FOR DELETE AS PRINT 1", 8197),
        ("ALTER TRIGGER n ON {0} FOR DELETE AS PRINT 1", 208),
        ("CREATE TRIGGER n ON {0} FOR SELECT AS PRINT 1", 156),
        ("DISABLE TRIGGER n ON {0}", 4920),
        ("DISABLE TRIGGER n ON nope", 1088),
        ("DROP TRIGGER n", 3701),
        ("MERGE {0} AS d USING (SELECT 1 AS id) s ON d.id = s.id WHEN MATCHED THEN DELETE;", 40517),
        ("DECLARE @t TABLE (x int); DELETE {0} OUTPUT deleted.x INTO @t", 40517),
    ],
)
def test_errors(client: Any, logged: str, text: str, number: int) -> None:
    _instead_of_delete(client, logged)
    assert client.error(text.format(logged)).number == number


def test_writing_through_a_view(client: Any, logged: str) -> None:
    client.ok(f"CREATE VIEW v_{logged} (number, text, twice) AS SELECT x, t, x * 2 FROM {logged} WHERE id > 0")
    assert client.rows(f"INSERT INTO v_{logged} (number, text) OUTPUT inserted.number VALUES (1, 'a'), (2, 'b')") == [
        (1,),
        (2,),
    ]
    client.ok(f"INSERT v_{logged} (number) SELECT 3; SELECT SCOPE_IDENTITY()")
    assert client.value("SELECT @@IDENTITY") == 12
    assert client.rows(f"UPDATE v_{logged} SET text = 'c' OUTPUT inserted.text, deleted.twice WHERE number = 2") == [
        ("c", 4)
    ]
    assert client.rows(f"DELETE TOP (1) FROM v_{logged} WITH (UPDLOCK, ROWLOCK, READPAST) OUTPUT deleted.number") == [
        (1,)
    ]
    assert client.rows(f"SELECT number, text FROM v_{logged} WITH (NOLOCK) ORDER BY number") == [(2, "c"), (3, None)]
    assert client.error(f"INSERT v_{logged} (twice) VALUES (1)").number == 4406
    assert client.error(f"INSERT v_{logged} (nope) VALUES (1)").number == 207


@pytest.mark.usefixtures("without_versions")
def test_hints_on_a_view_reach_its_table(client: Any, connect: Any, logged: str) -> None:
    client.ok(f"CREATE VIEW v_{logged} AS SELECT id, x FROM {logged}")
    client.ok(f"INSERT {logged} (x) VALUES (1), (2); BEGIN TRAN; DELETE {logged} WHERE x = 1")
    other = connect()
    assert other.rows(f"SELECT x FROM v_{logged} WITH (READPAST)") == [(2,)]
    assert other.rows(f"DELETE FROM v_{logged} WITH (READPAST) OUTPUT deleted.x") == [(2,)]
