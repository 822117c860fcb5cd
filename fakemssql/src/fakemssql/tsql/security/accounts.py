"""Logins: the check of a name and a password."""

from __future__ import annotations

from dataclasses import dataclass

from fakemssql.contract import SqlError
from fakemssql.tsql.names import fold
from fakemssql.tsql.pg import Pg
from fakemssql.tsql.security.passwords import matches

ADMINISTRATOR = 1


@dataclass(frozen=True)
class ServerPrincipal:
    """A login; ``powerful`` for the administrator, the only member of sysadmin, who may do everything."""

    login_id: int
    name: str
    database: str = "master"
    powerful: bool = False


def administrator(name: str) -> ServerPrincipal:
    """Login of the command line, whose password the front has checked."""
    return ServerPrincipal(ADMINISTRATOR, name, powerful=True)


def authenticate(pg: Pg, name: str, password: str) -> ServerPrincipal:
    """Check a name and a password and return the login. Errors 18456 and, for a disabled login, 18470."""
    rows = pg.query(
        "SELECT principal_id, name, default_database, disabled, password FROM mssql.logins"
        " WHERE folded = $1 AND kind = 'S'",
        fold(name),
    )
    if not matches(password, rows[0][-1] if rows else None):
        raise SqlError(18456, f"Login failed for user '{name}'.", severity=14)
    identifier, written, database, disabled, _ = rows[0]
    if disabled != "0":
        raise SqlError(18470, f"Login failed for user '{name}'. Reason: The account is disabled.", severity=14)
    return ServerPrincipal(int(identifier or 0), str(written), str(database))
