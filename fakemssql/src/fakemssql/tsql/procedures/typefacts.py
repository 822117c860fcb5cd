"""Numbers of the data types: ids in sys.types and in the protocol, sizes as the catalog shows them."""

from __future__ import annotations

from fakemssql.types import SqlType

_IDS = {
    "image": 34,
    "text": 35,
    "uniqueidentifier": 36,
    "date": 40,
    "time": 41,
    "datetime2": 42,
    "datetimeoffset": 43,
    "tinyint": 48,
    "smallint": 52,
    "int": 56,
    "smalldatetime": 58,
    "real": 59,
    "money": 60,
    "datetime": 61,
    "float": 62,
    "sql_variant": 98,
    "ntext": 99,
    "bit": 104,
    "decimal": 106,
    "numeric": 108,
    "smallmoney": 122,
    "bigint": 127,
    "varbinary": 165,
    "varchar": 167,
    "binary": 173,
    "char": 175,
    "nvarchar": 231,
    "nchar": 239,
    "xml": 241,
}


_SIZES = {
    "uniqueidentifier": (16, 0, 0),
    "date": (3, 10, 0),
    "tinyint": (1, 3, 0),
    "smallint": (2, 5, 0),
    "int": (4, 10, 0),
    "bigint": (8, 19, 0),
    "smalldatetime": (4, 16, 0),
    "real": (4, 24, 0),
    "money": (8, 19, 4),
    "smallmoney": (4, 10, 4),
    "datetime": (8, 23, 3),
    "float": (8, 53, 0),
    "bit": (1, 1, 0),
}


def type_row(kind: SqlType) -> tuple[int, str, int, int, int]:
    """System type id, full name, max_length, precision and scale of a type."""
    length, precision, scale = _SIZES.get(kind.name, (16, 0, 0))
    if kind.length is not None:
        length = kind.length if kind.length < 0 else kind.length * (2 if kind.name in ("nvarchar", "nchar") else 1)
    elif kind.name in ("decimal", "numeric"):
        precision, scale = kind.precision or 18, kind.scale or 0
        length = 5 if precision < 10 else 9 if precision < 20 else 13 if precision < 29 else 17
    elif kind.scale is not None:
        scale = kind.scale
        extra = 0 if scale < 3 else 1 if scale < 5 else 2
        base, digits = {"time": (3, 8), "datetime2": (6, 19), "datetimeoffset": (8, 26)}[kind.name]
        length, precision = base + extra, digits + (scale + 1 if scale else 0)
    return _IDS[kind.name], str(kind), length, precision, scale


TDS_IDS = _IDS | {
    "tinyint": 38,
    "smallint": 38,
    "int": 38,
    "bigint": 38,
    "smalldatetime": 111,
    "datetime": 111,
    "real": 109,
    "float": 109,
    "money": 110,
    "smallmoney": 110,
}


"""The type ids of the protocol, which has one for all integers and one for all floats that may be NULL."""
