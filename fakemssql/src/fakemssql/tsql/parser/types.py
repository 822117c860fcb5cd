"""Parsing of data types: names, synonyms, sizes and their defaults ("Data types")."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.parser import Parser
from fakemssql.types import MAX, SqlType

_SYNONYMS = {
    "integer": "int",
    "dec": "decimal",
    "character": "char",
    "charactervarying": "varchar",
    "charvarying": "varchar",
    "binaryvarying": "varbinary",
    "nationalchar": "nchar",
    "nationalcharacter": "nchar",
    "nationalcharvarying": "nvarchar",
    "nationalcharactervarying": "nvarchar",
    "nationaltext": "ntext",
    "doubleprecision": "float",
}


_NAMES = frozenset(
    [
        *("bit", "tinyint", "smallint", "int", "bigint", "decimal", "numeric", "money", "smallmoney", "float"),
        *("real", "char", "varchar", "text", "nchar", "nvarchar", "ntext", "sysname", "xml", "binary", "varbinary"),
        *("image", "uniqueidentifier", "date", "time", "datetime", "smalldatetime", "datetime2", "datetimeoffset"),
        "sql_variant",
    ]
)


_UNSUPPORTED = frozenset(
    ["rowversion", "timestamp", "hierarchyid", "geography", "geometry", "json", "vector", "cursor"],
)

_VARYING = ("varchar", "nvarchar", "varbinary", "charvarying", "charactervarying")


def data_type(p: Parser, *, declared: bool = True) -> SqlType:
    """Parse a data type as in a declaration (``declared``) or in CAST."""
    token = p.token
    if not p.is_identifier(token) and token.upper not in ("NATIONAL", "DOUBLE", "CURSOR"):
        p.fail()
    p.next()
    name = str(token.value)
    if p.is_op(".") and name.lower() in ("sys", "dbo"):
        p.next()
        name = str(p.next().value)
    name = name.lower()
    if name == "national":
        name += str(p.next().value).lower()
    if name in ("character", "char", "binary", "nationalchar", "nationalcharacter") and p.accept("VARYING"):
        name += "varying"
    if name == "double" and p.accept("PRECISION"):
        name = "float"
    sizes: list[int] = []
    if p.is_op("(") and (p.peek().kind == lexer.NUMBER or p.peek().upper == "MAX"):
        p.next()
        if p.accept("MAX"):
            if name in _NAMES and name not in _VARYING:
                p.fail(p.peek(-1))
            sizes.append(MAX)
        else:
            sizes.append(p.integer())
            if p.accept_op(","):
                sizes.append(p.integer())
        p.expect_op(")")
    if name in _UNSUPPORTED:
        p.unsupported(f"The data type {name}", token)
    return _make(name, sizes, declared=declared, line=token.line)


def _make(name: str, sizes: list[int], *, declared: bool, line: int) -> SqlType:
    """Return the type ``name(sizes)``. A missing length is 1 in a declaration (``declared``), 30 in CAST."""
    name = _SYNONYMS.get(name.lower(), name.lower())
    if name not in _NAMES:
        if declared:
            raise SqlError(
                2715, f"Column, parameter, or variable #1: Cannot find data type {name}.", state=6, line=line
            )
        raise SqlError(243, f"Type {name} is not a defined system type.", line=line)
    if name in ("varchar", "nvarchar", "char", "nchar", "varbinary", "binary"):
        length = sizes[0] if sizes else (1 if declared else 30)
        limit = 4000 if name in ("nvarchar", "nchar") else 8000
        if length != MAX and not 1 <= length <= limit:
            raise syntax_error(
                131 if length > limit else 1001,
                f"The size ({length}) given to the type '{name}' exceeds the maximum allowed for any data type"
                f" ({limit}).",
                line=line,
            )
        if length == MAX and name in ("char", "nchar", "binary"):
            raise syntax_error(102, "Incorrect syntax near 'max'.", line=line)
        return SqlType(name, length=length)
    if name in ("decimal", "numeric"):
        precision = sizes[0] if sizes else 18
        scale = sizes[1] if len(sizes) > 1 else 0
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise SqlError(2750, f"Column or parameter has an invalid precision or scale: {name}.", line=line)
        return SqlType(name, precision=precision, scale=scale)
    if name in ("datetime2", "time", "datetimeoffset"):
        scale = sizes[0] if sizes else 7
        if not 0 <= scale <= 7:
            raise SqlError(1002, f"Line {line}: Specified scale {scale} is invalid.", line=line)
        return SqlType(name, scale=scale)
    if name == "float":
        return SqlType("real" if sizes and sizes[0] <= 24 else "float")
    if sizes:
        raise SqlError(2716, f"Cannot specify a column width on data type {name}.", line=line)
    return SqlType("nvarchar", length=128) if name == "sysname" else SqlType(name)
