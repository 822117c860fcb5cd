"""Days in UTC: the share of each day in a growth between two moments."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta

DAYS = 30
"""Days that a view of the usage shows by default."""


def shares(messages: int, since: datetime, until: datetime) -> Iterator[tuple[date, int]]:
    """Yield the share of each day in ``messages`` that came between two moments: as if they had come evenly.

    The shares are whole numbers, and their sum is ``messages``. The moments are in UTC. The last day comes in any case,
    the others only where the time between the moments touches them.
    """
    whole, given = (until - since).total_seconds(), 0
    day = min(since, until).date()
    while day < until.date():
        end = datetime.combine(day + timedelta(days=1), time())
        reached = int(messages * min(1.0, (end - since).total_seconds() / whole))
        yield day, reached - given
        given, day = reached, end.date()
    yield until.date(), messages - given
