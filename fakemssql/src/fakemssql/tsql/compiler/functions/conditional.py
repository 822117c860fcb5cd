"""Functions that choose among their arguments: IIF, CHOOSE, ISNULL, COALESCE, NULLIF."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.functions.registry import define, special
from fakemssql.tsql.compiler.operators import common_type, compare
from fakemssql.tsql.compiler.typed import Names, Typed
from fakemssql.tsql.datatypes.sqltypes import (
    INT,
    family,
    is_text,
)
from fakemssql.tsql.parser import nodes


@special("IIF")
def _iif(c: Compilation, node: nodes.Function, names: Names) -> Typed:
    if len(node.args) != 3:
        raise SqlError(174, "The iif function requires 3 argument(s).", severity=15)
    case = nodes.Case(None, [(node.args[0], node.args[1])], node.args[2])
    return c.scalar(case, names)


@define("ISNULL", 2)
def _isnull(c: Compilation, a: list[Typed]) -> Typed:
    kind = a[0].type or a[1].type or INT
    other = convert(a[1], kind, "cast" if is_text(kind) or family(kind) == "binary" else "implicit")
    return Typed(
        f"COALESCE({convert(a[0], kind).sql}, {other.sql})", kind, a[1].nullable and a[0].nullable, binary=a[0].binary
    )


@define("COALESCE", 2, -1)
def _coalesce(c: Compilation, a: list[Typed]) -> Typed:
    if all(value.type is None for value in a):
        raise SqlError(
            4127, "At least one of the arguments to COALESCE must be an expression that is not the NULL constant."
        )
    kind = common_type(a)
    return Typed(
        f"COALESCE({', '.join(convert(value, kind).sql for value in a)})",
        kind,
        all(value.nullable for value in a),
        binary=any(value.binary for value in a),
    )


@define("NULLIF", 2)
def _nullif(c: Compilation, a: list[Typed]) -> Typed:
    if a[0].type is None:
        raise SqlError(4151, "The type of the first argument to NULLIF cannot be the NULL constant.")
    return Typed(f"(CASE WHEN {compare('=', a[0], a[1])} THEN NULL ELSE {a[0].sql} END)", a[0].type, binary=a[0].binary)
