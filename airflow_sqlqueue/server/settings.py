"""Settings of a connection: the ODBC driver, its connection string, and the login.

Facts: docs/concepts/connections.md, "The ODBC driver" (the port goes into SERVER; every value is brace-escaped; the
driver may come from PyPI).
"""

from __future__ import annotations

import importlib.util
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from airflow_sqlqueue.errors import ConfigurationError, DriverNotFoundError
from airflow_sqlqueue.extras import with_extra
from airflow_sqlqueue.server import browser, entra
from airflow_sqlqueue.server.connection_policy import MICROSOFT_DRIVERS, check_is_microsofts, check_keywords
from airflow_sqlqueue.server.libraries import missing_library

DEFAULT_PORT = 1433
APPLICATION_NAME = "airflow-sqlqueue"
"""The program name of a session on the server; the ODBC keyword APP of a connection replaces it."""
DEFAULT_LOGIN_TIMEOUT = 15
"""Seconds."""
MOST_LOCK_TIMEOUT = 2_147_483
"""Seconds of the longest timeout: SET LOCK_TIMEOUT takes an ``int`` of milliseconds."""
LEDGER_SCHEMA = "sqlqueue"
"""The schema of this package's own tables by default."""

_DEFAULTS = {"APP": APPLICATION_NAME, "Encrypt": "yes", "LongAsMax": "yes"}
"""Default ODBC keywords. Driver 17 would encrypt only the login and check no certificate. LongAsMax is for statements
of other code on the connection; :func:`.cursors.declared_types` is for ours."""

_INSTANCE = re.compile(r"[\w#&$]{1,16}")


@dataclass(frozen=True)
class ConnectionSettings:
    """Settings of a connection: the server, the login and the driver.

    ``instance`` is a named instance: the SQL Server Browser of the host gives its port, and ``port`` has no effect.
    ``database`` is the default catalog of addresses. ``driver`` is the name of an installed ODBC driver or the path of
    its library; None selects one (:func:`find_driver`). ``keywords`` are further ODBC keywords (``Encrypt``,
    ``TrustServerCertificate``, ``ApplicationIntent``, ``Authentication`` ...); keywords that write a file, load code or
    replace another field are refused. ``login_timeout`` is in seconds. ``access_token`` is a function that gets a token
    of Microsoft Entra ID for each new connection, instead of user and password; such settings cannot be pickled.
    ``conn_id`` is the id of the Airflow connection that they come from, for the texts of errors. ``ledger_schema`` is
    the schema of this package's own tables, as the drain's ledger, in the databases of the queues. Settings that differ
    in it are different, and no transaction takes both.

    Raises :class:`ConfigurationError` for unusable settings; its text may name a keyword but never its value.
    """

    host: str
    database: str
    port: int = DEFAULT_PORT
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    driver: str | None = None
    keywords: Mapping[str, str] = field(default_factory=dict, repr=False)
    login_timeout: int = DEFAULT_LOGIN_TIMEOUT
    instance: str | None = None
    access_token: entra.AccessToken | None = field(default=None, repr=False)
    conn_id: str | None = field(default=None, repr=False, compare=False)
    ledger_schema: str = LEDGER_SCHEMA

    def __post_init__(self) -> None:
        if self.instance is not None and not _INSTANCE.fullmatch(self.instance):
            raise ConfigurationError(f"{self.instance!r} is not the name of an instance of SQL Server: correct it.")
        if not self.host:
            raise ConfigurationError("The connection names no host: give the server's name or address.")
        if not {",", "/", "@"}.isdisjoint(self.host) or self.host.count(":") == 1:
            # The text is not quoted, because it may be a URL with a password.
            raise ConfigurationError(
                "The host is more than a server's name or address: give the port as the connection's port, and no "
                "'tcp:' or 'mssql://'."
            )
        if not self.database:
            raise ConfigurationError("The connection names no database: give the one that holds the queues.")
        if not 1 <= self.port <= 65535:
            raise ConfigurationError(f"{self.port} is not a TCP port: give one between 1 and 65535.")
        if self.driver is not None:
            check_is_microsofts(self.driver)
        check_keywords(self.keywords)
        entra.check_login(self.user, self.password, self.keywords, has_token=self.access_token is not None)

    def __getstate__(self) -> dict[str, Any]:
        if self.access_token is not None:
            raise ConfigurationError(
                "Spark's executors cannot ask for this login's access token: use a login with a password, "
                "Authentication=ActiveDirectoryMsi or Authentication=ActiveDirectoryDefault."
            )
        return dict(self.__dict__)

    @classmethod
    def from_url(cls, url: str) -> ConnectionSettings:
        """Read ``mssql://user:password@host:port/database?Encrypt=no``; query arguments are ODBC keywords.

        Two query arguments are not ODBC keywords: ``driver`` names the driver, ``instance`` a named instance of the
        host, which counts only without a port.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            # Python's error quotes the port, which may be a part of a password that is not percent-encoded.
            raise ConfigurationError(
                "The URL's port is not a number up to 65535: write mssql://user:password@host:port/database, and "
                "percent-encode the password."
            ) from None
        if parts.scheme != "mssql" or not parts.hostname or "@" in parts.path:
            # With an @ behind a slash, the host may be a part of the password.
            raise ConfigurationError(
                "The URL must have the form mssql://user:password@host:port/database, with every character of the "
                "password other than letters and digits percent-encoded."
            )
        keywords = dict(parse_qsl(parts.query))
        return cls(
            host=parts.hostname,
            port=DEFAULT_PORT if port is None else port,
            database=unquote(parts.path.lstrip("/")),
            user=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password is not None else None,
            driver=keywords.pop("driver", None),
            instance=named_instance(keywords.pop("instance", None), port),
            keywords=keywords,
        )

    @property
    def server(self) -> str:
        """The server's name for texts and comparisons: ``host:port`` or ``host\\instance``."""
        return f"{self.host}:{self.port}" if self.instance is None else f"{self.host}\\{self.instance}"

    @cached_property
    def login(self) -> tuple[Any, ...]:
        """Identity of the login for comparisons, without a secret."""
        return self.user, self.access_token, entra.authentication(self.keywords)

    @property
    def by_token(self) -> bool:
        """Whether the login uses an access token that this package gives to the driver."""
        return self.access_token is not None or entra.authentication(self.keywords) == entra.DEFAULT

    def attributes(self) -> dict[int, bytes]:
        """Return attributes for ``pyodbc.connect``, with a new access token if the login uses one. Never log them."""
        if entra.authentication(self.keywords) == entra.DEFAULT:
            return entra.attributes(entra.DefaultToken(entra.scope_of(self.host), self.user))
        return {} if self.access_token is None else entra.attributes(self.access_token)

    def located(self) -> ConnectionSettings:
        """Return the settings with the port of the named instance, if any. Raises :class:`ServerUnreachableError`."""
        if self.instance is None:
            return self
        return replace(self, port=browser.port_of(self.host, self.instance), instance=None)

    def odbc_connection_string(self) -> str:
        """Return the connection string for ``pyodbc.connect``. It contains the password: never log it.

        For a named instance it contains the name, which drivers on Windows understand; :meth:`located` finds the port.
        """
        keywords = {name.strip(): value for name, value in self.keywords.items()}
        authentication = entra.authentication(keywords)
        if self.by_token:
            keywords = {name: value for name, value in keywords.items() if name.lower() != "authentication"}
        given = {name.lower() for name in keywords}
        keywords = {name: value for name, value in _DEFAULTS.items() if name.lower() not in given} | keywords
        words = {
            "DRIVER": self.driver or find_driver(),
            "SERVER": f"{self.host},{self.port}" if self.instance is None else self.server,
            "DATABASE": self.database,
            **keywords,
        }
        if self.user is not None and not self.by_token:
            words["UID"] = self.user
            if self.password is not None or authentication is None:
                words["PWD"] = self.password or ""
        return "".join(f"{name}={{{value.replace('}', '}}')}}};" for name, value in words.items())


def named_instance(instance: str | None, port: int | None) -> str | None:
    """Return the named instance, or None if a port is given, which replaces the instance as in SqlClient."""
    return instance if instance and port is None else None


def split_host(name: str) -> tuple[str, str | None]:
    """Return the host and the named instance of ``host\\instance``; ``.`` and ``(local)`` are this machine."""
    host, _, instance = (part.strip() for part in name.partition("\\"))
    return "localhost" if host.lower() in {".", "(local)"} else host, instance or None


def load_pyodbc() -> ModuleType:
    """Import pyodbc, or raise DriverNotFoundError: its Linux wheels need the library unixODBC of the system."""
    try:
        import pyodbc
    except ImportError as error:
        reason = missing_library(str(error)) or "install unixODBC ('brew install unixodbc' on macOS)."
        raise DriverNotFoundError(f"The ODBC driver manager cannot be loaded: {reason}") from error
    pyodbc.pooling = False
    module: ModuleType = pyodbc
    return module


@cache
def find_driver() -> str:
    """Return the name of Microsoft's installed driver, else the path of the one of the ``driver`` extra."""
    installed = load_pyodbc().drivers()
    for name in MICROSOFT_DRIVERS:
        if name in installed:
            return name
    if library := packaged_driver():
        return str(library)
    raise DriverNotFoundError(
        f"Microsoft's ODBC driver for SQL Server was not found: run \"pip install '{with_extra('driver')}'\", which "
        "brings it with the package mssql-python, or install Microsoft's system package msodbcsql18."
    )


def packaged_driver() -> Path | None:
    """Return the library of Microsoft's driver in the package mssql-python-odbc for this system, if installed."""
    spec = importlib.util.find_spec("mssql_python_odbc")
    if spec is None or spec.origin is None:
        return None
    libraries = Path(spec.origin).parent / "libs"
    machine = {"amd64": "x86_64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine().lower())
    folder = libraries / "macos" if platform.system() == "Darwin" else libraries / "linux" / _distribution()
    for pattern in ("libmsodbcsql*.so*", "libmsodbcsql*.dylib"):
        if found := sorted(folder.glob(f"{machine}/lib/{pattern}")):
            return found[-1]
    return None


def _distribution() -> str:
    """Return the folder of the driver's build for this Linux distribution."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    family = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".split()
    for folder, names in {
        "alpine": {"alpine"},
        "suse": {"suse", "sles", "opensuse"},
        "rhel": {"rhel", "fedora", "centos", "amzn"},
    }.items():
        if names & set(family):
            return folder
    return "debian_ubuntu"
