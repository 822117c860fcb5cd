"""Windows of RowVersions, and lists of values, as conditions of a statement."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.server.sql import Fragment

MAX_VALUES = 1_000
"""Values in the list of one statement, which takes 2,100 parameters."""


@dataclass(frozen=True)
class Window:
    """Window of RowVersions above ``after`` and up to ``up_to``; with ``chosen``, in ascending order, only these."""

    after: int = FIRST
    up_to: int = LAST
    chosen: tuple[int, ...] | None = None

    @classmethod
    def of(cls, chosen: tuple[int, ...]) -> Window:
        """Return the window of these RowVersions, at least one, in ascending order."""
        return cls(chosen[0] - 1, chosen[-1], chosen)

    def above(self, after: int) -> Window:
        """Return the rest of the window above a RowVersion."""
        chosen = None if self.chosen is None else self.chosen[bisect_right(self.chosen, after) :]
        return Window(max(self.after, after), self.up_to, chosen)

    def pieces(self) -> Iterator[Window]:
        """Cut the window into pieces that one statement can name."""
        if self.chosen is None:
            yield self
            return
        for start in range(0, len(self.chosen), MAX_VALUES):
            yield Window.of(self.chosen[start : start + MAX_VALUES])

    @property
    def is_empty(self) -> bool:
        """Whether no RowVersion can be in the window."""
        return self.after >= self.up_to if self.chosen is None else not self.chosen

    @property
    def condition(self) -> Fragment:
        """Condition on RowVersion, for a seek in the index: the statement reads no other row."""
        if self.chosen is None:
            return Fragment("[RowVersion] > ? AND [RowVersion] <= ?")
        return Fragment(f"[RowVersion] IN ({placeholders(self.values)})")

    @property
    def values(self) -> Sequence[int]:
        """Values of the condition's parameters, for a window that is one piece."""
        return (self.after, self.up_to) if self.chosen is None else next(padded_chunks(self.chosen))


def padded_chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Cut values into pieces of a few fixed sizes, padded with the last value: the server gets few statements."""
    for start in range(0, len(values), MAX_VALUES):
        piece = list(values[start : start + MAX_VALUES])
        size = next(size for size in (1, 16, 256, MAX_VALUES) if size >= len(piece))
        yield piece + piece[-1:] * (size - len(piece))


def placeholders(values: Sequence[Any]) -> Fragment:
    """Return the list of parameters for ``IN (...)``."""
    return Fragment(", ".join("?" * len(values)))
