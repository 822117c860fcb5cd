"""CREATE, ALTER and DROP LOGIN, and the members of server roles."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.security import errors
from fakemssql.tsql.security.accounts import ADMINISTRATOR
from fakemssql.tsql.security.context import SERVER
from fakemssql.tsql.security.passwords import check_policy, hashed, matches


def may(d: Definer, permission: str, kind: int = SERVER, major: int = 0) -> bool:
    """Whether the user has a permission."""
    return d.session.security.allowed(d.session.database, kind, major, permission)


def find_login(d: Definer, name: str) -> tuple[int, str] | None:
    """Number and name as written of a login (no role)."""
    rows = d.pg.query("SELECT principal_id, name FROM mssql.logins WHERE folded = $1 AND kind = 'S'", fold(name))
    return (int(rows[0][0] or 0), str(rows[0][1])) if rows else None


def create_login(d: Definer, node: nodes.CreateLogin) -> None:
    if not may(d, "ALTER ANY LOGIN"):
        raise errors.not_allowed()
    _check_new_login(d, node.name)
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


def _check_new_login(d: Definer, name: str) -> None:
    if d.pg.query("SELECT 1 FROM mssql.logins WHERE folded = $1", fold(name)):
        raise SqlError(15025, f"The server principal '{name}' already exists.")


def _check_database(d: Definer, name: str) -> None:
    if d.catalog.database(name) is None:
        raise SqlError(15010, f"The database '{name}' does not exist. Supply a valid database name.")


def alter_login(d: Definer, node: nodes.AlterLogin) -> None:
    found = find_login(d, node.name)
    own = found is not None and found[0] == d.session.security.account.login_id
    only_password = node == nodes.AlterLogin(
        node.name, node.password, node.old_password, line=node.line, text=node.text
    )
    changes_own = own and only_password and node.old_password is not None
    if found is None or not (changes_own or may(d, "ALTER ANY LOGIN")):
        raise errors.missing("login", node.name, "alter")
    if found[0] == ADMINISTRATOR and not (own and only_password and node.password is None):
        raise SqlError(40517, "The administrator's login is that of the command line of fakemssql.")
    rows = d.pg.query("SELECT password, policy FROM mssql.logins WHERE principal_id = $1::int", found[0])
    kept, policy = rows[0]
    if node.old_password is not None and not matches(node.old_password, kept):
        raise errors.missing("login", node.name, "alter")
    enforced = node.policy if node.policy is not None else policy == "1"
    if node.password is not None and enforced:
        check_policy(found[1], node.password)
    if node.new_name is not None:
        _check_new_login(d, node.new_name)
    if node.database is not None:
        _check_database(d, node.database)
    name = node.new_name or found[1]
    d.pg.query(
        "UPDATE mssql.logins SET name = $2, folded = $3, password = COALESCE($4, password), default_database ="
        " COALESCE($5, default_database), policy = COALESCE($6::smallint, policy), disabled ="
        " COALESCE($7::smallint, disabled), modified = mssql.utcnow_dt() WHERE principal_id = $1::int",
        found[0],
        name,
        fold(name),
        None if node.password is None else hashed(node.password),
        node.database,
        None if node.policy is None else int(node.policy),
        None if node.enabled is None else int(not node.enabled),
    )


def drop_login(d: Definer, name: str) -> None:
    found = find_login(d, name)
    if found is None or not may(d, "ALTER ANY LOGIN"):
        raise errors.missing("login", name, "drop")
    if found[0] == ADMINISTRATOR:
        raise SqlError(15186, f"Cannot drop the login '{name}', because it is that of the administrator.")
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


def alter_server_role(d: Definer, node: nodes.AlterRole) -> None:
    """ALTER SERVER ROLE ... ADD or DROP MEMBER. Only sysadmin means anything here."""
    rows = d.pg.query("SELECT principal_id FROM mssql.logins WHERE folded = $1 AND kind = 'R'", fold(node.name))
    if not rows or not d.session.security.powerful:
        raise errors.missing("server role", node.name, "alter")
    if fold(node.name) != "sysadmin" or node.action == "rename":
        raise SqlError(40517, "Server roles other than sysadmin are not supported by fakemssql.")
    member = find_login(d, node.member)
    if member is None:
        raise errors.missing("login", node.member, "add" if node.action == "add" else "drop")
    if node.action == "drop":
        if member[0] == ADMINISTRATOR:
            raise SqlError(15405, f"Cannot use the special principal '{member[1]}'.", severity=11)
        sql = "DELETE FROM mssql.server_role_members WHERE role_id = $1::int AND member_id = $2::int"
    else:
        sql = "INSERT INTO mssql.server_role_members VALUES ($1::int, $2::int) ON CONFLICT DO NOTHING"
    d.pg.query(sql, rows[0][0], member[0])
