"""TYPE_INFO and NULL of the data types (MS-TDS 2.2.5.4 Data Types, 2.2.5.6)."""

from __future__ import annotations

import struct

from fakemssql.tds.tokens import COLLATION
from fakemssql.tds.versions import Version
from fakemssql.types import MAX, SqlType

INTEGER_SIZES = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
FLOAT_SIZES = {"real": 4, "float": 8}
MONEY_SIZES = {"smallmoney": 4, "money": 8}
DATETIME_SIZES = {"smalldatetime": 4, "datetime": 8}

PLP_MAX = 0xFFFF
"""Length of a type whose values come in parts (Partially Length-Prefixed)."""
PLP_NULL = b"\xff" * 8
SHORT_NULL = b"\xff\xff"
BYTE_NULL = b"\0"

LONG = {"text": 0x23, "ntext": 0x63, "image": 0x22}
"""Types of long values before TDS 7.2. Their values have a text pointer and then a length of 4 bytes."""
_FORMERLY = {"varchar": "text", "nvarchar": "ntext", "varbinary": "image", "xml": "ntext"}
LITERAL_SIZES = {"date": 10, "time": 8, "datetime2": 19, "datetimeoffset": 26}
"""Lengths of the texts that are sent for dates before TDS 7.3, without fractions of a second."""

_VARIABLE = {
    "varbinary": 0xA5,
    "binary": 0xAD,
    "varchar": 0xA7,
    "char": 0xAF,
    "nvarchar": 0xE7,
    "nchar": 0xEF,
}
_LIMIT = {"varbinary": 8000, "binary": 8000, "varchar": 8000, "char": 8000, "nvarchar": 4000, "nchar": 4000}
_ALIASES = {
    "text": SqlType("varchar", MAX),
    "ntext": SqlType("nvarchar", MAX),
    "image": SqlType("varbinary", MAX),
    "sysname": SqlType("nvarchar", 128),
    # Values are sent as text: the engine has no sql_variant.
    "sql_variant": SqlType("nvarchar", 4000),
    "timestamp": SqlType("binary", 8),
}


def wire_type(declared: SqlType, version: Version) -> SqlType:
    """Return the type in which values of ``declared`` are sent, with length, precision and scale filled in.

    A character or binary type without a length, or longer than its limit, is sent as ``max``. If the client's version
    does not have a type, older types are sent: texts for dates ("Backward Compatibility for Down-level Clients" in the
    description of each type), ``text``, ``ntext`` and ``image`` for ``max``.
    """
    wire = _wire_type(declared)
    if not version.wide and is_plp(wire):
        return SqlType(_FORMERLY[wire.name])
    if not version.dates and wire.name in LITERAL_SIZES:
        return SqlType("nvarchar", LITERAL_SIZES[wire.name] + (1 + wire.scale if wire.scale else 0))
    return wire


def _wire_type(declared: SqlType) -> SqlType:
    name = declared.name
    if name in {"decimal", "numeric"}:
        precision = 18 if declared.precision is None else declared.precision
        return SqlType(name, None, precision, declared.scale or 0)
    found = _ALIASES.get(name, declared)
    if found.name in {"time", "datetime2", "datetimeoffset"}:
        return SqlType(found.name, scale=7 if found.scale is None else found.scale)
    if found.name in _LIMIT:
        length = found.length
        if length is None or length > _LIMIT[found.name]:
            length = MAX
        if length == MAX:
            return SqlType(found.name if found.name.startswith(("var", "nvar")) else _VARYING[found.name], MAX)
        return SqlType(found.name, max(1, length))
    return found


_VARYING = {"char": "varchar", "nchar": "nvarchar", "binary": "varbinary"}


def is_plp(wire: SqlType) -> bool:
    return wire.length == MAX or wire.name == "xml"


def decimal_size(precision: int) -> int:
    """Return the number of bytes of a decimal's value, including its sign."""
    return 5 if precision <= 9 else 9 if precision <= 19 else 13 if precision <= 28 else 17


def type_info(wire: SqlType) -> bytes:
    """Return the TYPE_INFO of a type that :func:`wire_type` returned. Raises :class:`ValueError` for an unknown
    type.
    """
    name = wire.name
    if name in INTEGER_SIZES:
        return bytes((0x26, INTEGER_SIZES[name]))
    if name == "bit":
        return b"\x68\x01"
    if name in FLOAT_SIZES:
        return bytes((0x6D, FLOAT_SIZES[name]))
    if name in {"decimal", "numeric"}:
        assert wire.precision is not None
        token = 0x6A if name == "decimal" else 0x6C
        return bytes((token, decimal_size(wire.precision), wire.precision, wire.scale or 0))
    if name in MONEY_SIZES:
        return bytes((0x6E, MONEY_SIZES[name]))
    if name in DATETIME_SIZES:
        return bytes((0x6F, DATETIME_SIZES[name]))
    if name == "date":
        return b"\x28"
    if name in {"time", "datetime2", "datetimeoffset"}:
        return bytes(({"time": 0x29, "datetime2": 0x2A, "datetimeoffset": 0x2B}[name], wire.scale or 0))
    if name == "uniqueidentifier":
        return b"\x24\x10"
    if name == "xml":
        return b"\xf1\x00"
    if name in LONG:
        size = 0x7FFFFFFE if name == "ntext" else 0x7FFFFFFF
        return struct.pack("<BI", LONG[name], size) + (b"" if name == "image" else COLLATION)
    if name in _VARIABLE:
        assert wire.length is not None
        size = PLP_MAX if wire.length == MAX else wire.length * (2 if name in {"nvarchar", "nchar"} else 1)
        collation = b"" if "binary" in name else COLLATION
        return struct.pack("<BH", _VARIABLE[name], size) + collation
    raise ValueError(f"no TDS type for {wire}")


def null(wire: SqlType) -> bytes:
    """NULL as a value of a type that :func:`wire_type` returned."""
    if is_plp(wire):
        return PLP_NULL
    return SHORT_NULL if wire.name in _VARIABLE else BYTE_NULL
