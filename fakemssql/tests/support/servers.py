"""The server that tests run on: a stand-in, or the SQL Server that ``FAKEMSSQL_TEST_SERVER`` names."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import unquote, urlsplit

from fakemssql import odbc


class Server(Protocol):
    """What tests may use of a server. ``databases`` has the one they may make tables in."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def user(self) -> str: ...
    @property
    def password(self) -> str: ...
    @property
    def databases(self) -> tuple[str, ...]: ...
    def odbc_connection_string(
        self, database: str | None = None, *, encrypt: str = "no", driver: str | None = None
    ) -> str: ...


class RemoteServer:
    """A real SQL Server, from ``mssql://user:password@host:port/database``."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 1433
        self.user, self.password = unquote(parts.username or ""), unquote(parts.password or "")
        self.databases = (unquote(parts.path.lstrip("/")),)

    def odbc_connection_string(
        self, database: str | None = None, *, encrypt: str = "no", driver: str | None = None
    ) -> str:
        driver = driver or odbc.find_driver()
        assert driver, "no ODBC driver for SQL Server is installed"
        login = odbc.ServerLogin(self.host, self.port, self.user, self.password)
        keywords = {"Encrypt": encrypt, "TrustServerCertificate": "yes"}
        return odbc.connection_string(driver, login, database or self.databases[0], keywords)


def odbc_string_of(server: Server, user: str, password: str, database: str | None = None) -> str:
    """A connection string for another login than the server's."""
    driver = odbc.find_driver()
    assert driver, "no ODBC driver for SQL Server is installed"
    keywords = {"Encrypt": "yes", "TrustServerCertificate": "yes"}
    login = odbc.ServerLogin(server.host, server.port, user, password)
    return odbc.connection_string(driver, login, database or server.databases[0], keywords)
