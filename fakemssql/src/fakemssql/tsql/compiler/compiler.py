"""Tables of the functions that compile nodes and statements. The entry is :func:`compile_statement`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fakemssql.tsql.compiler import changes, inserts, merges, predicates, queries, scalars, selects, sources
from fakemssql.tsql.compiler.compilation import Compilation, NodeTables, PredicateFunction, ScalarFunction
from fakemssql.tsql.compiler.environment import Environment
from fakemssql.tsql.compiler.functions import call
from fakemssql.tsql.compiler.plan import Plan
from fakemssql.tsql.parser import nodes

_SCALARS: dict[type, ScalarFunction] = {
    nodes.Literal: scalars.literal_value,
    nodes.Variable: scalars.variable,
    nodes.Column: scalars.column,
    nodes.Function: call,
    nodes.Cast: scalars.cast,
    nodes.Collate: scalars.collated,
    nodes.Unary: scalars.unary,
    nodes.Binary: scalars.binary,
    nodes.Case: scalars.case,
    nodes.Subquery: scalars.subquery,
    **dict.fromkeys([nodes.Star, nodes.Updated, nodes.Exists], scalars.no_value),
    **dict.fromkeys([nodes.In, nodes.Like, nodes.Between, nodes.IsNull], scalars.no_value),
}

_PREDICATES: dict[type, PredicateFunction] = {
    **dict.fromkeys(_SCALARS, predicates.no_condition),
    nodes.Unary: predicates.unary,
    nodes.Binary: predicates.binary,
    nodes.Exists: predicates.exists,
    nodes.In: predicates.is_in,
    nodes.Like: predicates.is_like,
    nodes.Between: predicates.between,
    nodes.IsNull: predicates.is_null,
}

NODES = NodeTables(
    scalars=_SCALARS,
    predicates=_PREDICATES,
    sources={
        nodes.Join: sources.join,
        nodes.QuerySource: sources.query_source,
        nodes.VariableSource: sources.variable_source,
        nodes.FunctionSource: sources.function_source,
        nodes.TableSource: sources.named_source,
    },
    bodies={
        nodes.Select: queries.select,
        nodes.SetOperation: queries.set_operation,
        nodes.Values: queries.values,
        nodes.Query: queries.parenthesised,
    },
)


STATEMENTS: dict[type, Callable[[Compilation, Any], Plan]] = {
    nodes.SelectStatement: selects.select,
    nodes.Insert: inserts.insert,
    nodes.Update: changes.update,
    nodes.Delete: changes.delete,
    nodes.Merge: merges.merge,
}


def compilation(env: Environment) -> Compilation:
    """Return a compilation for one statement or expression."""
    return Compilation(env, NODES)


def compile_statement(c: Compilation, statement: nodes.Statement) -> Plan:
    """Compile a SELECT or a statement that changes rows."""
    return STATEMENTS[type(statement)](c, statement)
