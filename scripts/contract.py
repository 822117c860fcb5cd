"""Find out whether a SQL Server does what the tests of this repository take for granted.

``python scripts/contract.py [--report FILE]``, or ``make contract SERVER=mssql://user:password@host/database``: first
contact, statement by statement, then the contract, the plans and the faults. The server is the one that
``SQLQUEUE_TEST_SERVER`` names, else fakemssql. The table at the end, and the report, hold names of tests, versions and
sentences of errors: no address, no login, no message.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

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
"""What is run, in this order: what all else stands on comes first."""

_VERSION = (
    "SELECT CONVERT(nvarchar(50), SERVERPROPERTY('ProductVersion')), CONVERT(int, SERVERPROPERTY('EngineEdition'))"
)


@dataclass
class Outcome:
    """What became of one step: how many tests, and those that did not pass, each with the first line of its error."""

    passed: int
    skipped: int
    seconds: float
    differs: list[tuple[str, str]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--report", type=Path, default=Path("contract-report.txt"), help="where the table is kept")
    arguments = parser.parse_args()
    with _server() as url:
        about = _about(url)
        outcomes = {}
        for step, tests in STEPS.items():
            Console(stderr=True).print(f"{step} ...", highlight=False)
            outcomes[step] = run(tests, url)
    with arguments.report.open("w", encoding="utf-8") as file:
        for console in (Console(), Console(file=file, width=150)):
            show(console, about, outcomes)
    Console().print(f"The report is {arguments.report}: it is what to send with an issue.", soft_wrap=True)
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


def _about(url: str) -> str:
    """Versions of the server, the driver and Python."""
    from airflow_sqlqueue import ConnectionSettings
    from airflow_sqlqueue.session import Session
    from airflow_sqlqueue.sql import Query

    settings = ConnectionSettings.from_url(url)
    with Session(settings) as session:
        version, edition = session.run(Query("about", "read the server's version", _VERSION))[0]
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
    """The outcome that a report of pytest's tells."""
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
