"""Values between Python and PostgreSQL's binary formats, by SQL Server type."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from decimal import Decimal
from typing import Any

from fakemssql.text import from_cp1252, from_pg, to_cp1252, to_pg
from fakemssql.tsql.datatypes.sqltypes import storage
from fakemssql.types import MAX, SqlType

_EPOCH = dt.datetime(2000, 1, 1)  # noqa: DTZ001 - PostgreSQL's timestamp has no zone
_DAY = dt.date(2000, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_PACK = {"int2": struct.Struct("!h"), "int4": struct.Struct("!i"), "int8": struct.Struct("!q")}
_FLOAT8, _FLOAT4 = struct.Struct("!d"), struct.Struct("!f")


def _numeric(value: Decimal) -> bytes:
    """PostgreSQL's binary numeric: digits to the base of 10,000."""
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


def _from_numeric(data: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack_from("!hhHH", data)
    groups = struct.unpack_from(f"!{count}h", data, 8)
    number = 0
    for group in groups:
        number = number * 10000 + group
    exponent = (weight - count + 1) * 4
    digits = tuple(map(int, str(number)))
    value = Decimal((1 if sign == 0x4000 else 0, digits, exponent))
    # The context's precision (28) must not round a decimal(38): build the digits by hand.
    text = format(value, "f")
    whole, _, fraction = text.partition(".")
    return Decimal(whole + ("." + fraction.ljust(scale, "0")[:scale] if scale else ""))


def _datetime_ms(value: dt.datetime) -> dt.datetime:
    ticks = round(value.microsecond * 3 / 10000)
    base = value.replace(microsecond=0)
    if ticks == 300:
        return base + dt.timedelta(seconds=1)
    return base.replace(microsecond=(ticks * 10 + 1) // 3 * 1000)


def encode(kind: SqlType, value: Any) -> bytes | None:
    """``value`` as PostgreSQL's binary form of the storage type of ``kind``."""
    if value is None:
        return None
    pg = storage(kind)
    if pg == "text":
        text = value if isinstance(value, str) else str(value)
        if kind.name in ("char", "varchar", "text") and not text.isascii():
            text = from_cp1252(to_cp1252(text))
        if kind.name in ("char", "nchar") and kind.length:
            text = text.ljust(kind.length)
        return to_pg(text)
    if pg == "bytea":
        data = bytes(value)
        return data.ljust(kind.length, b"\0") if kind.name == "binary" and kind.length not in (None, MAX) else data
    if pg in _PACK:
        return _PACK[pg].pack((1 if value else 0) if kind.name == "bit" else int(value))
    if pg == "uuid":
        return value.bytes if isinstance(value, uuid.UUID) else uuid.UUID(str(value)).bytes
    if pg == "numeric":
        return _numeric(value if isinstance(value, Decimal) else Decimal(str(value)))
    if pg == "float8":
        return _FLOAT8.pack(value)
    if pg == "float4":
        return _FLOAT4.pack(value)
    if pg == "date":
        day = value.date() if isinstance(value, dt.datetime) else value
        return _PACK["int4"].pack((day - _DAY).days)
    if pg == "time":
        clock = value.time() if isinstance(value, dt.datetime) else value
        seconds = clock.hour * 3600 + clock.minute * 60 + clock.second
        return _PACK["int8"].pack(seconds * 1_000_000 + clock.microsecond)
    if pg == "timestamptz":
        if value.tzinfo is not None:
            value = value.astimezone(dt.timezone.utc).replace(tzinfo=None)
    elif not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    if kind.name == "datetime":
        value = _datetime_ms(value)
    return _PACK["int8"].pack((value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND)


def decode(kind: SqlType, data: bytes | None) -> Any:
    """The Python value of PostgreSQL's binary form."""
    if data is None:
        return None
    pg = storage(kind)
    if pg == "text":
        return from_pg(data)
    if pg == "bytea":
        return data
    if pg in _PACK:
        number = _PACK[pg].unpack(data)[0]
        return bool(number) if kind.name == "bit" else number
    if pg == "uuid":
        return uuid.UUID(bytes=bytes(data))
    if pg == "numeric":
        return _from_numeric(data)
    if pg == "float8":
        return _FLOAT8.unpack(data)[0]
    if pg == "float4":
        return _FLOAT4.unpack(data)[0]
    if pg == "date":
        return _DAY + dt.timedelta(days=_PACK["int4"].unpack(data)[0])
    if pg == "time":
        return (_EPOCH + dt.timedelta(microseconds=_PACK["int8"].unpack(data)[0])).time()
    moment = _EPOCH + dt.timedelta(microseconds=_PACK["int8"].unpack(data)[0])
    return moment.replace(tzinfo=dt.timezone.utc) if pg == "timestamptz" else moment
