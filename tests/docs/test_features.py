"""The table of features names a test for each that is here, and each test is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests" / "features.md"


STATES = {"done", "partial", "missing", "chosen against"}


def rows(columns: int = 8) -> list[list[str]]:
    """Return the rows of the comparison; those of what is asked for have three columns."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in found if len(row) == columns and row[1] not in ("here", "state")]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_each_feature_names_a_test_that_exists(row: list[str]) -> None:
    assert len(row) == 8
    here, test = row[1], row[-1]
    if here.split(",")[0] == "no":
        assert test == ""
        return
    _check(row[0], test)


@pytest.mark.parametrize("row", rows(3), ids=lambda row: row[0])
def test_features_that_are_asked_for(row: list[str]) -> None:
    asked, state, about = row
    assert state in STATES
    test, _, reason = about.partition("`: ") if about.startswith("`tests/") else ("", "", about)
    if state in ("done", "partial"):
        _check(asked, f"{test.strip('`')}")
    assert len(reason.split()) > 3 or (state == "done" and not reason)
    assert state != "partial" or reason, "what lacks"


def _check(feature: str, test: str) -> None:
    found = re.fullmatch(r"`?(tests/[\w/]+\.py)::(test_\w+)`?", test)
    assert found, f"{feature!r} names no test"
    tree = ast.parse((ROOT / found[1]).read_text("utf-8"))
    assert found[2] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_table_is_read() -> None:
    assert len(rows()) > 50
    assert len(rows(3)) > 20
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    assert len(rows()) + len(rows(3)) + sum("| here |" in line or "| state |" in line for line in lines) == len(lines)
