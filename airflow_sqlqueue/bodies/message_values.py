"""The values of one message by path, with which a message votes once on the type of each field.

Source: docs/guides/bodies.md, "Inferred types".
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from airflow_sqlqueue.bodies.names import Path
from airflow_sqlqueue.bodies.schemas import MAX_NESTING
from airflow_sqlqueue.bodies.tree import BLANKS, TEXT, Element, Number, is_blank
from airflow_sqlqueue.bodies.types import forms

KIND = "kind "
"""In front of the kinds of values: ``number``, ``boolean``, ``struct``, ``array``, ``text``, ``uuid``, and the types
that texts have by their form. A message with several at one path has ``mixed``, or ``text`` if all are texts."""

_NOT_TEXTS = frozenset(("number", "boolean", "struct", "array"))
_LONGEST_NAME = 128
_MOST_DIGITS = 39
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?", re.ASCII)
_LEADING_ZERO = re.compile(r"-?0\d+(?:\.\d+)?", re.ASCII)
_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_KEY = re.compile(
    r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}|\d{4}-\d\d(-\d\d([T ].*)?)?|[+-]?\d+([.,]\d+)?", re.ASCII
)
"""Names that are keys of a dictionary: GUIDs, dates and times, numbers."""


def _order(path: Path) -> tuple[int, int, str]:
    text = repr(path)
    return len(path), zlib.crc32(text.encode()), text


def first_paths(paths: Iterable[Path], most: int) -> list[Path]:
    """Return the first paths by an order in which none is before the one that it is in: by depth, then by a hash."""
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
            several = "mixed" if self.kinds & _NOT_TEXTS else "text"
            counts[KIND + (min(self.kinds) if len(self.kinds) == 1 else several)] += 1
        if self.whole:
            counts[f"whole {self.whole}"] += 1
        if self.scale:
            counts[f"scale {self.scale}"] += 1
        return counts


class MessageValues:
    """The values of one message by path.

    :param most: the most paths; outer ones come first.
    """

    def __init__(self, most: int) -> None:
        self._nodes: dict[Path, _Values] = {}
        self._most, self._last = most, (MAX_NESTING + 1, 0, "")
        self._forms = {**forms(), "uuid": _UUID}
        self.is_cut = False

    def counts(self) -> Iterator[tuple[Path, Counter[str]]]:
        return ((path, node.counts()) for path, node in self._nodes.items() if node.kinds or node.facts)

    def add(self, path: Path, value: Any, place: int) -> None:
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
            node.kinds.add(self._form(value))
        elif isinstance(value, dict):
            self._add_fields(path, node, value)
        elif isinstance(value, list):
            node.kinds.add("array")
            for each in value:
                self.add((*path, None), each, 0)
        else:
            self._add_element(path, node, value)

    def _new(self, path: Path, place: int) -> _Values | None:
        if len(path) >= self._last[0] and _order(path) > self._last:
            self.is_cut |= len(path) <= MAX_NESTING
            return None
        node = self._nodes[path] = _Values(place)
        if len(self._nodes) > 2 * self._most:
            kept = first_paths(self._nodes, self._most)
            self._nodes = {each: self._nodes[each] for each in kept}
            self._last, self.is_cut = _order(kept[-1]), True
        return node

    def _add_fields(self, path: Path, node: _Values, value: dict[str, Any]) -> None:
        node.kinds.add("struct")
        _add_names(node, value)
        for place, (name, each) in enumerate(value.items()):
            self.add((*path, _bounded(name)), each, place)

    def _add_element(self, path: Path, node: _Values, value: Element) -> None:
        """Add an element: a leaf, a leaf with attributes, or a struct, which can be a list of its children."""
        children = [each for each in value.children if each[0][:1] not in "@#"]
        if not value.children:
            self._add_leaf(node, value.text)
            return
        if children:
            node.kinds.add("struct")
            _add_names(node, [name for name, _ in children])
        else:
            node.facts.add("attributes")
        names = Counter(name for name, _ in value.children)
        for place, (name, child) in enumerate(value.children):
            if name == TEXT and not children:
                self._add_leaf(node, child.text if child else "")
                continue
            inner = (*path, _bounded(name))
            self.add(inner, child, place)
            if found := self._nodes.get(inner):
                found.facts.add("element")
                if names[name] > 1:
                    found.facts.add("repeated")
                if len(names) == 1 or {each for each in names if each[:1] not in "@#"} == {name}:
                    found.facts.add("alone")

    def _add_leaf(self, node: _Values, text: str) -> None:
        """Add the text of an element, whose type its form alone shows."""
        text = text.strip(BLANKS)
        if text in ("true", "false"):
            node.kinds.add("boolean")
        elif _PLAIN.fullmatch(text):
            _add_number(node, Number(text))
        elif text not in ("", "null"):
            node.kinds.add(self._form(text))
            if _LEADING_ZERO.fullmatch(text):
                node.facts.add("leading zero")

    def _form(self, text: str) -> str:
        return next((form for form, pattern in self._forms.items() if pattern.fullmatch(text)), "text")


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
