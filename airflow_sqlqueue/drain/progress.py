"""Progress of a drain: counts, rate and remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from airflow_sqlqueue.drain.counts import Counts
from airflow_sqlqueue.drain.ledger import Part
from airflow_sqlqueue.options.budget import count_of, size_of


@dataclass(frozen=True)
class Progress(Counts):
    """Counts of a batch that is being drained, part by part.

    ``earlier`` is the number of rows that earlier tries had taken; ``seconds`` are those of this try.

    ``share`` is the part of the queue that is done, 0 to 1, by the RowVersions: an estimate if they have gaps. None if
    the drain has no known end.
    """

    seconds: float
    share: float | None
    earlier: int = 0

    @property
    def rate(self) -> float:
        """Messages per second in this try."""
        return (self.rows - self.earlier) / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the rest takes at this rate; None if unknown."""
        return None if not self.share else self.seconds * (1 - self.share) / self.share

    def __str__(self) -> str:
        """Return one line: the counts, the rate, and the remaining time."""
        left = self.seconds_left
        return (
            f"{count_of(self.messages, 'message')}, {size_of(self.bytes)}, {self.expired:,} expired, "
            f"{self.quarantined:,} in quarantine"
            + (f"; {self.rate:,.0f} a second" if self.rate else "")
            + ("" if left is None else f", about {left:,.0f} s left")
        )


class ProgressCounter:
    """Counter that adds up the parts of one try and calls ``on_progress`` after each."""

    def __init__(self, on_progress: Callable[[Progress], None] | None = None) -> None:
        self._on_progress = on_progress
        self._total, self._earlier = Counts(), 0
        self._first: int | None = None
        self._last = 0
        self._highest = -(2**63)
        self._started = time.monotonic()

    def begin(self, first: int, last: int) -> None:
        """Set the first and the last RowVersion of the drain."""
        self._first, self._last = first, last

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def resume(self, parts: Iterable[Part]) -> None:
        """Add the parts that earlier tries have committed."""
        for part in parts:
            self._count(part)
        self._earlier = self._total.rows
        self._report()

    def add(self, part: Part) -> None:
        """Add a committed part."""
        self._count(part)
        self._report()

    def _count(self, part: Part) -> None:
        self._total += part
        self._highest = max(self._highest, part.max_row_version)

    def _report(self) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(self.seconds, self._share(), self._earlier, **self._total.counters))

    def _share(self) -> float | None:
        if self._first is None:
            return None
        return min(1.0, max(0.0, (self._highest - self._first + 1) / max(1, self._last - self._first + 1)))
