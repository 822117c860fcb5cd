"""Gaps: ranges of RowVersions at which a copy has seen no message yet. Arithmetic without I/O.

A message gets its RowVersion at the INSERT and becomes visible at the COMMIT, so a message that commits late lies in a
gap. Source: docs/design.md, "Copies of new messages".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Gap(NamedTuple):
    """Range of RowVersions from ``low`` to ``high``, both included, without a message seen."""

    low: int
    high: int

    def without(self, seen: Iterable[int]) -> Iterator[Gap]:
        """Yield the rests of the gap between the numbers ``seen``, which lie in it and ascend."""
        low = self.low
        for number in seen:
            if low < number:
                yield Gap(low, number - 1)
            low = number + 1
        if low <= self.high:
            yield Gap(low, self.high)


def gaps_between(after: int, seen: Sequence[int]) -> list[Gap]:
    """Return the gaps above ``after`` and up to the last number ``seen``; the numbers ascend, above ``after``."""
    return list(Gap(after + 1, seen[-1]).without(seen)) if seen else []


def shrink(gaps: Iterable[Gap], seen: Sequence[int]) -> tuple[list[Gap], list[Gap]]:
    """Return the gaps that hold numbers ``seen``, and their rests. Gaps are apart from each other; numbers ascend."""
    filled, rests = list[Gap](), list[Gap]()
    for gap in gaps:
        inside = seen[bisect_left(seen, gap.low) : bisect_right(seen, gap.high)]
        if inside:
            filled.append(gap)
            rests += gap.without(inside)
    return filled, rests
