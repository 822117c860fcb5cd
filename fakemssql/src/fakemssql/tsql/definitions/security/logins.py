"""Statements CREATE, ALTER and DROP LOGIN."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.security import errors
from fakemssql.tsql.security.accounts import ADMINISTRATOR, check_policy, hashed
from fakemssql.tsql.security.context import SERVER


def may(d: Definer, permission: str, kind: int = SERVER, major: int = 0) -> bool:
    """Return whether the user has a permission on a securable."""
    return d.session.security.allowed(d.session.database, kind, major, permission)


def find_login(d: Definer, name: str) -> tuple[int, str] | None:
    """Id and name, as written, of a login (not of a server role)."""
    rows = d.pg.query("SELECT principal_id, name FROM mssql.logins WHERE folded = $1 AND kind = 'S'", fold(name))
    return (int(rows[0][0] or 0), str(rows[0][1])) if rows else None


def create_login(d: Definer, node: nodes.CreateLogin) -> None:
    if not may(d, "ALTER ANY LOGIN"):
        raise errors.not_allowed()
    if d.pg.query("SELECT 1 FROM mssql.logins WHERE folded = $1", fold(node.name)):
        raise SqlError(15025, f"The server principal '{node.name}' already exists.")
    _check_database(d, node.database)
    if node.policy:
        check_policy(node.name, node.password)
    d.pg.query(
        "INSERT INTO mssql.logins (name, folded, password, default_database, policy)"
        " VALUES ($1, $2, $3, $4, $5::smallint)",
        node.name,
        fold(node.name),
        hashed(node.password),
        node.database,
        int(node.policy),
    )
    d.pg.query(
        "INSERT INTO mssql.permissions SELECT 0, 100, 0, principal_id, 1, 'CONNECT SQL', 'G' FROM mssql.logins"
        " WHERE folded = $1",
        fold(node.name),
    )


def _check_database(d: Definer, name: str) -> None:
    if d.catalog.database(name) is None:
        raise SqlError(15010, f"The database '{name}' does not exist. Supply a valid database name.")


def alter_login(d: Definer, node: nodes.AlterLogin) -> None:
    """Change the password or the default database of a login, or enable or disable it."""
    for word, value in (("NAME", node.new_name), ("OLD_PASSWORD", node.old_password), ("CHECK_POLICY", node.policy)):
        if value is not None:
            raise SqlError(40517, f"ALTER LOGIN with {word} is not supported by fakemssql.")
    found = find_login(d, node.name)
    if found is None or not may(d, "ALTER ANY LOGIN"):
        raise errors.missing("login", node.name, "alter")
    if found[0] == ADMINISTRATOR:
        raise SqlError(
            40517, "ALTER LOGIN of the administrator, whom the command line sets, is not supported by fakemssql."
        )
    if node.password is not None:
        rows = d.pg.query("SELECT policy FROM mssql.logins WHERE principal_id = $1::int", found[0])
        if rows[0][0] == "1":
            check_policy(found[1], node.password)
    if node.database is not None:
        _check_database(d, node.database)
    d.pg.query(
        "UPDATE mssql.logins SET password = COALESCE($2, password), default_database = COALESCE($3, default_database),"
        " disabled = COALESCE($4::smallint, disabled), modified = mssql.utcnow_dt() WHERE principal_id = $1::int",
        found[0],
        None if node.password is None else hashed(node.password),
        node.database,
        None if node.enabled is None else int(not node.enabled),
    )


def drop_login(d: Definer, name: str) -> None:
    found = find_login(d, name)
    if found is None or not may(d, "ALTER ANY LOGIN"):
        raise errors.missing("login", name, "drop")
    if found[0] == ADMINISTRATOR:
        raise SqlError(15186, f"Cannot drop the login '{name}', because it is the administrator's login.")
    if found[0] == d.session.security.account.login_id:
        raise SqlError(15434, f"Could not drop login '{found[1]}' as the user is currently logged in.")
    if d.pg.query("SELECT 1 FROM mssql.databases WHERE owner_id = $1::int", found[0]):
        raise SqlError(
            15174,
            f"Login '{found[1]}' owns one or more database(s). Change the owner of the database(s)"
            " before dropping the login.",
        )
    d.pg.query("DELETE FROM mssql.permissions WHERE database_id = 0 AND grantee = $1::int", found[0])
    d.pg.query("DELETE FROM mssql.logins WHERE principal_id = $1::int", found[0])
