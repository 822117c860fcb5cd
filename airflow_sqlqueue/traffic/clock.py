"""Times of messages: microseconds since 1970 (UTC), spread over days with quiet and busy hours, and their texts."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime, timedelta, timezone
from functools import lru_cache

MINUTE_US = 60_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_HOURLY = (3, 2, 1.4, 1.1, 1, 1.3, 2.2, 4, 6, 8, 9, 10, 11.5, 10, 9, 9.2, 10, 11.5, 13.5, 16, 17, 14, 9, 5)


def microseconds(moment: datetime) -> int:
    """Return an aware datetime as whole microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


class Rhythm:
    """Maps shares of a time span's traffic to moments: a quiet night, a lunch peak, an evening peak (UTC)."""

    def __init__(self, begin_us: int, end_us: int) -> None:
        self._begin = begin_us
        self._totals = [0.0]
        for minute in range(max(1, (end_us - begin_us) // MINUTE_US)):
            hour = (begin_us // MINUTE_US + minute) / 60 % 24
            left, part = int(hour), hour % 1
            weight = _HOURLY[left] * (1 - part) + _HOURLY[(left + 1) % 24] * part
            self._totals.append(self._totals[-1] + weight)

    def moment(self, share: float) -> int:
        """Return the moment (µs) before which this share of the traffic begins; 0 <= share < 1."""
        wanted = share * self._totals[-1]
        minute = min(bisect_right(self._totals, wanted), len(self._totals) - 1) - 1
        lower, upper = self._totals[minute], self._totals[minute + 1]
        return self._begin + int((minute + (wanted - lower) / (upper - lower)) * MINUTE_US)


@lru_cache(maxsize=8192)
def _minute_text(minute: int) -> str:
    return (_EPOCH + timedelta(minutes=minute)).strftime("%Y-%m-%d %H:%M:")


def wire_time(us: int) -> str:
    """Return the text of :func:`.format_time`, made faster: a generator needs several for each message."""
    minute, rest = divmod(us, MINUTE_US)
    second, micro = divmod(rest, 1_000_000)
    return f"{_minute_text(minute)}{second:02d}:{micro:06d} Z"
