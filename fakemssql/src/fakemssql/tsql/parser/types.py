"""Names of data types, and the types they make with the sizes given or left out."""

from __future__ import annotations

from fakemssql.contract import SqlError
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


TYPE_NAMES = frozenset(
    [
        "bit",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "decimal",
        "numeric",
        "money",
        "smallmoney",
        "float",
        "real",
        "char",
        "varchar",
        "text",
        "nchar",
        "nvarchar",
        "ntext",
        "sysname",
        "xml",
        "binary",
        "varbinary",
        "image",
        "uniqueidentifier",
        "date",
        "time",
        "datetime",
        "smalldatetime",
        "datetime2",
        "datetimeoffset",
        "sql_variant",
    ]
)


def make_type(name: str, sizes: list[int], *, declared: bool, line: int = 1) -> SqlType:
    """The type ``name(sizes)``. ``declared``: a missing length means 1 as in a declaration, else 30 as in CAST."""
    name = _SYNONYMS.get(name.lower(), name.lower())
    if name not in TYPE_NAMES:
        if declared:
            raise SqlError(
                2715, f"Column, parameter, or variable #1: Cannot find data type {name}.", state=6, line=line
            )
        raise SqlError(243, f"Type {name} is not a defined system type.", line=line)
    if name in ("varchar", "nvarchar", "char", "nchar", "varbinary", "binary"):
        length = sizes[0] if sizes else (1 if declared else 30)
        limit = 4000 if name in ("nvarchar", "nchar") else 8000
        if length != MAX and not 1 <= length <= limit:
            raise SqlError(
                131 if length > limit else 1001,
                f"The size ({length}) given to the type '{name}' exceeds the maximum allowed for any data type"
                f" ({limit}).",
                severity=15,
                line=line,
            )
        if length == MAX and name in ("char", "nchar", "binary"):
            raise SqlError(102, "Incorrect syntax near 'max'.", severity=15, line=line)
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
