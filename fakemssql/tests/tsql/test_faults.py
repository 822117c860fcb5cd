"""A fault of fakemssql's own is an internal error, whose cause stands in the log; it is never \"not supported\"."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.compiler import compile_statement
from fakemssql.tsql.compiler.plan import Plan
from fakemssql.tsql.parser import nodes


def broken(change: Callable[[Plan], object]) -> Callable[[Compilation, nodes.Statement], Plan]:
    """A compiler with a fault in the plans of statements that speak of ``secret``."""

    def compiled(c: Compilation, node: nodes.Statement) -> Plan:
        plan = compile_statement(c, node)
        if "secret" in plan.sql:
            change(plan)
        return plan

    return compiled


def fail(plan: Plan) -> None:
    raise KeyError(plan.sql)


@pytest.mark.parametrize(
    ("change", "number", "severity", "logged"),
    [
        (fail, 8624, 16, "KeyError"),
        (lambda plan: setattr(plan, "sql", "SELEC 'secret'"), 8624, 16, "SQLSTATE 42601"),
        (lambda plan: setattr(plan, "sql", "SELECT pg_read_file('secret')"), 8630, 17, "SQLSTATE 58P01"),
    ],
)
def test_a_fault_of_the_planner(
    client: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[Plan], object],
    number: int,
    severity: int,
    logged: str,
) -> None:
    monkeypatch.setattr("fakemssql.tsql.runtime.execution.plans.compile_statement", broken(change))
    # Plans are kept with their texts, so each case has a text of its own.
    found = client.run(f"SELECT N'secret' AS [{logged}]; SELECT 1")
    (error,) = found.messages
    assert (error.number, error.severity) == (number, severity)
    assert found.results == []
    reference = re.search(r"its log has details under ([0-9a-f]{8})\.", error.message)
    assert reference is not None
    assert f"internal error {reference[1]}" in caplog.text
    assert logged in caplog.text
    assert re.search(r"plans\.py:\d+ in ", caplog.text)
    assert "secret" not in error.message + caplog.text
    assert client.value("SELECT 1") == 1
