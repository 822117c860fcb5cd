"""Logins and their passwords, which are stored as salted hashes.

A check takes equally long for a wrong login and a wrong password.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass

from fakemssql.contract import SqlError
from fakemssql.tsql.names import fold
from fakemssql.tsql.pg import Pg

ADMINISTRATOR = 1
_COST = 2**13
_LEAST = 8
_GROUPS = (str.isupper, str.islower, str.isdigit, lambda c: not c.isalnum())


@dataclass(frozen=True)
class ServerPrincipal:
    """A login; ``powerful`` for the administrator, the only member of sysadmin, who may do everything."""

    login_id: int
    name: str
    database: str = "master"
    powerful: bool = False


def administrator(name: str) -> ServerPrincipal:
    """Return the login of the command line, whose password the front has checked."""
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


def hashed(password: str, salt: bytes | None = None) -> str:
    """Salt and hash of a password as text."""
    salt = os.urandom(16) if salt is None else salt
    digest = hashlib.scrypt(password.encode("utf-16-le", "surrogatepass"), salt=salt, n=_COST, r=8, p=1)
    return f"{salt.hex()}:{digest.hex()}"


def matches(password: str, kept: str | None) -> bool:
    """Return whether ``password`` matches the stored hash ``kept``; takes equally long without a stored hash."""
    salt = bytes.fromhex(kept.partition(":")[0]) if kept else b""
    return hmac.compare_digest(hashed(password, salt), kept or "")


def check_policy(login: str, password: str) -> None:
    """Raise error 15116 or 15118 for a password that CHECK_POLICY refuses ("Password Policy")."""
    if len(password) < _LEAST:
        raise SqlError(
            15116,
            "Password validation failed. The password does not meet the operating system policy requirements because"
            " it is too short.",
        )
    groups = sum(any(map(group, password)) for group in _GROUPS)
    if groups < 3 or login.casefold() in password.casefold():
        raise SqlError(
            15118,
            "Password validation failed. The password does not meet the operating system policy requirements because"
            " it is not complex enough.",
        )
