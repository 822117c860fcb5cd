"""Queries are named by strings: each name that the code spells exists, and each query is named somewhere.

A name is spelled in full (``query("queue.peek")``), or in pieces: ``query(f"ledger.{name}")`` in a helper, and the
rest as a string of its own (``ledger.query("seal")``).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import airflow_sqlqueue
from airflow_sqlqueue.sql import _queries

QUERIES = frozenset(_queries())
FILES = frozenset(name.partition(".")[0] for name in QUERIES)
TREES = {str(path): ast.parse(path.read_text("utf-8")) for path in Path(airflow_sqlqueue.__file__).parent.rglob("*.py")}
HELPERS = {"query", "_query", "_on"}
"""Functions that take the name of a query, or its part behind the file's."""


def literals(tree: ast.AST) -> set[str]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def heads(tree: ast.AST) -> set[str]:
    """What f-strings begin with."""
    firsts = [node.values[0] for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) and node.values]
    return {first.value for first in firsts if isinstance(first, ast.Constant) and isinstance(first.value, str)}


def prefixes(tree: ast.AST) -> set[str]:
    """What f-strings begin with that name a query: ``ledger.`` or ``queue.count_``."""
    return {text for text in heads(tree) if re.fullmatch(rf"({'|'.join(FILES)})\.[a-z_]*", text)}


PREFIXES = {prefix for tree in TREES.values() for prefix in prefixes(tree)}
LITERALS = {text for tree in TREES.values() for text in literals(tree)}
STEMS = {text for tree in TREES.values() for text in heads(tree) if re.fullmatch("[a-z_]+_", text)}
"""Pieces between a prefix and the rest: ``expires_`` of ``create.expires_plain``."""


def test_the_walk_finds_names_of_each_kind() -> None:
    assert {"queue.peek", "session.commit", "seal"} <= LITERALS
    assert {"ledger.", "queue.count_"} <= PREFIXES


@pytest.mark.parametrize("path", TREES)
def test_every_name_that_is_spelled_exists(path: str) -> None:
    spelled = {text for text in literals(TREES[path]) if re.fullmatch(rf"({'|'.join(FILES)})\.[a-z_]+", text)}
    spelled -= prefixes(TREES[path])
    assert spelled <= QUERIES
    for prefix in prefixes(TREES[path]):
        assert any(name.startswith(prefix) for name in QUERIES), prefix


@pytest.mark.parametrize("path", TREES)
def test_every_part_of_a_name_that_a_helper_is_given_exists(path: str) -> None:
    for node in ast.walk(TREES[path]):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        given = {arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
        if called in HELPERS:
            for name in given:
                assert name in QUERIES or any(prefix + name in QUERIES for prefix in PREFIXES), name


def test_no_query_is_unused() -> None:
    in_pieces = {prefix + stem + rest for prefix in PREFIXES for stem in ["", *STEMS] for rest in LITERALS}
    assert QUERIES - LITERALS - in_pieces == set()
