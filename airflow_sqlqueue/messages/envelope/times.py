"""Times and intervals in headers: written in the one form that endpoints accept, read in any usual form.

Source: docs/transport/messages.md, "Times".
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError, MessageError

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,:](\d{1,9}))?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_INTERVAL = re.compile(
    r"(-)?(?:(\d{1,8})|(?:(\d{1,8})\.)?([01]?\d|2[0-3]):([0-5]?\d)(?::([0-5]?\d)(?:\.(\d{1,7}))?)?)", re.ASCII
)
_LONGEST = timedelta(days=10_675_199, hours=2, minutes=48, seconds=5, microseconds=477_580)


def format_time(moment: datetime) -> str:
    """Return a time as ``yyyy-MM-dd HH:mm:ss:ffffff Z``, the only form that the transport's own parser accepts.

    Raises :class:`MessageError` for a time without a time zone, and for a time outside the years 1 to 9999 of UTC.
    """
    if moment.utcoffset() is None:
        raise MessageError("A time without a time zone is ambiguous: give an aware datetime.")
    try:
        utc = moment.astimezone(timezone.utc)
    except OverflowError as error:
        raise MessageError("A time lies outside the years 1 to 9999 of UTC: give another.") from error
    # On some platforms strftime omits the leading zeros of a year.
    return f"{utc.year:04d}-{utc:%m-%d %H:%M:%S:%f} Z"


def parse_time(text: str | None) -> datetime | None:
    """Read a UTC datetime from the transport's form or ISO 8601; None for other text, never raise."""
    match = _TIME.fullmatch((text or "").strip())
    if not match:
        return None
    *parts, fraction, zone = match.groups()
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    try:
        moment = datetime(year, month, day, hour, minute, second, _microseconds(fraction), tzinfo=_zone(zone))
        return moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def moment_of(name: str, value: Any) -> datetime:
    """Return the time of a filter's value, a datetime or its text. Raises :class:`ConfigurationError`."""
    moment = value if isinstance(value, datetime) else parse_time(str(value))
    if moment is None:
        raise ConfigurationError(f"{name} is not a time: write it as 2026-01-31 or 2026-01-31T08:00:00Z.")
    return moment


def _zone(text: str | None) -> timezone:
    if not text or text in "zZ":
        return timezone.utc
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[3:].lstrip(":") or 0))
    return timezone(-offset if text.startswith("-") else offset)


def format_interval(interval: timedelta) -> str:
    """Return the text of a .NET TimeSpan, ``[-][d.]hh:mm:ss[.fffffff]``, for ``NServiceBus.TimeToBeReceived``.

    Raises :class:`MessageError` for an interval that a TimeSpan cannot hold: more than some 29,000 years.
    """
    size = abs(interval)
    if size > _LONGEST:
        raise MessageError(f"An interval of {interval.days} days is longer than .NET can hold: shorten it.")
    hours, rest = divmod(size.seconds, 3600)
    days = f"{size.days}." if size.days else ""
    fraction = f".{size.microseconds * 10:07d}" if size.microseconds else ""
    return f"{'-' * (interval < timedelta(0))}{days}{hours:02d}:{rest // 60:02d}:{rest % 60:02d}{fraction}"


def parse_interval(text: str | None) -> timedelta | None:
    """Read the text of a .NET TimeSpan, in which a bare number means days; None for other text, never raise."""
    match = _INTERVAL.fullmatch((text or "").strip())
    if not match:
        return None
    sign, bare, days, hours, minutes, seconds, fraction = match.groups()
    size = timedelta(
        days=int(bare or days or 0),
        hours=int(hours or 0),
        minutes=int(minutes or 0),
        seconds=int(seconds or 0),
        microseconds=_microseconds(fraction),
    )
    return -size if sign else size


def _microseconds(fraction: str | None) -> int:
    return int((fraction or "")[:6].ljust(6, "0"))
