"""Mathematical functions ("Mathematical functions (Transact-SQL)")."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.functions.registry import define
from fakemssql.tsql.compiler.operators import as_integer
from fakemssql.tsql.compiler.typed import Typed
from fakemssql.tsql.datatypes.sqltypes import (
    FLOAT,
    INT,
    family,
    is_number,
    storage,
)
from fakemssql.types import SqlType


def _number(c: Compilation, value: Typed) -> Typed:
    if value.type is None:
        return Typed("NULL::int4", INT)
    return value if is_number(value.type) else convert(value, FLOAT)


def _keeps(name: str, template: str) -> None:
    def implementation(c: Compilation, a: list[Typed]) -> Typed:
        value = _number(c, a[0])
        assert value.type is not None
        kind = INT if value.type.name in ("bit", "tinyint", "smallint") else value.type
        return Typed(f"({template.format(value.sql)})::{storage(kind)}", kind)

    define(name, 1)(implementation)


_keeps("ABS", "abs({})")
_keeps("CEILING", "ceil({})")
_keeps("FLOOR", "floor({})")
_keeps("SIGN", "sign({})")


@define("POWER", 2)
def _power(c: Compilation, a: list[Typed]) -> Typed:
    value = _number(c, a[0])
    kind = INT if value.type is not None and value.type.name in ("bit", "tinyint", "smallint") else value.type or INT
    inner = f"power(({value.sql})::numeric, ({_number(c, a[1]).sql})::numeric)"
    if family(kind) == "float":
        inner = f"power({value.sql}, ({_number(c, a[1]).sql})::float8)"
    return convert(
        Typed(inner, SqlType("numeric", precision=38, scale=10) if family(kind) != "float" else FLOAT), kind, "cast"
    )


@define("ROUND", 2, 3)
def _round(c: Compilation, a: list[Typed]) -> Typed:
    value = _number(c, a[0])
    kind = value.type or INT
    digits = as_integer(a[1])
    function = "round"
    if len(a) > 2:
        if not isinstance(a[2].constant, int):
            raise SqlError(40517, "ROUND with a variable third argument is not supported by fakemssql.")
        function = "trunc" if a[2].constant else "round"
    return Typed(f"{function}(({value.sql})::numeric, {digits})::{storage(kind)}", kind)
