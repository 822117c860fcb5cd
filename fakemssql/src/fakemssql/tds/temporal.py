"""Encoding of dates and times: days count from 0001-01-01, times are microseconds of the day.

Formats: MS-TDS 2.2.5.5.1.8 Date/Times; the texts of :func:`literal` are those of "Backward Compatibility for Down-level
Clients" in the description of each type.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from typing import Any

from fakemssql.types import SqlType

DAY_US = 86_400_000_000
DAYS_TO_1900 = dt.date(1900, 1, 1).toordinal() - 1
"""Days from 0001-01-01, where ``date`` starts, to 1900-01-01, where ``datetime`` does."""


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
    """Return the units of 10**-scale seconds, rounded half up; the end of a day can round up to the next day."""
    if scale >= 6:
        return microseconds * (10 if scale == 7 else 1)
    step = int(10 ** (6 - scale))
    return (microseconds + step // 2) // step


def time_size(scale: int) -> int:
    return 3 if scale <= 2 else 4 if scale <= 4 else 5


def time_value(scale: int) -> Callable[[int], bytes]:
    size, limit = time_size(scale), 86_400 * 10**scale
    prefix = bytes((size,))
    # A time has no next day: it wraps around, as on SQL Server.
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
    """Return the encoder of days and microseconds in UTC, and an offset in minutes."""
    inner, prefix = datetime2_value(scale), bytes((time_size(scale) + 5,))
    return lambda days, microseconds, offset: (
        prefix + inner(days, microseconds)[1:] + offset.to_bytes(2, "little", signed=True)
    )


def split(value: Any) -> tuple[int, int]:
    """Days and microseconds of a date, a naive datetime, a time (on 1900-01-01) or the text of one."""
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
    """Parse SQL Server's text of a datetimeoffset, ``2024-05-06 07:08:09.1234567 +02:00``, to the microsecond."""
    date, _, rest = value.strip().replace("T", " ").partition(" ")
    clock, _, zone = rest.partition(" ")
    clock, _, fraction = clock.partition(".")
    return dt.datetime.fromisoformat(f"{date} {clock}.{fraction[:6]:0<6}{zone.replace('Z', '+00:00') or '+00:00'}")


def literal(declared: SqlType) -> Callable[[Any], str]:
    """Return the function that writes a date as text: ``2024-05-06 07:08:09.1234560 +00:00``, or the type's part of
    it.
    """
    name, scale = declared.name, 7 if declared.scale is None else declared.scale

    def text_of(value: Any) -> str:
        zone, offset = "", 0
        if name == "datetimeoffset":
            days, microseconds, offset = _offset_parts(value)
            days, microseconds = divmod(days * DAY_US + microseconds + offset * 60_000_000, DAY_US)
            zone = f" {'-' if offset < 0 else '+'}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
        else:
            days, microseconds = split(value)
        carried, units = divmod(time_units(microseconds, scale), 86_400 * 10**scale)
        date = dt.date.fromordinal(days + 1 + (carried if name != "date" else 0)).isoformat()
        if name == "date":
            return date
        seconds, fraction = divmod(units, 10**scale)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        clock += f".{fraction:0{scale}}" if scale else ""
        return clock if name == "time" else f"{date} {clock}{zone}"

    return text_of


ENCODERS: dict[str, Callable[[int], Callable[[Any], bytes]]] = {
    "datetime": lambda scale: lambda value: datetime_value(*split(value)),
    "smalldatetime": lambda scale: lambda value: smalldatetime_value(*split(value)),
    "date": lambda scale: lambda value: b"\x03" + split(value)[0].to_bytes(3, "little"),
    "time": lambda scale: _spread(time_value(scale), lambda value: (time_of(value),)),
    "datetime2": lambda scale: _spread(datetime2_value(scale), split),
    "datetimeoffset": lambda scale: _spread(datetimeoffset_value(scale), _offset_parts),
}


def _spread(encode: Callable[..., bytes], first: Callable[[Any], tuple[int, ...]]) -> Callable[[Any], bytes]:
    return lambda value: encode(*first(value))
