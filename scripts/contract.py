"""Run the contract tests of this repository on a SQL Server, and report the differences.

``python scripts/contract.py``, or ``make contract SERVER=mssql://user:password@host:port/master``: first contact,
statement by statement, then the contract, the plans and the faults. The server is the one of ``SQLQUEUE_TEST_SERVER``,
else fakemssql. A database is created for the tests and dropped at the end; with ``--keep`` the database of the URL is
used. The table at the end, and the report, contain names of tests, versions and sentences of errors: no address, no
login, no message.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import uuid
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from rich.console import Console
from rich.table import Table

from airflow_sqlqueue import ConnectionSettings
from airflow_sqlqueue.errors import LoginFailedError, ServerUnreachableError, SqlQueueError
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query

STEPS = {
    "first contact": ["tests/contract/test_first_contact.py"],
    "contract": [
        "tests/contract",
        "--ignore=tests/contract/test_first_contact.py",
        "--ignore=tests/contract/test_plans.py",
    ],
    "plans": ["tests/contract/test_plans.py"],
    "faults": ["tests/faults"],
}
"""Steps and their tests, in order: a step needs those before it."""

_VERSION = (
    "SELECT CONVERT(nvarchar(50), SERVERPROPERTY('ProductVersion')), CONVERT(int, SERVERPROPERTY('EngineEdition'))"
)


@dataclass
class Outcome:
    """Outcome of a step: numbers of tests, and the failed tests, each with the first line of its error."""

    passed: int
    skipped: int
    seconds: float
    differs: list[tuple[str, str]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--report", type=Path, default=Path("contract-report.txt"), help="the file for the table")
    parser.add_argument("--keep", action="store_true", help="use the URL's database, and create no other")
    parser.add_argument("--collation", help="of the new database")
    parser.add_argument("--read-committed-snapshot", choices=["on", "off"], help="of the new database")
    parser.add_argument("--optimized-locking", action="store_true", help="in the new database (SQL Server 2025)")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), metavar="STEP", help=", ".join(STEPS))
    parser.add_argument("--wait", type=float, default=0.0, help="longest wait for the server, in seconds")
    arguments = parser.parse_args()
    with _server() as given, ExitStack() as stack:
        _wait(given, time.monotonic() + arguments.wait)
        url = given if arguments.keep else stack.enter_context(_database(given, arguments))
        about = _about(url)
        outcomes = {}
        for step in arguments.only:
            Console(stderr=True).print(f"{step} ...", highlight=False)
            outcomes[step] = run(STEPS[step], url)
    with arguments.report.open("w", encoding="utf-8") as file:
        for console in (Console(), Console(file=file, width=150)):
            show(console, about, outcomes)
    Console().print(f"The report is {arguments.report}: send it with an issue.", soft_wrap=True)
    return 1 if any(outcome.differs for outcome in outcomes.values()) else 0


@contextmanager
def _server() -> Iterator[str]:
    named = os.environ.get("SQLQUEUE_TEST_SERVER")
    if named:
        yield named
        return
    from fakemssql import FakeServer

    with FakeServer(databases=["sqlqueue"]) as server:
        yield server.url("sqlqueue")


def _wait(url: str, deadline: float) -> None:
    """Wait until the server takes logins, for example after the start of its container."""
    while True:
        try:
            _run(url)
            return
        except (ServerUnreachableError, LoginFailedError):
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


@contextmanager
def _database(url: str, arguments: argparse.Namespace) -> Iterator[str]:
    """Create a database for the tests on the URL's server; return its URL."""
    name, parts = f"sqlqueue_contract_{uuid.uuid4().hex[:12]}", urlsplit(url)
    collation, snapshot = arguments.collation, arguments.read_committed_snapshot
    if not re.fullmatch(r"\w*", collation or ""):
        sys.exit(f"There is no collation {collation!r}: give a name such as Latin1_General_100_CS_AS_SC_UTF8.")
    texts = [f"CREATE DATABASE [{name}]" + (f" COLLATE {collation}" if collation else "")]
    if snapshot:
        texts.append(f"ALTER DATABASE [{name}] SET READ_COMMITTED_SNAPSHOT {snapshot.upper()} WITH ROLLBACK IMMEDIATE")
    if arguments.optimized_locking:
        settings = ("ACCELERATED_DATABASE_RECOVERY", "OPTIMIZED_LOCKING")
        texts += [f"ALTER DATABASE [{name}] SET {setting} = ON" for setting in settings]
    _run(url, *texts)
    try:
        yield urlunsplit(parts._replace(path=f"/{name}"))
    finally:
        try:
            _run(url, f"DROP DATABASE [{name}]")
        except SqlQueueError:
            # Processes that tests have killed may still be connected.
            _run(url, f"ALTER DATABASE [{name}] SET SINGLE_USER WITH ROLLBACK IMMEDIATE", f"DROP DATABASE [{name}]")


def _run(url: str, *texts: str) -> list[Any]:
    """Run statements on a connection of their own; return the rows of the last."""
    rows: list[Any] = []
    with Session(ConnectionSettings.from_url(url)) as session:
        for text in texts:
            rows = session.run(Query("contract", "prepare the database of the tests", text))
    return rows


def _about(url: str) -> str:
    """Return the versions of the server, the driver and Python."""
    version, edition = _run(url, _VERSION)[0]
    return f"SQL Server {version}, engine edition {edition}; Python {platform.python_version()}, {platform.system()}"


def run(tests: list[str], url: str) -> Outcome:
    """Run tests against the server, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-n0", "-q", f"--junitxml={report}", *tests]
        subprocess.run(command, env={**os.environ, "SQLQUEUE_TEST_SERVER": url}, stdout=sys.stderr, check=False)
        if not report.exists():
            return Outcome(0, 0, 0.0, [(" ".join(tests), "The tests did not start: see above.")])
        (suite,) = ElementTree.parse(report).getroot().iter("testsuite")  # noqa: S314 - pytest has just written it
    return outcome_of(suite)


def outcome_of(suite: ElementTree.Element) -> Outcome:
    """Return the outcome in a report of pytest."""
    differs, skipped = [], 0
    for case in suite.iter("testcase"):
        problem = next((case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None)
        if problem is not None:
            name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
            differs.append((name, (problem.get("message") or "").partition("\n")[0][:200]))
        elif case.find("skipped") is not None:
            skipped += 1
    total = int(suite.get("tests", "0"))
    return Outcome(total - skipped - len(differs), skipped, float(suite.get("time", "0")), differs)


def show(console: Console, about: str, outcomes: dict[str, Outcome]) -> None:
    table = Table("", "passed", "differs", "skipped", "seconds", title=about)
    for step, outcome in outcomes.items():
        figures = (outcome.passed, len(outcome.differs), outcome.skipped, round(outcome.seconds))
        table.add_row(step, *map(str, figures))
    console.print(table)
    for step, outcome in outcomes.items():
        for name, message in outcome.differs:
            console.print(f"{step}: {name}: {message}", markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
