"""Statistics of the bodies of one message type: counts by path, of bounded size, from which types are inferred.

A message counts once at each path, however many values it has there, and the senders of a type are counted apart, so
that neither decides alone. The statistics do not depend on the order of the messages, nor on how they are
distributed before they are merged. Source: docs/guides/bodies.md, "Inferred types".
"""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

from airflow_sqlqueue.bodies.names import Path
from airflow_sqlqueue.bodies.schemas import MAX_NESTING
from airflow_sqlqueue.bodies.tree import BLANKS, TEXT, Element, Number, is_blank
from airflow_sqlqueue.bodies.types import forms

MAX_NODES = 8_000
"""The most paths of a type that are counted: outer ones first, those of one depth by a hash of their names."""

VOTES = 30
"""The messages that are worth a vote: a sender with more than its even share of these gets the share."""

_SENDERS = 16
_LONGEST_NAME = 128
_MOST_DIGITS = 39
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
_LEADING_ZERO = re.compile(r"-?0\d+(?:\.\d+)?")
_GUID = "[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}"
_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_KEY = re.compile(rf"{_GUID}|\d{{4}}-\d\d-\d\d([T ].*)?|[+-]?\d+([.,]\d+)?|\d{{4}}-\d\d")
"""Names that are keys of a dictionary: GUIDs, dates and times, numbers."""

_NO_TEXTS = ("boolean", "number", "struct", "array", "mixed")


def kinds() -> tuple[str, ...]:
    """The kinds of values; a message with several at one path has the kind ``mixed``, or ``text`` if all are texts."""
    return (*_NO_TEXTS, "text", "uuid", *forms())


class Statistics:
    """Counts of a type's messages by sender and path.

    :param limit: the most paths, those of all senders together.
    """

    def __init__(self, limit: int = MAX_NODES) -> None:
        self.messages: Counter[int] = Counter()
        """The messages of each sender; the senders are numbered by a hash of their names."""
        self._nodes: dict[int, dict[Path, Counter[str]]] = defaultdict(dict)
        # The most paths of one sender, which is halved until all together are within the limit.
        self._most, self._limit = MAX_NODES, limit
        self.is_cut = False
        """Whether there are more paths than are counted."""

    def __len__(self) -> int:
        return sum(map(len, self._nodes.values()))

    def add(self, tree: Any, sender: str | None = None) -> None:
        """Add the body of a message."""
        number = sender_number(sender)
        found = _Message(self._most)
        found.visit((), tree, 0)
        self.is_cut |= found.is_cut
        self.messages[number] += 1
        self._count(number, found.counts())

    def merge(self, other: Statistics) -> None:
        """Add the statistics of other messages of the type."""
        self.messages += other.messages
        self.is_cut |= other.is_cut
        self._most = min(self._most, other._most)
        for number, nodes in other._nodes.items():
            self._count(number, nodes.items())

    def _count(self, number: int, found: Iterable[tuple[Path, Counter[str]]]) -> None:
        nodes = self._nodes[number]
        for path, counts in found:
            known = nodes.get(path)
            if known is None:
                nodes[path] = Counter(counts)
            else:
                known.update(counts)
        if len(self) > 2 * self._limit:
            self._cut()

    def reduce(self, limit: int) -> None:
        """Leave no more paths than that."""
        self._limit = min(self._limit, limit)
        self._cut()

    def _cut(self) -> None:
        """Leave the first paths of each sender, as many as the limit allows for all together.

        That is the same whenever it is done: the first of all paths are among the first of each part.
        """
        while True:
            for number, nodes in self._nodes.items():
                if len(nodes) > self._most:
                    self.is_cut = True
                    self._nodes[number] = {path: nodes[path] for path in _first(nodes, self._most)}
            if len(self) <= self._limit or self._most == 1:
                return
            self._most //= 2

    def to_values(self) -> list[Any]:
        """Return the statistics as values for JSON, for :meth:`from_values`."""
        self._cut()
        senders = []
        for number in sorted(self._nodes):
            places: dict[Path, int] = {}
            rows = []
            for path in sorted(self._nodes[number], key=len):
                rows.append([places.get(path[:-1], -1), *path[-1:], self._nodes[number][path]])
                places[path] = len(places)
            senders.append([number, self.messages[number], rows])
        return [self._most, self.is_cut, senders]

    @classmethod
    def from_values(cls, values: list[Any]) -> Statistics:
        """Return the statistics that :meth:`to_values` gave."""
        found = cls()
        found._most, found.is_cut, senders = values
        for number, messages, rows in senders:
            found.messages[number] = messages
            paths: list[Path] = []
            for place, *step, counts in rows:
                paths.append((*(paths[place] if place >= 0 else ()), *step))
                found._nodes[number][paths[-1]] = Counter(counts)
        return found

    def votes(self) -> dict[Path, dict[str, Fraction]]:
        """Return the counts of all senders by path, those of a frequent sender reduced to its share of votes."""
        self._cut()
        share = _share(sorted(self.messages.values()))
        votes: dict[Path, dict[str, Fraction]] = {}
        for number, nodes in self._nodes.items():
            weight = min(Fraction(1), share / self.messages[number])
            for path, counts in nodes.items():
                sums = votes.setdefault(path, defaultdict(Fraction))
                for name, count in counts.items():
                    sums[name] += count * weight
        return votes


def sender_number(sender: str | None) -> int:
    """Return the number of a sender; senders beyond some share theirs."""
    return zlib.crc32((sender or "").encode("utf-8", "replace")) % _SENDERS


def _share(counts: list[int]) -> Fraction:
    """The most votes of a sender, so that all together have :data:`VOTES`, or their messages are fewer."""
    left = Fraction(VOTES)
    for place, count in enumerate(counts):
        even = left / (len(counts) - place)
        if count > even:
            return even
        left -= count
    return Fraction(VOTES)


def _order(path: Path) -> tuple[int, int, str]:
    """The rank of a path: no path is before the one that it is in."""
    text = repr(path)
    return len(path), zlib.crc32(text.encode()), text


def _first(paths: Iterable[Path], most: int) -> list[Path]:
    return sorted(paths, key=_order)[:most]


class _Values:
    """The values of one message at one path."""

    __slots__ = ("facts", "kinds", "place", "scale", "whole")

    def __init__(self, place: int) -> None:
        self.kinds: set[str] = set()
        self.facts: set[str] = set()
        self.whole = self.scale = 0
        self.place = place

    def counts(self) -> Counter[str]:
        counts = Counter(self.facts)
        counts.update({"messages": 1, "place": self.place})
        if self.kinds:
            is_text = self.kinds.isdisjoint(_NO_TEXTS)
            counts[min(self.kinds) if len(self.kinds) == 1 else "text" if is_text else "mixed"] += 1
        if self.whole:
            counts[f"whole {self.whole}"] += 1
        if self.scale:
            counts[f"scale {self.scale}"] += 1
        return counts


class _Message:
    """The values of one message by path."""

    def __init__(self, most: int) -> None:
        self._nodes: dict[Path, _Values] = {}
        self._most, self._last = most, (MAX_NESTING + 1, 0, "")
        self.is_cut = False

    def counts(self) -> Iterator[tuple[Path, Counter[str]]]:
        return ((path, node.counts()) for path, node in self._nodes.items() if node.kinds or node.facts)

    def visit(self, path: Path, value: Any, place: int) -> None:
        """Add a value at a path: nothing for null, for what is empty, and for what lies too deep."""
        if is_nothing(value):
            return
        node = self._nodes.get(path) or self._new(path, place)
        if node is None:
            return
        if isinstance(value, bool):
            node.kinds.add("boolean")
        elif isinstance(value, Number):
            _add_number(node, value)
        elif isinstance(value, str):
            node.kinds.add(_form(value))
        elif isinstance(value, dict):
            self._add_fields(path, node, value)
        elif isinstance(value, list):
            node.kinds.add("array")
            for each in value:
                self.visit((*path, None), each, 0)
        else:
            self._add_element(path, node, value)

    def _new(self, path: Path, place: int) -> _Values | None:
        if len(path) >= self._last[0] and _order(path) > self._last:
            self.is_cut |= len(path) <= MAX_NESTING
            return None
        node = self._nodes[path] = _Values(place)
        if len(self._nodes) > 2 * self._most:
            kept = _first(self._nodes, self._most)
            self._nodes = {each: self._nodes[each] for each in kept}
            self._last, self.is_cut = _order(kept[-1]), True
        return node

    def _add_fields(self, path: Path, node: _Values, value: dict[str, Any]) -> None:
        node.kinds.add("struct")
        _add_names(node, value)
        for place, (name, each) in enumerate(value.items()):
            self.visit((*path, _bounded(name)), each, place)

    def _add_element(self, path: Path, node: _Values, value: Element) -> None:
        """Add an element: a leaf, a leaf with attributes, or a struct, which can be a list of its children."""
        children = [each for each in value.children if each[0][:1] not in "@#"]
        if not value.children:
            _add_leaf(node, value.text)
            return
        if children:
            node.kinds.add("struct")
            _add_names(node, [name for name, _ in children])
        else:
            node.facts.add("attributes")
        names = Counter(name for name, _ in value.children)
        for place, (name, child) in enumerate(value.children):
            if name == TEXT and not children:
                _add_leaf(node, child.text if child else "")
                continue
            inner = (*path, _bounded(name))
            self.visit(inner, child, place)
            if found := self._nodes.get(inner):
                found.facts.add("element")
                if names[name] > 1:
                    found.facts.add("repeated")
                if len(names) == 1 or {each for each in names if each[:1] not in "@#"} == {name}:
                    found.facts.add("alone")


def is_nothing(value: Any) -> bool:
    """Whether a value shows no type: null, blank text of XML, an empty object, a list of these."""
    if isinstance(value, Element):
        return not value.children and is_blank(value.text)
    if isinstance(value, list):
        return all(map(is_nothing, value))
    return value is None or value == {}


def _bounded(name: str) -> str:
    """The name, cut if no column can have it, for it is a key of a dictionary at most."""
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}{zlib.crc32(repr(name).encode()):08x}"


def _add_names(node: _Values, names: Iterable[str]) -> None:
    keys = [_KEY.fullmatch(name) is not None for name in names]
    if 3 * sum(keys) >= 2 * len(keys):
        node.facts.add("keys")


def _form(text: str) -> str:
    known = (*forms().items(), ("uuid", _UUID))
    return next((form for form, pattern in known if pattern.fullmatch(text)), "text")


def _add_leaf(node: _Values, text: str) -> None:
    """Add the text of an element, whose type its form alone shows."""
    text = text.strip(BLANKS)
    if text in ("true", "false"):
        node.kinds.add("boolean")
    elif _PLAIN.fullmatch(text):
        _add_number(node, Number(text))
    elif text not in ("", "null"):
        node.kinds.add(_form(text))
        if _LEADING_ZERO.fullmatch(text):
            node.facts.add("leading zero")


def _add_number(node: _Values, value: Number) -> None:
    node.kinds.add("number")
    if not _PLAIN.fullmatch(value.text):
        node.facts.add("exponent")
    else:
        whole, _, fraction = value.text.lstrip("-").partition(".")
        node.whole = max(node.whole, min(len(whole), _MOST_DIGITS))
        node.scale = max(node.scale, min(len(fraction), _MOST_DIGITS))
        if not fraction and (len(whole) > 19 or not -(1 << 63) <= int(value.text) < 1 << 63):
            node.facts.add("beyond long")
    if Decimal(repr(float(value.text))) != Decimal(value.text):
        node.facts.add("beyond double")
