"""Date and time functions ("Date and time data types and functions")."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.convert import as_timestamp, convert
from fakemssql.tsql.compiler.functions.registry import Special, define, special
from fakemssql.tsql.compiler.scopes import Names, Typed
from fakemssql.tsql.datatypes.sqltypes import BIGINT, DATETIME, INT, is_moment, is_number, is_text
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.types import SqlType

_PARTS = {
    "year": "year yyyy yy",
    "quarter": "quarter qq q",
    "month": "month mm m",
    "dayofyear": "dayofyear dy y",
    "day": "day dd d",
    "week": "week wk ww",
    "weekday": "weekday dw w",
    "hour": "hour hh",
    "minute": "minute mi n",
    "second": "second ss s",
    "millisecond": "millisecond ms",
    "microsecond": "microsecond mcs",
    "nanosecond": "nanosecond ns",
    "tzoffset": "tzoffset tz",
    "iso_week": "iso_week isowk isoww",
}
_BY_ABBREVIATION = {short: part for part, shorts in _PARTS.items() for short in shorts.split()}
_DT2 = SqlType("datetime2", scale=7)


def _part(node: nodes.Function, count: int) -> str:
    name = node.name[-1].lower()
    if len(node.args) != count:
        raise syntax_error(174, f"The {name} function requires {count} argument(s).")
    first = node.args[0]
    if isinstance(first, nodes.Literal | nodes.Variable) or not isinstance(first, nodes.Column | nodes.Function):
        raise syntax_error(1023, f"Invalid parameter 1 specified for {name}.")
    word = first.name[-1].lower()
    part = _BY_ABBREVIATION.get(word)
    if part is None:
        raise syntax_error(155, f"'{first.name[-1]}' is not a recognized {name} option.")
    return part


def moment(value: Typed, default: SqlType = DATETIME) -> Typed:
    """Convert an argument to a date or time; text becomes ``default``, a number becomes datetime."""
    if value.type is None or is_text(value.type) or is_number(value.type):
        return convert(value, DATETIME if value.type is not None and is_number(value.type) else default, "cast")
    if not is_moment(value.type):
        raise SqlError(8116, f"Argument data type {value.type.name} is invalid for argument 1 of the date function.")
    return value


def _plain(value: Typed) -> str:
    """Return a date or time as a PostgreSQL timestamp."""
    assert value.type is not None
    return as_timestamp(value.sql, value.type.name)


_MISSING = {
    "time": {"year", "quarter", "month", "dayofyear", "day", "week", "weekday", "iso_week"},
    "date": {"hour", "minute", "second", "millisecond", "microsecond", "nanosecond"},
}
"""The parts that a type does not have."""


def _check_part(part: str, value: Typed, function: str) -> None:
    """Raise error 9810 for a part that the type of a value does not have."""
    name = "" if value.type is None else value.type.name
    if part in _MISSING.get(name, ()):
        raise SqlError(9810, f"The datepart {part} is not supported by date function {function} for data type {name}.")


def _dateadd(c: Compilation, node: nodes.Function, names: Names) -> Typed:
    part = _part(node, 3)
    if part in ("dayofyear", "weekday"):
        part = "day"
    value = moment(c.scalar(node.args[2], names))
    assert value.type is not None
    _check_part(part, value, "dateadd")
    amount = convert(c.scalar(node.args[1], names), INT, "cast").sql
    kind = value.type
    added = f"mssql.dateadd('{part}', {amount}, {_plain(value)}, '{kind.name}')"
    if kind.name == "date":
        return Typed(f"({added})::date", kind)
    if kind.name == "time":
        return Typed(f"({added})::time", kind)
    if kind.name == "datetimeoffset":
        return Typed(f"({added} AT TIME ZONE 'UTC')", kind)
    return Typed(added, kind)


def _difference(function: str, kind: SqlType) -> Special:
    def compile_(c: Compilation, node: nodes.Function, names: Names) -> Typed:
        part = _part(node, 3)
        if part in ("dayofyear", "weekday"):
            part = "day"
        if part in ("tzoffset", "iso_week"):
            raise SqlError(9810, f"The datepart {part} is not supported by date function datediff.")
        first, second = (_plain(moment(c.scalar(arg, names), _DT2)) for arg in node.args[1:])
        return Typed(f"mssql.{function}('{part}', {first}, {second})", kind)

    return compile_


def _datepart(c: Compilation, node: nodes.Function, names: Names) -> Typed:
    part = _part(node, 2)
    value = moment(c.scalar(node.args[1], names), _DT2)
    _check_part(part, value, "datepart")
    return Typed(f"mssql.datepart('{part}', {_plain(value)})", INT)


for _name, _function in {
    "DATEADD": _dateadd,
    "DATEDIFF": _difference("datediff", INT),
    "DATEDIFF_BIG": _difference("datediff_big", BIGINT),
    "DATEPART": _datepart,
}.items():
    special(_name)(_function)


@define("GETDATE GETUTCDATE CURRENT_TIMESTAMP", 0)
def _getdate(c: Compilation, a: list[Typed]) -> Typed:
    return Typed("mssql.utcnow_dt()", DATETIME, False)


@define("SYSDATETIME SYSUTCDATETIME", 0)
def _sysdatetime(c: Compilation, a: list[Typed]) -> Typed:
    return Typed("mssql.utcnow()", _DT2, False)


@define("SYSDATETIMEOFFSET", 0)
def _sysdatetimeoffset(c: Compilation, a: list[Typed]) -> Typed:
    return Typed("statement_timestamp()", SqlType("datetimeoffset", scale=7), False)


def _extract(name: str, part: str) -> None:
    define(name, 1)(lambda c, a: Typed(f"mssql.datepart('{part}', {_plain(moment(a[0]))})", INT))


_extract("YEAR", "year")
_extract("MONTH", "month")
_extract("DAY", "day")


@define("SWITCHOFFSET", 2)
def _switchoffset(c: Compilation, a: list[Typed]) -> Typed:
    if a[1].constant not in ("+00:00", "-00:00", "Z", 0):
        raise SqlError(40517, "A time zone other than +00:00 is not supported by fakemssql.")
    scale = a[0].type.scale if a[0].type is not None and a[0].type.scale is not None else 7
    return convert(a[0], SqlType("datetimeoffset", scale=scale), "cast")
