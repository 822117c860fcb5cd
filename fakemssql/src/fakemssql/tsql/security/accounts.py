"""Logging in: the login that a name and a password stand for."""

from __future__ import annotations

from dataclasses import dataclass

from fakemssql.contract import SqlError
from fakemssql.tsql.names import fold
from fakemssql.tsql.pg import Pg
from fakemssql.tsql.security.passwords import matches

ADMINISTRATOR = 1


@dataclass(frozen=True)
class ServerPrincipal:
    """A login; ``powerful`` is a member of sysadmin, to whom nothing is forbidden."""

    login_id: int
    name: str
    database: str = "master"
    powerful: bool = False


def administrator(name: str) -> ServerPrincipal:
    """The login of the command line, whose password the front has checked."""
    return ServerPrincipal(ADMINISTRATOR, name, powerful=True)


def authenticate(pg: Pg, name: str, password: str) -> ServerPrincipal:
    """The login of that name and password. Errors 18456 and, if it is disabled, 18470."""
    rows = pg.query("SELECT password, disabled FROM mssql.logins WHERE folded = $1 AND kind = 'S'", fold(name))
    kept, disabled = rows[0] if rows else (None, None)
    if not matches(password, kept):
        raise SqlError(18456, f"Login failed for user '{name}'.", severity=14)
    if disabled != "0":
        raise SqlError(18470, f"Login failed for user '{name}'. Reason: The account is disabled.", severity=14)
    account = find(pg, name)
    assert account is not None
    return account


def find(pg: Pg, name: str) -> ServerPrincipal | None:
    """The login of a name."""
    rows = pg.query(
        "SELECT principal_id, name, default_database, 3 = ANY(mssql.server_token(principal_id)) FROM mssql.logins"
        " WHERE folded = $1 AND kind = 'S'",
        fold(name),
    )
    if not rows:
        return None
    identifier, shown, database, powerful = rows[0]
    return ServerPrincipal(int(identifier or 0), str(shown), str(database), powerful == "t")
