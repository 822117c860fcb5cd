"""Times and intervals in headers: written in the one form that endpoints accept, read in any usual form.

Source: docs/transport/messages.md, "Times".
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError, MessageError
from airflow_sqlqueue.options import length_of_time

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,:](\d{1,9}))?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_INTERVAL = re.compile(
    r"(-)?(?:(\d{1,8})|(?:(\d{1,8})\.)?([01]?\d|2[0-3]):([0-5]?\d)(?::([0-5]?\d)(?:\.(\d{1,7}))?)?)", re.ASCII
)
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
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


def moment_of(name: str, value: Any, now: datetime | None = None, *, ahead: bool = False) -> datetime:
    """Return the time of a value, a datetime or its text, which is in UTC where it names no zone.

    With ``now`` a text may also be a day, ``yesterday``, ``today`` or ``tomorrow`` in UTC, or a length of time such as
    ``12h``: that long before now, or ``ahead`` of it. Raises :class:`ConfigurationError`.
    """
    if isinstance(value, datetime):
        return value
    text = str(value)
    moment = parse_time(text) if now is None else parse_day(text, now)
    length = None if now is None or moment is not None else length_of_time(name, text)
    with suppress(OverflowError):
        if now is not None and length is not None:
            moment = now + length if ahead else now - length
    if moment is None:
        others = "" if now is None else ", or as yesterday, 12h or 7d"
        raise ConfigurationError(f"{name} is not a time: write it as 2026-01-31 or 2026-01-31T08:00:00Z{others}.")
    return moment


def time_before(now: datetime, age: timedelta) -> datetime:
    """Return the time that long before now; the earliest time there is for an age beyond the calendar."""
    earliest = datetime.min.replace(tzinfo=now.tzinfo)
    return now - min(age, now - earliest)


def parse_day(text: str, now: datetime) -> datetime | None:
    """Read a time as :func:`parse_time`, or a day, ``yesterday``, ``today`` or ``tomorrow``, which begins in UTC."""
    days = _DAYS.get(text.strip().lower())
    if days is None:
        return parse_time(text)
    return now.astimezone(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=days)


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
