"""Conversion of values between PostgreSQL's binary format and Python.

It is format code 1 (PostgreSQL documentation, "Frontend/Backend Protocol"), which the types' send functions write.
"""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

from fakemssql import text

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT, OID = 16, 17, 18, 19, 20, 21, 23, 25, 26
XML, FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR = 142, 700, 701, 705, 1042, 1043
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, NUMERIC, UUID = 1082, 1083, 1114, 1184, 1700, 2950

TEXTUAL = frozenset((CHAR, NAME, TEXT, XML, UNKNOWN, BPCHAR, VARCHAR))

DAYS_TO_2000 = dt.date(2000, 1, 1).toordinal() - 1
"""Days from 0001-01-01 to 2000-01-01, where PostgreSQL's dates and timestamps start."""

_EPOCH = dt.datetime(2000, 1, 1)  # noqa: DTZ001 - SQL Server's datetimes are naive
_EXACT = Context(prec=200)
_INT8 = struct.Struct(">q")


def to_decimal(data: bytes) -> Decimal:
    """Decode ``numeric``: base 10000 digits, the first of weight ``weight``, shown with ``scale`` fraction digits."""
    count, weight, sign, scale = struct.unpack_from(">HhHH", data)
    if sign not in (0, 0x4000):
        return Decimal({0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}[sign])
    number = 0
    for digit in struct.unpack_from(f">{count}H", data, 8):
        number = number * 10000 + digit
    value = Decimal(-number if sign else number).scaleb(4 * (weight + 1 - count), _EXACT)
    return value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)


def of_decimal(value: Decimal) -> bytes:
    """Encode ``numeric`` as :func:`to_decimal` decodes it; NaN for a value without digits."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return struct.pack("!HhHH", 0, 0, 0xC000, 0)
    scale = max(-exponent, 0)
    whole = "".join(map(str, digits)) + "0" * max(exponent, 0)
    integer, fraction = (whole[: len(whole) - scale], whole[len(whole) - scale :]) if scale else (whole, "")
    fraction = "0" * (scale - len(fraction)) + fraction
    integer = integer.rjust(-(-len(integer) // 4) * 4, "0")
    groups = [int(integer[i : i + 4]) for i in range(0, len(integer), 4)]
    weight = len(groups) - 1
    fraction = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups += [int(fraction[i : i + 4]) for i in range(0, len(fraction), 4)]
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    if not groups:
        sign, weight = 0, 0
    return struct.pack(f"!hhHH{len(groups)}h", len(groups), weight, 0x4000 if sign else 0, scale, *groups)


def to_integer(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def to_timestamp(data: bytes) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=_INT8.unpack(data)[0])


_DECODERS: dict[int, Callable[[bytes], Any]] = {
    BOOL: lambda data: data != b"\0",
    BYTEA: bytes,
    INT2: to_integer,
    INT4: to_integer,
    INT8: to_integer,
    OID: lambda data: int.from_bytes(data, "big"),
    FLOAT4: lambda data: struct.unpack(">f", data)[0],
    FLOAT8: lambda data: struct.unpack(">d", data)[0],
    NUMERIC: to_decimal,
    UUID: lambda data: uuid.UUID(bytes=data),
    DATE: lambda data: dt.date(2000, 1, 1) + dt.timedelta(days=to_integer(data)),
    TIME: lambda data: to_timestamp(data).time(),
    TIMESTAMP: to_timestamp,
    TIMESTAMPTZ: lambda data: to_timestamp(data).replace(tzinfo=dt.timezone.utc),
}


def decoder(oid: int) -> Callable[[bytes], Any]:
    """Return the decoder of values other than NULL of the PostgreSQL type ``oid``; an unknown type is decoded as
    text.
    """
    return _DECODERS.get(oid, text.from_pg)
