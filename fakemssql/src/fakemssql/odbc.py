"""URL and ODBC connection string of a server, and the search for an installed driver."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

_MICROSOFT = ("ODBC Driver 18 for SQL Server", "ODBC Driver 17 for SQL Server")
_FREETDS = "FreeTDS"
_MACHINES = {"amd64": "x86_64", "aarch64": "arm64"}
_LINUX_FAMILIES = {
    "alpine": {"alpine"},
    "rhel": {"amzn", "centos", "fedora", "rhel"},
    "suse": {"opensuse", "sles", "suse"},
}
"""Folders of the packaged driver other than Debian's, with the ids of their distributions in os-release."""


@dataclass(frozen=True)
class ServerLogin:
    """Address of a server, and the login."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)


def url(login: ServerLogin, database: str) -> str:
    """``mssql://user:password@host:port/database`` with the ODBC keywords that a client needs as its query."""
    host = f"[{login.host}]" if ":" in login.host else login.host
    user, password, name = (quote(text, safe="") for text in (login.user, login.password, database))
    # The certificate is self-signed: no client knows it.
    return f"mssql://{user}:{password}@{host}:{login.port}/{name}?Encrypt=yes&TrustServerCertificate=yes"


def connection_string(driver: str, login: ServerLogin, database: str, keywords: Mapping[str, str]) -> str:
    """Connection string for ODBC. ``keywords`` are those of Microsoft's driver, translated for FreeTDS."""
    words = {"DRIVER": driver, "SERVER": f"{login.host},{login.port}", "DATABASE": database, **keywords}
    freetds = "freetds" in driver.lower() or "tdsodbc" in driver.lower()
    if freetds:
        words |= {"SERVER": login.host, "PORT": str(login.port), "ClientCharset": "UTF-8"}
        words.setdefault("TDS_Version", "7.4")
        encrypt = words.pop("Encrypt", "no")
        words["Encryption"] = {"yes": "require", "no": "off"}.get(encrypt, encrypt)
        words.pop("TrustServerCertificate", None)
    words |= {"UID": login.user, "PWD": login.password}
    # FreeTDS does not unescape the text between the braces.
    closing = "}" if freetds else "}}"
    return "".join(f"{name}={{{value.replace('}', closing)}}};" for name, value in words.items())


def find_driver() -> str | None:
    """Find a driver: an installed one of Microsoft, else that of the package mssql-python-odbc, else FreeTDS.

    Returns a driver's name or the path of its library; None if there is no driver.
    """
    installed = _installed()
    for name in _MICROSOFT:
        if name in installed:
            return name
    if library := _packaged():
        return str(library)
    return _FREETDS if _FREETDS in installed else None


def _installed() -> Sequence[str]:
    """Return the names of the drivers that the driver manager knows; empty if pyodbc or the driver manager is
    missing.
    """
    try:
        import pyodbc
    except ImportError:
        return ()
    names: list[str] = pyodbc.drivers()
    return names


def _packaged() -> Path | None:
    spec = find_spec("mssql_python_odbc")
    if spec is None or spec.origin is None:
        return None
    machine = platform.machine().lower()
    system = Path("macos") if platform.system() == "Darwin" else Path("linux", _linux_family())
    folder = Path(spec.origin).parent / "libs" / system / _MACHINES.get(machine, machine) / "lib"
    return max((*folder.glob("libmsodbcsql*.so*"), *folder.glob("libmsodbcsql*.dylib")), default=None)


def _linux_family() -> str:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    names = {*release.get("ID", "").split(), *release.get("ID_LIKE", "").split()}
    return next((family for family, members in _LINUX_FAMILIES.items() if names & members), "debian_ubuntu")
