"""Statistics of the bodies of one message type: counts by path, of bounded size, from which types are inferred.

A message counts once at each path, and a sender has a bounded number of votes. The order of the messages, and how they
are distributed before they are merged, change nothing. Source: docs/guides/bodies.md, "Inferred types".
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from airflow_sqlqueue.bodies.names import MAX_CHARACTERS, Path
from airflow_sqlqueue.bodies.schemas import MAX_NESTING
from airflow_sqlqueue.bodies.tree import BLANKS, TEXT, Element, Number, is_element, is_empty, is_nothing
from airflow_sqlqueue.bodies.types import MOST_DIGITS, forms, read_or_none

MAX_NODES = 4_000
"""The most paths of a type that are counted: those of messages with few paths first, then outer ones, those of one
depth by a hash of their names."""

VOTES = 10
"""The votes of a sender: each message is one, or a part of one if there are more messages."""

KIND = "kind "
"""The prefix of the kinds of values: ``number``, ``boolean``, ``struct``, ``array``, ``text``, and the types that texts
have by their form. A message with several at one path has ``mixed``, or ``text`` if all are texts."""

SIZE = "size "
"""The prefix of the digits of numbers, before and after the point."""

_SENDERS = 16
_FEW = 4
"""A message with few paths has at most one in four of the most."""

_SHARE, _SHARES = "share", math.lcm(*range(1, 21))
"""The vote of a message on one of the names of an object, and the parts of a vote: up to 20 names have equal ones."""
_NOT_TEXTS = {f"{KIND}{each}" for each in ("number", "boolean", "struct", "array")}
_WHOLE, _SCALE = "whole", "scale"
_BEYOND_LONG = 20
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?", re.ASCII)
_LEADING_ZERO = re.compile(r"-?0\d+(?:\.\d+)?", re.ASCII)
_KEY = re.compile(
    r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}|\d{4}-\d\d(-\d\d([T ].*)?)?|[+-]?\d+([.,]\d+)?", re.ASCII
)
"""Names that are keys of a dictionary: GUIDs, dates and times, numbers."""


@dataclass
class FieldVotes:
    """The votes on a path, by what they say, and the nodes below it by the next step."""

    votes: Counter[str] = field(default_factory=Counter)
    below: dict[str | int | None, FieldVotes] = field(default_factory=dict)


def merged(nodes: Iterable[FieldVotes]) -> FieldVotes:
    """Return a node with the votes of several, at each path below them as well."""
    found, below = FieldVotes(), defaultdict(list)
    for each in nodes:
        found.votes.update(each.votes)
        for step, inner in each.below.items():
            below[step].append(inner)
    found.below = {step: merged(inner) if len(inner) > 1 else inner[0] for step, inner in below.items()}
    return found


def merged_values(node: FieldVotes) -> FieldVotes:
    """Return a node with the votes on the values of all names; the names of one message share its vote."""
    return merged(
        _scaled(inner, inner.votes[_SHARE], _SHARES * inner.votes["messages"])
        for name, inner in node.below.items()
        if isinstance(name, str)
    )


def _scaled(node: FieldVotes, part: int, whole: int) -> FieldVotes:
    votes = Counter({name: count * part // whole for name, count in node.votes.items()})
    return FieldVotes(votes, {step: _scaled(inner, part, whole) for step, inner in node.below.items()})


class _Nodes(dict[Path, Any]):
    """Nodes by path, made when they are asked for; the first ones stay: outer paths, those of one depth by a hash."""

    # Nodes are cut at twice the limit: those that are left out then are beyond it for good, in any order of the values.
    def __init__(self, limit: int, new: Callable[[], Any]) -> None:
        self.limit, self.is_cut, self._new, self._depth = limit, False, new, MAX_NESTING

    def __missing__(self, path: Path) -> Any:
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


class Statistics:
    """Counts of a type's messages by path and sender; ``limit`` is the most paths."""

    def __init__(self, limit: int = MAX_NODES) -> None:
        self.messages: Counter[str] = Counter()
        """The messages of each sender; the senders are numbered by a hash of their names."""
        # One message with many names takes no place from others: those of such messages have nodes of their own.
        self._limit, self._is_cut = limit, False
        self._few, self._many = (_Nodes(limit, lambda: defaultdict(Counter)) for _ in range(2))

    def __len__(self) -> int:
        return len(self._few) + len(self._many)

    @property
    def is_cut(self) -> bool:
        """Whether there are more paths than are counted."""
        return self._is_cut or self._few.is_cut or self._many.is_cut

    def add(self, tree: Any, sender: str | None = None) -> None:
        """Add the body of a message."""
        number, message = sender_number(sender), _Message(self._limit)
        message.add((), tree)
        message.nodes.cut()
        names = Counter(path[:-1] for path in message.nodes if path)
        nodes = self._many if _FEW * len(message.nodes) > self._limit else self._few
        self.messages[number] += 1
        for path, facts in message.nodes.items():
            nodes[path][number].update({**_votes(facts), _SHARE: _SHARES // max(1, names[path[:-1]])})
        self._is_cut |= message.nodes.is_cut

    def to_values(self) -> list[Any]:
        """Return the statistics as values for JSON, for :meth:`merge`."""
        self._few.cut()
        self._many.cut()
        return [self._limit, self.is_cut, self.messages, list(self._few.items()), list(self._many.items())]

    def merge(self, values: list[Any]) -> None:
        """Add the statistics of other messages of the type, which :meth:`to_values` gave."""
        limit, is_cut, messages, *both = values
        self._limit = self._few.limit = self._many.limit = min(self._limit, limit)
        self._is_cut |= is_cut
        self.messages.update(messages)
        for nodes, found in zip((self._few, self._many), both, strict=True):
            for path, senders in found:
                for number, counts in senders.items():
                    nodes[tuple(path)][number].update(counts)

    def votes(self) -> FieldVotes:
        """Return the root of the votes of all senders, in whole numbers: the parts of a vote have one denominator."""
        self._few.cut()
        self._many.cut()
        paths = list(dict.fromkeys([*self._few, *sorted(self._many, key=_order)]))
        self._is_cut |= len(paths) > self._limit
        root, whole = FieldVotes(), _SHARES * math.lcm(*(count for count in self.messages.values() if count > VOTES))
        weights = {number: min(whole, VOTES * whole // count) for number, count in self.messages.items()}
        for path in paths[: self._limit]:
            node = root
            for step in path:
                node = node.below.setdefault(step, FieldVotes())
            for nodes in (self._few, self._many):
                for number, counts in nodes.get(path, {}).items():
                    for name, count in counts.items():
                        node.votes[name] += count * weights[number]
        return root


def sender_number(sender: str | None) -> str:
    """Return the number of a sender as a text; senders beyond some share theirs."""
    return str(zlib.crc32((sender or "").encode("utf-8", "replace")) % _SENDERS)


def _votes(facts: dict[str, int]) -> dict[str, int]:
    """Return the votes of a message at a path: its facts, with one kind and one size."""
    kinds = [name for name in facts if name.startswith(KIND)]
    if len(kinds) > 1:
        for name in kinds:
            del facts[name]
        facts[KIND + ("text" if _NOT_TEXTS.isdisjoint(kinds) else "mixed")] = 1
    if _WHOLE in facts:
        facts[f"{SIZE}{facts.pop(_WHOLE)} {facts.pop(_SCALE)}"] = 1
    return facts


class _Message:
    """Facts that the values of one message say at each path, with 1 or the most of their numbers."""

    def __init__(self, limit: int) -> None:
        self.nodes = _Nodes(limit, lambda: {"messages": 1, "place": 0})
        self._forms = forms()

    def add(self, path: Path, value: Any, place: int = 0, *facts: str) -> None:
        """Add a value at a path: nothing for null, for what is empty, and for what lies too deep."""
        if len(path) > MAX_NESTING or is_empty(value):
            return
        node = self.nodes[path]
        node["place"] = max(place, node["place"])
        for fact in facts:
            node[fact] = 1
        if isinstance(value, bool):
            node[f"{KIND}boolean"] = 1
        elif isinstance(value, Number):
            _add_number(node, value.text)
        elif isinstance(value, str):
            node[KIND + self._form(value)] = 1
        elif isinstance(value, list):
            node[f"{KIND}array"] = 1
            for each in value:
                self.add((*path, None), each)
        elif isinstance(value, dict):
            _add_names(node, value)
            for number, (name, each) in enumerate(value.items()):
                self.add((*path, _bounded(name)), each, number)
        else:
            self._add_element(path, node, value)

    def _add_element(self, path: Path, node: dict[str, int], value: Element) -> None:
        """Add an element: a leaf, a leaf with attributes, or a struct, which can be a list of its children."""
        names = Counter(name for name, _ in value.children)
        inner = list(filter(is_element, names))
        # A text by itself is beside children that have columns already.
        is_struct = bool(inner) or names.keys() == {TEXT}
        if is_struct:
            _add_names(node, inner or names)
        elif names:
            node["attributes"] = 1
        else:
            self._add_leaf(node, value.text)
        for place, (name, child) in enumerate(value.children):
            if name == TEXT and not is_struct:
                self._add_leaf(node, child.text if child else "")
                continue
            is_alone = len(names) == 1 or inner == [name]
            facts = ["element"] + ["repeated"] * (names[name] > 1) + ["alone"] * is_alone
            self.add((*path, _bounded(name)), child, place, *facts)

    def _add_leaf(self, node: dict[str, int], text: str) -> None:
        """Add the text of an element, whose type its form alone shows."""
        text = text.strip(BLANKS)
        if text in ("true", "false"):
            node[f"{KIND}boolean"] = 1
        elif _PLAIN.fullmatch(text):
            _add_number(node, text)
        elif not is_nothing(text):
            node[KIND + self._form(text)] = 1
            if _LEADING_ZERO.fullmatch(text):
                node["leading zero"] = 1

    def _form(self, text: str) -> str:
        form = next((form for form, pattern in self._forms.items() if pattern.fullmatch(text)), None)
        return form if form and read_or_none(form, text, "text") is not None else "text"


def _bounded(name: str) -> str:
    """Return the name, cut if no column can have it, for it is a key of a dictionary at most."""
    return name if len(name) <= MAX_CHARACTERS else f"{name[:MAX_CHARACTERS]}{zlib.crc32(repr(name).encode()):08x}"


def _add_names(node: dict[str, int], names: Iterable[str]) -> None:
    node[f"{KIND}struct"] = 1
    keys = [_KEY.fullmatch(name) is not None for name in names]
    if 3 * sum(keys) >= 2 * len(keys):
        node["keys"] = 1


def _add_number(node: dict[str, int], text: str) -> None:
    node[f"{KIND}number"] = 1
    if _PLAIN.fullmatch(text):
        whole, _, fraction = text.lstrip("-").partition(".")
        is_long = len(whole) < _BEYOND_LONG and -(1 << 63) <= int(text.partition(".")[0]) < 1 << 63
        digits = min(max(len(whole), 0 if is_long else _BEYOND_LONG), MOST_DIGITS + 1)
        node[_WHOLE] = max(digits, node.get(_WHOLE, 0))
        node[_SCALE] = max(min(len(fraction), MOST_DIGITS + 1), node.get(_SCALE, 0))
    else:
        node["exponent"] = 1
    if read_or_none("double", text, "number") is None:
        node["beyond double"] = 1
