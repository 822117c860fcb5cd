# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling SELECT that assigns variables."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.plan import Plan, finish
from fakemssql.tsql.compiler.trees import has_aggregate, rewritten, walk
from fakemssql.tsql.compiler.typed import Names, Scope, Typed
from fakemssql.tsql.parser import nodes
from fakemssql.types import SqlType


def assigning(c: Compilation, query: nodes.Query, body: nodes.Select) -> Plan:
    """``SELECT @a = ...``: the last row's values go to the variables."""
    assign, items = [], []
    known: dict[str, nodes.Expr] = {}
    for item in body.items:
        assert item.variable is not None
        kind = c.env.variables.get(item.variable)
        if kind is None:
            raise SqlError(137, f'Must declare the scalar variable "{item.variable}".', severity=15, state=2)
        value = item.value
        if item.op != "=":
            value = nodes.Binary(item.op[0], nodes.Variable(item.variable), value)
        # Assigned from left to right: what stands left has its new value already.
        value = rewritten(value, lambda n: known.get(n.name) if isinstance(n, nodes.Variable) else None)
        known[item.variable] = nodes.Cast(value, kind)
        assign.append((item.variable, kind))
        items.append(nodes.SelectItem(value))
    if body.sources and not body.group and not body.distinct and not has_aggregate(items):
        found = {n.name for n in walk(items) if isinstance(n, nodes.Variable)}
        if found.intersection(known):
            return _accumulating(c, query, body, items, dict(assign))
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


def _accumulating(
    c: Compilation, query: nodes.Query, body: nodes.Select, items: list[nodes.SelectItem], kinds: dict[str, SqlType]
) -> Plan:
    """``SELECT @s = @s + x FROM t``: row after row, each with the values that the row before it left."""
    if any(isinstance(n, nodes.Query) for n in walk(items)):
        raise SqlError(40517, "Accumulating a subquery in a variable is not supported by fakemssql.")
    columns: list[nodes.Column] = []
    for node in walk(items):
        if isinstance(node, nodes.Column) and node not in columns:
            columns.append(node)
    saved = body.items
    body.items = [nodes.SelectItem(column) for column in columns] or [nodes.SelectItem(nodes.Literal("int", 1))]
    try:
        compiled = c.query(query, None)
    finally:
        body.items = saved
    rows, fold_ = c.fresh("a"), c.fresh("f")
    scope = Scope(
        "_rows",
        [
            value.with_(sql=f"{rows}.c{i}", name=f"c{i}", constant=None, origin="")
            for i, value in enumerate(compiled.columns, 1)
        ],
    )
    state = Scope("_state", [Typed(f"{fold_}.v{i}", kinds[n], name=n) for i, n in enumerate(kinds, 1)])

    def place(node: object) -> nodes.Expr | None:
        if isinstance(node, nodes.Column):
            return nodes.Column(("_rows", f"c{columns.index(node) + 1}"))
        if isinstance(node, nodes.Variable) and node.name in kinds:
            return nodes.Column(("_state", node.name))
        return None

    names = Names([scope, state])
    last = dict(zip([item.variable for item in saved], items, strict=True))
    first, then = [], []
    for name, kind in kinds.items():
        start = convert(c.scalar(nodes.Variable(name), names), kind, "assign")
        step = convert(c.scalar(rewritten(last[name].value, place), names), kind, "assign")
        first.append(f"{start.sql}")
        then.append(f"{step.sql}")
    listed = ", ".join(f"v{i}" for i in range(1, len(kinds) + 1))
    sql = (
        f"WITH RECURSIVE {rows} AS MATERIALIZED (SELECT *, row_number() OVER () AS n FROM ({compiled.sql}) AS q),"
        f" {fold_}(n, {listed}) AS (SELECT 0::int8, {', '.join(first)} UNION ALL SELECT {rows}.n, {', '.join(then)}"
        f" FROM {fold_} JOIN {rows} ON {rows}.n = {fold_}.n + 1)"
        f" SELECT {listed} FROM {fold_} WHERE n > 0 ORDER BY n"
    )
    return finish(c, sql, assign=list(kinds.items()), selects=True)
