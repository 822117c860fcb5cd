# ruff: noqa: S608 - values are parameters, or numbers of principals and databases
"""Statements GRANT, DENY and REVOKE."""

from __future__ import annotations

from dataclasses import dataclass

from fakemssql.contract import SqlError
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.definitions.security.logins import may
from fakemssql.tsql.definitions.security.principals import Principal, find_principal
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.security import errors
from fakemssql.tsql.security.context import DATABASE, OBJECT, PRINCIPAL, SCHEMA, SERVER

_ALL = {
    OBJECT: ("SELECT", "INSERT", "UPDATE", "DELETE", "REFERENCES"),
    DATABASE: ("BACKUP DATABASE", "BACKUP LOG", "CREATE DEFAULT", "CREATE FUNCTION", "CREATE PROCEDURE", "CREATE RULE",
               "CREATE TABLE", "CREATE VIEW"),
}  # fmt: skip
"""Permissions that ALL means, by class of securable."""

_OTHERS = ("ALTER ", "CREATE ", "VIEW ", "CONNECT ", "BACKUP ", "EXECUTE ", "ADMINISTER ", "SHUTDOWN", "RECEIVE")
"""First words of SQL Server's permissions that fakemssql does not have."""

_OF_PROCEDURES = ("EXECUTE", "ALTER", "CONTROL", "VIEW DEFINITION", "TAKE OWNERSHIP")


@dataclass(frozen=True)
class Securable:
    """Securable: its class, id, owner and, for an object, its type."""

    kind: int
    number: int
    owner: int = 0
    type: str = ""


def change_permissions(d: Definer, node: nodes.Permission) -> None:
    if node.grant_option:
        raise SqlError(40517, "GRANT OPTION is not supported by fakemssql.")
    securable = _securable(d, node)
    names = _names(d, node, securable)
    grantees = [_grantee(d, name, securable) for name in node.principals]
    _check_grantor(d, securable)
    for grantee in grantees:
        for name in names:
            _change(d, node, securable, name, grantee)


# --- securables, permissions and grantees ----------------------------------------------------------------------------


def _securable(d: Definer, node: nodes.Permission) -> Securable:
    if not node.kind:
        return _scope(d, node)
    name = node.securable[-1]
    if node.kind == "database":
        if fold(name) != fold(d.session.database):
            raise errors.missing("database", name)
        return Securable(DATABASE, 0)
    if node.kind == "schema":
        schema = d.catalog.schema(d.session.database, name)
        if schema is None:
            raise errors.missing("schema", name)
        rows = d.pg.query(
            "SELECT principal_id FROM mssql.schemas WHERE database_id = $1::int AND schema_id = $2::int",
            d.database_id,
            schema[0],
        )
        return Securable(SCHEMA, schema[0], int(rows[0][0] or 0))
    if node.kind in ("user", "role"):
        found = find_principal(d, name)
        if found is None or found.kind != ("S" if node.kind == "user" else "R"):
            raise errors.missing(node.kind, name)
        return Securable(PRINCIPAL, found.number)
    found_object = d.catalog.find(node.securable, d.session.database)
    if found_object is None or found_object.local or fold(found_object.database) != fold(d.session.database):
        raise errors.missing("object", name)
    named = d.catalog.named(node.securable, d.session.database)
    if found_object.type == "S" or (named is not None and named.type == "SN"):
        raise SqlError(40517, "Permissions on system views and synonyms are not supported by fakemssql.")
    return Securable(OBJECT, found_object.object_id, found_object.owner, found_object.type)


def _scope(d: Definer, node: nodes.Permission) -> Securable:
    """Database as the securable, or the server if only the server has the permission."""
    known = d.pg.query(
        "SELECT DISTINCT class FROM mssql.permission_names WHERE name = $1 AND class IN (0, 100) ORDER BY class",
        node.permissions[0],
    )
    if known and known[0][0] == "100":
        if fold(d.session.database) != "master":
            raise SqlError(
                4621, "Permissions at the server scope can only be granted when the current database is master."
            )
        return Securable(SERVER, 0)
    return Securable(DATABASE, 0)


def _names(d: Definer, node: nodes.Permission, securable: Securable) -> list[str]:
    names: list[str] = []
    for name in node.permissions:
        if name in ("ALL", "ALL PRIVILEGES") and securable.kind in _ALL:
            names += ("EXECUTE",) if securable.type == "P" else _ALL[securable.kind]
            continue
        of_procedure = securable.type == "P" and name not in _OF_PROCEDURES
        if of_procedure or (securable.type in ("U", "V") and name == "EXECUTE"):
            raise SqlError(4606, f"Granted or revoked privilege {name} is not compatible with object.")
        known = d.pg.query(
            "SELECT 1 FROM mssql.permission_names WHERE class = $1::int AND name = $2", securable.kind, name
        )
        if not known and name.startswith(_OTHERS):
            raise SqlError(40517, f"The permission {name} is not supported by fakemssql here.")
        if not known:
            raise SqlError(102, f"Incorrect syntax near '{name}...'.", severity=15)
        names.append(name)
    return names


def _grantee(d: Definer, name: str, securable: Securable) -> int:
    if securable.kind == SERVER:
        rows = d.pg.query("SELECT principal_id FROM mssql.logins WHERE folded = $1", fold(name))
        if not rows:
            raise errors.missing("login", name)
        number = int(rows[0][0] or 0)
        if number in (1, d.session.security.account.login_id):
            raise _special()
        return number
    found = find_principal(d, name)
    if found is None:
        raise errors.missing("user", name)
    _check_grantee(d, found, securable)
    return found.number


def _check_grantee(d: Definer, found: Principal, securable: Securable) -> None:
    own = found.number == d.session.security.identity(d.session.database).user_id
    entity_owner = securable.kind in (OBJECT, SCHEMA) and found.number == securable.owner
    if found.number in (1, 3, 4) or own or entity_owner:
        raise _special()
    if found.number >= 16384 and found.fixed:
        raise SqlError(4617, "Cannot grant, deny or revoke permissions to or from special roles.")


def _check_grantor(d: Definer, securable: Securable) -> None:
    """Raise error 15151 or 4613 for a user without CONTROL on the securable."""
    security = d.session.security
    if security.powerful:
        return
    control = "CONTROL SERVER" if securable.kind == SERVER else "CONTROL"
    if may(d, control, securable.kind, securable.number):
        return
    identity = security.identity(d.session.database)
    seen = d.pg.query(f"SELECT mssql.seen({identity.arguments}, $1::int)", securable.number)
    if securable.kind == OBJECT and seen[0][0] is None:
        rows = d.pg.query("SELECT name FROM mssql.objects WHERE object_id = $1::int", securable.number)
        raise errors.missing("object", str(rows[0][0]))
    raise SqlError(4613, "Grantor does not have GRANT permission.")


# --- rows ------------------------------------------------------------------------------------------------------------


def _change(d: Definer, node: nodes.Permission, securable: Securable, name: str, grantee: int) -> None:
    database = 0 if securable.kind == SERVER else d.database_id
    key = (database, securable.kind, securable.number, grantee, name)
    where = (
        " WHERE database_id = $1::int AND class = $2::int AND major_id = $3::int AND grantee = $4::int"
        " AND permission = $5"
    )
    if node.action == "revoke":
        d.pg.query("DELETE FROM mssql.permissions" + where, *key)
        return
    security = d.session.security
    grantor = security.account.login_id if securable.kind == SERVER else security.identity(d.session.database).user_id
    d.pg.query(
        "INSERT INTO mssql.permissions (database_id, class, major_id, grantee, permission, grantor, state)"
        " VALUES ($1::int, $2::int, $3::int, $4::int, $5, $6::int, $7)"
        " ON CONFLICT (database_id, class, major_id, grantee, permission)"
        " DO UPDATE SET state = excluded.state, grantor = excluded.grantor",
        *key,
        grantor,
        "D" if node.action == "deny" else "G",
    )


def _special() -> SqlError:
    return SqlError(
        4624,
        "Cannot grant, deny, or revoke permissions to sa, dbo, entity owner, information_schema, sys, or yourself.",
    )
