"""What users see of the catalog, security functions, default schemas."""

from __future__ import annotations

from typing import Any

from support.people import Someone


def test_users_see_what_they_have_a_permission_on(client: Any, someone: Someone, things: str) -> None:
    name, mine = someone.name, someone.session()
    client.ok(f"CREATE INDEX ix ON {things} (word)")
    seen = {
        "tables": f"SELECT name FROM sys.tables WHERE name = '{things}'",
        "objects": f"SELECT name FROM sys.objects WHERE name = 'DF_{things}'",
        "columns": f"SELECT name FROM sys.columns WHERE object_id = {client.value(f'SELECT OBJECT_ID({things!r})')}",
        "indexes": "SELECT i.name FROM sys.indexes i JOIN sys.tables t ON t.object_id = i.object_id"
        f" WHERE t.name = '{things}'",
        "information": f"SELECT table_name FROM INFORMATION_SCHEMA.TABLES WHERE table_name = '{things}'",
        "id": f"SELECT 1 WHERE OBJECT_ID('dbo.{things}') IS NOT NULL",
        "length": f"SELECT 1 WHERE COL_LENGTH('{things}', 'word') IS NOT NULL",
        "odbc": f"EXEC sp_columns '{things}'",
        "odbc tables": f"EXEC sp_tables '{things}'",
        "keys": f"EXEC sp_pkeys '{things}'",
    }

    def visible() -> set[str]:
        return {what for what, text in seen.items() if mine.rows(text)}

    procedure = f"SELECT name FROM sys.procedures WHERE name = '{things}_p'"
    assert visible() == set()
    assert mine.rows(procedure) == []
    for grant in (
        f"SELECT ON {things}",
        f"INSERT ON {things}",
        "UPDATE ON SCHEMA::dbo",
        "DELETE",
        f"ALTER ON {things}",
    ):
        client.ok(f"GRANT {grant} TO {name}")
        assert visible() == set(seen), grant
        assert mine.rows(procedure) == []
        client.ok(f"REVOKE {grant} TO {name}")
        assert visible() == set()
    client.ok(f"GRANT VIEW DEFINITION TO {name}")
    assert visible() == set(seen)
    assert mine.rows(procedure) == [(f"{things}_p",)]
    client.ok(f"DENY VIEW DEFINITION ON {things} TO {name}; GRANT SELECT ON {things} TO {name}")
    assert visible() == set()


def test_definitions_are_seen_with_view_definition(client: Any, someone: Someone, things: str) -> None:
    client.ok(f"GRANT EXECUTE ON {things}_p TO {someone.name}; GRANT SELECT ON {things} TO {someone.name}")
    mine = someone.session()
    text = (
        f"SELECT OBJECT_NAME(m.object_id), m.definition, OBJECT_DEFINITION(m.object_id) FROM sys.sql_modules m"
        f" WHERE m.object_id = OBJECT_ID('{things}_p')"
    )
    default = (
        f"SELECT column_default FROM INFORMATION_SCHEMA.COLUMNS WHERE table_name = '{things}' AND column_name = 'word'"
    )
    assert mine.rows(text) == [(f"{things}_p", None, None)]
    assert mine.value(default) is None
    client.ok(f"GRANT VIEW DEFINITION ON SCHEMA::dbo TO {someone.name}")
    assert mine.rows(text)[0][1].startswith("CREATE PROCEDURE")
    assert mine.rows(text)[0][2] is not None
    assert mine.value(default) == "('x')"


def test_the_filter_of_an_index_is_seen_with_view_definition(client: Any, someone: Someone, things: str) -> None:
    """ "sys.indexes (Transact-SQL)": NULL for insufficient permissions on the table; that it has one, is seen."""
    client.ok(
        f"CREATE INDEX filtered ON {things} (word) WHERE word IS NOT NULL; GRANT SELECT ON {things} TO {someone.name}"
    )
    mine, text = someone.session(), "SELECT has_filter, filter_definition FROM sys.indexes WHERE name = 'filtered'"
    assert mine.rows(text) == [(True, None)]
    client.ok(f"GRANT VIEW DEFINITION ON {things} TO {someone.name}")
    assert mine.rows(text) == [(True, "([word] IS NOT NULL)")]


def test_databases_and_schemas_are_seen_by_all(client: Any, someone: Someone) -> None:
    mine = someone.session()
    names = "SELECT name FROM sys.databases WHERE name IN ('shop', 'master', 'Other.Catalog') ORDER BY name"
    assert mine.rows(names) == [("master",), ("Other.Catalog",), ("shop",)]
    client.ok(f"USE master; DENY VIEW ANY DATABASE TO {someone.name}; USE shop")
    assert mine.rows(names) == [("master",), ("shop",)]
    assert mine.value("SELECT COUNT(*) FROM sys.schemas WHERE name IN ('dbo', 'guest')") == 2


def test_functions_over_principals(client: Any, someone: Someone) -> None:
    mine = someone.session()
    ids = "USER_ID(), DATABASE_PRINCIPAL_ID(), SUSER_ID()"
    own = mine.rows(f"SELECT {ids}")[0]
    assert own[0] == own[1] > 4
    assert client.rows(f"SELECT USER_NAME({own[0]}), SUSER_NAME({own[2]}), USER_ID('{someone.name}')") == [
        (someone.name, someone.name, own[0])
    ]
    assert client.rows(f"SELECT {ids}, USER_NAME(), SUSER_SNAME(0x01)") == [(1, 1, 1, "dbo", "sa")]


def test_default_schema(client: Any, people: Any, things: str) -> None:
    client.ok(f"CREATE SCHEMA s_{things}")
    client.ok(f"CREATE TABLE s_{things}.both (a int); INSERT INTO s_{things}.both VALUES (1)")
    client.ok("CREATE TABLE dbo.both (a int); INSERT INTO dbo.both VALUES (2)")
    someone = people(f"WITH DEFAULT_SCHEMA = s_{things}")
    client.ok(f"GRANT CONTROL TO {someone.name}")
    mine = someone.session()
    assert mine.rows("SELECT a, SCHEMA_NAME() FROM both") == [(1, f"s_{things}")]
    assert mine.value(f"SELECT COUNT(*) FROM {things}") == 2
    mine.ok("CREATE TABLE fresh (a int)")
    assert mine.value("SELECT OBJECT_SCHEMA_NAME(OBJECT_ID('fresh'))") == f"s_{things}"
    assert mine.value("SELECT OBJECT_SCHEMA_NAME(OBJECT_ID('both'))") == f"s_{things}"
    assert mine.value(f"SELECT OBJECT_SCHEMA_NAME(OBJECT_ID('{things}'))") == "dbo"
    assert client.value("SELECT a FROM both") == 2
    mine.ok(f"DROP TABLE fresh; DROP TABLE both; DROP VIEW {things}_v")
    assert client.value("SELECT a FROM dbo.both") == 2
    client.ok(f"DROP SCHEMA s_{things}")
    assert mine.value("SELECT a FROM both") == 2
    client.ok("DROP TABLE dbo.both")


def test_permissions_of_the_administrator_need_no_query(client: Any, things: str) -> None:
    asked: list[str] = []
    query = client.session.security.pg.query

    def counted(sql: str, *texts: Any) -> Any:
        asked.append(sql)
        return query(sql, *texts)

    text = f"SELECT COUNT(*) FROM {things}"
    client.ok(text)
    client.session.pg.query = counted
    client.ok(f"{text}; DELETE FROM {things} WHERE id = 1; SELECT USER_NAME()")
    client.ok(f"EXEC {things}_p")
    assert [sql for sql in asked if "mssql.allowed" in sql or "identify" in sql] == []


def test_views_may_use_the_current_user(client: Any, someone: Someone, things: str) -> None:
    client.ok(f"CREATE VIEW {things}_me AS SELECT USER_NAME() AS who, SUSER_SNAME() AS login")
    client.ok(f"GRANT SELECT ON {things}_me TO {someone.name}")
    assert someone.session().rows(f"SELECT * FROM {things}_me") == [(someone.name, someone.name)]
    assert client.rows(f"SELECT * FROM {things}_me") == [("dbo", "sa")]
    assert client.error(f"CREATE TABLE {things}_1 (a int, b int CHECK (IS_MEMBER('db_owner') = 1))").number == 40517
    assert client.error(f"CREATE TABLE {things}_1 (a int, b sysname DEFAULT USER_NAME())").number == 40517


def test_names_in_modules_are_those_of_their_schema(client: Any, things: str) -> None:
    client.ok(f"CREATE SCHEMA m_{things}")
    client.ok(f"CREATE TABLE m_{things}.{things} (z int); INSERT INTO m_{things}.{things} VALUES (99)")
    client.ok(f"CREATE PROCEDURE m_{things}.p AS SELECT z FROM {things}")
    client.ok(f"CREATE VIEW m_{things}.v AS SELECT z FROM {things}")
    assert client.value(f"EXEC m_{things}.p") == 99
    assert client.value(f"SELECT z FROM m_{things}.v") == 99
