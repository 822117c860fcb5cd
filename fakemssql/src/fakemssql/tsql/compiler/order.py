# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling ORDER BY, OFFSET, TOP and DISTINCT, and the inner query that takes the row locks."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.compilation import Compilation, Compiled
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.operators import directed, order_key
from fakemssql.tsql.compiler.scopes import Names, Scope, Typed
from fakemssql.tsql.datatypes import sqltypes
from fakemssql.tsql.datatypes.sqltypes import BIGINT
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.lexer import syntax_error


def ordered(c: Compilation, compiled: Compiled, query: nodes.Query, parent: Names | None) -> Compiled:
    """Add ORDER BY and OFFSET to a compiled query, by its output columns."""
    if not query.order and query.offset is None:
        return compiled
    alias = c.fresh("o")
    columns = [column.with_(sql=f"{alias}.c{i}") for i, column in enumerate(compiled.columns, 1)]
    names = Names([Scope("", columns)], parent)
    order = order_by(c, query.order, columns, columns, names, distinct=True)
    sql = f"SELECT * FROM ({compiled.sql}) AS {alias}{order}{offset(c, query, names)}"
    return Compiled(sql, compiled.columns)


def order_by(
    c: Compilation,
    items: list[nodes.OrderItem],
    outputs: list[Typed],
    values: list[Typed],
    names: Names,
    distinct: bool = False,
) -> str:
    """Compile ORDER BY, with a leading blank; empty without items. A position or an alias means an output column."""
    if not items:
        return ""
    parts = []
    for item in items:
        node = item.value
        value: Typed | None = None
        if isinstance(node, nodes.Literal) and node.kind == "int":
            if not 1 <= node.value <= len(values):
                raise SqlError(
                    108,
                    f"The ORDER BY position number {node.value} is out of range of the number of items in the select"
                    " list.",
                )
            value = values[node.value - 1]
        elif isinstance(node, nodes.Column) and (len(node.name) == 1 or distinct):
            found = [i for i, out in enumerate(outputs) if out.name and fold(out.name) == fold(node.name[-1])]
            if found:
                value = values[found[0]]
        if value is None:
            value = c.scalar(node, names)
            over_output = names.scopes and not names.scopes[0].alias
            if distinct and not over_output and value.sql not in {v.sql for v in values}:
                raise _not_selected()
        parts.append(directed(value, item))
    return " ORDER BY " + ", ".join(parts)


def _not_selected() -> SqlError:
    return syntax_error(145, "ORDER BY items must appear in the select list if SELECT DISTINCT is specified.")


def offset(c: Compilation, query: nodes.Query, names: Names) -> str:
    """Compile OFFSET and FETCH."""
    text = ""
    if query.offset is not None:
        text += f" OFFSET {row_count(c, query.offset, names)}"
    if query.fetch is not None:
        if isinstance(query.fetch, nodes.Literal) and query.fetch.value == 0:
            raise syntax_error(10744, "The number of rows provided for a FETCH clause must be greater then zero.")
        text += f" LIMIT {row_count(c, query.fetch, names)}"
    return text


def row_count(c: Compilation, node: nodes.Expr, names: Names) -> str:
    """Compile a number of rows for TOP, OFFSET and FETCH; NULL and negative numbers are errors."""
    value = c.scalar(node, names)
    if isinstance(value.constant, int) and value.constant >= 0:
        return str(value.constant)
    if value.type is not None and not sqltypes.is_number(value.type):
        raise SqlError(
            1060, "The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer."
        )
    return f"mssql.top({convert(value, BIGINT, 'cast').sql})"


def output_sql(value: Typed) -> str:
    """Return the SQL of a value in a select list, where an untyped NULL needs a type."""
    return "NULL::int4" if value.type is None else value.sql


def limited(c: Compilation, select: nodes.Select, query: nodes.Query, names: Names) -> str:
    """Compile TOP to LIMIT."""
    if select.top is None:
        return ""
    if query.offset is not None:
        raise syntax_error(10741, "A TOP can not be used in the same query or sub-query as a OFFSET.")
    return f" LIMIT {row_count(c, select.top.value, Names([], names.parent))}"


def distinct_rows(c: Compilation, text: str, items: list[Typed], query: nodes.Query, order: str, names: Names) -> str:
    """Compile SELECT DISTINCT; the collation decides which rows are equal."""
    alias = c.fresh("d")
    keys = [order_key(v.with_(sql=f"{alias}.c{i}")) for i, v in enumerate(items, 1)]
    inner = f"SELECT DISTINCT ON ({', '.join(keys)}) * FROM ({text}) AS {alias}"
    if not order and query.offset is None:
        return inner
    outer = c.fresh("o")
    outputs = [v.with_(sql=f"{outer}.c{i}") for i, v in enumerate(items, 1)]
    parts = []
    for item in query.order:
        index = None
        node = item.value
        if isinstance(node, nodes.Literal) and node.kind == "int":
            index = node.value - 1
        else:
            if isinstance(node, nodes.Column) and len(node.name) == 1:
                index = next((i for i, v in enumerate(items) if v.name and fold(v.name) == fold(node.name[0])), None)
            if index is None:
                value = c.scalar(node, names)
                index = next((i for i, v in enumerate(items) if v.sql == value.sql), None)
        if index is None:
            raise _not_selected()
        parts.append(directed(outputs[index], item))
    clause = " ORDER BY " + ", ".join(parts) if parts else ""
    return f"SELECT * FROM ({inner}) AS {outer}{clause}{offset(c, query, names)}"


def lock_inside(
    from_sql: str,
    where: str,
    names: Names,
    select: nodes.Select,
    order: str,
    limit: str,
) -> tuple[str, str]:
    """Lock rows in an inner query, because PostgreSQL locks none beside aggregates, DISTINCT and windows."""
    if len(names.scopes) == 1 and len(names.locks) == 1:
        lock = names.locks[0]
        inner = f"SELECT {lock.alias}.*, {lock.alias}.ctid AS _ctid FROM {from_sql}"
        if where:
            inner += f" WHERE {where}"
        if limit and names.windows and _running(names, select, order, lock.scope):
            # The window has the order of TOP: rows behind the last row of TOP change no result.
            inner += order + limit
        inner += lock.clause
        lock.scope.ctid = f"{lock.alias}._ctid"
        return f"({inner}) AS {lock.alias}", ""
    for lock in names.locks:
        inner = f"(SELECT *, ctid AS _ctid FROM {lock.sql} FOR {lock.how.strength}{lock.how.wait}) AS {lock.alias}"
        from_sql = from_sql.replace(lock.sql, inner, 1)
        lock.scope.ctid = f"{lock.alias}._ctid"
    return from_sql, where


def _running(names: Names, select: nodes.Select, order: str, scope: Scope) -> bool:
    if select.distinct or select.group or not order:
        return False
    wanted = order.removeprefix(" ORDER BY ")
    unique = any(column.identity and column.sql in wanted for column in scope.columns)
    for partitioned, window_order, frame in names.windows:
        running = frame in ("ROWS UNBOUNDED PRECEDING", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW") or (
            unique and frame in ("", "RANGE UNBOUNDED PRECEDING", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")
        )
        if partitioned or window_order != wanted or not running:
            return False
    return True
