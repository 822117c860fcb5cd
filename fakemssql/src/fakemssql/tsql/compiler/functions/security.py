# ruff: noqa: S608 - values are numbers of principals and databases
"""Security functions: users, roles, permissions; and which objects the metadata functions may show."""

from __future__ import annotations

from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.functions.registry import define, provided
from fakemssql.tsql.compiler.operators import as_integer, as_text
from fakemssql.tsql.compiler.scopes import Typed
from fakemssql.tsql.datatypes.sqltypes import INT, SYSNAME
from fakemssql.tsql.names import literal
from fakemssql.tsql.security.context import DBO, Identity
from fakemssql.types import SqlType


def identity(c: Compilation) -> Identity:
    """Return the user that the statement runs as. A definition has no user and is marked as dependent on the user."""
    if c.env.security is None:
        c.parameter("@@user", SYSNAME)
        return Identity(0, DBO, "dbo", "dbo", "{0,1,16384}", "{1,2,3}")
    return c.env.security.identity(c.env.database)


def _restricted(c: Compilation) -> bool:
    security = c.env.security
    return security is not None and not security.powerful and security.identity(c.env.database).user_id != DBO


def seen_id(c: Compilation, sql: str, source: bool = False) -> str:
    """Return SQL for the id of an object, NULL if the user may not see it."""
    if not _restricted(c):
        return sql
    return f"mssql.seen({identity(c).arguments}, {sql}, {'true' if source else 'false'})"


def seen_name(c: Compilation, sql: str) -> str:
    """Return SQL for the name of an object, NULL if the user may not see it."""
    name = in_default_schema(c, sql)
    return f"mssql.seen_name({identity(c).arguments}, {name})" if _restricted(c) else name


def in_default_schema(c: Compilation, sql: str) -> str:
    """Return SQL for the name of an object, searched in the default schema first."""
    schema = c.env.catalog.default_schema(c.env.database)
    if schema == "dbo":
        return sql
    return f"mssql.in_schema({c.parameter('@@db_id', INT)}, {sql}, {literal(schema)})"


def _current(name: str, variable: str, kind: SqlType, given: str) -> None:
    """Register a function of the session's value; with an argument it calls ``given``, a PostgreSQL function."""
    by_name = kind != SYSNAME

    def implementation(c: Compilation, a: list[Typed]) -> Typed:
        if not a:
            return Typed(c.parameter(variable, kind), kind)
        argument = as_text(a[0]).sql if by_name else as_integer(a[0])
        database = f"{c.parameter('@@db_id', INT)}, " if given in ("user_name", "principal_id") else ""
        return Typed(f"mssql.{given}({database}{argument})", kind)

    define(name, 0, 1)(implementation)


_current("USER_NAME", "@@user", SYSNAME, "user_name")
_current("USER_ID DATABASE_PRINCIPAL_ID", "@@user_id", INT, "principal_id")
_current("SUSER_NAME", "@@login", SYSNAME, "login_name")
_current("SUSER_ID", "@@login_id", INT, "login_id")


provided("USER CURRENT_USER SESSION_USER", "@@user", SYSNAME)
provided("SYSTEM_USER", "@@login", SYSNAME)
provided("ORIGINAL_LOGIN", "@@original_login", SYSNAME)


@define("SUSER_SNAME", 0, 1)
def _suser_sname(c: Compilation, a: list[Typed]) -> Typed:
    if not a:
        return Typed(c.parameter("@@login", SYSNAME), SYSNAME)
    return Typed(f"(SELECT l.name FROM mssql.logins l WHERE l.sid = {a[0].sql})", SYSNAME)


@define("IS_MEMBER", 1)
def _is_member(c: Compilation, a: list[Typed]) -> Typed:
    database, token = c.parameter("@@db_id", INT), identity(c).token
    return Typed(f"mssql.is_member({database}, '{token}'::int[], {as_text(a[0]).sql})", INT)


@define("IS_ROLEMEMBER", 1, 2)
def _is_rolemember(c: Compilation, a: list[Typed]) -> Typed:
    if len(a) == 1:
        return _is_member(c, a)
    database = c.parameter("@@db_id", INT)
    return Typed(f"mssql.is_rolemember({database}, {as_text(a[0]).sql}, {as_text(a[1]).sql})", INT)


@define("IS_SRVROLEMEMBER", 1, 2)
def _is_srvrolemember(c: Compilation, a: list[Typed]) -> Typed:
    token = f"'{identity(c).logins}'::int[]"
    if len(a) == 2:
        token = f"mssql.server_token(mssql.login_id({as_text(a[1]).sql}))"
    return Typed(f"mssql.is_server_member({token}, {as_text(a[0]).sql})", INT)


@define("HAS_DBACCESS", 1)
def _has_dbaccess(c: Compilation, a: list[Typed]) -> Typed:
    database, login, name = c.parameter("@@db_id", INT), c.parameter("@@login_id", INT), as_text(a[0]).sql
    return Typed(f"mssql.has_access({database}, {login}, {name})", INT)
