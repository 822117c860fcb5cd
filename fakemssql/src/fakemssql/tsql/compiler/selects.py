# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling SELECT statements: their rows go to the client or into variables."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.plan import Plan, finish
from fakemssql.tsql.compiler.trees import has_aggregate, rewritten, walk
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.lexer import syntax_error


def _assigning(c: Compilation, query: nodes.Query, body: nodes.Select) -> Plan:
    """Compile ``SELECT @a = ...``: the values of the last row go to the variables."""
    assign, items = [], []
    known: dict[str, nodes.Expr] = {}
    for item in body.items:
        assert item.variable is not None
        kind = c.declared(item.variable)
        value = item.value
        if item.op != "=":
            value = nodes.Binary(item.op[0], nodes.Variable(item.variable), value)
        # Variables are assigned from left to right: those on the left already have their new values.
        value = rewritten(value, lambda n: known.get(n.name) if isinstance(n, nodes.Variable) else None)
        known[item.variable] = nodes.Cast(value, kind)
        assign.append((item.variable, kind))
        items.append(nodes.SelectItem(value))
    if body.sources and not body.group and not body.distinct and not has_aggregate(items):
        found = {n.name for n in walk(items) if isinstance(n, nodes.Variable)}
        if found.intersection(known):
            raise SqlError(40517, "A SELECT that adds row after row to a variable is not supported by fakemssql.")
    saved = body.items
    body.items = items
    try:
        compiled = c.query(query, None)
    finally:
        body.items = saved
    alias = c.fresh("a")
    parts = [
        convert(value.with_(sql=f"{alias}.c{i}", constant=None), kind, "assign").sql
        for i, (value, (_, kind)) in enumerate(zip(compiled.columns, assign, strict=True), 1)
    ]
    sql = f"SELECT {', '.join(parts)} FROM ({compiled.sql}) AS {alias}"
    return finish(c, sql, assign=assign, selects=True)


def select(c: Compilation, node: nodes.SelectStatement) -> Plan:
    """Compile a query whose rows go to the client, or whose items all go into variables."""
    query = node.query
    body = query.body
    if isinstance(body, nodes.Select) and any(item.variable for item in body.items):
        if not all(item.variable for item in body.items):
            raise syntax_error(
                141,
                "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval"
                " operations.",
            )
        return _assigning(c, query, body)
    compiled = c.query(query, None)
    return finish(c, compiled.sql, columns=compiled.columns, selects=True)
