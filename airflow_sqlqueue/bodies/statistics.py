"""Statistics of the bodies of one message type: counts by path, of bounded size, from which types are inferred.

A message counts once at each path, however many values it has there, and the senders of a type are counted apart, so
that neither decides alone. The statistics do not depend on the order of the messages, nor on how they are
distributed before they are merged. Source: docs/guides/bodies.md, "Inferred types".
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from airflow_sqlqueue.bodies.message_values import MessageValues, first_paths
from airflow_sqlqueue.bodies.names import Path

MAX_NODES = 8_000
"""The most paths of a type that are counted: outer ones first, those of one depth by a hash of their names."""

VOTES = 30
"""The messages that are worth a vote: a sender with more than its even share of these gets the share."""

_SENDERS = 16


class Statistics:
    """Counts of a type's messages by sender and path.

    :param limit: the most paths, those of all senders together.
    """

    def __init__(self, limit: int = MAX_NODES) -> None:
        self.messages: Counter[int] = Counter()
        """The messages of each sender; the senders are numbered by a hash of their names."""
        self._nodes: dict[int, dict[Path, Counter[str]]] = defaultdict(dict)
        # The most paths of one sender, which is halved until all together are within the limit.
        self._most = self._limit = limit
        self.is_cut = False
        """Whether there are more paths than are counted."""

    def __len__(self) -> int:
        return sum(map(len, self._nodes.values()))

    def add(self, tree: Any, sender: str | None = None) -> None:
        """Add the body of a message."""
        number = sender_number(sender)
        found = MessageValues(self._most)
        found.add((), tree, 0)
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
                    self._nodes[number] = {path: nodes[path] for path in first_paths(nodes, self._most)}
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
