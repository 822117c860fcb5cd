"""Clients: their requirements, the commands that build and start their programs, and their modes of encryption."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fakemssql.tds.versions import TDS_7_1_REVISION_1, TDS_7_2, TDS_7_4, TDS_8_0, Version

HERE = Path(__file__).parent
BUILT = HERE / ".built"
JARS = HERE.parents[1] / ".jars"
FREETDS = Path("/usr/lib/x86_64-linux-gnu/odbc/libtdsodbc.so")
"""Path of the driver if the driver manager has no name for it."""
_SECONDS = 300
"""Limit for downloads and the build of a program."""


class NotHere(Exception):
    """A client cannot be run on this machine; the text says what is missing."""


@dataclass(frozen=True)
class Client:
    """Client. ``make`` builds its program and returns the command; raises :class:`NotHere`.

    ``tds`` and ``strict_tds`` are the protocol versions that it requests, the second one in mode ``strict``.
    ``hold`` is the number of seconds for which its relay delays the answer to a login in mode ``login``.
    """

    name: str
    modes: tuple[str, ...]
    make: Callable[[], Sequence[str]]
    tds: Version = TDS_7_4
    strict_tds: Version = TDS_8_0
    hold: float = 0.0

    def version(self, mode: str) -> Version:
        """Protocol version of the client in a mode."""
        return self.strict_tds if mode == "strict" else self.tds


def _tool(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NotHere(f"{package} is not installed (no {name})")
    return found


def _run(command: Sequence[str], folder: Path, what: str) -> None:
    environment = os.environ | {"GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -mod=readonly".strip()}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise NotHere(f"{what} took more than {_SECONDS} seconds") from error
    if done.returncode:
        sys.stderr.write(f"{done.stdout}{done.stderr}\n")
        raise NotHere(f"{what} failed (above)")


def _java(program: str, jar: str) -> Sequence[str]:
    compiler, java = _tool("javac", "a JDK"), _tool("java", "a JDK")
    found = sorted(JARS.glob(f"{jar}-[0-9]*.jar"))
    if not found:
        raise NotHere(f"{jar} is not in {JARS.name}/ (make jars)")
    BUILT.mkdir(exist_ok=True)
    source = HERE / "java" / "Scenario.java"
    made = BUILT / "Scenario.class"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        _run([compiler, "--release", "17", "-d", str(BUILT), str(source)], HERE, "javac")
    return [java, "-XX:TieredStopAtLevel=1", "-cp", f"{BUILT}{os.pathsep}{found[-1]}", "Scenario", program]


def _go() -> Sequence[str]:
    BUILT.mkdir(exist_ok=True)
    made = BUILT / "go-scenario"
    _run([_tool("go", "Go"), "build", "-o", str(made), "."], HERE / "go", "go build, which fetches the module")
    return [str(made)]


def _node() -> Sequence[str]:
    folder = HERE / "node"
    node, npm = _tool("node", "Node.js"), _tool("npm", "npm")
    locked, installed = folder / "package-lock.json", folder / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < locked.stat().st_mtime:
        _run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder, "npm ci")
    return [node, str(folder / "scenario.js")]


def _python(driver: str) -> Callable[[], Sequence[str]]:
    return lambda: [sys.executable, str(HERE / "python" / "scenario.py"), driver]


def _freetds(driver: str) -> Callable[[], Sequence[str]]:
    def make() -> Sequence[str]:
        import pyodbc

        if "FreeTDS" not in pyodbc.drivers() and not FREETDS.exists():
            raise NotHere("FreeTDS is not installed (package tdsodbc)")
        return _python(driver)()

    return make


PYTHON = (
    # mssql-python contains Microsoft's ODBC driver, which starts with TLS in mode strict and has the same login.
    Client("pyodbc-microsoft", ("login", "full", "strict"), _python("pyodbc-microsoft"), strict_tds=TDS_7_4),
    Client("pyodbc-freetds", ("plain", "login", "full"), _freetds("pyodbc-freetds")),
    Client("pyodbc-freetds-7.2", ("plain",), _freetds("pyodbc-freetds-7.2"), TDS_7_2),
    Client("pyodbc-freetds-7.1", ("plain",), _freetds("pyodbc-freetds-7.1"), TDS_7_1_REVISION_1),
    Client("pymssql", ("plain", "login", "full"), _python("pymssql")),
    Client("mssql-python", ("login", "full", "strict"), _python("mssql-python"), strict_tds=TDS_7_4),
)
"""Clients whose requirements the tests have, so that the tests run them."""

OTHERS = (
    Client("mssql-jdbc", ("login", "full", "strict"), lambda: _java("mssql-jdbc", "mssql-jdbc")),
    # When Java (since 11) closes TLS, it drops the data that have arrived. jTDS closes TLS after its login: an earlier
    # answer is lost, and jTDS waits for it for ever.
    Client("jtds", ("plain", "login", "full"), lambda: _java("jtds", "jtds"), TDS_7_1_REVISION_1, hold=0.5),
    Client("go-mssqldb", ("plain", "login", "full", "strict"), _go),
    Client("tedious", ("plain", "full", "strict"), _node),
)
