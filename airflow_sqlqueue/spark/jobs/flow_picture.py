"""Picture of a directed graph, as SVG without external resources; the same graph gives the same picture.

Nodes are in columns, each to the right of the nodes that lead to it. Links that close a circle do not count for this
order and are drawn dashed, so any graph can be drawn.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

MAX_NODES = 60
"""Most nodes of a picture: those with the greatest weight are drawn."""

_WIDE, _TALL, _ACROSS, _DOWN, _MARGIN, _TOP = 230, 44, 330, 70, 24, 70
_LETTERS, _TOOLTIP, _SWEEPS = 28, 200, 4
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1c2733}.title{font-size:18px;font-weight:600}.note{font-size:11px;"
    "fill:#5a6872}.box{fill:#eef4fa;stroke:#4a7ba6}.link{fill:none;stroke:#8296a8}.back{stroke-dasharray:6 4;"
    "stroke:#b0623c}.count{font-size:11px;fill:#41505c;text-anchor:middle}.page{fill:#fff}"
)


@dataclass(frozen=True)
class Node:
    """A box: ``key`` is its name in links, ``note`` a line below its label; the heaviest boxes are drawn."""

    key: str
    label: str
    note: str
    weight: int


@dataclass(frozen=True)
class Link:
    """An arrow between two nodes, which represents ``count`` messages or other units."""

    source: str
    target: str
    count: int


def draw_flow(
    title: str, nodes: Iterable[Node], links: Iterable[Link], total: int, unit: str, drawn: int | None = None
) -> str:
    """Draw a graph, with at most :data:`MAX_NODES` nodes and the links between them.

    ``total`` is the number of all ``unit``; the picture says how many of them it does not show. ``drawn`` is the number
    that it shows, if this is not the sum of its links. Texts are escaped, and long ones are cut.
    """
    heaviest = sorted(nodes, key=lambda node: (-node.weight, node.key))
    kept = {node.key: node for node in heaviest[:MAX_NODES]}
    arrows = [link for link in links if link.source in kept and link.target in kept]
    arrows.sort(key=lambda link: (-link.count, link.source, link.target))
    back = _closing(list(kept), arrows)
    forward = [link for link in arrows if link not in back]
    columns = _columns(list(kept), forward)
    places = {
        key: (_MARGIN + x * _ACROSS, _TOP + y * _DOWN)
        for x, column in enumerate(columns)
        for y, key in enumerate(column)
    }
    shown = sum(link.count for link in arrows) if drawn is None else drawn
    hidden = total - shown
    summary = f"{total:,} {unit}" + (f", {hidden:,} of them not drawn" if hidden else "")
    parts = [_arrow(link, places, link in back) for link in arrows]
    parts += [_box(kept[key], *place) for key, place in places.items()]
    width = 2 * _MARGIN + (max(len(columns), 1) - 1) * _ACROSS + _WIDE + 40
    height = _TOP + max(map(len, columns), default=0) * _DOWN + 60
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-labelledby="title summary"><title id="title">{_text(title)}</title><desc id="summary">'
        f'{_text(summary)}</desc><style>{_STYLE}</style><defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" '
        'markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z" '
        f'fill="#8296a8"/></marker></defs><rect class="page" width="{width}" height="{height}"/>'
        f'<text class="title" x="{_MARGIN}" y="30">{_text(title)}</text>'
        f'<text class="note" x="{_MARGIN}" y="50">{_text(summary)}</text>{"".join(parts)}</svg>\n'
    )


def _closing(keys: Sequence[str], links: Sequence[Link]) -> set[Link]:
    """The links that close a circle, found by a depth-first search from the first node on."""
    leads: dict[str, list[Link]] = defaultdict(list)
    entered = {link.target for link in links if link.source != link.target}
    for each in links:
        leads[each.source].append(each)
    done: set[str] = set()
    closing: set[Link] = set()
    for start in sorted(keys, key=lambda key: key in entered):
        if start in done:
            continue
        path, stack = {start}, [(start, iter(leads[start]))]
        while stack:
            key, rest = stack[-1]
            link = next(rest, None)
            if link is None:
                stack.pop()
                path.discard(key)
                done.add(key)
                continue
            if link.target in path:
                closing.add(link)
            elif link.target not in done:
                path.add(link.target)
                stack.append((link.target, iter(leads[link.target])))
    return closing


def _columns(keys: Sequence[str], links: Sequence[Link]) -> list[list[str]]:
    """Nodes in columns: the column is the length of the longest path to a node; linked nodes are near each other."""
    into: dict[str, list[str]] = defaultdict(list)
    out: dict[str, list[str]] = defaultdict(list)
    for link in links:
        into[link.target].append(link.source)
        out[link.source].append(link.target)
    depth = dict.fromkeys(keys, 0)
    waiting = {key: len(into[key]) for key in keys}
    ready = [key for key in keys if not waiting[key]]
    for key in ready:
        for target in out[key]:
            depth[target] = max(depth[target], depth[key] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    columns: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for key in keys:
        columns[depth[key]].append(key)
    for sweep in range(_SWEEPS):
        rank = {key: y for column in columns for y, key in enumerate(column)}
        near = out if sweep % 2 else into
        for column in columns:
            column.sort(key=lambda key: _mean([rank[other] for other in near[key]], rank[key]))
    return columns


def _mean(values: Sequence[int], otherwise: int) -> float:
    return sum(values) / len(values) if values else otherwise


def _arrow(link: Link, places: dict[str, tuple[int, int]], back: bool) -> str:
    (x1, y1), (x2, y2) = places[link.source], places[link.target]
    x1, y1, y2 = x1 + _WIDE, y1 + _TALL // 2, y2 + _TALL // 2
    if back:
        # From the right side of the source, below the boxes, to the left side of the target.
        low = max(y1, y2) + _TALL // 2 + 14
        path = f"M{x1} {y1}C{x1 + 60} {y1} {x1 + 50} {low} {x1 - 20} {low}L{x2 + 20} {low}"
        path += f"C{x2 - 40} {low} {x2 - 40} {y2} {x2} {y2}"
        middle = ((x1 + x2) // 2, low - 3)
    else:
        bend = (x2 - x1) // 2
        path = f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
        middle = ((x1 + x2) // 2, (y1 + y2) // 2 - 4)
    width = 1 + min(5.0, math.log10(max(link.count, 1)))
    css = "link back" if back else "link"
    label = f'<text class="count" x="{middle[0]}" y="{middle[1]}">{link.count:,}</text>' if link.count > 1 else ""
    return f'<path class="{css}" stroke-width="{width:.1f}" marker-end="url(#end)" d="{path}"/>{label}'


def _box(node: Node, x: int, y: int) -> str:
    return (
        f'<g><title>{_text(node.key, _TOOLTIP)}</title><rect class="box" x="{x}" y="{y}" width="{_WIDE}" '
        f'height="{_TALL}" rx="6"/><text x="{x + 10}" y="{y + 19}">{_text(node.label, _LETTERS)}</text>'
        f'<text class="note" x="{x + 10}" y="{y + 35}">{_text(node.note, _LETTERS + 8)}</text></g>'
    )


def _text(text: str, length: int = _TOOLTIP) -> str:
    """Escape a text for the picture; other characters than printable ones, which XML may not take, are replaced."""
    cut = text if len(text) <= length else f"{text[: length - 1]}\u2026"
    return escape("".join(letter if letter.isprintable() else "\ufffd" for letter in cut))
