"""Reports on the messages of a table, with names of fields and never a value; shares of messages that fail a task.

Source: docs/guides/bodies.md, "What a run says".
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from airflow_sqlqueue.bodies.patterns import TypePatterns
from airflow_sqlqueue.errors import ConfigurationError, TooManyRescuedError
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.untrusted import quoted

MOST_FIELDS = 20
"""Fields with rescued values that a report names, those of most messages."""

T = TypeVar("T")
_COUNTED = 10 * MOST_FIELDS
_LONGEST = 300
"""Characters of a path in a report."""

_POSITION = re.compile(r'("(?:[^"\\]|\\.)*")|\[-?\d+\]')

ShareLimit: TypeAlias = "float | str | Mapping[str, float | str] | None"
"""The most that is allowed of a type's messages, from 0 to 1: for all types, or by patterns of their names."""


@dataclass(frozen=True)
class RescuedField:
    """Field with rescued values in a table.

    :param field: its path, without positions in lists: ``Lines[].Quantity``.
    :param messages: the messages in whose ``_rescued`` it is.
    :param path: its path in one of them: ``Lines[0].Quantity``.
    """

    field: str
    messages: int
    path: str


@dataclass(frozen=True)
class MessageTypeTable:
    """Result of a batch for one table.

    :param message_type: the type of the messages; None for messages without a type, and those of too many types.
    :param table: the folder of the table, or its name in the catalog.
    :param is_unparsed: whether it is the table of the messages that are not parsed.
    :param messages: the messages of the batch for the table.
    :param rescued: those of them with values that fit no column.
    :param new_fields: the paths of the fields that are columns of the table since this batch.
    :param repeated: those that are left out, because ``merge_on`` found them in another row.
    :param warnings: of the first table, limits of schemas that the batch reaches, and schemas that cannot be used, as
        sentences; of a rewrite, texts in ``_rescued`` that it left as they are.
    :param rescued_fields: the fields of these values, up to 20, those of most messages first.
    :param reasons: of a table of messages that are not parsed, their number by reason.
    """

    message_type: str | None
    table: str
    is_unparsed: bool
    messages: int
    rescued: int = 0
    new_fields: tuple[str, ...] = ()
    rescued_fields: tuple[RescuedField, ...] = ()
    reasons: dict[str, int] = field(default_factory=dict, hash=False)
    repeated: int = 0
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return one line for a log: names and numbers, and nothing of a body."""
        parts = [f"{quoted(self.table)} has {count_of(self.messages, 'message')} of the batch"]
        if self.reasons:
            parts.append("not parsed: " + ", ".join(f"{count:,} {reason}" for reason, count in self.reasons.items()))
        if self.new_fields:
            more = f" and {len(self.new_fields) - MOST_FIELDS:,} more" if len(self.new_fields) > MOST_FIELDS else ""
            parts.append("new fields " + ", ".join(map(quoted, self.new_fields[:MOST_FIELDS])) + more)
        parts += [
            f"{quoted(each.field)}: {each.messages:,} of {self.messages:,} rescued, as {quoted(each.path)}"
            for each in self.rescued_fields
        ]
        return "; ".join(parts)


class Report:
    """Counts of one type's messages: the fields of rescued values, and the reasons of messages that are not parsed.

    Its size is bounded: of many different fields the frequent ones are kept, whose numbers may then be too small.
    """

    def __init__(self) -> None:
        self._fields: dict[str, tuple[int, str]] = {}
        self.reasons: Counter[str] = Counter()

    def add(self, rescued: Iterable[str]) -> None:
        """Add texts of the column ``_rescued``."""
        for text in rescued:
            # Numbers stay texts: there may be millions of digits.
            paths = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
            cut = [path[:_LONGEST] for path in islice(paths, _COUNTED)]
            self._count({_POSITION.sub(lambda found: found[1] or "[]", path): (1, path) for path in reversed(cut)})

    def merge(self, values: Mapping[str, Any]) -> None:
        """Add what :meth:`to_values` gave."""
        self._count(values["fields"])
        self.reasons.update(values["reasons"])

    def to_values(self) -> dict[str, Any]:
        """Return the counts as values for JSON."""
        return {"fields": dict(self._frequent(MOST_FIELDS)), "reasons": self.reasons}

    @property
    def rescued_fields(self) -> tuple[RescuedField, ...]:
        """The fields, those of most messages first."""
        return tuple(RescuedField(name, *found) for name, found in self._frequent(MOST_FIELDS))

    def _count(self, fields: Mapping[str, tuple[int, str]]) -> None:
        for name, (count, path) in fields.items():
            before = self._fields.get(name, (0, path))
            self._fields[name] = (before[0] + count, before[1])
        if len(self._fields) > 2 * _COUNTED:
            self._fields = dict(self._frequent(_COUNTED))

    def _frequent(self, most: int) -> list[tuple[str, tuple[int, str]]]:
        return sorted(self._fields.items(), key=lambda each: (-each[1][0], each[0]))[:most]


def check_shares(tables: Sequence[MessageTypeTable], max_rescued: ShareLimit, max_unparsed: ShareLimit) -> None:
    """Raise :class:`TooManyRescuedError` if a share of a type's messages is too high, ConfigurationError for no share.

    It is a share of the batch for messages without a type or table.
    """
    limits = {"max_rescued": _shares("max_rescued", max_rescued), "max_unparsed": _shares("max_unparsed", max_unparsed)}
    totals: Counter[str | None] = Counter()
    for each in tables:
        totals[each.message_type] += each.messages
    totals[None] = sum(totals.values())
    found = []
    for each in tables:
        name, count = ("max_unparsed", each.messages) if each.is_unparsed else ("max_rescued", each.rescued)
        total, limit = totals[each.message_type], first_fitting(limits[name], each.message_type)
        if limit is not None and count / total > limit:
            found.append((count / total - limit, f"{name}={limit:g}", count, total, each))
    if not found:
        return
    _, limit_text, count, total, worst = max(found, key=lambda each: each[0])
    whose = "without a type or table" if worst.message_type is None else f"of the type {quoted(worst.message_type)}"
    if worst.is_unparsed:
        what = f"are not parsed ({', '.join(worst.reasons)})"
    else:
        paths = [f", most at {quoted(each.path)}" for each in worst.rescued_fields[:1]]
        what = "have rescued values" + "".join(paths)
    more = f", and {len(found) - 1} more shares are too high" if len(found) > 1 else ""
    raise TooManyRescuedError(
        f"{count:,} of {total:,} messages {whose} {what}, which is {count / total:.2%} and above "
        f"{limit_text}{more}: all rows are in the tables, {quoted(worst.table)} for these, and the batch is not "
        "consumed; mend the schema or allow more, and run it again."
    )


def _shares(name: str, given: ShareLimit) -> dict[str, float]:
    """Return the limits by pattern. Airflow renders a templated number as a text."""
    limits = given if isinstance(given, Mapping) else {} if given is None else {"*": given}
    try:
        shares = {pattern: float(value) for pattern, value in limits.items() if TypePatterns.of(pattern)}
    except (TypeError, ValueError, OverflowError):
        shares = {"": math.nan}
    if not all(0 <= share <= 1 for share in shares.values()):
        raise ConfigurationError(
            f'{name} is a share from 0 to 1, or such shares by patterns of types, {{"Shop.*": 0.01}}.'
        )
    return shares


def first_fitting(values: Mapping[str, T], message_type: str | None) -> T | None:
    """Return the value of the first pattern that fits a type; only ``*`` means messages without a type or table."""
    if message_type is None:
        return values.get("*")
    return next((each for pattern, each in values.items() if TypePatterns.of(pattern).matches(message_type)), None)
