"""The tables by which nodes are compiled and statements run: none is forgotten, each function fits its node."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, get_args, get_type_hints

import pytest

from fakemssql.tsql.compiler.compiler import NODES
from fakemssql.tsql.compiler.compiler import STATEMENTS as COMPILED
from fakemssql.tsql.definitions.security.authorization import CHECKS
from fakemssql.tsql.definitions.statements import DEFINITIONS
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.statements.rows import rows
from fakemssql.tsql.runtime.statements.table import STATEMENTS

BODIES = {nodes.Select, nodes.SetOperation, nodes.Values, nodes.Query}
PARTS = {
    *(nodes.Argument, nodes.Assignment, nodes.ColumnDefinition, nodes.Constraint, nodes.Cte, nodes.Hint),
    *(nodes.KeyColumn, nodes.MergeAction, nodes.OrderItem, nodes.Output, nodes.SelectItem, nodes.Top, nodes.Window),
}
"""Nodes that only the function of their parent node reads."""


def concrete(base: type) -> set[type]:
    """The classes of the syntax tree below ``base`` of which there are nodes."""
    classes = [each for each in vars(nodes).values() if inspect.isclass(each)]
    found = {each for each in classes if each.__module__.startswith(nodes.__name__) and issubclass(each, base)}
    return {each for each in found if each is not base and not any(each in other.__mro__[1:] for other in found)}


def test_every_node_has_a_function() -> None:
    assert set(NODES.scalars) == set(NODES.predicates) == concrete(nodes.Expr)
    assert set(NODES.sources) == concrete(nodes.Source)
    assert set(NODES.bodies) == BODIES
    assert set(STATEMENTS) == concrete(nodes.Statement)
    kinds = concrete(object) - {nodes.SecurityDefinition, nodes.Statement, nodes.Source, nodes.Expr}
    assert kinds == {*NODES.scalars, *NODES.sources, *NODES.bodies, *STATEMENTS, *PARTS}


def test_statements_over_rows_are_compiled() -> None:
    assert set(COMPILED) == {kind for kind, function in STATEMENTS.items() if function is rows}


def test_every_definition_has_a_permission_check() -> None:
    assert set(CHECKS) == set(DEFINITIONS) - concrete(nodes.SecurityDefinition)


@pytest.mark.parametrize(
    "table",
    [NODES.scalars, NODES.predicates, NODES.sources, NODES.bodies, COMPILED, STATEMENTS, DEFINITIONS, CHECKS],
    ids=["scalars", "predicates", "sources", "bodies", "compiled", "statements", "definitions", "checks"],
)
def test_functions_accept_the_nodes_of_their_table_entries(table: Mapping[type, Callable[..., Any]]) -> None:
    for kind, function in table.items():
        hint = list(get_type_hints(function).values())[1]
        taken = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        assert issubclass(kind, taken), (kind, function)
