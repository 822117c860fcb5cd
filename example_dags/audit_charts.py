"""Charts of the audit report, as inline SVG: no script, no network, and colours that follow the page's theme.

A chart is a function of plain numbers. Its texts are escaped; its colours are the classes ``s0`` to ``s9`` of the page.
Each has a title and a description for screen readers; the report puts a table of the same figures beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from markupsafe import Markup, escape

WIDTH = 1040
"""The width of every chart, in the units of its view box."""


@dataclass(frozen=True)
class Series:
    """Series of a stacked chart, with a colour of its own: a value for each column."""

    name: str
    values: Sequence[int]


@dataclass(frozen=True)
class Range:
    """Line of a percentile chart, in milliseconds."""

    name: str
    p50: float
    p90: float
    p99: float


def stacked_bars(
    title: str, columns: Sequence[str], ticks: Sequence[str], series: Sequence[Series], unit: str = "messages"
) -> Markup:
    """Stacked columns over time; ``columns`` are names for the tooltips, ``ticks`` labels (empty: no label)."""
    height, left, right, top, bottom = 320, 56, 8, 12, 34
    totals = [sum(one.values[i] for one in series) for i in range(len(columns))]
    step, highest = _scale(max(totals, default=0))
    slot = (WIDTH - left - right) / max(len(columns), 1)
    bar = slot * (0.78 if slot > 4 else 1)
    room = height - top - bottom
    parts = []
    for i in range(round(highest / step) + 1):
        y = top + room * (1 - i * step / highest)
        css = "grid" if i else "axis"
        parts.append(f'<line class="{css}" x1="{left}" x2="{WIDTH - right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick end" x="{left - 8}" y="{y + 4:.1f}">{number(i * step)}</text>')
    for i, column in enumerate(columns):
        x, base, drawn = left + i * slot + (slot - bar) / 2, top + room, []
        for colour, one in enumerate(series):
            if tall := room * one.values[i] / highest:
                base -= tall
                drawn.append(
                    f'<rect class="s{colour}" x="{x:.1f}" y="{base:.2f}" width="{bar:.1f}" height="{tall:.2f}"/>'
                )
        if drawn:
            lines = [f"{column}: {number(totals[i])}"]
            lines += [f"{one.name}: {number(one.values[i])}" for one in series if one.values[i]]
            parts.append(f"<g><title>{escape(chr(10).join(lines))}</title>{''.join(drawn)}</g>")
    for i, tick in enumerate(ticks):
        if tick:
            x = left + i * slot
            parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{top + room}" y2="{top + room + 5}"/>')
            parts.append(f'<text class="tick" x="{x + 2:.1f}" y="{height - 14}">{escape(tick)}</text>')
    busiest = max(range(len(columns)), key=totals.__getitem__, default=None)
    summary = f"{number(sum(totals))} {unit} in {len(columns)} columns."
    if busiest is not None:
        summary += f" The highest, {columns[busiest]}, has {number(totals[busiest])}."
    return _svg(title, summary, height, parts)


def percentile_ranges(title: str, ranges: Sequence[Range]) -> Markup:
    """Return the lines from p50 over p90 to p99 for each name, on a logarithmic scale of milliseconds."""
    row, left, right, top, bottom = 54, 150, 40, 10, 36
    height = top + bottom + row * max(len(ranges), 1)
    positive = [value for one in ranges for value in (one.p50, one.p90, one.p99) if value > 0] or [1.0, 1000.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    high = max(high, low + 1)

    def x_of(value: float) -> float:
        share = (math.log10(max(value, 10**low)) - low) / (high - low)
        return left + share * (WIDTH - left - right)

    parts = []
    for exponent in range(low, high + 1):
        for factor in (1, 2, 5) if exponent < high else (1,):
            x = x_of(factor * 10**exponent)
            css = "axis" if factor == 1 else "grid"
            parts.append(f'<line class="{css}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{height - bottom}"/>')
            label = duration(factor * 10.0**exponent)
            parts.append(f'<text class="tick mid" x="{x:.1f}" y="{height - bottom + 20}">{label}</text>')
    for i, one in enumerate(ranges):
        y = top + row * (i + 0.5) + 7
        summary = f"{one.name}: p50 {duration(one.p50)}, p90 {duration(one.p90)}, p99 {duration(one.p99)}"
        p50, p90, p99 = x_of(one.p50), x_of(one.p90), x_of(one.p99)
        parts.append(f"<g><title>{escape(summary)}</title>")
        parts.append(f'<text class="name end" x="{left - 16}" y="{y + 5:.1f}">{escape(shortened(one.name, 18))}</text>')
        parts.append(f'<line class="span far" x1="{p90:.1f}" x2="{p99:.1f}" y1="{y}" y2="{y}"/>')
        parts.append(f'<line class="span near" x1="{p50:.1f}" x2="{p90:.1f}" y1="{y}" y2="{y}"/>')
        placed = -math.inf
        for css, x, value in (("p50", p50, one.p50), ("p90", p90, one.p90), ("p99", p99, one.p99)):
            parts.append(f'<circle class="{css}" cx="{x:.1f}" cy="{y}" r="7"/>')
            if x - placed > 60:
                parts.append(f'<text class="value mid" x="{x:.1f}" y="{y - 14:.1f}">{duration(value)}</text>')
                placed = x
        parts.append("</g>")
    summary = " ".join(
        f"{one.name}: half within {duration(one.p50)}, 99% within {duration(one.p99)}." for one in ranges
    )
    return _svg(title, summary or "No processing times.", height, parts)


def bars(title: str, items: Sequence[tuple[str, int]], css: str) -> Markup:
    """Horizontal bars with their names above and their figures at the end."""
    row, left, right = 46, 2, 90
    height = row * max(len(items), 1) + 4
    highest = max((value for _, value in items), default=1) or 1
    parts = []
    for i, (name, value) in enumerate(items):
        y = row * i
        wide = max(2.0, (WIDTH - left - right) * value / highest)
        parts.append(f"<g><title>{escape(name)}: {number(value)}</title>")
        parts.append(f'<text class="name" x="{left}" y="{y + 17}">{escape(shortened(name, 110))}</text>')
        parts.append(f'<rect class="{css}" x="{left}" y="{y + 24}" width="{wide:.1f}" height="14" rx="3"/>')
        parts.append(f'<text class="value" x="{left + wide + 8:.1f}" y="{y + 36}">{number(value)}</text></g>')
    summary = " ".join(f"{name}: {number(value)}." for name, value in items)
    return _svg(title, summary or "Nothing to show.", height, parts)


def number(value: float) -> str:
    """Return a whole number with thin spaces between the thousands."""
    return f"{round(value):,}".replace(",", "\u202f")


def duration(milliseconds: float | None) -> str:
    """Return the milliseconds in a suitable unit, with three significant digits at most."""
    if milliseconds is None:
        return "\u2013"
    if milliseconds >= 60_000:
        return f"{milliseconds / 60_000:.3g}\u202fmin"
    if milliseconds >= 1_000:
        return f"{milliseconds / 1_000:.3g}\u202fs"
    return f"{milliseconds:.3g}\u202fms" if milliseconds < 999.5 else "1\u202fs"


def size(value: int) -> str:
    """Return the bytes in a decimal unit."""
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1_000:
            return f"{amount:.3g}\u202f{unit}"
        amount /= 1_000
    return f"{amount:.3g}\u202fTB"


def shortened(text: str, length: int) -> str:
    """Return the text, or its beginning and an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}\u2026"


def _scale(highest: int) -> tuple[int, int]:
    """Round distance of the grid lines, and the first multiple of it that is not below the highest column."""
    rough = max(highest, 1) / 5
    power = 10 ** max(0, math.floor(math.log10(rough)))
    step = max(1, int(next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)))
    return step, step * max(1, math.ceil(highest / step))


def _svg(title: str, summary: str, height: int, parts: Sequence[str]) -> Markup:
    key = f"c{crc32(f'{title} {summary}'.encode()):08x}"
    return Markup(  # noqa: S704 - every text in the parts is escaped already
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{key}t {key}d">'
        f'<title id="{key}t">{escape(title)}</title><desc id="{key}d">{escape(summary)}</desc>{"".join(parts)}</svg>'
    )
