"""What users may do, and the errors of what they may not."""

from __future__ import annotations

from typing import Any

import pytest

from support.people import Someone


def messages(session: Any, text: str) -> list[int]:
    return [message.number for message in session.run(text).messages if message.severity > 10]


def test_reading_and_writing_need_permissions(client: Any, someone: Someone, things: str) -> None:
    mine = someone.session()
    error = mine.error(f"SELECT * FROM {things}")
    assert (error.number, error.severity, error.state) == (229, 14, 5)
    assert error.message == (
        f"The SELECT permission was denied on the object '{things}', database 'shop', schema 'dbo'."
    )
    for text, permission in (
        (f"INSERT INTO {things} VALUES (3, 'x')", "INSERT"),
        (f"UPDATE {things} SET word = 'x'", "UPDATE"),
        (f"DELETE FROM {things}", "DELETE"),
        (f"DELETE TOP (1) FROM {things}", "DELETE"),
        (f"EXEC {things}_p", "EXECUTE"),
        (f"SELECT * FROM {things}_v", "SELECT"),
    ):
        error = mine.error(text)
        assert error.number == 229
        assert error.message.startswith(f"The {permission} permission was denied on the object")
    client.ok(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {things} TO {someone.name}")
    mine.ok(f"INSERT INTO {things} VALUES (3, 'x'); UPDATE {things} SET word = 'y' WHERE id = 3")
    assert mine.rows(f"DELETE FROM {things} OUTPUT deleted.word WHERE id = 3") == [("y",)]
    client.ok(f"REVOKE SELECT ON {things} FROM {someone.name}")
    assert mine.error(f"SELECT * FROM {things}").number == 229


def test_a_refusal_does_not_end_the_batch_and_is_caught(someone: Someone, things: str) -> None:
    mine = someone.session()
    recorder = mine.run(f"SELECT * FROM {things}; SELECT 7")
    assert (recorder.errors, recorder.results[-1]) == ([229], [(7,)])
    assert mine.value(f"BEGIN TRY SELECT * FROM {things} END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH") == 229


@pytest.mark.parametrize(
    ("granted", "text", "allowed"),
    [
        ("DELETE", "DELETE FROM {0}", True),
        ("DELETE", "DELETE TOP (1) FROM {0}", True),
        ("DELETE", "DELETE FROM {0} WHERE id = 1", False),
        ("DELETE", "DELETE FROM {0} OUTPUT deleted.id", False),
        ("DELETE", "WITH m AS (SELECT TOP (1) * FROM {0}) DELETE FROM m", False),
        ("DELETE, SELECT", "WITH m AS (SELECT TOP (1) * FROM {0} ORDER BY id) DELETE FROM m OUTPUT deleted.id", True),
        ("UPDATE", "UPDATE {0} SET word = 'x'", True),
        ("UPDATE", "UPDATE {0} SET word = word + 'x'", False),
        ("UPDATE", "UPDATE {0} SET word = 'x' WHERE id = 1", False),
        ("UPDATE, SELECT", "UPDATE t SET word = 'x' FROM {0} AS t WHERE id = 1", True),
        ("SELECT", "UPDATE t SET word = 'x' FROM {0} AS t WHERE id = 1", False),
        ("INSERT", "INSERT INTO {0} (id) VALUES (9)", True),
        ("INSERT", "INSERT INTO {0} (id) SELECT id + 10 FROM {0}", False),
        ("INSERT", "INSERT INTO {0} (id) OUTPUT inserted.id VALUES (9)", False),
        ("INSERT, SELECT", "INSERT INTO {0} (id) SELECT id + 10 FROM {0}", True),
        ("SELECT, INSERT", "MERGE {0} AS t USING (VALUES (9)) AS s(id) ON t.id = s.id WHEN MATCHED THEN DELETE"
         " WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id);", False),
        ("SELECT, INSERT, DELETE", "MERGE {0} AS t USING (VALUES (9)) AS s(id) ON t.id = s.id WHEN MATCHED THEN DELETE"
         " WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id);", True),
        ("SELECT", "SELECT * FROM {0} WITH (UPDLOCK, READPAST)", True),
        ("CONTROL", "DELETE FROM {0} WHERE id = 1", True),
        ("CONTROL", "DROP TABLE {0}", True),
        ("ALTER", "SELECT * FROM {0}", False),
        ("ALTER", "TRUNCATE TABLE {0}", True),
        ("ALTER", "ALTER TABLE {0} ADD c int", True),
        ("ALTER", "CREATE INDEX i ON {0} (word)", True),
    ],
)  # fmt: skip
def test_statements_that_each_permission_allows(
    client: Any, someone: Someone, things: str, granted: str, text: str, allowed: bool
) -> None:
    client.ok(f"GRANT {granted} ON OBJECT::dbo.{things} TO {someone.name}")
    assert messages(someone.session(), text.format(things)) == ([] if allowed else [229])


def test_scopes_cover_what_is_in_them_and_denials_win(client: Any, someone: Someone, things: str) -> None:
    name, read = someone.name, f"SELECT COUNT(*) FROM {things}"
    mine = someone.session()
    for scope in ("ON SCHEMA::dbo ", "ON DATABASE::shop ", ""):
        client.ok(f"GRANT SELECT {scope}TO {name}")
        assert mine.value(read) == 2
        client.ok(f"DENY SELECT ON {things} TO {name}")
        assert mine.error(read).number == 229
        client.ok(f"REVOKE SELECT ON {things} FROM {name}")
        assert mine.value(read) == 2
        client.ok(f"DENY SELECT {scope}TO public")
        assert mine.error(read).number == 229
        client.ok(f"REVOKE SELECT {scope}TO public; REVOKE SELECT {scope}TO {name}")
        assert mine.error(read).number == 229
    client.ok(f"GRANT CONTROL TO {name}")
    assert mine.value(read) == 2
    client.ok(f"DENY CONTROL ON {things} TO {name}")
    assert mine.error(read).number == 229


def test_fixed_roles(client: Any, someone: Someone, things: str) -> None:
    name, mine = someone.name, someone.session()
    texts = {
        "read": f"SELECT COUNT(*) FROM {things}",
        "write": f"INSERT INTO {things} (id) VALUES (5); DELETE FROM {things} WHERE id = 5",
        "define": f"CREATE TABLE of_{name} (a int); DROP TABLE of_{name}",
        "call": f"EXEC {things}_p",
        "manage": f"CREATE ROLE role_{name}; DROP ROLE role_{name}",
    }

    def can() -> set[str]:
        return {what for what, text in texts.items() if not messages(mine, text)}

    assert can() == set()
    for roles, expected in (
        (["db_datareader"], {"read"}),
        (["db_datareader", "db_datawriter"], {"read", "write"}),
        (["db_ddladmin"], {"define"}),
        (["db_securityadmin"], {"manage"}),
        (["db_owner"], set(texts)),
        (["db_owner", "db_denydatareader"], {"define", "call", "manage"}),
        (["db_owner", "db_denydatawriter"], {"read", "define", "call", "manage"}),
    ):
        for role in roles:
            client.ok(f"ALTER ROLE {role} ADD MEMBER {name}")
        assert can() == expected, roles
        for role in roles:
            client.ok(f"ALTER ROLE {role} DROP MEMBER {name}")
    assert can() == set()


def test_definitions_need_permissions(client: Any, someone: Someone, things: str) -> None:
    client.ok(f"ALTER ROLE db_datareader ADD MEMBER {someone.name}; ALTER ROLE db_datawriter ADD MEMBER {someone.name}")
    client.ok(f"CREATE INDEX ix ON {things} (word); CREATE TABLE {things}_i (i int IDENTITY, b int)")
    mine = someone.session()
    missing = "because it does not exist or you do not have permission"
    for text, number, message in (
        ("CREATE TABLE t1 (a int)", 262, "CREATE TABLE permission denied in database 'shop'."),
        ("SELECT 1 AS a INTO t1", 262, "CREATE TABLE permission denied in database 'shop'."),
        ("CREATE VIEW v1 AS SELECT 1 AS a", 262, "CREATE VIEW permission denied in database 'shop'."),
        ("CREATE PROCEDURE p1 AS SELECT 1", 262, "CREATE PROCEDURE permission denied in database 'shop'."),
        (f"CREATE INDEX ix2 ON {things} (word)", 1088, f'Cannot find the object "{things}" {missing}s.'),
        (f"ALTER INDEX ix ON {things} REBUILD", 1088, f'Cannot find the object "{things}" {missing}s.'),
        (f"ALTER TABLE {things} ADD c int", 1088, f'Cannot find the object "{things}" {missing}s.'),
        (f"TRUNCATE TABLE {things}", 1088, f'Cannot find the object "{things}" {missing}s.'),
        (f"SET IDENTITY_INSERT {things}_i ON", 1088, f'Cannot find the object "{things}_i" {missing}s.'),
        (f"DROP TABLE {things}", 3701, f"Cannot drop the table '{things}', {missing}."),
        (f"DROP TABLE IF EXISTS {things}", 3701, f"Cannot drop the table '{things}', {missing}."),
        (f"DROP INDEX ix ON {things}", 3701, f"Cannot drop the index '{things}.ix', {missing}."),
        (f"DROP VIEW {things}_v", 3701, f"Cannot drop the view '{things}_v', {missing}."),
        (f"DROP PROCEDURE {things}_p", 3701, f"Cannot drop the procedure '{things}_p', {missing}."),
        ("DROP SCHEMA guest", 15151, f"Cannot drop the schema 'guest', {missing}."),
        (f"ALTER ROLE db_owner ADD MEMBER {someone.name}", 15151, f"Cannot alter the role 'db_owner', {missing}."),
        ("CREATE USER u1 WITHOUT LOGIN", 15247, "User does not have permission to perform this action."),
        (f"EXEC sp_rename '{things}.i', 'j', 'INDEX'", 15247, "User does not have permission to perform this action."),
        (f"CREATE TRIGGER tr ON {things} AFTER INSERT AS RETURN", 8197, f"The object '{things}' does not exist or is"
         " invalid for this operation."),
        ("ALTER DATABASE shop SET MULTI_USER", 5011, ""),
        (f"GRANT SELECT ON {things} TO public", 4613, "Grantor does not have GRANT permission."),
        (f"GRANT EXECUTE ON {things}_p TO public", 15151, f"Cannot find the object '{things}_p', {missing}."),
        (f"DBCC CHECKIDENT ('{things}_i')", 2557, ""),
    ):  # fmt: skip
        error = mine.error(text)
        assert error.number == number, text
        assert message in error.message
    assert messages(mine, "CREATE SCHEMA s1") == [262, 2759]
    mine.ok("CREATE TABLE #own (a int); INSERT INTO #own VALUES (1); TRUNCATE TABLE #own; DROP TABLE #own")


def test_creating_needs_the_schema_too(client: Any, someone: Someone) -> None:
    client.ok(f"GRANT CREATE TABLE TO {someone.name}")
    client.ok(f"CREATE SCHEMA s_{someone.name}")
    mine = someone.session()
    error = mine.error("CREATE TABLE dbo.t1 (a int)")
    assert error.number == 2760
    assert error.message == (
        'The specified schema name "dbo" either does not exist or you do not have permission to use it.'
    )
    client.ok(f"GRANT ALTER ON SCHEMA::s_{someone.name} TO {someone.name}")
    mine.ok(f"CREATE TABLE s_{someone.name}.t1 (a int); CREATE INDEX i ON s_{someone.name}.t1 (a)")
    assert mine.error(f"SELECT * FROM s_{someone.name}.t1").number == 229
    mine.ok(f"DROP TABLE s_{someone.name}.t1")
    client.ok(f"DROP SCHEMA s_{someone.name}")


def test_ownership_chains(client: Any, someone: Someone, things: str) -> None:
    client.ok(f"GRANT SELECT ON {things}_v TO {someone.name}; GRANT EXECUTE TO {someone.name}")
    client.ok(f"CREATE TABLE {things}_log (id int); GRANT INSERT ON {things} TO {someone.name}")
    client.ok(f"CREATE TRIGGER {things}_t ON {things} AFTER INSERT AS INSERT INTO {things}_log SELECT id FROM inserted")
    client.ok(f"CREATE PROCEDURE {things}_d AS EXEC ('SELECT COUNT(*) FROM {things}')")
    mine = someone.session()
    assert mine.value(f"SELECT COUNT(*) FROM {things}_v") == 2
    assert mine.value(f"EXEC {things}_p") == 2
    mine.ok(f"EXEC {things}_w 7; INSERT INTO {things} (id) VALUES (8)")
    assert client.value(f"SELECT COUNT(*) FROM {things}_log") == 2
    assert mine.error(f"EXEC {things}_d").number == 229
    client.ok(f"CREATE SCHEMA s_{someone.name} AUTHORIZATION guest")
    client.ok(f"CREATE VIEW s_{someone.name}.v AS SELECT id FROM dbo.{things}")
    client.ok(f"GRANT SELECT ON s_{someone.name}.v TO {someone.name}")
    assert f"object '{things}'" in mine.error(f"SELECT * FROM s_{someone.name}.v").message
    client.ok(f"GRANT SELECT ON {things} TO {someone.name}")
    assert mine.value(f"SELECT COUNT(*) FROM s_{someone.name}.v") == 4
    client.ok(f"DROP VIEW s_{someone.name}.v; DROP SCHEMA s_{someone.name}")


def test_altering_a_module_keeps_its_permissions(client: Any, someone: Someone, things: str) -> None:
    client.ok(f"GRANT SELECT ON {things}_v TO {someone.name}; GRANT EXECUTE ON {things}_p TO {someone.name}")
    before = client.value(f"SELECT OBJECT_ID('{things}_p')")
    client.ok(f"ALTER VIEW {things}_v AS SELECT 5 AS five")
    client.ok(f"CREATE OR ALTER PROCEDURE {things}_p AS SELECT 6")
    mine = someone.session()
    assert (mine.value(f"SELECT five FROM {things}_v"), mine.value(f"EXEC {things}_p")) == (5, 6)
    assert client.value(f"SELECT OBJECT_ID('{things}_p')") == before


@pytest.mark.parametrize(
    "change", ["GRANT SELECT ON {} TO {} WITH GRANT OPTION", "REVOKE GRANT OPTION FOR SELECT ON {} FROM {} CASCADE"]
)
def test_grant_option_is_refused(client: Any, someone: Someone, things: str, change: str) -> None:
    assert client.error(change.format(things, someone.name)).number == 40517
    assert someone.session().error(f"SELECT COUNT(*) FROM {things}").number == 229


def test_dynamic_management_views(client: Any, someone: Someone) -> None:
    mine = someone.session()
    assert messages(mine, "SELECT * FROM sys.dm_tran_locks") == [300, 297]
    assert messages(mine, "SELECT * FROM sys.dm_db_partition_stats") == [262, 297]
    physical = "SELECT * FROM sys.dm_db_index_physical_stats(DB_ID(), NULL, NULL, NULL, NULL)"
    assert messages(mine, physical) == [262, 297]
    assert mine.rows("SELECT login_name FROM sys.dm_exec_sessions") == [(someone.name,)]
    client.ok(f"GRANT VIEW DATABASE STATE TO {someone.name}")
    mine.ok("SELECT * FROM sys.dm_db_partition_stats")
    assert messages(mine, "SELECT * FROM sys.dm_tran_locks") == [300, 297]
    client.ok(f"USE master; GRANT VIEW SERVER STATE TO {someone.name}; USE shop")
    mine.ok("SELECT * FROM sys.dm_tran_locks")
    logins = [row[0] for row in mine.rows("SELECT login_name FROM sys.dm_exec_sessions ORDER BY login_name")]
    assert {"sa", someone.name} <= set(logins)
    assert mine.value("SELECT COUNT(*) FROM sys.dm_exec_sessions") > 1


def test_a_rolled_back_grant_has_no_effect(client: Any, someone: Someone, things: str) -> None:
    client.ok(f"BEGIN TRANSACTION; GRANT SELECT ON {things} TO {someone.name}; ROLLBACK")
    assert someone.session().error(f"SELECT * FROM {things}").number == 229


def test_writing_through_views(client: Any, someone: Someone, things: str) -> None:
    mine = someone.session()
    insert = f"INSERT INTO {things}_v (id) VALUES (7)"
    assert mine.error(insert).message.startswith(f"The INSERT permission was denied on the object '{things}_v'")
    client.ok(f"GRANT INSERT, DELETE, SELECT ON {things}_v TO {someone.name}")
    mine.ok(f"{insert}; DELETE FROM {things}_v WHERE id = 7")
    assert mine.error(f"INSERT INTO {things} (id) VALUES (8)").number == 229
    client.ok(f"REVOKE DELETE ON {things}_v FROM {someone.name}")
    assert mine.error(f"DELETE FROM {things}_v WHERE id = 1").number == 229


def test_altering_a_trigger_enables_it_and_does_not_meet_itself(client: Any, things: str) -> None:
    client.ok(f"CREATE TRIGGER {things}_x ON {things} INSTEAD OF DELETE AS SELECT 1")
    number = client.value(f"SELECT OBJECT_ID('{things}_x'); DISABLE TRIGGER {things}_x ON {things}")
    client.ok(f"ALTER TRIGGER {things}_x ON {things} INSTEAD OF DELETE AS SELECT 2")
    shown = client.rows(f"SELECT object_id, is_disabled FROM sys.triggers WHERE name = '{things}_x'")
    assert shown == [(number, False)]
