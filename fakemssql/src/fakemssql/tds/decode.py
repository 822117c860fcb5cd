"""Decoding of RPC parameters: TYPE_INFO and a value, to Python (MS-TDS 2.2.5.4 to 2.2.5.6)."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Callable
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

from fakemssql import text
from fakemssql.contract import SqlError
from fakemssql.tds.reader import Reader
from fakemssql.types import MAX, SqlType

Bytes = memoryview
_EXACT = Context(prec=60)
_DAY_ONE = dt.datetime(1, 1, 1)  # noqa: DTZ001 - SQL Server's datetimes are naive
_YEAR_1900 = dt.datetime(1900, 1, 1)  # noqa: DTZ001
_UTF8_COLLATION = 0x04

_FIXED: dict[int, tuple[str, int]] = {
    0x1F: ("nvarchar", 0),
    0x30: ("tinyint", 1),
    0x32: ("bit", 1),
    0x34: ("smallint", 2),
    0x38: ("int", 4),
    0x3A: ("smalldatetime", 4),
    0x3B: ("real", 4),
    0x3C: ("money", 8),
    0x3D: ("datetime", 8),
    0x3E: ("float", 8),
    0x7A: ("smallmoney", 4),
    0x7F: ("bigint", 8),
}
_BY_SIZE: dict[int, dict[int, str]] = {
    0x26: {1: "tinyint", 2: "smallint", 4: "int", 8: "bigint"},
    0x68: {1: "bit"},
    0x6D: {4: "real", 8: "float"},
    0x6E: {4: "smallmoney", 8: "money"},
    0x6F: {4: "smalldatetime", 8: "datetime"},
    0x24: {16: "uniqueidentifier"},
}
_DECIMAL = {0x37: "decimal", 0x3F: "numeric", 0x6A: "decimal", 0x6C: "numeric"}
_SCALED = {0x29: "time", 0x2A: "datetime2", 0x2B: "datetimeoffset"}
_SHORT = {0xA5: "varbinary", 0xAD: "binary", 0xA7: "varchar", 0xAF: "char", 0xE7: "nvarchar", 0xEF: "nchar"}
_UNBOUNDED = {name: SqlType(name, MAX) for name in _SHORT.values()}
_of = lru_cache(maxsize=1024)(SqlType)
"""Makes each type once: a bulk insert has thousands of parameters, but few types."""
_LEGACY = {0x25: "varbinary", 0x2D: "binary", 0x27: "varchar", 0x2F: "char"}
_LONG = {0x22: "image", 0x23: "text", 0x63: "ntext"}


def read_parameter_value(reader: Reader) -> tuple[SqlType, Any]:
    """Read TYPE_INFO and the value after it. Raises :class:`SqlError` 8016 for a type that the server does not take."""
    token = reader.byte()
    if token in _SHORT:
        return _short(reader, _SHORT[token])
    if token in _BY_SIZE:
        size = reader.byte()
        name = _BY_SIZE[token].get(size) or _BY_SIZE[token][max(_BY_SIZE[token])]
        data = reader.take(reader.byte())
        return _of(name), _DECODERS[_BY_SIZE[token].get(len(data), name)](data, 0) if data else None
    if token in _FIXED:
        name, size = _FIXED[token]
        if not size:
            return SqlType(name, 1), None
        return SqlType(name), _DECODERS[name](reader.take(size), 0)
    if token in _DECIMAL:
        _, precision, scale = reader.byte(), reader.byte(), reader.byte()
        declared = SqlType(_DECIMAL[token], None, precision, scale)
        data = reader.take(reader.byte())
        return declared, _decimal(data, scale) if data else None
    if token == 0x28:
        data = reader.take(reader.byte())
        return SqlType("date"), _DECODERS["date"](data, 0) if data else None
    if token in _SCALED:
        scale = reader.byte()
        data = reader.take(reader.byte())
        return SqlType(_SCALED[token], scale=scale), _DECODERS[_SCALED[token]](data, scale) if data else None
    if token in _LEGACY:
        name, size = _LEGACY[token], reader.byte()
        data = reader.take(reader.byte())
        return SqlType(name, size), _DECODERS[name](data, 0) if data else None
    if token in _LONG:
        return _long(reader, _LONG[token])
    if token == 0xF1:
        if reader.byte():
            reader.take(2 * reader.byte())
            reader.take(2 * reader.byte())
            reader.take(2 * reader.short())
        plain = reader.plp()
        return SqlType("xml"), None if plain is None else _utf16(plain, 0).lstrip("\ufeff")
    raise SqlError(8016, f"Data type 0x{token:02X} is not supported by fakemssql.")


def _short(reader: Reader, name: str) -> tuple[SqlType, Any]:
    size = reader.short()
    decode = _DECODERS[name]
    if "binary" not in name:
        collation = reader.take(5)
        if collation[3] & _UTF8_COLLATION and name in {"varchar", "char"}:
            decode = lambda data, _: str(data, "utf-8", "replace")  # noqa: E731
    if size == 0xFFFF:
        data = reader.plp()
        return _UNBOUNDED[name], None if data is None else decode(data, 0)
    length = reader.short()
    declared = _of(name, max(1, size // 2 if name.startswith("n") else size))
    return declared, None if length == 0xFFFF else decode(reader.take(length), 0)


def _long(reader: Reader, name: str) -> tuple[SqlType, Any]:
    reader.long()
    if name != "image":
        reader.take(5)
    length = reader.long()
    declared = {"image": "varbinary", "text": "varchar", "ntext": "nvarchar"}[name]
    return SqlType(declared, MAX), None if length == 0xFFFFFFFF else _DECODERS[declared](reader.take(length), 0)


def _utf16(data: Bytes, _: int) -> str:
    return str(data, "utf-16-le", "surrogatepass")


def _decimal(data: Bytes, scale: int) -> Decimal:
    number = int.from_bytes(data[1:], "little")
    return Decimal(number if data[0] else -number).scaleb(-scale, _EXACT)


def _money(data: Bytes, _: int) -> Decimal:
    if len(data) == 4:
        number = int.from_bytes(data, "little", signed=True)
    else:
        high, low = struct.unpack("<iI", data)
        number = (high << 32) | low
    return Decimal(number).scaleb(-4, _EXACT)


def _datetime(data: Bytes, _: int) -> dt.datetime:
    days, ticks = struct.unpack("<iI", data)
    # Units of 1/300 s are rounded to the millisecond: .003, .007, .010.
    return _YEAR_1900 + dt.timedelta(days=days, milliseconds=(ticks * 10 + 1) // 3)


def _clock(data: Bytes, scale: int) -> dt.timedelta:
    """Return the time of day. Python has no 100 ns, so the seventh digit is dropped."""
    units = int.from_bytes(data, "little")
    return dt.timedelta(microseconds=units * 10 ** (6 - scale) if scale <= 6 else units // 10)


def _datetime2(data: Bytes, scale: int) -> dt.datetime:
    return _DAY_ONE + dt.timedelta(days=int.from_bytes(data[-3:], "little")) + _clock(data[:-3], scale)


def _datetimeoffset(data: Bytes, scale: int) -> dt.datetime:
    zone = dt.timezone(dt.timedelta(minutes=int.from_bytes(data[-2:], "little", signed=True)))
    return _datetime2(data[:-2], scale).replace(tzinfo=dt.timezone.utc).astimezone(zone)


_DECODERS: dict[str, Callable[[Bytes, int], Any]] = {
    "tinyint": lambda data, _: data[0],
    "bit": lambda data, _: data[0] != 0,
    "smallint": lambda data, _: int.from_bytes(data, "little", signed=True),
    "int": lambda data, _: int.from_bytes(data, "little", signed=True),
    "bigint": lambda data, _: int.from_bytes(data, "little", signed=True),
    "real": lambda data, _: struct.unpack("<f", data)[0],
    "float": lambda data, _: struct.unpack("<d", data)[0],
    "money": _money,
    "smallmoney": _money,
    "datetime": _datetime,
    "smalldatetime": lambda data, _: (
        _YEAR_1900 + dt.timedelta(days=data[0] | data[1] << 8, minutes=data[2] | data[3] << 8)
    ),
    "date": lambda data, _: dt.date.fromordinal(int.from_bytes(data, "little") + 1),
    "time": lambda data, scale: (_DAY_ONE + _clock(data, scale)).time(),
    "datetime2": _datetime2,
    "datetimeoffset": _datetimeoffset,
    "uniqueidentifier": lambda data, _: uuid.UUID(bytes_le=bytes(data)),
    "varbinary": lambda data, _: bytes(data),
    "binary": lambda data, _: bytes(data),
    "varchar": lambda data, _: text.from_cp1252(data),
    "char": lambda data, _: text.from_cp1252(data),
    "nvarchar": _utf16,
    "nchar": _utf16,
}
