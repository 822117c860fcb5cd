"""Statistics of the bodies of one message type: counts by path, of bounded size, from which types are inferred.

A message counts once at each path, and a sender has a bounded number of votes. The statistics do not depend on the
order of the messages, nor on how they are distributed before they are merged. Source: docs/guides/bodies.md, "Inferred
types".
"""

from __future__ import annotations

import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from airflow_sqlqueue.bodies.message_values import MessageValues, Nodes

MAX_NODES = 4_000
"""The most paths of a type that are counted: outer ones first, those of one depth by a hash of their names."""

VOTES = 10
"""The votes of a sender: each message is one, or a part of one if there are more messages."""

_SENDERS = 16


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


class Statistics:
    """Counts of a type's messages by path and sender.

    :param limit: the most paths.
    """

    def __init__(self, limit: int = MAX_NODES) -> None:
        self.messages: Counter[str] = Counter()
        """The messages of each sender; the senders are numbered by a hash of their names."""
        self._nodes: Nodes[dict[str, Counter[str]]] = Nodes(limit, lambda: defaultdict(Counter))

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def is_cut(self) -> bool:
        """Whether there are more paths than are counted."""
        return self._nodes.is_cut

    def add(self, tree: Any, sender: str | None = None) -> None:
        """Add the body of a message."""
        number, found = sender_number(sender), MessageValues(self._nodes.limit)
        found.add((), tree, 0)
        self.messages[number] += 1
        for path, values in found.nodes.items():
            self._nodes[path][number].update(values.counts())
        self._nodes.is_cut |= found.nodes.is_cut

    def merge(self, other: Statistics) -> None:
        """Add the statistics of other messages of the type."""
        self.messages += other.messages
        self._nodes.is_cut |= other.is_cut
        self._nodes.limit = min(self._nodes.limit, other._nodes.limit)
        for path, senders in other._nodes.items():
            for number, counts in senders.items():
                self._nodes[path][number].update(counts)

    def to_values(self) -> list[Any]:
        """Return the statistics as values for JSON, for :meth:`from_values`."""
        self._nodes.cut()
        return [self._nodes.limit, self.is_cut, self.messages, list(self._nodes.items())]

    @classmethod
    def from_values(cls, values: list[Any]) -> Statistics:
        """Return the statistics that :meth:`to_values` gave."""
        limit, is_cut, messages, nodes = values
        found = cls(limit)
        found.messages.update(messages)
        found._nodes.is_cut = is_cut
        for path, senders in nodes:
            for number, counts in senders.items():
                found._nodes[tuple(path)][number].update(counts)
        return found

    def votes(self) -> FieldVotes:
        """Return the root of the votes of all senders, in whole numbers: the parts of a vote have one denominator."""
        self._nodes.cut()
        root, whole = FieldVotes(), math.lcm(*(count for count in self.messages.values() if count > VOTES))
        weights = {number: min(whole, VOTES * whole // count) for number, count in self.messages.items()}
        for path, senders in self._nodes.items():
            node = root
            for step in path:
                node = node.below.setdefault(step, FieldVotes())
            for number, counts in senders.items():
                for name, count in counts.items():
                    node.votes[name] += count * weights[number]
        return root


def sender_number(sender: str | None) -> str:
    """Return the number of a sender as a text; senders beyond some share theirs."""
    return str(zlib.crc32((sender or "").encode("utf-8", "replace")) % _SENDERS)
