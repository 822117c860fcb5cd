"""Inference of schemas: types by the majority of messages, with room for numbers; dictionaries; limits.

Source: docs/guides/bodies.md, "Inferred types".
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import partial
from typing import Any

from airflow_sqlqueue.bodies.extension import EMPTY, extended_by
from airflow_sqlqueue.bodies.names import Path, column_key, is_column_name
from airflow_sqlqueue.bodies.patterns import NO_HINTS, Hints
from airflow_sqlqueue.bodies.schemas import MAX_FIELDS, Struct, Type, all_fields, array, field_of, map_of
from airflow_sqlqueue.bodies.statistics import KIND, MAX_NODES, SIZE, FieldVotes, Statistics, merged, merged_values
from airflow_sqlqueue.bodies.types import LEAVES, number_type
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.untrusted import quoted

_MANY_NEW_FIELDS = 200
_MANY_NAMES, _FREQUENT = 20, 4
"""The least names of a dictionary; none of them is in more than one of four messages."""

_LISTS = ("s", "es", "list", "collection", "array")
"""Ends of the names of lists, behind the name of an item."""

_ITEM_TYPES = re.compile(
    "string|bool(ean)?|char|byte|short|long|u?int(16|32|64)?|float|single|double|decimal|guid|datetime(offset)?|timespan"
)
"""Names of items in lists of simple values, as serializers of .NET write them."""


def infer(
    statistics: Statistics, message_type: str, known: Struct = EMPTY, hints: Hints = NO_HINTS
) -> tuple[Struct, list[str]]:
    """Return a schema with the fields of a sample that it has not, and a sentence for each limit that it reaches."""
    found = _Types(message_type, hints).struct(statistics.votes(), ()) or EMPTY
    schema, new, left_out = extended_by(known, found)
    name, count = quoted(message_type), sum(1 for _ in all_fields(schema))
    says = []
    if left_out:
        says.append(
            f"{name} has no column for {count_of(len(left_out), 'field')}, as its schema is full: "
            f"{quoted(left_out[0])}. Remove fields or hint a map."
        )
    if len(new) > _MANY_NEW_FIELDS:
        says.append(
            f"{len(new):,} fields of {name} are new, the first one is {quoted(new[0])}. A dictionary may need a hint."
        )
    if statistics.is_cut:
        says.append(
            f"the statistics of {name} have room for {MAX_NODES:,} fields, and the messages have more. A dictionary "
            "may need a hint."
        )
    if 5 * count >= 4 * MAX_FIELDS:
        says.append(
            f"the schema of {name} has {count:,} fields, and room for {MAX_FIELDS:,} at most. Remove fields or hint a "
            "map."
        )
    return schema, says


def struct_of(statistics: Statistics, message_type: str = "", hints: Hints = NO_HINTS) -> Struct:
    """Return the schema of a sample by itself; its fields are in the order that they mostly have in the bodies."""
    return infer(statistics, message_type, hints=hints)[0]


class _Types:
    """The types of the nodes of a sample, by hints for its type."""

    def __init__(self, message_type: str, hints: Hints) -> None:
        self._hint_at = partial(hints.type_at, message_type)

    def struct(self, node: FieldVotes, where: Path) -> Struct | None:
        """Return the struct with all fields, None without any; names of one column are as most messages have them."""
        columns: dict[str, list[tuple[str, FieldVotes]]] = defaultdict(list)
        for name, inner in _fields(node).items():
            if is_column_name(name):
                columns[column_key(name)].append((name, inner))
        found = []
        for fields in columns.values():
            name, usual = min(fields, key=lambda each: (-each[1].votes["messages"], each[0]))
            inner = merged(each for _, each in fields) if len(fields) > 1 else usual
            kind = self.type(inner, (*where, name))
            if kind is not None:
                place = usual.votes["place"] / usual.votes["messages"]
                found.append((place, name, _field(name, kind, inner)))
        fields_in_order = [field for *_, field in sorted(found, key=lambda each: each[:2])]
        return {"type": "struct", "fields": fields_in_order} if found else None

    def type(self, node: FieldVotes, where: Path, *, is_item: bool = False) -> Type | None:
        """Return the type of a field or of the items of one; None if no value shows it."""
        hint = self._hint_at(where)
        if hint is not None and hint not in ("map", "struct"):
            return hint
        votes, kinds = node.votes, _starting(node, KIND)
        if not is_item and 3 * votes["repeated"] >= votes["element"] > 0:
            return self._array([node], where)
        items = _items_of_element(node, where[-1]) if hint is None else None
        if items is not None:
            kinds["array"] = kinds.get("array", 0) + kinds.pop("struct")
        kind = _majority(kinds)
        # A hint for a dictionary or a struct says nothing of a list.
        hint = None if kind == "array" else hint
        if hint == "map" or (hint is None and kind == "struct" and _is_dictionary(node)):
            value = self.type(merged_values(node), (*where, None))
            return None if value is None else map_of(value)
        if kind == "struct" or hint is not None:
            return self.struct(node, where)
        if kind == "array":
            return self._array([each for each in (node.below.get(None), items) if each], where)
        leaf = _leaf(kind, node) if kinds else None
        found = self.struct(node, where) if 2 * votes["attributes"] >= votes["messages"] > 0 else None
        if found is not None and leaf is not None:
            found["fields"].append(_field("#text", self._hint_at((*where, "#text")) or leaf, node))
        return found or leaf

    def _array(self, items: list[FieldVotes], where: Path) -> Type | None:
        item = self.type(merged(items), (*where, None), is_item=True)
        return None if item is None else array(item)


def _field(name: str, kind: Type, node: FieldVotes) -> dict[str, Any]:
    return {**field_of(name, kind), "messages": node.votes["messages"]}


def _fields(node: FieldVotes) -> dict[str, FieldVotes]:
    return {name: inner for name, inner in node.below.items() if isinstance(name, str)}


def _starting(node: FieldVotes, prefix: str) -> dict[str, int]:
    return {name[len(prefix) :]: count for name, count in node.votes.items() if name.startswith(prefix)}


def _majority(kinds: dict[str, int]) -> str | None:
    """Return the kind of two thirds of the values or more; None for a mixture."""
    kind = max(kinds, key=lambda each: (kinds[each], each), default=None)
    return kind if kind is not None and 3 * kinds[kind] >= 2 * sum(kinds.values()) else None


def _is_dictionary(node: FieldVotes) -> bool:
    fields, structs = _fields(node), node.votes[f"{KIND}struct"]
    if 3 * node.votes["keys"] >= 2 * structs:
        return True
    is_rare = (_FREQUENT * inner.votes["messages"] <= structs for inner in fields.values())
    return len(fields) >= _MANY_NAMES and all(is_rare)


def _items_of_element(node: FieldVotes, own: str | int | None) -> FieldVotes | None:
    """Return the items, if elements are lists: children of one name, several or called as items, and few attributes."""
    structs = node.votes[f"{KIND}struct"]
    alone: list[tuple[str, FieldVotes]] = []
    for name, inner in _fields(node).items():
        votes = inner.votes
        if name[:1] == "@" and 2 * votes["messages"] >= structs:
            return None
        if 3 * votes["alone"] >= 2 * structs > 0:
            alone.append((name, inner))
    # A message may have elements with different names.
    if len(alone) != 1:
        return None
    ((name, inner),) = alone
    is_list = 3 * inner.votes["repeated"] >= inner.votes["messages"] or _is_item_of(name.lower(), str(own).lower())
    return inner if is_list else None


def _is_item_of(item: str, own: str) -> bool:
    """Return whether an element is called as the item of a list: ``Line`` or ``OrderLine`` in ``Lines``, ``string``."""
    if _ITEM_TYPES.fullmatch(item) or own == f"arrayof{item}":
        return True
    lists = [*(item + each for each in _LISTS), f"{item[:-1]}ies"]
    return len(own) > 2 and any(each.endswith(own) or own.endswith(each) for each in lists)


def _leaf(kind: str | None, node: FieldVotes) -> Type:
    if kind == "number" and not node.votes["leading zero"]:
        return _number_type(node)
    return kind if kind in LEAVES else "string"


def _number_type(node: FieldVotes) -> Type:
    """Return the type that takes all numbers, but one in twenty whose size would leave no room for the others."""
    votes, numbers = node.votes, node.votes[f"{KIND}number"]
    if 20 * votes["exponent"] > numbers:
        return "double" if 20 * votes["beyond double"] <= numbers else "string"
    sizes = [(*map(int, size.split()), count) for size, count in _starting(node, SIZE).items()]
    whole = _needed([(digits, count) for digits, _, count in sizes], numbers)
    # Fractions of few numbers are no reason for many digits after the point, but for some.
    scale = _needed([(digits, count) for _, digits, count in sizes], numbers) or any(each[1] for each in sizes)
    return number_type(whole, scale, is_beyond_long=any(each[0] > 19 for each in sizes))


def _needed(sizes: list[tuple[int, int]], numbers: int) -> int:
    """Return the digits that all numbers but one in twenty need."""
    beyond = 0
    for digits, count in sorted(sizes, reverse=True):
        beyond += count
        if 20 * beyond > numbers:
            return digits
    return 0
