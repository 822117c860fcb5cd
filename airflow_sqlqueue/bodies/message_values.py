"""The values of one message by path, with which a message votes once on the type of each field.

Source: docs/guides/bodies.md, "Inferred types".
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

from airflow_sqlqueue.bodies.names import MAX_CHARACTERS, Path
from airflow_sqlqueue.bodies.schemas import MAX_NESTING
from airflow_sqlqueue.bodies.tree import BLANKS, TEXT, Element, Number, is_empty
from airflow_sqlqueue.bodies.types import MOST_DIGITS, forms

N = TypeVar("N")

KIND = "kind "
"""In front of the kinds of values: ``number``, ``boolean``, ``struct``, ``array``, ``text``, ``uuid``, and the types
that texts have by their form. A message with several at one path has ``mixed``, or ``text`` if all are texts."""

SIZE = "size "
"""In front of the digits of numbers, before and after the point."""

_NOT_TEXTS = frozenset(("number", "boolean", "struct", "array"))
_BEYOND_LONG = 20
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?", re.ASCII)
_LEADING_ZERO = re.compile(r"-?0\d+(?:\.\d+)?", re.ASCII)
_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_KEY = re.compile(
    r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}|\d{4}-\d\d(-\d\d([T ].*)?)?|[+-]?\d+([.,]\d+)?", re.ASCII
)
"""Names that are keys of a dictionary: GUIDs, dates and times, numbers."""


class Nodes(dict[Path, N]):
    """Nodes by path, which are made when they are asked for.

    Beyond twice the limit the first ones stay: outer paths, those of one depth by a hash. So whatever is left out is
    beyond the limit for good, and the first nodes are the same in any order of the values.
    """

    def __init__(self, limit: int, new: Callable[[], N]) -> None:
        self.limit, self.is_cut, self._new, self._depth = limit, False, new, MAX_NESTING

    def __missing__(self, path: Path) -> N:
        node = self._new()
        if len(path) <= self._depth:
            if len(self) >= 2 * self.limit:
                self.cut()
            self[path] = node
        return node

    def cut(self) -> None:
        """Leave the first nodes, as many as the limit is."""
        if len(self) > self.limit:
            self.is_cut = True
            first = sorted(self, key=_order)
            self._depth = len(first[self.limit - 1])
            for path in first[self.limit :]:
                del self[path]


def _order(path: Path) -> tuple[int, int, str]:
    text = repr(path)
    return len(path), zlib.crc32(text.encode()), text


@dataclass(slots=True)
class _Values:
    """The values of one message at one path."""

    kinds: set[str] = field(default_factory=set)
    facts: set[str] = field(default_factory=set)
    whole: int = 0
    scale: int = 0
    place: int = 0

    def counts(self) -> dict[str, int]:
        """The votes of the message."""
        counts = {"messages": 1, "place": self.place, **dict.fromkeys(self.facts, 1)}
        if self.kinds:
            several = "mixed" if self.kinds & _NOT_TEXTS else "text"
            counts[KIND + (min(self.kinds) if len(self.kinds) == 1 else several)] = 1
        if self.whole:
            counts[f"{SIZE}{self.whole} {self.scale}"] = 1
        return counts


class MessageValues:
    """The values of one message by path, of bounded size."""

    def __init__(self, limit: int) -> None:
        self.nodes = Nodes(limit, _Values)
        self._forms = {**forms(), "uuid": _UUID}

    def add(self, path: Path, value: Any, place: int, facts: Iterable[str] = ()) -> None:
        """Add a value at a path: nothing for null, for what is empty, and for what lies too deep."""
        if len(path) > MAX_NESTING or is_empty(value):
            return
        node = self.nodes[path]
        node.facts.update(facts)
        node.place = max(node.place, place)
        if isinstance(value, bool):
            node.kinds.add("boolean")
        elif isinstance(value, Number):
            _add_number(node, value.text)
        elif isinstance(value, str):
            node.kinds.add(self._form(value))
        elif isinstance(value, list):
            node.kinds.add("array")
            for each in value:
                self.add((*path, None), each, 0)
        elif isinstance(value, dict):
            _add_names(node, value)
            for number, (name, each) in enumerate(value.items()):
                self.add((*path, _bounded(name)), each, number)
        else:
            self._add_element(path, node, value)

    def _add_element(self, path: Path, node: _Values, value: Element) -> None:
        """Add an element: a leaf, a leaf with attributes, or a struct, which can be a list of its children."""
        names = Counter(name for name, _ in value.children)
        inner = [name for name in names if name[:1] not in "@#"]
        if inner:
            _add_names(node, inner)
        elif names:
            node.facts.add("attributes")
        else:
            self._add_leaf(node, value.text)
        for place, (name, child) in enumerate(value.children):
            if name == TEXT and not inner:
                self._add_leaf(node, child.text if child else "")
                continue
            facts = ["element"]
            if names[name] > 1:
                facts.append("repeated")
            if len(names) == 1 or inner == [name]:
                facts.append("alone")
            self.add((*path, _bounded(name)), child, place, facts)

    def _add_leaf(self, node: _Values, text: str) -> None:
        """Add the text of an element, whose type its form alone shows."""
        text = text.strip(BLANKS)
        if text in ("true", "false"):
            node.kinds.add("boolean")
        elif _PLAIN.fullmatch(text):
            _add_number(node, text)
        elif text not in ("", "null"):
            node.kinds.add(self._form(text))
            if _LEADING_ZERO.fullmatch(text):
                node.facts.add("leading zero")

    def _form(self, text: str) -> str:
        return next((form for form, pattern in self._forms.items() if pattern.fullmatch(text)), "text")


def _bounded(name: str) -> str:
    """The name, cut if no column can have it, for it is a key of a dictionary at most."""
    return name if len(name) <= MAX_CHARACTERS else f"{name[:MAX_CHARACTERS]}{zlib.crc32(repr(name).encode()):08x}"


def _add_names(node: _Values, names: Iterable[str]) -> None:
    node.kinds.add("struct")
    keys = [_KEY.fullmatch(name) is not None for name in names]
    if 3 * sum(keys) >= 2 * len(keys):
        node.facts.add("keys")


def _add_number(node: _Values, text: str) -> None:
    node.kinds.add("number")
    if _PLAIN.fullmatch(text):
        whole, _, fraction = text.lstrip("-").partition(".")
        is_long = len(whole) < _BEYOND_LONG and -(1 << 63) <= int(text.partition(".")[0]) < 1 << 63
        node.whole = max(node.whole, min(len(whole), MOST_DIGITS + 1), 0 if is_long else _BEYOND_LONG)
        node.scale = max(node.scale, min(len(fraction), MOST_DIGITS + 1))
    else:
        node.facts.add("exponent")
    if Decimal(repr(float(text))) != Decimal(text):
        node.facts.add("beyond double")
