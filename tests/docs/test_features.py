"""The table of features names a test for each that is here, and each test is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests" / "features.md"


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ") and "| here |" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_each_feature_names_a_test_that_exists(row: list[str]) -> None:
    assert len(row) == 8
    here, test = row[1], row[-1]
    if here.split(",")[0] == "no":
        assert test == ""
        return
    found = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", test)
    assert found, f"{row[0]!r} names no test"
    tree = ast.parse((ROOT / found[1]).read_text("utf-8"))
    assert found[2] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_table_is_read() -> None:
    assert len(rows()) > 50
