"""Declared parameters of sp_executesql and sp_prepare: ``@P1 nvarchar(40), @P2 decimal(18,4) OUTPUT``."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from fakemssql.contract import Parameter, SqlError
from fakemssql.types import MAX, SqlType

_DECLARATION = re.compile(
    r"""\s*(?P<name>@[^\s,]+)\s+(?:AS\s+)?
        (?:\[?(?:sys|dbo)\]?\s*\.\s*)?\[?(?P<type>[A-Za-z_][\w]*(?:\s+(?:varying|precision))?)\]?
        \s*(?:\(\s*(?P<first>\d+|max)\s*(?:,\s*(?P<second>\d+)\s*)?\))?
        (?:\s*=\s*(?:N?'(?:[^']|'')*'|[^\s,]+))?
        \s*(?P<direction>OUTPUT|OUT|READONLY)?\s*(?:,|$)""",
    re.IGNORECASE | re.VERBOSE,
)
_SYNONYMS = {
    "integer": "int",
    "dec": "decimal",
    "character": "char",
    "char varying": "varchar",
    "character varying": "varchar",
    "double precision": "float",
    "rowversion": "timestamp",
}
_INTEGERS = frozenset(("tinyint", "smallint", "int", "bigint", "bit"))
_NUMBERS = frozenset(("decimal", "numeric", "money", "smallmoney", "float", "real"))
_DATETIMES = frozenset(("datetime", "smalldatetime", "datetime2"))


@lru_cache(maxsize=128)
def parse(text: str) -> tuple[Parameter, ...]:
    """Parameters without values, from a list of declarations. Raises :class:`SqlError` 102 for any other text.

    Results are cached: Microsoft's driver prepares a statement again each time, in a bulk insert with hundreds of
    parameters.
    """
    found: list[Parameter] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _DECLARATION.match(text, position)
        if match is None:
            raise SqlError(102, "Incorrect syntax in the declaration of parameters.", severity=15)
        output = (match["direction"] or "").upper().startswith("OUT")
        found.append(Parameter(match["name"], _type(match["type"], match["first"], match["second"]), None, output))
        position = match.end()
    return tuple(found)


def _type(name: str, first: str | None, second: str | None) -> SqlType:
    name = " ".join(name.lower().split())
    name = _SYNONYMS.get(name, name)
    if name in {"decimal", "numeric"}:
        return SqlType(name, None, int(first or 18), int(second or 0))
    if name in {"time", "datetime2", "datetimeoffset"}:
        return SqlType(name, scale=7 if first is None else int(first))
    if name == "float":
        return SqlType("real" if first is not None and int(first) <= 24 else "float")
    if name in {"char", "varchar", "nchar", "nvarchar", "binary", "varbinary"}:
        return SqlType(name, 1 if first is None else MAX if first.lower() == "max" else int(first))
    return SqlType(name)


def bind(declared: Sequence[Parameter], given: Sequence[Parameter], text: str) -> list[Parameter]:
    """Give each declared parameter its value, by name or by position.

    Raises :class:`SqlError` 8178 for a parameter without a value, 8144 for too many values.
    """
    if len(given) > len(declared):
        raise SqlError(8144, "Procedure or function has too many arguments specified.", state=2)
    named = {parameter.name.casefold(): parameter for parameter in given if parameter.name}
    if not named and len(given) == len(declared):
        return [_bound(declaration, found) for declaration, found in zip(declared, given, strict=True)]
    bound = []
    for position, declaration in enumerate(declared):
        found = named.get(declaration.name.casefold())
        if found is None and position < len(given) and not given[position].name:
            found = given[position]
        if found is None:
            raise SqlError(
                8178,
                f"The parameterized query '{text[:100]}' expects the parameter '{declaration.name}', "
                "which was not supplied.",
            )
        bound.append(_bound(declaration, found))
    return bound


def _bound(declared: Parameter, given: Parameter) -> Parameter:
    same = declared.type.name == given.type.name or holds(declared.type, given.value)
    return Parameter(declared.name, declared.type if same else given.type, given.value, given.output)


def holds(declared: SqlType, value: Any) -> bool:
    """Return whether a value of another wire type can be used as the declared type without a conversion."""
    name = declared.name
    if value is None:
        return True
    if isinstance(value, (bool, int)):
        return name in _INTEGERS or name in _NUMBERS
    if isinstance(value, (Decimal, float)):
        return name in _NUMBERS
    if isinstance(value, str):
        return declared.is_string
    if isinstance(value, bytes):
        return declared.is_binary
    if isinstance(value, uuid.UUID):
        return name == "uniqueidentifier"
    if isinstance(value, dt.datetime):
        return name == "datetimeoffset" if value.tzinfo else name in _DATETIMES
    return name == ("date" if isinstance(value, dt.date) else "time")
