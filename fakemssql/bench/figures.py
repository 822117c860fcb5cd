"""Measured figures with their bounds, and their table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """Measured figure; ``at_most`` and ``at_least`` are its bounds, both None for a figure that is only shown."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def passed(self) -> bool:
        return (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )

    @property
    def bound(self) -> str:
        if self.at_most is not None:
            return f"at most {self.at_most:,g}"
        return "" if self.at_least is None else f"at least {self.at_least:,g}"


def table(figures: Sequence[Figure]) -> str:
    """Table of figures as text; an exclamation mark is before each figure that misses its bound."""
    rows = [
        (f.name, f"{f.value:,.4g}" if f.value < 1000 else f"{f.value:,.0f}", f.unit, f.bound, f.note) for f in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = []
    for figure, (name, value, *rest) in zip(figures, rows, strict=True):
        cells = [name.ljust(widths[0]), value.rjust(widths[1])]
        cells += [text.ljust(width) for text, width in zip(rest, widths[2:], strict=True)]
        lines.append(f"{' ' if figure.passed else '!'} {'  '.join(cells).rstrip()}")
    return "\n".join(lines)
