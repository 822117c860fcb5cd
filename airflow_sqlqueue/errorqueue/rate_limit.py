"""A limit on messages per second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Seconds that pass, and a way to let them pass."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class RateLimiter:
    """Keeps to ``rate`` messages per second, in bursts of up to a second's worth; None is no limit."""

    def __init__(self, rate: float | None, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._free_at = clock.now()

    @property
    def burst(self) -> int | None:
        """The most messages to move at once."""
        return None if self._rate is None else max(1, int(self._rate))

    @property
    def away(self) -> float:
        """Seconds until more may be moved."""
        return 0.0 if self._rate is None else max(0.0, self._free_at - self._clock.now())

    def wait(self) -> None:
        """Wait until more may be moved."""
        if away := self.away:
            self._clock.sleep(away)

    def moved(self, count: int) -> None:
        """Note messages that were moved. Time that was lost before is not made up for."""
        if self._rate is not None:
            self._free_at = max(self._free_at, self._clock.now()) + count / self._rate
