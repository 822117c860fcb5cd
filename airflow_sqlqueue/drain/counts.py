"""Counts of a drain's messages: of a statement, a part, or a batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts of staged messages and their bytes, of expired ones that were dropped, and of those in quarantine."""

    messages: int = 0
    expired: int = 0
    quarantined: int = 0
    bytes: int = 0

    @property
    def rows(self) -> int:
        """Number of rows that left the queue, which limits count."""
        return self.messages + self.expired + self.quarantined

    @property
    def counters(self) -> dict[str, int]:
        """Counts by their names."""
        return {name: self.__dict__[name] for name in ("messages", "expired", "quarantined", "bytes")}

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: count + other.counters[name] for name, count in self.counters.items()})


@dataclass(frozen=True, kw_only=True)
class PartCounts(Counts):
    """Counts of rows that one transaction took, and the lowest and the highest of their RowVersions."""

    min_row_version: int
    max_row_version: int

    def merged(self, other: PartCounts) -> PartCounts:
        """Return the counts of the rows of both."""
        return PartCounts(
            **(self + other).counters,
            min_row_version=min(self.min_row_version, other.min_row_version),
            max_row_version=max(self.max_row_version, other.max_row_version),
        )
