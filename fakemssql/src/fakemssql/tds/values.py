"""Python values to TDS values: output parameters, and columns whose PostgreSQL type is not their SQL Server type.

Formats: MS-TDS 2.2.5.5 Data Type Dependent Data Streams.
"""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from fakemssql import text
from fakemssql.contract import SqlError
from fakemssql.tds import typeinfo
from fakemssql.types import SqlType

DAY_US = 86_400_000_000
DAYS_TO_1900 = dt.date(1900, 1, 1).toordinal() - 1
"""Days from 0001-01-01, where ``date`` starts, to 1900-01-01, where ``datetime`` does."""

_EXACT = Context(prec=80)
PLP_END = b"\0\0\0\0"
PLP_EMPTY = b"\0" * 12
"""An empty value: its length, no part, and the end of parts."""


def encoder(wire: SqlType) -> Callable[[Any], bytes]:
    """Encodes values other than None of a type that :func:`typeinfo.wire_type` returned.

    The encoder raises :class:`SqlError` 8115 for a value outside of the type's range.
    """
    encode = _encoder(wire)

    def checked(value: Any) -> bytes:
        try:
            return encode(value)
        except (OverflowError, struct.error, ArithmeticError) as error:
            raise overflow(wire) from error

    return checked


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
    if name in _TEMPORAL:
        return _TEMPORAL[name](scale)
    if name == "uniqueidentifier":
        return lambda value: b"\x10" + (value if isinstance(value, uuid.UUID) else uuid.UUID(str(value))).bytes_le
    if "binary" in name:
        return sized(wire, _to_bytes)
    if name in {"nvarchar", "nchar", "xml"}:
        return sized(wire, lambda value: as_text(value).encode("utf-16-le", "surrogatepass"))
    if name in {"varchar", "char"}:
        return sized(wire, lambda value: text.to_cp1252(as_text(value)))
    raise ValueError(f"no TDS value for {wire}")


def sized(wire: SqlType, convert: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """What ``convert`` makes of a value, with its length: cut or padded to the declared length, or in parts."""
    if typeinfo.is_plp(wire):
        return lambda value: plp(convert(value))
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
    """One part of known length, then the end of parts."""
    size = len(data)
    if not size:
        return PLP_EMPTY
    return b"".join((struct.pack("<QI", size, size), data, PLP_END))


def unscaled(value: Any, scale: int) -> int:
    """``value * 10**scale``, rounded half away from zero as SQL Server does."""
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    if not number.is_finite():
        raise OverflowError
    return int(number.scaleb(scale, _EXACT).to_integral_value(ROUND_HALF_UP))


def decimal(number: int, precision: int, size: int) -> bytes:
    """A sign byte (1 is positive) and the magnitude."""
    magnitude = abs(number)
    if magnitude >= 10**precision:
        raise OverflowError
    return bytes((size, number >= 0)) + magnitude.to_bytes(size - 1, "little")


def money(value: Any) -> bytes:
    """Two 32 bit halves, the high one first."""
    number = unscaled(value, 4)
    return struct.pack("<BiI", 8, number >> 32, number & 0xFFFFFFFF)


def _to_bytes(value: Any) -> bytes:
    return text.to_pg(value) if isinstance(value, str) else bytes(value)


def as_text(value: Any) -> str:
    """The text of a value whose column says that it is text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, uuid.UUID):
        return str(value).upper()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


# Dates and times: days count from 0001-01-01, times are microseconds of the day.


def datetime_value(days: int, microseconds: int) -> bytes:
    """``datetime``: days since 1900 and 1/300 s, rounded."""
    ticks = (microseconds * 3 + 5000) // 10000
    if ticks == 25_920_000:
        days, ticks = days + 1, 0
    return struct.pack("<BiI", 8, days - DAYS_TO_1900, ticks)


def smalldatetime_value(days: int, microseconds: int) -> bytes:
    """``smalldatetime``: days since 1900 and minutes; seconds up to 29.998 round down."""
    minutes = (microseconds + 30_001_000) // 60_000_000
    if minutes == 1440:
        days, minutes = days + 1, 0
    return struct.pack("<BHH", 4, days - DAYS_TO_1900, minutes)


def time_units(microseconds: int, scale: int) -> int:
    """Units of 10**-scale seconds, rounded half up; the last moment of a day can round to the next day's first."""
    if scale >= 6:
        return microseconds * (10 if scale == 7 else 1)
    step = int(10 ** (6 - scale))
    return (microseconds + step // 2) // step


def time_size(scale: int) -> int:
    return 3 if scale <= 2 else 4 if scale <= 4 else 5


def time_value(scale: int) -> Callable[[int], bytes]:
    size, limit = time_size(scale), 86_400 * 10**scale
    prefix = bytes((size,))
    # A time has no next day: SQL Server wraps around, too.
    return lambda microseconds: prefix + (time_units(microseconds, scale) % limit).to_bytes(size, "little")


def datetime2_value(scale: int) -> Callable[[int, int], bytes]:
    size, limit = time_size(scale), 86_400 * 10**scale
    prefix = bytes((size + 3,))

    def encode(days: int, microseconds: int) -> bytes:
        units = time_units(microseconds, scale)
        if units == limit:
            days, units = days + 1, 0
        return prefix + units.to_bytes(size, "little") + days.to_bytes(3, "little")

    return encode


def datetimeoffset_value(scale: int) -> Callable[[int, int, int], bytes]:
    """Days and microseconds are UTC, the offset is in minutes."""
    inner, prefix = datetime2_value(scale), bytes((time_size(scale) + 5,))
    return lambda days, microseconds, offset: (
        prefix + inner(days, microseconds)[1:] + offset.to_bytes(2, "little", signed=True)
    )


def split(value: Any) -> tuple[int, int]:
    """Days and microseconds of a date, a naive datetime, a time (of 1900-01-01) or the text of one."""
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    if isinstance(value, dt.datetime):
        return value.toordinal() - 1, time_of(value.time())
    if isinstance(value, dt.date):
        return value.toordinal() - 1, 0
    return DAYS_TO_1900, time_of(value)


def time_of(value: dt.time | str) -> int:
    if isinstance(value, str):
        value = dt.time.fromisoformat(value)
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _offset_parts(value: Any) -> tuple[int, int, int]:
    if isinstance(value, str):
        value = parse_offset(value)
    offset: dt.timedelta = value.utcoffset() or dt.timedelta()
    days, microseconds = split(value.replace(tzinfo=None))
    extra, microseconds = divmod(microseconds - offset // dt.timedelta(microseconds=1), DAY_US)
    return days + extra, microseconds, offset // dt.timedelta(minutes=1)


def parse_offset(value: str) -> dt.datetime:
    """SQL Server's text of a datetimeoffset, ``2024-05-06 07:08:09.1234567 +02:00``, to the microsecond."""
    date, _, rest = value.strip().replace("T", " ").partition(" ")
    clock, _, zone = rest.partition(" ")
    clock, _, fraction = clock.partition(".")
    return dt.datetime.fromisoformat(f"{date} {clock}.{fraction[:6]:0<6}{zone.replace('Z', '+00:00') or '+00:00'}")


_TEMPORAL: dict[str, Callable[[int], Callable[[Any], bytes]]] = {
    "datetime": lambda scale: lambda value: datetime_value(*split(value)),
    "smalldatetime": lambda scale: lambda value: smalldatetime_value(*split(value)),
    "date": lambda scale: lambda value: b"\x03" + split(value)[0].to_bytes(3, "little"),
    "time": lambda scale: _after(time_value(scale), time_of),
    "datetime2": lambda scale: _spread(datetime2_value(scale), split),
    "datetimeoffset": lambda scale: _spread(datetimeoffset_value(scale), _offset_parts),
}


def _after(encode: Callable[[int], bytes], first: Callable[[Any], int]) -> Callable[[Any], bytes]:
    return lambda value: encode(first(value))


def _spread(encode: Callable[..., bytes], first: Callable[[Any], tuple[int, ...]]) -> Callable[[Any], bytes]:
    return lambda value: encode(*first(value))
