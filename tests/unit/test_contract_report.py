"""The report of ``make contract``: passed tests and differences, without private values."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from contract import Outcome, outcome_of, show
from rich.console import Console

REPORT = """<testsuite tests="4" time="12.5">
<testcase classname="tests.contract.test_queue" name="test_send" />
<testcase classname="tests.contract.test_queue" name="test_skipped"><skipped message="no reason" /></testcase>
<testcase classname="tests.contract.test_queue" name="test_receive">
  <failure message="StatementError: error 650&#10;mssql://sa:secret@host">a traceback with a secret</failure></testcase>
<testcase classname="tests.contract.test_drain" name="test_setup"><error message="no server">secret</error></testcase>
</testsuite>"""


def test_differences_are_listed_with_the_first_line_of_the_error() -> None:
    outcome = outcome_of(ElementTree.fromstring(REPORT))
    differs = [("test_queue::test_receive", "StatementError: error 650"), ("test_drain::test_setup", "no server")]
    assert outcome == Outcome(passed=1, skipped=1, seconds=12.5, differs=differs)


def test_the_table_tells_of_each_step() -> None:
    console = Console(record=True, width=100, quiet=False)
    show(console, "SQL Server 16", {"contract": outcome_of(ElementTree.fromstring(REPORT))})
    text = console.export_text()
    assert "contract: test_queue::test_receive: StatementError: error 650" in text
    assert "secret" not in text
