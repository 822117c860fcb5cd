# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling query expressions: SELECT lists, grouping, set operations, VALUES."""

from __future__ import annotations

from typing import Any

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.base_tables import hinted
from fakemssql.tsql.compiler.collations import check_shown
from fakemssql.tsql.compiler.compilation import Compilation, Compiled
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.operators import common_type, order_key
from fakemssql.tsql.compiler.order import distinct_rows, limited, lock_inside, offset, order_by, ordered, output_sql
from fakemssql.tsql.compiler.scalars import grouped, starred
from fakemssql.tsql.compiler.scopes import Names, Typed
from fakemssql.tsql.compiler.seeks import check_seeks
from fakemssql.tsql.compiler.trees import has_aggregate, has_window
from fakemssql.tsql.datatypes.sqltypes import INT, is_text, wider
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.lexer import syntax_error


def parenthesised(c: Compilation, body: nodes.Query, query: nodes.Query, parent: Names | None, carry: bool) -> Compiled:
    """Compile a query expression in parentheses, with or without ORDER BY."""
    if not (query.order or query.offset is not None):
        return c.query(body, parent, carry)
    return ordered(c, c.query(body, parent), query, parent)


def _check_carry(carry: bool) -> None:
    if carry:
        raise SqlError(4405, "The derived table is not updatable because it contains a set operation.")


def _check_clauses(select: nodes.Select) -> None:
    """Raise errors 147 and 4108 for aggregates and window functions in the wrong clause."""
    if has_aggregate(select.where):
        raise syntax_error(
            147,
            "An aggregate may not appear in the WHERE clause unless it is in a subquery contained in a HAVING clause"
            " or a select list, and the column being aggregated is an outer reference.",
        )
    if has_window([select.where, select.group, select.having]):
        raise syntax_error(4108, "Windowed functions can only appear in the SELECT or ORDER BY clauses.")


def _expand(c: Compilation, select: nodes.Select, names: Names) -> list[Typed]:
    """Compile the select list, with stars expanded and names as SQL Server shows them."""
    items: list[Typed] = []
    for item in select.items:
        node = item.value
        if isinstance(node, nodes.Star):
            for scope in starred(names, node):
                for column in scope.columns:
                    if names.grouped is not None:
                        column = grouped(column, names, nodes.Column((column.name,)))
                    items.append(column)
            continue
        value = c.scalar(node, names)
        shown = value.name if isinstance(node, nodes.Column) else ""
        items.append(value.with_(name=shown if item.alias is None else item.alias))
    check_shown(items)
    return items


def select(c: Compilation, select: nodes.Select, query: nodes.Query, parent: Names | None, carry: bool) -> Compiled:
    """Compile one SELECT; with ``carry`` its rows can be changed, and it returns their ctid as ``_ctid``."""
    names = Names([], parent)
    from_sql = ", ".join(c.source(node, names, "" if carry else None) for node in select.sources)
    scope = names.scopes[0] if carry and names.scopes else None
    if carry and (len(names.scopes) != 1 or scope is None or scope.table is None or select.group or select.distinct):
        raise SqlError(
            4405,
            "The common table expression, derived table or view is not updatable because the modification affects"
            " multiple base tables or it is grouped.",
        )
    _check_clauses(select)
    where = c.predicate(select.where, names) if select.where is not None else ""
    if c.depth == 1 or select.top is not None:
        # An outer query may add conditions to an inner one, as to a view.
        check_seeks(select.sources, select.where, lambda name: hinted(c, name, names))
    aggregated = (
        bool(select.group)
        or select.having is not None
        or has_aggregate([i.value for i in select.items])
        or any(has_aggregate(item.value) for item in query.order)
    )
    group = ""
    if aggregated:
        group = _group(c, select, names)
    items = _expand(c, select, names)
    having = f" HAVING {c.predicate(select.having, names)}" if select.having is not None else ""
    outputs = list(items)
    order = order_by(c, query.order, outputs, items, names, select.distinct)
    limit = limited(c, select, query, names)
    locks = names.locks
    if locks and (aggregated or select.distinct or names.windows):
        from_sql, where = lock_inside(from_sql, where, names, select, order, limit)
        locks = []
    columns = [f"{output_sql(value)} AS c{i}" for i, value in enumerate(items, 1)]
    if carry and scope is not None:
        columns.append(f"{scope.ctid} AS _ctid")
    text = f"SELECT {', '.join(columns)}"
    if from_sql:
        text += f" FROM {from_sql}"
    if where:
        text += f" WHERE {where}"
    text += group + having
    if select.distinct:
        text = distinct_rows(c, text, items, query, order, names)
        text += limit
    else:
        text += order + offset(c, query, names) + limit
    text += "".join(lock.clause for lock in locks)
    result = [value.with_(sql=f"c{i}") for i, value in enumerate(items, 1)]
    pieces = columns[: len(items)] if locks and not select.distinct else []
    return Compiled(text, result, scope.table if carry and scope is not None else None, pieces, bool(locks))


def _group(c: Compilation, select: nodes.Select, names: Names) -> str:
    keys: dict[str, bool] = {}
    parts = []
    for node in select.group:
        value = c.scalar(node, names)
        if isinstance(node, nodes.Literal):
            raise syntax_error(
                164, "Each GROUP BY expression must contain at least one column that is not an outer reference."
            )
        text = value.type is not None and is_text(value.type)
        keys[value.sql] = text
        parts.append(order_key(value))
        if not isinstance(node, nodes.Column):
            names.group_expressions = True
    names.grouped = keys
    return " GROUP BY " + ", ".join(parts) if parts else ""


def set_operation(
    c: Compilation, body: nodes.SetOperation, query: nodes.Query, parent: Names | None, carry: bool
) -> Compiled:
    """Compile UNION, EXCEPT and INTERSECT."""
    _check_carry(carry)
    for side in (body.left, body.right):
        if isinstance(side, nodes.Select) and any(item.variable for item in side.items):
            raise syntax_error(
                10734,
                "Variable assignment is not allowed in a statement containing a top level UNION, INTERSECT or EXCEPT"
                " operator.",
            )
    left, right = _operand(c, body.left, parent), _operand(c, body.right, parent)
    if len(left.columns) != len(right.columns):
        raise SqlError(
            205,
            "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of expressions"
            " in their target lists.",
        )
    columns = []
    for a, b in zip(left.columns, right.columns, strict=True):
        kind = wider(a.type or b.type or INT, b.type or a.type or INT)
        columns.append(a.with_(type=kind, nullable=a.nullable or b.nullable, origin="", identity=False, constant=None))
    first, second = _cast(c, left, columns), _cast(c, right, columns)
    op = body.op.upper()
    texts = any(column.type is not None and is_text(column.type) for column in columns)
    if body.op == "union" and texts:
        alias = c.fresh("d")
        keys = ", ".join(order_key(each.with_(sql=f"{alias}.c{i}")) for i, each in enumerate(columns, 1))
        sql = f"SELECT DISTINCT ON ({keys}) * FROM (({first}) UNION ALL ({second})) AS {alias}"
    elif body.op in ("except", "intersect") and texts:
        one, two = c.fresh("d"), c.fresh("e")
        match = " AND ".join(
            f"{order_key(each.with_(sql=f'{one}.c{i}'))} IS NOT"
            f" DISTINCT FROM {order_key(each.with_(sql=f'{two}.c{i}'))}"
            for i, each in enumerate(columns, 1)
        )
        keys = ", ".join(order_key(each.with_(sql=f"{one}.c{i}")) for i, each in enumerate(columns, 1))
        negated = "NOT " if body.op == "except" else ""
        found = f"{negated}EXISTS (SELECT 1 FROM ({second}) AS {two} WHERE {match})"
        sql = f"SELECT DISTINCT ON ({keys}) * FROM ({first}) AS {one} WHERE {found}"
    else:
        sql = f"({first}) {op} ({second})"
    return ordered(c, Compiled(sql, columns), query, parent)


def _operand(c: Compilation, body: Any, parent: Names | None) -> Compiled:
    compiled = c.branch(body, parent)
    if compiled.locked:
        # PostgreSQL locks no rows in an operand, only in an inner query.
        compiled.sql = f"SELECT * FROM ({compiled.sql}) AS {c.fresh('u')}"
    return compiled


def _cast(c: Compilation, compiled: Compiled, columns: list[Typed]) -> str:
    if all(value.type == column.type for value, column in zip(compiled.columns, columns, strict=True)):
        return compiled.sql
    alias = c.fresh("u")
    parts: list[str] = []
    for i, (value, column) in enumerate(zip(compiled.columns, columns, strict=True), 1):
        assert column.type is not None
        source = value.with_(sql=f"{alias}.c{i}", constant=None)
        parts.append(f"{convert(source, column.type).sql} AS c{i}")
    return f"SELECT {', '.join(parts)} FROM ({compiled.sql}) AS {alias}"


def values(c: Compilation, body: nodes.Values, query: nodes.Query, parent: Names | None, carry: bool) -> Compiled:
    """Compile a table value constructor."""
    _check_carry(carry)
    names = Names([], parent)
    rows = [[c.scalar(node, names) for node in row] for row in body.rows]
    if len({len(row) for row in rows}) != 1:
        raise SqlError(10709, "The number of columns for each row in a table value constructor must be the same.")
    columns = []
    for position in range(len(rows[0])):
        kind = common_type([row[position] for row in rows])
        columns.append(Typed(f"c{position + 1}", kind, any(row[position].nullable for row in rows)))
    texts = [
        "("
        + ", ".join(convert(value, column.type or INT).sql for value, column in zip(row, columns, strict=True))
        + ")"
        for row in rows
    ]
    names_list = ", ".join(f"c{i}" for i in range(1, len(columns) + 1))
    compiled = Compiled(f"SELECT * FROM (VALUES {', '.join(texts)}) AS {c.fresh('v')}({names_list})", columns)
    return ordered(c, compiled, query, parent)
