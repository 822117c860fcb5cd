"""How a server is reached: the ODBC driver and the connection string.

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

from airflow_sqlqueue.allowed import MICROSOFT_DRIVERS, check_keywords
from airflow_sqlqueue.errors import ConfigurationError, DriverNotFoundError
from airflow_sqlqueue.server import entra

DEFAULT_PORT = 1433
APPLICATION_NAME = "airflow-sqlqueue"
"""What the server shows of a session; a keyword of the connection may set another."""
DEFAULT_LOGIN_TIMEOUT = 15
"""Seconds."""

_DEFAULTS = {"APP": APPLICATION_NAME, "Encrypt": "yes", "LongAsMax": "yes"}
"""Driver 17 would encrypt the login alone, and check no certificate. Without LongAsMax a text of more than 2,000
characters is declared as ntext, which no function takes (error 402)."""

_ENCRYPTION = {"encrypt", "trustservercertificate"}
_FIELDS = {"DRIVER": "driver", "SERVER": "host", "DATABASE": "database", "UID": "login", "PWD": "password"}
"""The names of a connection's fields in a connection string."""

_INSTANCE = re.compile(r"[\w#&$]{1,16}")


@dataclass(frozen=True)
class ConnectionSettings:
    """Where the server is and how to log in.

    ``instance`` is a named instance, whose port the SQL Server Browser of the host is asked for; ``port`` means nothing
    then. ``database`` is the default catalog of addresses. ``driver`` is the name of an installed ODBC driver or the
    path of its library; None picks one (:func:`find_driver`). ``keywords`` are further ODBC keywords (``Encrypt``,
    ``TrustServerCertificate``, ``ApplicationIntent``, ``Authentication`` ...): those that neither write a file nor load
    code nor replace another field. ``login_timeout`` is in seconds. ``access_token`` gets a token of Microsoft Entra
    ID, in place of user and password, whenever a connection is opened; such settings cannot be pickled.

    Raises :class:`ConfigurationError` for what cannot be used; it names a keyword and never its value.
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

    def __post_init__(self) -> None:
        if self.instance is not None and not _INSTANCE.fullmatch(self.instance):
            raise ConfigurationError(f"{self.instance!r} is no name of an instance of SQL Server: correct it.")
        if not self.host:
            raise ConfigurationError("The connection names no host: give the server's name or address.")
        if not self.database:
            raise ConfigurationError("The connection names no database: give the one that holds the queues.")
        if not 1 <= self.port <= 65535:
            raise ConfigurationError(f"{self.port} is not a TCP port: give one between 1 and 65535.")
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

        Two query arguments are not passed on as they are: ``driver`` names the driver to use, ``instance`` a named
        instance of the host, where no port is given.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            # Python's error quotes what it parsed as the port: a part of the password, if that is not percent-encoded.
            raise ConfigurationError(
                "The URL's port is not a number: write mssql://user:password@host:port/database, and percent-encode "
                "the password."
            ) from None
        if parts.scheme != "mssql" or not parts.hostname or "@" in parts.path:
            # An @ behind a slash: what stands for the host may be a part of the password.
            raise ConfigurationError(
                "The URL must have the form mssql://user:password@host:port/database, with what is no "
                "letter or digit in the password percent-encoded."
            )
        keywords = dict(parse_qsl(parts.query))
        return cls(
            host=parts.hostname,
            port=port or DEFAULT_PORT,
            database=unquote(parts.path.lstrip("/")),
            user=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password is not None else None,
            driver=keywords.pop("driver", None),
            instance=named_instance(keywords.pop("instance", None), port),
            keywords=keywords,
        )

    @property
    def server(self) -> str:
        """The server for people, and to compare: ``host:port`` or ``host\\instance``."""
        return f"{self.host}:{self.port}" if self.instance is None else f"{self.host}\\{self.instance}"

    @cached_property
    def login(self) -> tuple[Any, ...]:
        """Who logs in, to compare; it holds no secret."""
        return self.user, self.access_token, entra.authentication(self.keywords)

    @property
    def by_token(self) -> bool:
        """Whether the login is by an access token that is handed to the driver."""
        return self.access_token is not None or entra.authentication(self.keywords) == entra.DEFAULT

    def attributes(self) -> dict[int, bytes]:
        """Attributes for ``pyodbc.connect``: an access token, got now, where the login is by one. Never log them."""
        if entra.authentication(self.keywords) == entra.DEFAULT:
            return entra.attributes(entra.DefaultToken(entra.scope_of(self.host), self.user))
        return {} if self.access_token is None else entra.attributes(self.access_token)

    def located(self) -> ConnectionSettings:
        """The same with the port of the named instance, if it names one. Raises :class:`ServerUnreachableError`."""
        if self.instance is None:
            return self
        from airflow_sqlqueue.server.browser import port_of

        return replace(self, port=port_of(self.host, self.instance), instance=None)

    def odbc_connection_string(self) -> str:
        """The string for ``pyodbc.connect``. It holds the password: never log it.

        Of a named instance it has the name, which drivers on Windows understand; :meth:`located` has the port.
        """
        driver = self.driver or find_driver()
        is_freetds = "freetds" in driver.lower() or "tdsodbc" in driver.lower()
        keywords = {name.strip(): value for name, value in self.keywords.items()}
        authentication = entra.authentication(keywords)
        if is_freetds and (self.by_token or authentication):
            raise ConfigurationError(
                "FreeTDS knows no login of Microsoft Entra ID: run \"pip install 'airflow-sqlqueue[driver]'\"."
            )
        if self.by_token:
            keywords = {name: value for name, value in keywords.items() if name.lower() != "authentication"}
        given = {name.lower() for name in keywords}
        keywords = {name: value for name, value in _DEFAULTS.items() if name.lower() not in given} | keywords
        words = {
            "DRIVER": driver,
            "SERVER": f"{self.host},{self.port}" if self.instance is None else self.server,
            "DATABASE": self.database,
            **keywords,
        }
        if is_freetds:
            words = self._for_freetds(words)
        if self.user is not None and not self.by_token:
            words["UID"] = self.user
            if self.password is not None or authentication is None:
                words["PWD"] = self.password or ""
        return "".join(f"{name}={{{_braced(name, value, driver)}}};" for name, value in words.items())

    def _for_freetds(self, words: Mapping[str, str]) -> dict[str, str]:
        """The words of Microsoft's driver as FreeTDS has them."""
        words = {name: value for name, value in words.items() if name.lower() != "longasmax"}
        switches = {name.lower(): words.pop(name).lower() for name in list(words) if name.lower() in _ENCRYPTION}
        encrypt = switches["encrypt"]
        is_encrypted = encrypt not in {"no", "optional"}
        if is_encrypted and (encrypt == "strict" or switches.get("trustservercertificate") != "yes"):
            raise ConfigurationError(
                "FreeTDS cannot check the server's certificate: run \"pip install 'airflow-sqlqueue[driver]'\", or set "
                "Encrypt to yes and TrustServerCertificate to yes, which trusts any server."
            )
        words |= {"SERVER": self.host, "PORT": str(self.port), "TDS_Version": "7.4", "ClientCharset": "UTF-8"}
        return words | {"Encryption": "require" if is_encrypted else "off"}


def _braced(name: str, value: str, driver: str) -> str:
    """A value as it stands between braces. Only Microsoft's driver is known to take a doubled one for a part of it."""
    is_microsofts = driver in MICROSOFT_DRIVERS or "msodbcsql" in Path(driver).name.lower()
    if "}" in value and not is_microsofts:
        field_name = _FIELDS.get(name, f"keyword {name}")
        raise ConfigurationError(
            f"The connection's {field_name} has a closing brace, which would end the value for this ODBC driver: "
            "change it, or run \"pip install 'airflow-sqlqueue[driver]'\"."
        )
    return value.replace("}", "}}")


def named_instance(instance: str | None, port: int | None) -> str | None:
    """The named instance that counts: with a port it is passed over, as SqlClient does."""
    return instance if instance and port is None else None


def split_host(name: str) -> tuple[str, str | None]:
    """The host and the named instance of ``host\\instance``; ``.`` and ``(local)`` are this machine."""
    host, _, instance = (part.strip() for part in name.partition("\\"))
    return "localhost" if host.lower() in {".", "(local)"} else host, instance or None


def load_pyodbc() -> ModuleType:
    """The pyodbc module; its Linux wheels need the system's unixODBC library.

    Raises :class:`DriverNotFoundError` where that library is missing.
    """
    try:
        import pyodbc
    except ImportError as error:
        raise DriverNotFoundError(
            "The ODBC driver manager (libodbc.so.2) is not installed: run 'apt-get install unixodbc', "
            "or 'brew install unixodbc' on macOS."
        ) from error
    pyodbc.pooling = False
    module: ModuleType = pyodbc
    return module


@cache
def find_driver() -> str:
    """The driver to use: Microsoft's as installed, else the one that the ``driver`` extra brings, else FreeTDS.

    Returns a driver's name or the path of its library. Raises :class:`DriverNotFoundError` where there is none.
    """
    installed = load_pyodbc().drivers()
    for name in MICROSOFT_DRIVERS:
        if name in installed:
            return name
    if library := packaged_driver():
        return str(library)
    for name in installed:
        if name.lower() == "freetds":
            return str(name)
    raise DriverNotFoundError(
        "No ODBC driver for SQL Server was found: run \"pip install 'airflow-sqlqueue[driver]'\" "
        "or install Microsoft's ODBC Driver 18 for SQL Server."
    )


def packaged_driver() -> Path | None:
    """The library of Microsoft's driver in the package mssql-python-odbc for this system, where it is installed."""
    spec = importlib.util.find_spec("mssql_python_odbc")
    if spec is None or spec.origin is None:
        return None
    libraries = Path(spec.origin).parent / "libs"
    machine = {"amd64": "x86_64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine().lower())
    folders = [libraries / "macos"] if platform.system() == "Darwin" else [libraries / "linux" / _distribution()]
    for folder in folders:
        for pattern in ("libmsodbcsql*.so*", "libmsodbcsql*.dylib"):
            if found := sorted(folder.glob(f"{machine}/lib/{pattern}")):
                return found[-1]
    return None


def _distribution() -> str:
    """The folder of the driver's build for this Linux distribution."""
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
