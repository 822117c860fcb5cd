"""Windows of RowVersions, and lists of values, as conditions of a statement."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.sql import Fragment

MAX_VALUES = 1_000
"""Values that one statement names; a statement takes 2,100 parameters."""


@dataclass(frozen=True)
class Window:
    """Rows with RowVersions above ``after`` and not above ``up_to``; with ``chosen``, which ascend, only these."""

    after: int = FIRST
    up_to: int = LAST
    chosen: tuple[int, ...] | None = None

    @classmethod
    def of(cls, chosen: tuple[int, ...]) -> Window:
        """The window of these RowVersions, which ascend; there is at least one."""
        return cls(chosen[0] - 1, chosen[-1], chosen)

    def above(self, after: int) -> Window:
        """The rest of the window above a RowVersion."""
        chosen = None if self.chosen is None else self.chosen[bisect_right(self.chosen, after) :]
        return Window(max(self.after, after), self.up_to, chosen)

    def pieces(self) -> Iterator[Window]:
        """The same rows in pieces, each of which one statement can name."""
        if self.chosen is None:
            yield self
            return
        for start in range(0, len(self.chosen), MAX_VALUES):
            yield Window.of(self.chosen[start : start + MAX_VALUES])

    @property
    def condition(self) -> Fragment:
        """The condition on RowVersion, for a statement that seeks: it meets no other row."""
        if self.chosen is None:
            return Fragment("[RowVersion] > ? AND [RowVersion] <= ?")
        return Fragment(f"[RowVersion] IN ({placeholders(self.values)})")

    @property
    def values(self) -> Sequence[int]:
        """The values of the condition's parameters: those of a piece."""
        return (self.after, self.up_to) if self.chosen is None else next(padded_chunks(self.chosen))


def padded_chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Pieces of a few fixed sizes, the last filled up by its own last value: the server sees few texts."""
    for start in range(0, len(values), MAX_VALUES):
        piece = list(values[start : start + MAX_VALUES])
        size = next(size for size in (1, 16, 256, MAX_VALUES) if size >= len(piece))
        yield piece + piece[-1:] * (size - len(piece))


def placeholders(values: Sequence[Any]) -> Fragment:
    """A list of parameters for ``IN (...)``."""
    return Fragment(", ".join("?" * len(values)))
