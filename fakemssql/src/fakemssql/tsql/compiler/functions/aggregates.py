"""Aggregate and window functions."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.operators import directed, order_key
from fakemssql.tsql.compiler.scopes import Names, Typed
from fakemssql.tsql.datatypes import sqltypes
from fakemssql.tsql.datatypes.sqltypes import BIGINT, FLOAT, INT, family, is_number, is_text, storage
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.types import SqlType

AGGREGATES = frozenset(["COUNT", "COUNT_BIG", "SUM", "AVG", "MIN", "MAX"])
RANKINGS = {"ROW_NUMBER": "row_number", "RANK": "rank", "DENSE_RANK": "dense_rank"}


def _window(c: Compilation, node: nodes.Function, names: Names) -> str:
    if node.over is None:
        return ""
    parts = []
    order = ", ".join(directed(c.scalar(item.value, names), item) for item in node.over.order)
    names.windows.append((bool(node.over.partition), order, node.over.frame))
    if node.over.partition:
        keys = [order_key(c.scalar(value, names)) for value in node.over.partition]
        parts.append("PARTITION BY " + ", ".join(keys))
    if node.over.order:
        parts.append("ORDER BY " + order)
    if node.over.frame:
        parts.append(node.over.frame)
    return f" OVER ({' '.join(parts)})"


def call(c: Compilation, node: nodes.Function, names: Names) -> Typed:
    """Compile an aggregate (with or without OVER) or a window function."""
    name = node.name[-1].upper()
    if name in RANKINGS:
        return _ranking(c, node, names, name)
    if name not in AGGREGATES:
        raise syntax_error(10757, f"The function '{node.name[-1]}' may not have a window in OVER.")
    over = _window(c, node, names)
    if not over:
        names.aggregates = True
        if names.in_aggregate:
            raise SqlError(
                130, "Cannot perform an aggregate function on an expression containing an aggregate or a subquery."
            )
        names.in_aggregate = True
    try:
        return _aggregate(c, node, names, name, over)
    finally:
        if not over:
            names.in_aggregate = False


def _aggregate(c: Compilation, node: nodes.Function, names: Names, name: str, over: str) -> Typed:
    if name in ("COUNT", "COUNT_BIG"):
        kind, cast = (INT, "::int4") if name == "COUNT" else (BIGINT, "")
        if node.star:
            return Typed(f"count(*){over}{cast}", kind, False)
        value = _one(c, node, names)
        inner = order_key(value) if node.distinct else value.sql
        return Typed(f"count({'DISTINCT ' if node.distinct else ''}{inner}){over}{cast}", kind, False)
    value = _one(c, node, names)
    kind = value.type or INT
    distinct = "DISTINCT " if node.distinct else ""
    if name in ("MIN", "MAX"):
        function = name.lower()
        if kind.name == "bit":
            raise SqlError(8117, f"Operand data type bit is invalid for {function} operator.")
        if kind.name == "uniqueidentifier":
            # PostgreSQL compares other bytes first; the least value matters only as a tie-break.
            return Typed(f"{function}(({value.sql})::text){over}::uuid", kind)
        if is_text(kind):
            # The value that ORDER BY would show first or last.
            pair = f"CASE WHEN {value.sql} IS NOT NULL THEN ARRAY[{order_key(value)}, {value.sql}] END"
            return Typed(f"({function}({pair}){over})[2]", kind, binary=value.binary)
        return Typed(f"{function}({value.sql}){over}", kind)
    if not is_number(kind) or kind.name == "bit":
        raise SqlError(8117, f"Operand data type {kind.name} is invalid for {name.lower()} operator.")
    if family(kind) == "int":
        result = BIGINT if kind.name == "bigint" else INT
        sql = f"{name.lower()}({distinct}{value.sql}){over}"
        if name == "AVG":
            # AVG fails where its sum overflows, as SUM does.
            total = f"(sum({distinct}{value.sql}){over})::{storage(result)}"
            return Typed(f"(CASE WHEN {total} IS NOT NULL THEN trunc({sql}) END)::{storage(result)}", result)
        return Typed(f"({sql})::{storage(result)}", result)
    if kind.name in ("float", "real"):
        return Typed(f"({name.lower()}({distinct}{value.sql}){over})::float8", FLOAT)
    if kind.name.endswith("money"):
        return Typed(f"({name.lower()}({distinct}{value.sql}){over})::numeric(19,4)", SqlType("money"))
    scale = kind.scale or 0
    if name == "AVG":
        scale = max(scale, 6)
        return Typed(
            f"(trunc({name.lower()}({distinct}{value.sql}){over}, {scale}))::numeric(38,{scale})",
            sqltypes.decimal(38, scale),
        )
    return Typed(f"(sum({distinct}{value.sql}){over})::numeric(38,{scale})", sqltypes.decimal(38, scale))


def _one(c: Compilation, node: nodes.Function, names: Names) -> Typed:
    if len(node.args) != 1:
        raise syntax_error(174, f"The {node.name[-1].lower()} function requires 1 argument(s).")
    value = c.scalar(node.args[0], names)
    if value.type is None:
        raise SqlError(8117, f"Operand data type NULL is invalid for {node.name[-1].lower()} operator.")
    return value


def _ranking(c: Compilation, node: nodes.Function, names: Names, name: str) -> Typed:
    if node.over is None:
        raise syntax_error(10753, f"The function '{node.name[-1]}' must have an OVER clause.")
    if not node.over.order:
        raise syntax_error(4112, f"The function '{node.name[-1]}' must have an OVER clause with ORDER BY.")
    return Typed(f"{RANKINGS[name]}(){_window(c, node, names)}::int8", BIGINT, False)
