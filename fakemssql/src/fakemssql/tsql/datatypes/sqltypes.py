"""Facts about the data types: how they are stored, which of two wins, how wide a result is.

Sources: "Data types (Transact-SQL)", "Data type precedence", "Precision, scale, and length".
"""

from __future__ import annotations

from fakemssql.types import MAX, SqlType

_STORAGE = {
    "bit": ("int2", 21),
    "tinyint": ("int2", 21),
    "smallint": ("int2", 21),
    "int": ("int4", 23),
    "bigint": ("int8", 20),
    "decimal": ("numeric", 1700),
    "numeric": ("numeric", 1700),
    "money": ("numeric", 1700),
    "smallmoney": ("numeric", 1700),
    "float": ("float8", 701),
    "real": ("float4", 700),
    "binary": ("bytea", 17),
    "varbinary": ("bytea", 17),
    "image": ("bytea", 17),
    "uniqueidentifier": ("uuid", 2950),
    "date": ("date", 1082),
    "time": ("time", 1083),
    "datetime": ("timestamp", 1114),
    "smalldatetime": ("timestamp", 1114),
    "datetime2": ("timestamp", 1114),
    "datetimeoffset": ("timestamptz", 1184),
}
_PRECEDENCE = [
    "sql_variant",
    "xml",
    "datetimeoffset",
    "datetime2",
    "datetime",
    "smalldatetime",
    "date",
    "time",
    "float",
    "real",
    "decimal",
    "numeric",
    "money",
    "smallmoney",
    "bigint",
    "int",
    "smallint",
    "tinyint",
    "bit",
    "ntext",
    "text",
    "image",
    "uniqueidentifier",
    "nvarchar",
    "nchar",
    "varchar",
    "char",
    "varbinary",
    "binary",
]
_RANK = {name: rank for rank, name in enumerate(_PRECEDENCE)}
_FAMILY = {
    **dict.fromkeys(("bit", "tinyint", "smallint", "int", "bigint"), "int"),
    **dict.fromkeys(("decimal", "numeric", "money", "smallmoney"), "decimal"),
    **dict.fromkeys(("float", "real"), "float"),
    **dict.fromkeys(("char", "varchar", "text"), "text"),
    **dict.fromkeys(("nchar", "nvarchar", "ntext", "xml", "sql_variant"), "ntext"),
    **dict.fromkeys(("binary", "varbinary", "image"), "binary"),
    **dict.fromkeys(("datetime", "smalldatetime", "datetime2"), "timestamp"),
}
_INT_PRECISION = {"bit": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
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
    """The PostgreSQL type that holds values of ``kind``."""
    return _STORAGE.get(kind.name, ("text", 25))[0]


def oid(kind: SqlType) -> int:
    """The object id of :func:`storage`."""
    return _STORAGE.get(kind.name, ("text", 25))[1]


def family(kind: SqlType) -> str:
    """``int``, ``decimal``, ``float``, ``text``, ``ntext``, ``binary``, ``timestamp``; else the type's own name."""
    return _FAMILY.get(kind.name, kind.name)


def is_number(kind: SqlType) -> bool:
    return family(kind) in ("int", "decimal", "float")


def is_text(kind: SqlType) -> bool:
    return family(kind) in ("text", "ntext")


def is_moment(kind: SqlType) -> bool:
    return family(kind) in ("timestamp", "date", "time", "datetimeoffset")


def numeric_size(kind: SqlType) -> tuple[int, int]:
    """Precision and scale of a number as a decimal."""
    if kind.name in _INT_PRECISION:
        return _INT_PRECISION[kind.name], 0
    if kind.name in _FIXED:
        return _FIXED[kind.name]
    if kind.precision is not None:
        return kind.precision, kind.scale or 0
    return 18, 0


def decimal(precision: int, scale: int) -> SqlType:
    """decimal(precision, scale) within SQL Server's limit of 38 digits, which takes from the scale."""
    if precision > 38:
        scale = max(scale - (precision - 38), min(scale, 6))
        precision = 38
    return SqlType("decimal", precision=precision, scale=scale)


def text_length(kind: SqlType) -> int:
    """The greatest number of characters of a value of ``kind`` as text."""
    if kind.length is not None:
        return kind.length
    return {"uniqueidentifier": 36, "text": MAX, "ntext": MAX, "xml": MAX, "image": MAX}.get(kind.name, 40)


def wider(left: SqlType, right: SqlType) -> SqlType:
    """The type of a result that may be either: by precedence, as CASE, COALESCE and UNION choose it."""
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
        scale = max(s1, s2)
        return decimal(max(p1 - s1, p2 - s2) + scale, scale)
    if high.name == low.name and high.scale is not None:
        return SqlType(high.name, scale=max(high.scale, low.scale or 0))
    return high


def arithmetic(op: str, left: SqlType, right: SqlType) -> SqlType:
    """The type of ``left op right`` for two numbers."""
    high = left if _RANK[left.name] <= _RANK[right.name] else right
    if family(high) == "float" or high.name in ("money", "smallmoney"):
        return high
    if family(high) == "int":
        return INT if high.name in ("bit",) else high
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
