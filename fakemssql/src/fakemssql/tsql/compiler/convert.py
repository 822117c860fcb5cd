"""Conversions between T-SQL types as PostgreSQL expressions.

Source: "Data type conversion (Database Engine)", "CAST and CONVERT". Three modes: ``cast`` is explicit and cuts text to
length; ``assign`` is for columns and variables (error 2628 for text that is too long for a column); ``implicit`` is for
operands.
"""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.scopes import Typed
from fakemssql.tsql.datatypes.sqltypes import family, is_moment, is_number, is_text, numeric_size, storage, text_length
from fakemssql.tsql.names import literal
from fakemssql.types import MAX, SqlType

_WIDTH = {"bit": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
_NOT_IMPLICIT = {
    ("text", "binary"),
    ("ntext", "binary"),
    ("timestamp", "int"),
    ("timestamp", "decimal"),
    ("timestamp", "float"),
    ("timestamp", "binary"),
    ("float", "binary"),
    ("decimal", "binary"),
}
_CLASH = {
    "uniqueidentifier": {"int", "decimal", "float", "timestamp", "date", "time", "datetimeoffset"},
    "int": {"uniqueidentifier", "date", "time", "datetimeoffset"},
    "decimal": {"uniqueidentifier", "date", "time", "datetimeoffset"},
    "float": {"uniqueidentifier", "date", "time", "datetimeoffset"},
    "date": {"int", "decimal", "float", "uniqueidentifier", "time"},
    "time": {"int", "decimal", "float", "uniqueidentifier", "date"},
    "datetimeoffset": {"int", "decimal", "float", "uniqueidentifier"},
    "timestamp": {"uniqueidentifier"},
    "binary": {"date", "time", "datetimeoffset"},
}


def _check_allowed(source: SqlType, target: SqlType, mode: str) -> None:
    pair = (family(source), "date" if target.name == "datetime2" and is_number(source) else family(target))
    if pair[1] in _CLASH.get(pair[0], ()):
        if mode == "cast":
            raise SqlError(529, f"Explicit conversion from data type {source.name} to {target.name} is not allowed.")
        raise SqlError(206, f"Operand type clash: {source.name} is incompatible with {target.name}", state=2)
    if source.name == "datetime2" and target.name in ("int", "bigint", "float", "decimal"):
        if mode != "cast":
            raise SqlError(206, f"Operand type clash: {source.name} is incompatible with {target.name}", state=2)
        raise SqlError(529, f"Explicit conversion from data type datetime2 to {target.name} is not allowed.")
    if mode != "cast" and (pair in _NOT_IMPLICIT or (source.name.endswith("money") and is_text(target))):
        raise SqlError(
            257,
            f"Implicit conversion from data type {source.name} to {target.name} is not allowed. Use the CONVERT"
            " function to run this query.",
        )


def convert(value: Typed, target: SqlType, mode: str = "implicit", style: str = "", place: str = "") -> Typed:
    """Convert ``value`` to ``target``. ``style``: SQL of the third argument; ``place``: the column for error 2628."""
    source = value.type
    pg = storage(target)
    result = Typed("", target, value.nullable, binary=value.binary, constant=value.constant)
    result.collation, result.explicit = value.collation, value.explicit
    if source is None:
        result.sql = f"NULL::{pg}"
        return result
    if source == target and not style:
        return value.with_(type=target)
    _check_allowed(source, target, mode)
    kind = family(target)
    if kind in ("text", "ntext"):
        result.sql = _to_text(value, source, target, mode, style, place)
    elif kind == "binary":
        result.sql = _to_binary(value, source, target, mode, style, place)
    elif kind in ("int", "decimal", "float"):
        result.sql = _to_number(value, source, target)
        result.constant = None
    elif kind == "uniqueidentifier":
        result.sql = _to_guid(value, source)
    else:
        result.sql = _to_moment(value, source, target, style)
        result.constant = None
    return result


def attempt(value: Typed, target: SqlType, style: str) -> Typed:
    """Convert as TRY_CAST and TRY_CONVERT: NULL if the conversion fails."""
    assert value.type is not None
    inner = convert(Typed(f"($1::{storage(value.type)})", value.type), target, "cast", style)
    sql = f"mssql.attempt(({value.sql})::text, {literal(inner.sql)})::{storage(target)}"
    return Typed(sql, target)


def _to_number(value: Typed, source: SqlType, target: SqlType) -> str:
    sql, pg, name = value.sql, storage(target), target.name
    kind, goal = family(source), family(target)
    if kind in ("text", "ntext"):
        if goal == "int":
            if name == "bit":
                return f"mssql.str_bit({sql}, '{source.name}')"
            return f"mssql.str_int({sql}, '{source.name}', '{name}')::{pg}"
        if goal == "float":
            return f"mssql.str_num({sql}, '{source.name}', '{name}')::{pg}"
        goal = name if name.endswith("money") else "numeric"
        return _rounded(f"mssql.str_num({sql}, '{source.name}', '{goal}')", target)
    if kind == "binary":
        if goal != "int":
            raise SqlError(8114, f"Error converting data type {source.name} to {name}.")
        number = f"mssql.bytes_int({sql}, {_WIDTH[name]})"
        return f"({number} <> 0)::int::int2" if name == "bit" else f"{number}::{pg}"
    if kind == "timestamp":
        sql, kind = f"mssql.dt_days({sql})", "float"
        if goal == "int":
            sql = f"floor({sql} + 0.5)"
    if kind == "uniqueidentifier" or (is_moment(source) and kind != "float"):
        raise SqlError(529, f"Explicit conversion from data type {source.name} to {name} is not allowed.")
    if name == "bit":
        return f"({sql} <> 0)::int::int2"
    if source.name == "real" and goal in ("int", "decimal"):
        sql = f"({sql})::float8"  # PostgreSQL would keep six digits
    if goal == "int":
        if kind != "int":
            sql = f"round({sql})" if source.name.endswith("money") else f"trunc({sql})"
        elif _WIDTH[source.name] <= _WIDTH[name] and storage(source) == pg and name != "tinyint":
            return sql
        if source.name != "bit" and (name == "tinyint" or (name == "smallint" and source.name in ("int", "bigint"))):
            return f"mssql.{name}(({sql})::int8)"
        return f"({sql})::{pg}"
    if goal == "float":
        return f"({sql})::{pg}"
    if kind == "decimal" and source.scale == target.scale and (source.precision or 0) <= (target.precision or 0):
        return sql if source.precision is not None else _rounded(sql, target)
    return _rounded(f"({sql})::numeric", target)


def _rounded(sql: str, target: SqlType) -> str:
    precision, scale = numeric_size(target)
    if target.name == "smallmoney":
        return f"mssql.smallmoney({sql})"
    return f"({sql})::numeric({precision},{scale})"


def _to_guid(value: Typed, source: SqlType) -> str:
    if is_text(source):
        return f"mssql.str_guid({value.sql})"
    if family(source) == "binary":
        return f"mssql.bytes_guid({value.sql})"
    raise SqlError(206, f"Operand type clash: {source.name} is incompatible with uniqueidentifier", state=2)


def as_timestamp(sql: str, kind: str) -> str:
    """Return the SQL of a date or time of the type ``kind`` as a PostgreSQL timestamp."""
    if kind == "date":
        return f"({sql})::timestamp"
    if kind == "time":
        return f"('1900-01-01'::date + {sql})"
    return f"({sql} AT TIME ZONE 'UTC')" if kind == "datetimeoffset" else sql


def _to_moment(value: Typed, source: SqlType, target: SqlType, style: str) -> str:
    sql, kind, name = value.sql, family(source), target.name
    if kind in ("text", "ntext"):
        if name == "datetimeoffset":
            return f"mssql.str_tz({sql}, {style or 0})"
        sql = f"mssql.str_ts({sql}, '{name}', {style or 0})"
    elif kind in ("int", "decimal", "float"):
        sql = f"mssql.days_dt(({sql})::float8)"
    elif kind == name == "datetimeoffset":
        return sql
    elif is_moment(source):
        sql = as_timestamp(sql, kind)
    else:
        raise SqlError(529, f"Explicit conversion from data type {source.name} to {name} is not allowed.")
    if name == "date":
        return f"({sql})::date"
    if name == "datetime":
        return sql if source.name in ("datetime", "smalldatetime") else f"mssql.dt({sql})"
    if name == "smalldatetime":
        return f"mssql.sdt({sql})"
    digits = min(target.scale if target.scale is not None else 7, 6)
    if digits < 6 or kind in ("text", "ntext"):
        sql = f"mssql.rounded({sql}, {digits})"
    if name == "time":
        return f"({sql})::time"
    return f"(({sql}) AT TIME ZONE 'UTC')" if name == "datetimeoffset" else f"({sql})"


def fraction_digits(kind: SqlType) -> int:
    """Return the number of fraction digits that a date or time of this type shows."""
    if kind.name == "datetime":
        return 3
    if kind.name in ("smalldatetime", "date"):
        return 0
    return kind.scale if kind.scale is not None else 7


def _plain_text(value: Typed, source: SqlType, target: SqlType, style: str) -> tuple[str, int]:
    """Return the SQL of a value as text, and its greatest length."""
    sql, kind = value.sql, family(source)
    if kind in ("text", "ntext"):
        ascii_only = isinstance(value.constant, str) and value.constant.isascii()
        if kind == "ntext" and family(target) == "text" and not ascii_only:
            sql = f"mssql.v({sql})"
        return sql, text_length(source)
    if kind == "binary":
        if style in ("1", "2"):
            prefix = "'0x' || " if style == "1" else ""
            return f"({prefix}upper(encode({sql}, 'hex')))", MAX
        name = "bytes_ntext" if family(target) == "ntext" else "bytes_text"
        return f"mssql.{name}({sql})", source.length or MAX
    if kind == "uniqueidentifier":
        return f"upper(({sql})::text)", 36
    if kind == "float":
        return f"mssql.float_str(({sql}){'::text' if source.name == 'real' else ''}::float8)", 24
    if source.name.endswith("money"):
        return f"round({sql}, {4 if style == '2' else 2})::text", 22
    if kind in ("int", "decimal"):
        return f"({sql})::text", 40
    moment, suffix = as_timestamp(sql, kind), ""
    if kind == "datetimeoffset":
        suffix = " || ' +00:00'"
        if style in ("126", "127"):
            suffix = " || 'Z'" if style == "127" else " || '+00:00'"
    default = "0" if source.name in ("datetime", "smalldatetime") else "121"
    text = f"mssql.ts_str({moment}, {style or default}, '{source.name}', {fraction_digits(source)})"
    return f"({text}{suffix})", 40


def _overflow(source: SqlType, target: SqlType) -> str:
    """Return the kind of a value for mssql.fit_number, if its text is too long ("Truncating and rounding results")."""
    if source.name in ("int", "smallint", "tinyint") and family(target) == "text":
        return "*"
    if source.name.endswith("money"):
        return "money"
    kind = family(source)
    return {"int": "expression", "decimal": "numeric"}.get(kind, kind)


def _to_text(value: Typed, source: SqlType, target: SqlType, mode: str, style: str, place: str) -> str:
    sql, longest = _plain_text(value, source, target, style)
    limit = text_length(target)
    if isinstance(value.constant, str) and is_text(source):
        longest = len(value.constant.encode("utf-16-le", "surrogatepass")) // 2
    if limit != MAX and (longest == MAX or longest > limit):
        if is_number(source) or source.name == "uniqueidentifier":
            sql = f"mssql.fit_number({sql}, {limit}, '{_overflow(source, target)}', '{target.name}')"
        elif mode == "assign" and place:
            sql = f"mssql.fit({sql}, {limit}, {literal(place)})"
        else:
            sql = f"mssql.cut16({sql}, {limit})"
    if (
        target.name in ("char", "nchar")
        and limit != MAX
        and not (source.name == target.name and source.length == limit)
    ):
        sql = f"mssql.pad({sql}, {limit})"
    return sql


def _to_binary(value: Typed, source: SqlType, target: SqlType, mode: str, style: str, place: str) -> str:
    sql, kind = value.sql, family(source)
    limit = target.length if target.length is not None else MAX
    longest = MAX
    if kind in ("text", "ntext"):
        if style in ("1", "2"):
            sql = f"mssql.hex_bytes({sql}, {style})"
        else:
            sql = f"mssql.{'ntext' if kind == 'ntext' else 'text'}_bytes({sql})"
    elif kind == "int":
        width = _WIDTH[source.name]
        sql = f"mssql.int_bytes(({sql})::int8, {width})"
        if limit != MAX and limit != width:
            if limit < width:
                return f"substr({sql}, {width - limit + 1})"
            return (
                f"substr(int8send(0), 1, 0) || decode('{'00' * (limit - width)}', 'hex') || {sql}"
                if (target.name == "binary")
                else sql
            )
        return sql
    elif kind == "uniqueidentifier":
        sql, longest = f"mssql.guid_bytes({sql})", 16
    elif kind == "binary":
        longest = source.length or MAX
        if isinstance(value.constant, bytes):
            longest = len(value.constant)
    else:
        raise SqlError(40517, f"Conversion from {source.name} to {target.name} is not supported by fakemssql.")
    if limit != MAX and (longest == MAX or longest > limit):
        if mode == "assign" and place and kind == "binary":
            sql = f"mssql.fit_bytes({sql}, {limit}, {literal(place)})"
        else:
            sql = f"substr({sql}, 1, {limit})"
    if target.name == "binary" and limit != MAX and not (source.name == "binary" and source.length == limit):
        sql = f"mssql.pad_bytes({sql}, {limit})"
    return sql
