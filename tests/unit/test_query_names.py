"""Queries are called by their full names, so that a search for one finds its callers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import airflow_sqlqueue
from airflow_sqlqueue.server.sql import _queries

QUERIES = frozenset(_queries())
NAME = re.compile(rf"({'|'.join({name.partition('.')[0] for name in QUERIES})})\.[a-z_]*")
FACE = Path(airflow_sqlqueue.__file__)
"""It calls no query, and its list of public names has modules with names like those of queries (``queue.purge``)."""
TREES = [ast.parse(path.read_text("utf-8")) for path in FACE.parent.rglob("*.py") if path != FACE]
NODES = [node for tree in TREES for node in ast.walk(tree)]
PIECES = {id(piece) for node in NODES if isinstance(node, ast.JoinedStr) for piece in node.values}
TEXTS = [node for node in NODES if isinstance(node, ast.Constant) and isinstance(node.value, str)]
NAMES = {node.value for node in TEXTS if NAME.fullmatch(node.value) and id(node) not in PIECES}


def test_every_query_that_is_named_exists_and_every_query_is_named() -> None:
    assert "ledger.seal" in NAMES
    assert NAMES == QUERIES


def test_no_name_of_a_query_is_put_together() -> None:
    assert [node.value for node in TEXTS if id(node) in PIECES and NAME.fullmatch(node.value)] == []
    calls = [node for node in NODES if isinstance(node, ast.Call) and node.args]
    called = [(getattr(call.func, "attr", getattr(call.func, "id", "")), call.args[0]) for call in calls]
    names = [argument for name, argument in called if name in ("query", "_query", "statement", "_statement", "_on")]
    assert [ast.unparse(name) for name in names if isinstance(name, ast.JoinedStr | ast.BinOp)] == []
