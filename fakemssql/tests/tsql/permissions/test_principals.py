"""Users and roles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.people import Someone

MEMBERS = (
    "SELECT r.name, m.name FROM sys.database_role_members x JOIN sys.database_principals r ON r.principal_id ="
    " x.role_principal_id JOIN sys.database_principals m ON m.principal_id = x.member_principal_id WHERE m.name = '{}'"
    " ORDER BY r.name"
)


def test_roles_and_their_members(client: Any, someone: Someone) -> None:
    name = someone.name
    client.ok(f"CREATE ROLE readers_of_{name}; CREATE ROLE [all {name}]")
    client.ok(f"ALTER ROLE readers_of_{name} ADD MEMBER {name}; ALTER ROLE [all {name}] ADD MEMBER readers_of_{name}")
    client.ok(f"ALTER ROLE db_datareader ADD MEMBER {name}; ALTER ROLE db_datareader ADD MEMBER {name}")
    assert client.rows(MEMBERS.format(name)) == [("db_datareader", name), (f"readers_of_{name}", name)]
    mine = someone.session()
    texts = f"SELECT IS_MEMBER('all {name}'), IS_MEMBER('db_datareader'), IS_MEMBER('db_owner'), IS_MEMBER('none')"
    assert mine.rows(texts) == [(1, 1, 0, None)]
    assert client.value(f"SELECT IS_ROLEMEMBER('all {name}', '{name}')") == 1
    assert client.error(f"ALTER ROLE readers_of_{name} ADD MEMBER [all {name}]").number == 15413
    assert client.error(f"DROP ROLE readers_of_{name}").number == 15144
    client.ok(f"ALTER ROLE db_datareader DROP MEMBER {name}; ALTER ROLE readers_of_{name} DROP MEMBER {name}")
    client.ok(f"ALTER ROLE [all {name}] DROP MEMBER readers_of_{name}")
    client.ok(f"DROP ROLE [all {name}]; DROP ROLE IF EXISTS readers_of_{name}; DROP ROLE IF EXISTS readers_of_{name}")
    assert client.rows(MEMBERS.format(name)) == []
    assert mine.value("SELECT IS_MEMBER('db_datareader')") == 0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("CREATE USER fresh FOR LOGIN nobody", 15007),
        ("CREATE USER {0} WITHOUT LOGIN", 15023),
        ("CREATE USER another FOR LOGIN {0}", 15063),
        ("CREATE ROLE {0}", 15023),
        ("DROP USER nobody", 15151),
        ("DROP USER dbo", 15150),
        ("DROP ROLE db_owner", 15150),
        ("ALTER ROLE nothing ADD MEMBER {0}", 15151),
        ("ALTER ROLE db_owner ADD MEMBER nobody", 15151),
        ("ALTER ROLE db_owner ADD MEMBER dbo", 15405),
        ("ALTER ROLE [public] ADD MEMBER {0}", 15081),
        ("GRANT SELECT ON nothing TO {0}", 15151),
        ("GRANT SELECT ON SCHEMA::nothing TO {0}", 15151),
        ("GRANT SELECT TO nobody", 15151),
        ("GRANT SELECT TO dbo", 4624),
        ("GRANT SELECT TO db_datareader", 4617),
        ("GRANT VIEW SERVER STATE TO {0}", 4621),
        ("GRANT FLY TO {0}", 102),
        ("GRANT ALTER ANY ASSEMBLY TO {0}", 40517),
        ("GRANT SELECT ON sys.objects TO {0}", 40517),
        ("GRANT SELECT TO {0} AS dbo", 40517),
    ],
)
def test_refusals(client: Any, someone: Someone, text: str, number: int) -> None:
    assert client.error(text.format(someone.name)).number == number


def test_permissions_on_columns_are_refused(client: Any, someone: Someone, things: str) -> None:
    assert client.error(f"GRANT SELECT (id) ON {things} TO {someone.name}").number == 40517
    assert client.error(f"GRANT EXECUTE ON {things} TO {someone.name}").number == 4606
    assert client.error(f"GRANT SELECT ON {things}_p TO {someone.name}").number == 4606


def test_users_are_seen_in_the_catalog(client: Any, someone: Someone, things: str) -> None:
    client.ok(f"GRANT SELECT, INSERT ON {things} TO {someone.name}; DENY DELETE ON SCHEMA::dbo TO {someone.name}")
    assert client.rows(
        "SELECT p.class_desc, p.type, p.permission_name, p.state_desc, USER_NAME(p.grantor_principal_id)"
        f" FROM sys.database_permissions p WHERE p.grantee_principal_id = USER_ID('{someone.name}')"
        " ORDER BY p.class, p.permission_name"
    ) == [
        ("DATABASE", "CO  ", "CONNECT", "GRANT", "dbo"),
        ("OBJECT_OR_COLUMN", "IN  ", "INSERT", "GRANT", "dbo"),
        ("OBJECT_OR_COLUMN", "SL  ", "SELECT", "GRANT", "dbo"),
        ("SCHEMA", "DL  ", "DELETE", "DENY", "dbo"),
    ]
    columns = "type_desc, default_schema_name, authentication_type_desc, is_fixed_role"
    row = client.rows(f"SELECT {columns} FROM sys.database_principals WHERE name = '{someone.name}'")
    assert row == [("SQL_USER", "dbo", "INSTANCE", False)]
    assert (
        client.value(
            "SELECT COUNT(*) FROM sys.server_principals s JOIN sys.database_principals d ON d.sid = s.sid"
            f" WHERE s.name = '{someone.name}' AND d.name = s.name"
        )
        == 1
    )
    client.ok(f"DROP TABLE {things}")
    count = f"SELECT COUNT(*) FROM sys.database_permissions WHERE grantee_principal_id = USER_ID('{someone.name}')"
    assert client.value(count) == 2


def test_visibility_of_other_users(client: Any, people: Callable[..., Someone]) -> None:
    one, other = people(), people()
    mine = one.session()
    names = f"SELECT name FROM sys.{{}} WHERE name IN ('{one.name}', '{other.name}', 'dbo', 'sa') ORDER BY name"
    assert mine.rows(names.format("database_principals")) == [("dbo",), (one.name,)]
    assert mine.rows(names.format("server_principals")) == [(one.name,), ("sa",)]
    client.ok(f"GRANT VIEW DEFINITION TO {one.name}")
    all_names = sorted([("dbo",), (one.name,), (other.name,)])
    assert mine.rows(names.format("database_principals")) == all_names


def test_users_without_login(client: Any) -> None:
    client.ok("CREATE USER tenant WITHOUT LOGIN WITH DEFAULT_SCHEMA = dbo")
    assert client.rows("SELECT name FROM sys.database_principals WHERE name = 'tenant'") == [("tenant",)]
    client.ok("DROP USER tenant")


@pytest.mark.parametrize("change", ["NAME = other", "DEFAULT_SCHEMA = dbo", "LOGIN = sa"])
def test_altering_a_user_is_refused(client: Any, someone: Someone, change: str) -> None:
    assert client.error(f"ALTER USER {someone.name} WITH {change}").number == 40517


def test_owners_of_schemas(client: Any, someone: Someone) -> None:
    client.ok(f"CREATE SCHEMA of_{someone.name} AUTHORIZATION {someone.name}")
    assert client.error(f"DROP USER {someone.name}").number == 15138
    client.ok(f"GRANT CREATE TABLE TO {someone.name}")
    mine = someone.session()
    mine.ok(f"CREATE TABLE of_{someone.name}.t (a int); INSERT INTO of_{someone.name}.t VALUES (1)")
    assert mine.value(f"SELECT a FROM of_{someone.name}.t") == 1
    client.ok(f"DROP TABLE of_{someone.name}.t; DROP SCHEMA of_{someone.name}")
