"""Compiling FROM: joins, derived tables, table variables, functions, tables, views and CTEs."""

from __future__ import annotations

from fakemssql.tsql.compiler.base_tables import base_table, lookup
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.derived_tables import cte_source, derived, optional, repeated_source
from fakemssql.tsql.compiler.functions.tables import table_function
from fakemssql.tsql.compiler.scopes import Names
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes


def join(c: Compilation, node: nodes.Join, names: Names, carry: str | None) -> str:
    """Compile JOIN and APPLY."""
    with optional(c, node.kind in ("right", "full")):
        left = c.source(node.left, names, carry)
    if node.kind.endswith("_apply"):
        lateral = Names([], names, names.ctes, locks=names.locks)
        right = c.source(node.right, lateral).removeprefix("LATERAL ")
        names.scopes += lateral.scopes
        return f"({left} {'CROSS' if node.kind == 'cross_apply' else 'LEFT'} JOIN LATERAL {right}" + (
            ")" if node.kind == "cross_apply" else " ON true)"
        )
    with optional(c, node.kind in ("left", "full")):
        right = c.source(node.right, names, carry)
    if node.kind == "cross":
        return f"({left} CROSS JOIN {right})"
    assert node.on is not None
    on = c.predicate(node.on, names)
    return f"({left} {node.kind.upper()} JOIN {right} ON {on})"


def query_source(c: Compilation, node: nodes.QuerySource, names: Names, carry: str | None) -> str:
    """Compile a derived table."""
    wanted = carry is not None and carry in ("", fold(node.alias))
    inner_names = Names([], names.parent, names.ctes)
    return derived(c, c.query(node.query, inner_names, wanted), node.alias, node.columns, names)


def variable_source(c: Compilation, node: nodes.VariableSource, names: Names, carry: str | None) -> str:
    """Compile a table variable."""
    return base_table(c, lookup(c, (node.name,)), node.alias, (), [], names, carry)


def function_source(c: Compilation, node: nodes.FunctionSource, names: Names, carry: str | None) -> str:
    """Compile a table-valued function."""
    return table_function(c, node, names)


def named_source(c: Compilation, node: nodes.TableSource, names: Names, carry: str | None) -> str:
    """Compile a common table expression, a table or a view."""
    if len(node.name) == 1:
        repeated = c.recursive_ctes.get(fold(node.name[0]))
        if repeated is not None:
            return repeated_source(c, repeated, node, names)
        cte = names.cte(fold(node.name[0]))
        if cte is not None:
            return cte_source(c, cte, node, names, carry)
    table = lookup(c, node.name, node.line)
    return base_table(
        c, table, node.alias or node.name[-1], node.name if not node.alias else (), node.hints, names, carry
    )
