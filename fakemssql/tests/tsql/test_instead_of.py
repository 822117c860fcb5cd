"""INSTEAD OF triggers, what the catalog shows of triggers, OUTPUT beside them, and views that are written through."""

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


def _trigger(client: Any, table: str, events: str, more: str = "") -> None:
    sources = {
        "INSERT": "(SELECT CAST(NULL AS int) AS x, 0 AS id WHERE 1 = 0) d FULL JOIN inserted i ON i.id = d.id",
        "DELETE": "deleted d LEFT JOIN (SELECT 0 AS id, 0 AS x, '' AS t, 0 AS y WHERE 1 = 0) i ON i.id = d.id",
        "UPDATE": "deleted d JOIN inserted i ON i.id = d.id",
    }
    client.ok(
        f"CREATE TRIGGER {events}_{table} ON {table} INSTEAD OF {events} AS BEGIN SET NOCOUNT ON;"
        f" INSERT log_{table} (o, n, t, y, id) SELECT d.x, i.x, i.t, i.y, COALESCE(i.id, d.id) FROM {sources[events]};"
        f" {more} END"
    )


def test_nothing_is_changed_and_the_trigger_sees_what_would_have_been(client: Any, logged: str) -> None:
    client.ok(f"INSERT {logged} (x, t) VALUES (1, 'a'), (2, 'b')")
    for events in ("INSERT", "UPDATE", "DELETE"):
        _trigger(client, logged, events)
    assert client.ok(f"INSERT {logged} (t) VALUES ('c')").counts[-1] == 1
    assert client.ok(f"UPDATE {logged} SET x = x + 10, t = 'z' WHERE t = 'b'").counts[-1] == 1
    assert client.ok(f"UPDATE q SET x *= 3 FROM {logged} AS q JOIN (VALUES ('a')) v(t) ON v.t = q.t").counts[-1] == 1
    assert client.ok(f"DELETE TOP (5) FROM {logged} WITH (ROWLOCK) WHERE x < 9").counts[-1] == 2
    assert client.ok(f"DELETE q FROM {logged} q WHERE x = 99").counts[-1] == 0
    assert client.rows(f"SELECT o, n, t, id FROM log_{logged} ORDER BY k") == [
        (None, 5, "c", 0),
        (2, 12, "z", 11),
        (1, 3, "a", 10),
        (1, None, None, 10),
        (2, None, None, 11),
    ]
    assert client.rows(f"SELECT id, x, t, y FROM {logged} ORDER BY id") == [(10, 1, "a", 2), (11, 2, "b", 3)]
    client.ok(f"DISABLE TRIGGER DELETE_{logged} ON {logged}; DELETE {logged}")
    assert client.value(f"SELECT COUNT(*) FROM {logged}") == 0


def test_the_trigger_itself_changes_the_table(client: Any, logged: str) -> None:
    _trigger(client, logged, "INSERT", f"INSERT {logged} (x, t) SELECT x * 2, t FROM inserted")
    client.ok(f"CREATE TRIGGER after_{logged} ON {logged} AFTER INSERT AS PRINT 'after'")
    found = client.ok(f"INSERT {logged} (x, t) SELECT 4, 'a'")
    assert [message.message for message in found.messages] == ["after"]
    assert client.rows(f"SELECT x, t FROM {logged}") == [(8, "a")]


def test_a_rollback_in_the_trigger(client: Any, logged: str) -> None:
    _trigger(client, logged, "DELETE", "ROLLBACK TRANSACTION")
    client.ok(f"INSERT {logged} (x) VALUES (1)")
    assert client.run(f"BEGIN TRAN; DELETE {logged}; SELECT 1").errors == [3609]
    assert client.rows(f"SELECT @@TRANCOUNT, COUNT(*) FROM log_{logged}") == [(0, 0)]


def test_instead_of_on_a_view_that_could_not_be_written(client: Any, logged: str) -> None:
    client.ok(f"CREATE VIEW v_{logged} AS SELECT DISTINCT a.x, b.t FROM {logged} a JOIN {logged} b ON a.id = b.id")
    assert client.error(f"INSERT v_{logged} VALUES (1, 'a')").number == 4405
    client.ok(
        f"CREATE TRIGGER tv_{logged} ON v_{logged} INSTEAD OF INSERT, DELETE AS"
        f" BEGIN INSERT {logged} (x, t) SELECT x, t FROM inserted;"
        f" DELETE {logged} WHERE x IN (SELECT x FROM deleted) END"
    )
    client.ok(f"INSERT v_{logged} VALUES (1, 'a'), (2, 'b'); DELETE v_{logged} WHERE t = 'a'")
    assert client.rows(f"SELECT x FROM v_{logged}") == [(2,)]
    assert client.error(f"CREATE TRIGGER n ON v_{logged} AFTER INSERT AS PRINT 1").number == 8197


def test_output_minds_the_event_and_whether_it_is_enabled(client: Any, logged: str) -> None:
    client.ok(f"CREATE TRIGGER a_{logged} ON {logged} AFTER INSERT AS PRINT 'x'")
    _trigger(client, logged, "DELETE")
    insert, delete = f"INSERT {logged} (x) OUTPUT inserted.x VALUES (1)", f"DELETE {logged} OUTPUT deleted.x"
    assert client.error(insert).number == client.error(delete).number == 334
    assert client.rows(f"UPDATE {logged} SET x = 1 OUTPUT inserted.x") == []
    client.ok(f"ALTER TABLE {logged} DISABLE TRIGGER ALL")
    assert client.rows(insert) == client.rows(delete) == [(1,)]
    client.ok(f"ENABLE TRIGGER a_{logged} ON {logged}")
    assert client.error(insert).number == 334
    assert client.rows(delete) == []


def test_what_the_catalog_shows(client: Any, logged: str) -> None:
    client.ok(f"CREATE TRIGGER a_{logged} ON dbo.{logged} WITH EXECUTE AS CALLER FOR INSERT, UPDATE AS PRINT 1")
    _trigger(client, logged, "DELETE")
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
    _trigger(client, logged, "DELETE")
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
