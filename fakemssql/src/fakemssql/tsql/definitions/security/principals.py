"""Users and roles of a database: CREATE, DROP, owners and members."""

from __future__ import annotations

from dataclasses import dataclass

from fakemssql.contract import SqlError
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.definitions.security.logins import drop_login, find_login, may
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.security import errors
from fakemssql.tsql.security.context import DATABASE, PRINCIPAL

_SYSTEM = 4
"""Highest id of public, dbo, guest, INFORMATION_SCHEMA and sys."""

_FIXED_ROLES = range(16384, 16400)
_FIRST_FREE = 5


@dataclass(frozen=True)
class Principal:
    """User or role of a database."""

    number: int
    name: str
    kind: str  # S or R

    @property
    def fixed(self) -> bool:
        return self.number <= _SYSTEM or self.number in _FIXED_ROLES


def find_principal(d: Definer, name: str) -> Principal | None:
    rows = d.pg.query(
        "SELECT principal_id, name, kind FROM mssql.principals WHERE database_id = $1::int AND folded = $2",
        d.database_id,
        fold(name),
    )
    return Principal(int(rows[0][0] or 0), str(rows[0][1]), str(rows[0][2])) if rows else None


def _may_change(d: Definer, found: Principal, permission: str) -> bool:
    return may(d, permission, DATABASE) or may(d, "ALTER", PRINCIPAL, found.number)


def _owner(d: Definer, name: str | None) -> int:
    """Return the id of the named owner, else of the current user."""
    if name is None:
        return d.session.security.identity(d.session.database).user_id
    found = find_principal(d, name)
    if found is None:
        raise errors.missing("user", name)
    return found.number


def _check_new_principal(d: Definer, name: str) -> None:
    if find_principal(d, name) is not None:
        raise SqlError(15023, f"User, group, or role '{name}' already exists in the current database.")


def _insert_principal(
    d: Definer, name: str, kind: str, schema: str | None, login: int | None, owner: int | None
) -> None:
    d.pg.query(
        "INSERT INTO mssql.principals (database_id, principal_id, name, folded, kind, default_schema, login_id,"
        " owner_id, sid) SELECT $1::int, (SELECT min(free) FROM generate_series($8::int, 16383) AS free WHERE NOT"
        " EXISTS (SELECT 1 FROM mssql.principals p WHERE p.database_id = $1::int AND p.principal_id = free)), $2,"
        " $3, $4, $5, $6::int, $7::int, COALESCE((SELECT sid FROM mssql.logins WHERE principal_id = $6::int),"
        " uuid_send(gen_random_uuid()))",
        d.database_id,
        name,
        fold(name),
        kind,
        schema,
        login,
        owner,
        _FIRST_FREE,
    )


# --- users -----------------------------------------------------------------------------------------------------------


def create_user(d: Definer, node: nodes.CreateUser) -> None:
    if not may(d, "ALTER ANY USER", DATABASE):
        raise errors.not_allowed()
    login = None if node.login is None else _unmapped_login(d, node.login, node.name)
    _check_new_principal(d, node.name)
    _insert_principal(d, node.name, "S", node.schema or "dbo", login, None)
    d.pg.query(
        "INSERT INTO mssql.permissions SELECT database_id, 0, 0, principal_id, 1, 'CONNECT', 'G'"
        " FROM mssql.principals WHERE database_id = $1::int AND folded = $2",
        d.database_id,
        fold(node.name),
    )


def _unmapped_login(d: Definer, name: str, user: str) -> int:
    """Return the id of a login that has no user in the database yet. Errors 15007 and 15063."""
    found = find_login(d, name)
    if found is None:
        raise SqlError(15007, f"'{name}' is not a valid login or you do not have permission.")
    taken = d.pg.query(
        "SELECT 1 FROM mssql.databases d WHERE database_id = $1::int AND (owner_id = $2::int OR EXISTS (SELECT 1"
        " FROM mssql.principals p WHERE p.database_id = d.database_id AND login_id = $2::int AND folded <> $3))",
        d.database_id,
        found[0],
        fold(user),
    )
    if taken:
        raise SqlError(15063, "The login already has an account under a different user name.")
    return found[0]


def alter_user(d: Definer, node: nodes.AlterUser) -> None:
    raise SqlError(40517, "ALTER USER is not supported by fakemssql.")


# --- roles -----------------------------------------------------------------------------------------------------------


def create_role(d: Definer, node: nodes.CreateRole) -> None:
    if not may(d, "CREATE ROLE", DATABASE):
        raise errors.not_allowed()
    owner = _owner(d, node.owner)
    _check_new_principal(d, node.name)
    _insert_principal(d, node.name, "R", None, None, owner)


def alter_role(d: Definer, node: nodes.AlterRole) -> None:
    if node.server or node.action == "rename":
        what = "ALTER SERVER ROLE" if node.server else "ALTER ROLE ... WITH NAME"
        raise SqlError(40517, f"{what} is not supported by fakemssql.")
    role = find_principal(d, node.name)
    if role is None or role.kind != "R" or not _may_change_role(d, role):
        raise errors.missing("role", node.name, "alter")
    if role.number == 0:
        raise SqlError(15081, "Membership of the public role cannot be changed.")
    member = find_principal(d, node.member)
    if member is None:
        raise errors.missing("user", node.member, node.action)
    if member.number <= _SYSTEM or member.number in _FIXED_ROLES:
        raise SqlError(15405, f"Cannot use the special principal '{member.name}'.", severity=11)
    _change_members(d, role, member, node.action == "add")


def _may_change_role(d: Definer, role: Principal) -> bool:
    """Return whether the user may change the members of a role; for fixed roles only db_owner ("ALTER ROLE",
    permissions).
    """
    if role.number in _FIXED_ROLES:
        return may(d, "CONTROL", DATABASE)
    return _may_change(d, role, "ALTER ANY ROLE")


def _change_members(d: Definer, role: Principal, member: Principal, add: bool) -> None:
    if add:
        within = d.pg.query(
            "SELECT $2::int = ANY(mssql.token($1::int, $3::int))", d.database_id, member.number, role.number
        )
        if within[0][0] == "t":
            raise SqlError(15413, "Cannot make a role a member of itself.", severity=11)
    sql = (
        "INSERT INTO mssql.role_members VALUES ($1::int, $2::int, $3::int) ON CONFLICT DO NOTHING"
        if add
        else "DELETE FROM mssql.role_members WHERE database_id = $1::int AND role_id = $2::int AND member_id = $3::int"
    )
    d.pg.query(sql, d.database_id, role.number, member.number)


# --- DROP, owners ----------------------------------------------------------------------------------------------------


def drop_principal(d: Definer, node: nodes.DropPrincipal) -> None:
    if node.kind == "login":
        drop_login(d, node.name)
        return
    found = find_principal(d, node.name)
    permission = "ALTER ANY USER" if node.kind == "user" else "ALTER ANY ROLE"
    if found is None and node.if_exists:
        return
    of_kind = found is not None and found.kind == ("S" if node.kind == "user" else "R")
    if found is None or not of_kind or not _may_change(d, found, permission):
        raise errors.missing(node.kind, node.name, "drop")
    if found.fixed:
        raise SqlError(15150, f"Cannot drop the {node.kind} '{found.name}'.")
    _check_unused(d, found)
    d.pg.query(
        "DELETE FROM mssql.principals WHERE database_id = $1::int AND principal_id = $2::int",
        d.database_id,
        found.number,
    )


def _check_unused(d: Definer, found: Principal) -> None:
    """Raise error 15138, 15144 or 15284 for an owner, a role with members, or a grantor."""
    key = (d.database_id, found.number)
    if d.pg.query("SELECT 1 FROM mssql.schemas WHERE database_id = $1::int AND principal_id = $2::int", *key):
        raise SqlError(15138, "The database principal owns a schema in the database, and cannot be dropped.")
    if d.pg.query("SELECT 1 FROM mssql.principals WHERE database_id = $1::int AND owner_id = $2::int", *key):
        raise SqlError(15138, "The database principal owns a database role and cannot be dropped.")
    if d.pg.query("SELECT 1 FROM mssql.role_members WHERE database_id = $1::int AND role_id = $2::int", *key):
        raise SqlError(15144, "The role has members. It must be empty before it can be dropped.")
    granted = "SELECT 1 FROM mssql.permissions WHERE database_id = $1::int AND grantor = $2::int AND class <> 100"
    if d.pg.query(granted, *key):
        raise SqlError(
            15284,
            "The database principal has granted or denied permissions to objects in the database"
            " and cannot be dropped.",
        )
