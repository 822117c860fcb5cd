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


def test_queries_are_called_by_their_names() -> None:
    """Each that is named exists, each that exists is named, and no name is put together."""
    trees = [ast.parse(path.read_text("utf-8")) for path in FACE.parent.rglob("*.py") if path != FACE]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    pieces = {id(piece) for node in nodes if isinstance(node, ast.JoinedStr) for piece in node.values}
    texts = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    names = {node.value for node in texts if NAME.fullmatch(node.value) and id(node) not in pieces}
    assert "ledger.seal" in names
    assert names == QUERIES
    assert [node.value for node in texts if id(node) in pieces and NAME.fullmatch(node.value)] == []
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
    called = [(getattr(call.func, "attr", getattr(call.func, "id", "")), call.args[0]) for call in calls]
    named = [argument for name, argument in called if name in ("query", "_query", "statement", "_statement", "_on")]
    assert [ast.unparse(name) for name in named if isinstance(name, ast.JoinedStr | ast.BinOp)] == []
