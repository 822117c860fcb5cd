"""Passwords of logins: stored as salted hashes; a check takes equally long for a wrong login and a wrong password."""

from __future__ import annotations

import hashlib
import hmac
import os

from fakemssql.contract import SqlError

_COST = 2**13
_LEAST = 8
_GROUPS = (str.isupper, str.islower, str.isdigit, lambda c: not c.isalnum())


def hashed(password: str, salt: bytes | None = None) -> str:
    """Salt and hash of a password as text."""
    salt = os.urandom(16) if salt is None else salt
    digest = hashlib.scrypt(password.encode("utf-16-le", "surrogatepass"), salt=salt, n=_COST, r=8, p=1)
    return f"{salt.hex()}:{digest.hex()}"


def matches(password: str, kept: str | None) -> bool:
    """Whether ``password`` matches the stored hash ``kept``; takes equally long without a stored hash."""
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
