"""Rules of the data types: storage, precedence, precision and length of results.

Sources: "Data types (Transact-SQL)", "Data type precedence", "Precision, scale, and length".
"""

from __future__ import annotations

from fakemssql.types import MAX, SqlType

_TYPES = {
    **dict.fromkeys(("sql_variant", "xml"), ("text", 25, "ntext")),
    "datetimeoffset": ("timestamptz", 1184, "datetimeoffset"),
    **dict.fromkeys(("datetime2", "datetime", "smalldatetime"), ("timestamp", 1114, "timestamp")),
    "date": ("date", 1082, "date"),
    "time": ("time", 1083, "time"),
    "float": ("float8", 701, "float"),
    "real": ("float4", 700, "float"),
    **dict.fromkeys(("decimal", "numeric", "money", "smallmoney"), ("numeric", 1700, "decimal")),
    "bigint": ("int8", 20, "int"),
    "int": ("int4", 23, "int"),
    **dict.fromkeys(("smallint", "tinyint", "bit"), ("int2", 21, "int")),
    "ntext": ("text", 25, "ntext"),
    "text": ("text", 25, "text"),
    "image": ("bytea", 17, "binary"),
    "uniqueidentifier": ("uuid", 2950, "uniqueidentifier"),
    **dict.fromkeys(("nvarchar", "nchar"), ("text", 25, "ntext")),
    **dict.fromkeys(("varchar", "char"), ("text", 25, "text")),
    **dict.fromkeys(("varbinary", "binary"), ("bytea", 17, "binary")),
}
"""Types by precedence, highest first, with their storage type in PostgreSQL, its object id, and their family."""

_RANK = {name: rank for rank, name in enumerate(_TYPES)}
_INT_PRECISION = {"bit": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
RANGES = {
    "bigint": (-(2**63), 2**63 - 1),
    "int": (-(2**31), 2**31 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "tinyint": (0, 255),
}
"""Least and greatest value of the integer types."""
_FIXED = {"money": (19, 4), "smallmoney": (10, 4)}

INT, BIGINT, BIT, FLOAT = SqlType("int"), SqlType("bigint"), SqlType("bit"), SqlType("float")
DATETIME, GUID = SqlType("datetime"), SqlType("uniqueidentifier")
SYSNAME = SqlType("nvarchar", length=128)
NMAX, VMAX, BMAX = (SqlType(name, length=MAX) for name in ("nvarchar", "varchar", "varbinary"))


def varchar(length: int) -> SqlType:
    return SqlType("varchar", length=length if length <= 8000 else MAX)


def nvarchar(length: int) -> SqlType:
    return SqlType("nvarchar", length=length if length <= 4000 else MAX)


def storage(kind: SqlType) -> str:
    """Return the PostgreSQL type that stores values of ``kind``."""
    return _TYPES.get(kind.name, _TYPES["text"])[0]


def oid(kind: SqlType) -> int:
    """Return the object id of the storage type of ``kind``."""
    return _TYPES.get(kind.name, _TYPES["text"])[1]


def family(kind: SqlType) -> str:
    """Return the family of a type: int, decimal, float, text, ntext, binary or timestamp; else the name of the type."""
    return _TYPES[kind.name][2] if kind.name in _TYPES else kind.name


def is_number(kind: SqlType) -> bool:
    return family(kind) in ("int", "decimal", "float")


def is_text(kind: SqlType) -> bool:
    return family(kind) in ("text", "ntext")


def is_moment(kind: SqlType) -> bool:
    return family(kind) in ("timestamp", "date", "time", "datetimeoffset")


def numeric_size(kind: SqlType) -> tuple[int, int]:
    """Return the precision and scale of a numeric type as a decimal."""
    if kind.name in _INT_PRECISION:
        return _INT_PRECISION[kind.name], 0
    if kind.name in _FIXED:
        return _FIXED[kind.name]
    if kind.precision is not None:
        return kind.precision, kind.scale or 0
    return 18, 0


def decimal(precision: int, scale: int) -> SqlType:
    """Return decimal(precision, scale); above SQL Server's limit of 38 digits the scale is reduced."""
    if precision > 38:
        scale = max(scale - (precision - 38), min(scale, 6))
        precision = 38
    return SqlType("decimal", precision=precision, scale=scale)


def text_length(kind: SqlType) -> int:
    """Return the greatest number of characters of a value of ``kind`` as text."""
    if kind.length is not None:
        return kind.length
    return {"uniqueidentifier": 36, "text": MAX, "ntext": MAX, "xml": MAX, "image": MAX}.get(kind.name, 40)


def wider(left: SqlType, right: SqlType) -> SqlType:
    """Return the common type of two types by precedence, as CASE, COALESCE and UNION do."""
    if left == right:
        return left
    high, low = (left, right) if _RANK.get(left.name, 99) <= _RANK.get(right.name, 99) else (right, left)
    kind = family(high)
    if kind in ("text", "ntext") and (is_text(low) or family(low) == "binary"):
        a, b = text_length(high), text_length(low)
        if MAX in (a, b):
            return SqlType("nvarchar" if kind == "ntext" else "varchar", length=MAX)
        name = high.name if a == b and high.name == low.name else ("nvarchar" if kind == "ntext" else "varchar")
        return SqlType(name, length=max(a, b)) if high.length is not None else high
    if kind == "binary" and family(low) == "binary":
        a, b = high.length or MAX, low.length or MAX
        return BMAX if MAX in (a, b) else SqlType("varbinary", length=max(a, b))
    if high.name in ("decimal", "numeric") and is_number(low) and family(low) != "float":
        (p1, s1), (p2, s2) = numeric_size(high), numeric_size(low)
        whole = max(p1 - s1, p2 - s2)
        scale = min(max(s1, s2), 38 - whole)
        return decimal(whole + scale, scale)
    if high.name == low.name and high.scale is not None:
        return SqlType(high.name, scale=max(high.scale, low.scale or 0))
    return high


def arithmetic(op: str, left: SqlType, right: SqlType) -> SqlType:
    """Return the type of ``left op right`` for two numbers."""
    high = left if _RANK[left.name] <= _RANK[right.name] else right
    if family(high) == "float" or high.name in ("money", "smallmoney"):
        return high
    if family(high) == "int":
        return INT if high.name == "bit" else high
    (p1, s1), (p2, s2) = numeric_size(left), numeric_size(right)
    if op in ("+", "-"):
        scale = max(s1, s2)
        return decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if op == "*":
        return decimal(p1 + p2 + 1, s1 + s2)
    if op == "/":
        scale = max(6, s1 + p2 + 1)
        return decimal(p1 - s1 + s2 + scale, scale)
    return decimal(min(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2))
