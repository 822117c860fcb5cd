"""Logins of Microsoft Entra ID: access tokens, and the ODBC keyword ``Authentication``.

The driver gets a token from Entra itself for every value of ``Authentication`` except ``ActiveDirectoryDefault``, which
it does not know. For this value the package azure-identity gets the token, as in SqlClient. A token goes to the driver
as a connection attribute, never in the connection string, and each new connection gets a new token.

Source: docs/concepts/connections.md, "Microsoft Entra ID".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError, LoginFailedError
from airflow_sqlqueue.extras import from_extra
from airflow_sqlqueue.server.connection_policy import CLOUDS

AccessToken = Callable[[], str]
"""A function that returns a token that is valid now."""

DEFAULT = "ActiveDirectoryDefault"
_ATTRIBUTE = 1256
"""SQL_COPT_SS_ACCESS_TOKEN of Microsoft's driver."""

_SHORTEST = 32
"""The fewest characters of a token. The driver reads beyond a much shorter one and crashes."""

_NEEDS: Mapping[str, tuple[bool | None, bool]] = {
    "SqlPassword": (True, True),
    "ActiveDirectoryPassword": (True, True),
    "ActiveDirectoryServicePrincipal": (True, True),
    "ActiveDirectoryMsi": (None, False),
    "ActiveDirectoryIntegrated": (False, False),
    DEFAULT: (None, False),
}
"""Whether each value of ``Authentication`` needs a login and a password; None: optional."""


def check_login(user: str | None, password: str | None, keywords: Mapping[str, str], *, has_token: bool) -> None:
    """Raise :class:`ConfigurationError` for ways to log in that cannot be combined."""
    how = authentication(keywords)
    trusted = any(name.strip().lower() == "trusted_connection" and v.lower() != "no" for name, v in keywords.items())
    if has_token and (user is not None or password or how or trusted):
        raise ConfigurationError(
            "An access token is enough for a login: remove login and password, Authentication and Trusted_Connection."
        )
    if how is None:
        return
    if trusted:
        raise ConfigurationError("Authentication and Trusted_Connection are two ways to log in: remove one of them.")
    for what, needed, given in zip(("login", "password"), _NEEDS[how], (user, password), strict=True):
        if needed is not None and needed != bool(given):
            raise ConfigurationError(f"{how} {'needs a' if needed else 'takes no'} {what}: correct the connection.")


def authentication(keywords: Mapping[str, str]) -> str | None:
    """Return the value of ``Authentication``, None if it is not given. Raises :class:`ConfigurationError`."""
    given = [value for name, value in keywords.items() if name.strip().lower() == "authentication"]
    if not given:
        return None
    if given[0].lower() == "activedirectoryinteractive":
        raise ConfigurationError("ActiveDirectoryInteractive asks a person in a browser: use another Authentication.")
    known = next((name for name in _NEEDS if name.lower() == given[0].lower()), None)
    if known is None:
        raise ConfigurationError(f"The value of Authentication is not known: give one of {', '.join(_NEEDS)}.")
    return known


def is_login(keywords: Mapping[str, str], *, has_token: bool) -> bool:
    """Return whether the login sends a token of Entra ID to the server.

    The driver gets the token itself, for the resource that the server names in its FEDAUTHINFO (\\[MS-TDS\\]). So a
    server can get a token of the process's identity for any resource.
    """
    return has_token or authentication(keywords) not in {None, "SqlPassword"}


def attributes(token: AccessToken) -> dict[int, bytes]:
    """Return the attribute for ``pyodbc.connect``: the token's length, and the token in UTF-16."""
    text = token()
    if not isinstance(text, str) or len(text) < _SHORTEST or not text.isascii() or not text.isprintable():
        raise ConfigurationError(
            "The text given as access token is not a token: give ASCII text without line breaks, of at least "
            f"{_SHORTEST} characters."
        )
    data = text.encode("utf-16-le")
    return {_ATTRIBUTE: struct.pack("<I", len(data)) + data}


def scope_of(host: str) -> str:
    """Return the scope of a token for the server's cloud; other hosts count as hosts of the public Azure cloud."""
    azure, *_ = CLOUDS.values()
    return next((scope for domain, scope in CLOUDS.items() if host.lower().endswith(domain)), azure)


@dataclass(frozen=True)
class DefaultToken:
    """Token of the identity that azure-identity finds, or of the user-assigned managed identity ``client_id``."""

    scope: str
    client_id: str | None = None

    def __call__(self) -> str:
        return _token(_default_credential(self.client_id), self.scope)


def client_token(tenant: str, client_id: str, secret: str, scope: str) -> str:
    """Return a token for an application, by its secret."""
    return _token(_client_credential(tenant, client_id, secret), scope)


def _token(credential: Any, scope: str) -> str:
    """Return a token; the credential caches it until shortly before it expires."""
    try:
        return str(credential.get_token(scope).token)
    except Exception as error:
        raise LoginFailedError(
            "Microsoft Entra ID gave no access token: check the identity, its tenant and its secret."
        ) from error


@cache
def _default_credential(client_id: str | None) -> Any:
    return _azure_identity().DefaultAzureCredential(managed_identity_client_id=client_id)


@lru_cache(maxsize=16)
def _client_credential(tenant: str, client_id: str, secret: str) -> Any:
    try:
        return _azure_identity().ClientSecretCredential(tenant, client_id, secret)
    except ValueError as error:
        raise ConfigurationError("The tenant of the access token's connection is malformed: give its id.") from error


def _azure_identity() -> ModuleType:
    with from_extra("entra", "An access token"):
        import azure.identity
    module: ModuleType = azure.identity
    return module
