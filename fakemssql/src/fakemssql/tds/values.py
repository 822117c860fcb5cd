"""Encoding of Python values: output parameters, and columns that are not converted from bytes to bytes.

Formats: MS-TDS 2.2.5.5 Data Type Dependent Data Streams.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from fakemssql import text
from fakemssql.contract import SqlError
from fakemssql.tds import temporal, typeinfo
from fakemssql.tds.versions import Version
from fakemssql.types import SqlType

_TEXT_POINTER = b"\x10" + bytes(16) + bytes(8)
"""Text pointer of 16 bytes and a timestamp; any bytes will do for a value outside of a table (2.2.7.19 ROW)."""
_EXACT = Context(prec=80)
_PLP_HEAD = struct.Struct("<QI").pack
_PLP_END = b"\0\0\0\0"
_PLP_EMPTY = b"\0" * 12
"""Empty value: its length, no part, and the end of parts."""


def encoder(wire: SqlType) -> Callable[[Any], bytes]:
    """Return the encoder of values other than None of a type that :func:`typeinfo.wire_type` returned.

    The encoder raises :class:`SqlError` 8115 for a value outside of the type's range.
    """
    encode = _encoder(wire)

    def checked(value: Any) -> bytes:
        try:
            return encode(value)
        except (OverflowError, struct.error, ArithmeticError) as error:
            raise overflow(wire) from error

    return checked


def encoder_of(declared: SqlType, version: Version) -> Callable[[Any], bytes]:
    """Return the encoder of values other than None of a declared type for a client of this version."""
    encode = encoder(typeinfo.wire_type(declared, version))
    if not version.dates and declared.name in typeinfo.LITERAL_SIZES:
        literal = temporal.literal(declared)
        return lambda value: encode(literal(value))
    return encode


def overflow(wire: SqlType) -> SqlError:
    return SqlError(8115, f"Arithmetic overflow error converting expression to data type {wire.name}.", state=2)


def _encoder(wire: SqlType) -> Callable[[Any], bytes]:
    name, scale = wire.name, wire.scale or 0
    if name in typeinfo.INTEGER_SIZES:
        size = typeinfo.INTEGER_SIZES[name]
        signed, prefix = size > 1, bytes((size,))
        return lambda value: prefix + int(value).to_bytes(size, "little", signed=signed)
    if name == "bit":
        return lambda value: b"\x01\x01" if value else b"\x01\x00"
    if name in typeinfo.FLOAT_SIZES:
        layout = struct.Struct("<Bf" if name == "real" else "<Bd")
        return lambda value: layout.pack(layout.size - 1, float(value))
    if name in {"decimal", "numeric"}:
        size = typeinfo.decimal_size(wire.precision or 18)
        return lambda value: decimal(unscaled(value, scale), wire.precision or 18, size)
    if name in typeinfo.MONEY_SIZES:
        return money if name == "money" else lambda value: struct.pack("<Bi", 4, unscaled(value, 4))
    if name in temporal.ENCODERS:
        return temporal.ENCODERS[name](scale)
    if name == "uniqueidentifier":
        return lambda value: b"\x10" + (value if isinstance(value, uuid.UUID) else uuid.UUID(str(value))).bytes_le
    if "binary" in name or name == "image":
        return sized(wire, _to_bytes)
    if name in {"nvarchar", "nchar", "xml", "ntext"}:
        return sized(wire, lambda value: as_text(value).encode("utf-16-le", "surrogatepass"))
    if name in {"varchar", "char", "text"}:
        return sized(wire, lambda value: text.to_cp1252(as_text(value)))
    raise ValueError(f"no TDS value for {wire}")


def sized(wire: SqlType, convert: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Return the encoder that converts a value to bytes and writes their length: cut or padded as declared, or in
    parts.
    """
    if typeinfo.is_plp(wire):
        return lambda value: plp(convert(value))
    if wire.name in typeinfo.LONG:
        return lambda value: long(convert(value))
    assert wire.length is not None
    unit = 2 if wire.name in {"nvarchar", "nchar"} else 1
    limit = wire.length * unit
    if wire.name in {"nvarchar", "varchar", "varbinary"}:

        def varying(value: Any) -> bytes:
            data = convert(value)
            size = len(data)
            if size > limit:
                data, size = data[:limit], limit
            return size.to_bytes(2, "little") + data

        return varying
    blank = {"nchar": b" \0", "char": b" ", "binary": b"\0"}[wire.name]

    def padded(value: Any) -> bytes:
        data = convert(value)[:limit]
        return limit.to_bytes(2, "little") + data + blank * ((limit - len(data)) // unit)

    return padded


def plp(data: bytes) -> bytes:
    """Value as one part of known length, and the end of parts."""
    size = len(data)
    if not size:
        return _PLP_EMPTY
    return b"".join((_PLP_HEAD(size, size), data, _PLP_END))


def long(data: bytes) -> bytes:
    """Return the value of ``text``, ``ntext`` or ``image``."""
    return b"".join((_TEXT_POINTER, struct.pack("<I", len(data)), data))


def unscaled(value: Any, scale: int) -> int:
    """``value * 10**scale``, rounded half away from zero as SQL Server does."""
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    if not number.is_finite():
        raise OverflowError
    return int(number.scaleb(scale, _EXACT).to_integral_value(ROUND_HALF_UP))


def decimal(number: int, precision: int, size: int) -> bytes:
    """Return the value of ``decimal``: a sign byte (1 is positive) and the magnitude."""
    magnitude = abs(number)
    if magnitude >= 10**precision:
        raise OverflowError
    return bytes((size, number >= 0)) + magnitude.to_bytes(size - 1, "little")


def money(value: Any) -> bytes:
    """Return the value of ``money``: two halves of 32 bits, the high one first."""
    number = unscaled(value, 4)
    return struct.pack("<BiI", 8, number >> 32, number & 0xFFFFFFFF)


def _to_bytes(value: Any) -> bytes:
    return text.to_pg(value) if isinstance(value, str) else bytes(value)


def as_text(value: Any) -> str:
    """Return the text of a value in a column of a character type."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, uuid.UUID):
        return str(value).upper()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
