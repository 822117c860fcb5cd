"""Logins: who gets in, and into which database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fakemssql.contract import SqlError
from support.people import PASSWORD, Someone


def refused(open_session: Callable[[], Any]) -> int:
    with pytest.raises(SqlError) as caught:
        open_session()
    return caught.value.number


def test_a_login_gets_in_with_its_password(client: Any, connect: Callable[..., Any], someone: Someone) -> None:
    mine = someone.session()
    assert mine.rows("SELECT SUSER_SNAME(), USER_NAME(), CURRENT_USER, SYSTEM_USER, ORIGINAL_LOGIN()") == [
        (someone.name,) * 5
    ]
    assert connect(someone.name.upper(), PASSWORD).value("SELECT SUSER_NAME()") == someone.name
    assert refused(lambda: connect(someone.name, PASSWORD.upper())) == 18456
    assert refused(lambda: connect("nobody at all", PASSWORD)) == 18456
    client.ok(f"ALTER LOGIN {someone.name} WITH PASSWORD = N'Another 1'")
    assert refused(someone.session) == 18456
    assert connect(someone.name, "Another 1").value("SELECT 1") == 1
    client.ok(f"ALTER LOGIN {someone.name} DISABLE")
    assert refused(lambda: connect(someone.name, "Another 1")) == 18470
    assert refused(lambda: connect(someone.name, PASSWORD)) == 18456
    client.ok(f"ALTER LOGIN {someone.name} ENABLE")
    assert connect(someone.name, "Another 1").value("SELECT 1") == 1


@pytest.mark.parametrize(
    "change", ["PASSWORD = N'Another 1' OLD_PASSWORD = N'x'", "NAME = other", "CHECK_POLICY = OFF"]
)
def test_other_changes_of_a_login_are_refused(client: Any, someone: Someone, change: str) -> None:
    assert client.error(f"ALTER LOGIN {someone.name} WITH {change}").number == 40517
    assert someone.session().error(f"ALTER LOGIN {someone.name} WITH PASSWORD = N'Another 1'").number == 15151


def test_only_a_hash_of_the_password_is_kept(client: Any, someone: Someone) -> None:
    rows = client.session.pg.query("SELECT password FROM mssql.logins WHERE name = $1", someone.name)
    assert PASSWORD not in str(rows)
    assert len(str(rows[0][0])) > 100
    assert client.value(f"SELECT password_hash FROM sys.sql_logins WHERE name = '{someone.name}'") is None


def test_databases_need_a_user(client: Any, connect: Callable[..., Any], someone: Someone) -> None:
    assert refused(lambda: someone.session("Other.Catalog")) == 4060
    assert refused(lambda: someone.session("no such database")) == 4060
    assert connect(someone.name, PASSWORD, "").value("SELECT DB_NAME()") == "master"
    mine = someone.session()
    error = mine.error("USE [Other.Catalog]")
    assert (error.number, error.severity) == (916, 14)
    assert error.message == (
        f'The server principal "{someone.name}" is not able to access the database "Other.Catalog" under the current'
        " security context."
    )
    assert mine.error("SELECT * FROM [Other.Catalog].dbo.t").number == 916
    assert mine.rows("SELECT HAS_DBACCESS('shop'), HAS_DBACCESS('Other.Catalog'), HAS_DBACCESS('none')") == [
        (1, 0, None)
    ]
    mine.ok("USE master")
    assert mine.value("SELECT USER_NAME()") == "guest"
    client.ok(f"ALTER LOGIN {someone.name} WITH DEFAULT_DATABASE = [Other.Catalog]")
    assert refused(lambda: connect(someone.name, PASSWORD, "")) == 4064
    client.ok(f"USE [Other.Catalog]; CREATE USER {someone.name}")
    assert connect(someone.name, PASSWORD, "").value("SELECT DB_NAME()") == "Other.Catalog"
    client.ok(f"DENY CONNECT TO {someone.name}")
    assert refused(lambda: someone.session("Other.Catalog")) == 4060
    client.ok(f"DROP USER {someone.name}; USE shop")


def test_refusals_of_create_login(client: Any, someone: Someone) -> None:
    create = "CREATE LOGIN {} WITH PASSWORD = {}"
    assert client.error(create.format(someone.name, "'Aa1-long enough'")).number == 15025
    assert client.error(create.format("fresh", "'Aa1-'")).number == 15116
    assert client.error(create.format("fresh", "'all of small letters'")).number == 15118
    assert client.error(create.format("fresh", "0x1234 HASHED")).number == 40517
    assert client.error(create.format("fresh", "'Aa1-long enough', DEFAULT_DATABASE = none")).number == 15010
    assert client.error("DROP LOGIN nobody").number == 15151
    assert client.error("DROP LOGIN sa").number == 15186
    mine = someone.session()
    assert mine.error(create.format("fresh", "'Aa1-long enough'")).number == 15247
    assert mine.error(f"DROP LOGIN {someone.name}").number == 15151


def test_server_roles_are_refused(client: Any, someone: Someone) -> None:
    assert client.error(f"ALTER SERVER ROLE sysadmin ADD MEMBER {someone.name}").number == 40517
    assert someone.session().value("SELECT IS_SRVROLEMEMBER('sysadmin')") == 0


def test_the_creator_of_a_database_owns_it(client: Any, someone: Someone) -> None:
    assert someone.session().error("CREATE DATABASE of_someone").message == (
        "CREATE DATABASE permission denied in database 'master'."
    )
    client.ok(f"USE master; GRANT CREATE ANY DATABASE TO {someone.name}; USE shop")
    mine = someone.session()
    mine.ok("CREATE DATABASE of_someone; USE of_someone")
    assert mine.rows("SELECT USER_NAME(), IS_MEMBER('db_owner')") == [("dbo", 1)]
    mine.ok("CREATE TABLE t (a int); CREATE USER tenant WITHOUT LOGIN; USE master; DROP DATABASE of_someone")
