"""Functions of values of any type: ISNULL, COALESCE, NULLIF, IIF, DATALENGTH; JSON and NEWID."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.collations import label, mixed
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.functions.registry import define, special
from fakemssql.tsql.compiler.operators import as_text, common_type, compare
from fakemssql.tsql.compiler.scopes import Names, Typed
from fakemssql.tsql.datatypes.sqltypes import BIGINT, GUID, INT, NMAX, family, is_text, nvarchar
from fakemssql.tsql.parser import nodes
from fakemssql.types import MAX


@special("IIF")
def _iif(c: Compilation, node: nodes.Function, names: Names) -> Typed:
    condition, then, otherwise = node.args  # the parser has counted them
    return c.scalar(nodes.Case(None, [(condition, then)], otherwise), names)


@define("ISNULL", 2)
def _isnull(c: Compilation, a: list[Typed]) -> Typed:
    kind = a[0].type or a[1].type or INT
    other = convert(a[1], kind, "cast" if is_text(kind) or family(kind) == "binary" else "implicit")
    return Typed(f"COALESCE({convert(a[0], kind).sql}, {other.sql})", kind, a[1].nullable and a[0].nullable).with_(
        **label(a[0])
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
    ).with_(**mixed(a))


@define("NULLIF", 2)
def _nullif(c: Compilation, a: list[Typed]) -> Typed:
    if a[0].type is None:
        raise SqlError(4151, "The type of the first argument to NULLIF cannot be the NULL constant.")
    return Typed(f"(CASE WHEN {compare('=', a[0], a[1])} THEN NULL ELSE {a[0].sql} END)", a[0].type).with_(
        **label(a[0])
    )


_SIZES = {
    "bit": 1,
    "tinyint": 1,
    "smallint": 2,
    "int": 4,
    "bigint": 8,
    "float": 8,
    "real": 4,
    "money": 8,
    "smallmoney": 4,
    "datetime": 8,
    "smalldatetime": 4,
    "date": 3,
    "uniqueidentifier": 16,
}


@define("DATALENGTH", 1)
def _datalength(c: Compilation, a: list[Typed]) -> Typed:
    kind = a[0].type
    if kind is None:
        return Typed("NULL::int4", INT)
    big = kind.length == MAX or kind.name in ("text", "ntext", "image")
    suffix, result = ("::int8", BIGINT) if big else ("", INT)
    fam = family(kind)
    if fam == "binary":
        return Typed(f"octet_length({a[0].sql}){suffix}", result)
    if fam in ("text", "ntext"):
        units = f"mssql.len16({a[0].sql})"
        return Typed(f"({units} * 2){suffix}" if fam == "ntext" else f"{units}{suffix}", result)
    size = _SIZES.get(kind.name)
    if size is None:
        precision, scale = kind.precision or 18, kind.scale if kind.scale is not None else 7
        if fam == "decimal":
            size = 5 if precision <= 9 else 9 if precision <= 19 else 13 if precision <= 28 else 17
        else:
            base = 3 if scale <= 2 else 4 if scale <= 4 else 5
            size = base + {"time": 0, "datetime2": 3}.get(kind.name, 5)
    return Typed(f"(CASE WHEN {a[0].sql} IS NOT NULL THEN {size} END)", INT)


@define("ISJSON", 1)
def _isjson(c: Compilation, a: list[Typed]) -> Typed:
    return Typed(f"mssql.isjson({as_text(a[0]).sql})", INT)


@define("JSON_VALUE", 2)
def _json_value(c: Compilation, a: list[Typed]) -> Typed:
    return Typed(f"mssql.json_value({as_text(a[0]).sql}, {as_text(a[1]).sql})", nvarchar(4000))


@define("JSON_QUERY", 1, 2)
def _json_query(c: Compilation, a: list[Typed]) -> Typed:
    path = as_text(a[1]).sql if len(a) > 1 else "'$'"
    return Typed(f"mssql.json_query({as_text(a[0]).sql}, {path})", NMAX)


@define("NEWID NEWSEQUENTIALID", 0)
def _newid(c: Compilation, a: list[Typed]) -> Typed:
    return Typed("gen_random_uuid()", GUID, False)
