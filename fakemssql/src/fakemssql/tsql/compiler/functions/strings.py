"""String functions ("String functions (Transact-SQL)")."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.collations import label
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.functions.registry import define
from fakemssql.tsql.compiler.operators import as_integer, as_text
from fakemssql.tsql.compiler.scopes import Typed
from fakemssql.tsql.datatypes.sqltypes import BIGINT, INT, NMAX, VMAX, family, is_text, nvarchar, text_length, varchar
from fakemssql.types import MAX, SqlType


def _same(c: Compilation, value: Typed, template: str, length: int | None = None) -> Typed:
    """Return a text computed from a text, which is ``{}`` in ``template``; varchar and nvarchar are kept."""
    text = as_text(value)
    assert text.type is not None
    size = text_length(text.type) if length is None else length
    make = nvarchar if family(text.type) == "ntext" else varchar
    kind = make(size) if size != MAX else (NMAX if family(text.type) == "ntext" else VMAX)
    return Typed(template.format(text.sql), kind).with_(**label(text))


def _one(name: str, template: str) -> None:
    define(name, 1)(lambda c, a: _same(c, a[0], template))


_one("UPPER", "upper({})")
_one("LOWER", "lower({})")


def _must_be_text(value: Typed, function: str) -> None:
    if value.type is None or not is_text(value.type) or value.type.name == "xml":
        kind = value.type.name if value.type is not None else "NULL"
        raise SqlError(8116, f"Argument data type {kind} is invalid for argument 1 of {function} function.")


def _trim(name: str, function: str) -> None:
    def implementation(c: Compilation, a: list[Typed]) -> Typed:
        if name == "TRIM":
            _must_be_text(a[0], "Trim")
        characters = as_text(a[1]).sql if len(a) > 1 else "' '"
        return _same(c, a[0], f"{function}({{}}, {characters})")

    define(name, 1, 2)(implementation)


_trim("LTRIM", "ltrim")
_trim("RTRIM", "rtrim")
_trim("TRIM", "btrim")


@define("LEN", 1)
def _len(c: Compilation, a: list[Typed]) -> Typed:
    if a[0].type is not None and family(a[0].type) == "binary":
        big, sql = a[0].type.length == MAX, f"octet_length({a[0].sql})"
        return Typed(f"{sql}::int8" if big else sql, BIGINT if big else INT)
    text = as_text(a[0])
    big = text.type is not None and text.type.length == MAX and a[0].type is not None and is_text(a[0].type)
    return Typed(f"mssql.len16(rtrim({text.sql}, ' ')){'::int8' if big else ''}", BIGINT if big else INT)


@define("LEFT", 2)
def _left(c: Compilation, a: list[Typed]) -> Typed:
    return _same(c, a[0], f"mssql.side({{}}, {as_integer(a[1])}, 'left')", _limit(c, a[0], a[1]))


@define("RIGHT", 2)
def _right(c: Compilation, a: list[Typed]) -> Typed:
    return _same(c, a[0], f"mssql.side({{}}, {as_integer(a[1])}, 'right')", _limit(c, a[0], a[1]))


def _limit(c: Compilation, value: Typed, size: Typed) -> int:
    kind = as_text(value).type
    assert kind is not None
    whole = text_length(kind)
    if isinstance(size.constant, int) and size.constant > 0:
        if whole == MAX:
            return size.constant if size.constant <= 4000 else MAX
        return min(whole, size.constant)
    return whole


@define("SUBSTRING", 2, 3)
def _substring(c: Compilation, a: list[Typed]) -> Typed:
    size = as_integer(a[2]) if len(a) > 2 else "2147483647"
    if a[0].type is not None and family(a[0].type) == "binary":
        kind = SqlType("varbinary", length=a[0].type.length if a[0].type.length is not None else MAX)
        return Typed(f"mssql.subbytes({a[0].sql}, {as_integer(a[1])}, {size})", kind)
    _must_be_text(a[0], "substring")
    limit = _limit(c, a[0], a[2]) if len(a) > 2 else None
    return _same(c, a[0], f"mssql.substring({{}}, {as_integer(a[1])}, {size})", limit)


@define("CHARINDEX", 2, 3)
def _charindex(c: Compilation, a: list[Typed]) -> Typed:
    start = as_integer(a[2]) if len(a) > 2 else "1"
    big = a[1].type is not None and a[1].type.length == MAX
    exact = str(a[0].binary or a[1].binary).lower()
    sql = f"mssql.charindex({as_text(a[0]).sql}, {as_text(a[1]).sql}, {start}, {exact})"
    return Typed(sql + ("::int8" if big else ""), BIGINT if big else INT)


@define("REPLACE", 3)
def _replace(c: Compilation, a: list[Typed]) -> Typed:
    unicode = any(v.type is not None and family(v.type) == "ntext" for v in a)
    kinds = [as_text(v) for v in a]
    big = any(k.type is not None and k.type.length == MAX for k in kinds)
    kind = (NMAX if big else nvarchar(4000)) if unicode else (VMAX if big else varchar(8000))
    function = "replace" if any(k.binary for k in kinds) else "mssql.replace_ci"
    return Typed(f"{function}({kinds[0].sql}, {kinds[1].sql}, {kinds[2].sql})", kind, binary=kinds[0].binary)


@define("REPLICATE", 2)
def _replicate(c: Compilation, a: list[Typed]) -> Typed:
    text = as_text(a[0])
    assert text.type is not None
    n = as_integer(a[1])
    if text.type.length == MAX:
        return _same(c, a[0], f"(CASE WHEN {n} >= 0 THEN repeat({{}}, {n}) END)")
    unicode = family(text.type) == "ntext"
    limit = 4000 if unicode else 8000
    return _same(c, a[0], f"(CASE WHEN {n} >= 0 THEN left(repeat({{}}, least({n}, {limit})), {limit}) END)", limit)


@define("QUOTENAME", 1, 2)
def _quotename(c: Compilation, a: list[Typed]) -> Typed:
    quote = as_text(a[1]).sql if len(a) > 1 else "'['"
    return Typed(f"mssql.quotename({as_text(a[0]).sql}, left({quote}, 1))", nvarchar(258))


@define("NCHAR", 1)
def _nchar(c: Compilation, a: list[Typed]) -> Typed:
    n = as_integer(a[0])
    sql = f"(CASE WHEN {n} BETWEEN 0 AND 65535 THEN mssql.bytes_ntext(decode(mssql.unit_hex({n}), 'hex')) END)"
    return Typed(sql, SqlType("nchar", length=1))


@define("PARSENAME", 2)
def _parsename(c: Compilation, a: list[Typed]) -> Typed:
    parts = f"mssql.parse_name({as_text(a[0]).sql})"
    return Typed(f"NULLIF(({parts})[cardinality({parts}) + 1 - {as_integer(a[1])}], '')", nvarchar(128))
