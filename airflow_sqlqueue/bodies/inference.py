"""Inference of schemas: types by the majority of messages, with room for numbers; dictionaries; limits.

Source: docs/guides/bodies.md, "Inferred types".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from airflow_sqlqueue.bodies.extension import EMPTY, bounded, extended
from airflow_sqlqueue.bodies.hints import NO_HINTS, Hints
from airflow_sqlqueue.bodies.message_values import KIND
from airflow_sqlqueue.bodies.names import Path, column_key, is_column_name
from airflow_sqlqueue.bodies.schemas import MAX_FIELDS, Struct, Type, all_fields, array, map_of
from airflow_sqlqueue.bodies.statistics import MAX_NODES, Statistics
from airflow_sqlqueue.bodies.types import LEAVES, MOST_DIGITS, number_type
from airflow_sqlqueue.bodies.warnings import SchemaWarning

_STRUCT, _NUMBER = f"{KIND}struct", f"{KIND}number"
_MANY_NEW_FIELDS = 200
_MANY_NAMES, _FREQUENT = 20, 4
"""The least names of a dictionary; none of them is in more than one of four messages."""

_SUFFIXES = ("list", "collection", "array", "s")
_ITEM_TYPES = frozenset(
    ("string", "boolean", "bool", "byte", "char", "short", "int", "long", "float", "double", "decimal", "guid")
) | {"datetime", "datetimeoffset", "timespan", "int16", "int32", "int64", "uint16", "uint32", "uint64", "single"}
"""Names of items in lists of simple values, as serializers of .NET write them."""


@dataclass(frozen=True)
class Inference:
    """A schema that is inferred, and the limits that it reaches."""

    schema: Struct
    warnings: tuple[SchemaWarning, ...] = ()


def infer(statistics: Statistics, message_type: str, known: Struct = EMPTY, hints: Hints = NO_HINTS) -> Inference:
    """Return a schema with the fields of a sample that it has not; its own fields keep their types.

    Of new fields as many are taken as a schema may have, those first that more messages have.
    """
    found = _Types(statistics, hints, message_type).root()
    taken, new, left_out = bounded(known, found)
    warnings = []
    if left_out:
        warnings.append(SchemaWarning("fields", message_type, len(left_out), left_out[0]))
    if len(new) > _MANY_NEW_FIELDS:
        warnings.append(SchemaWarning("new fields", message_type, len(new), new[0]))
    if statistics.is_cut:
        warnings.append(SchemaWarning("statistics", message_type, MAX_NODES, ""))
    schema = extended(known, taken)
    if 5 * (count := sum(1 for _ in all_fields(schema))) >= 4 * MAX_FIELDS:
        warnings.append(SchemaWarning("many fields", message_type, count, str(MAX_FIELDS)))
    return Inference(schema, tuple(warnings))


def struct_of(statistics: Statistics, message_type: str = "", hints: Hints = NO_HINTS) -> Struct:
    """Return the schema of a sample by itself; its fields are in the order that they mostly have in the bodies."""
    return bounded(EMPTY, _Types(statistics, hints, message_type).root())[0]


class _Types:
    """The types of the paths of a sample. Several paths are asked for together where they are one field."""

    def __init__(self, statistics: Statistics, hints: Hints, message_type: str) -> None:
        self._votes = statistics.votes()
        self._hints = hints.of(message_type)
        self._below: dict[Path, list[Path]] = defaultdict(list)
        for path in self._votes:
            if path:
                self._below[path[:-1]].append(path)

    def root(self) -> Struct:
        return self._struct([()], ())

    def _sums(self, paths: Iterable[Path]) -> dict[str, Fraction]:
        sums: dict[str, Fraction] = defaultdict(Fraction)
        for path in paths:
            for name, count in self._votes.get(path, {}).items():
                sums[name] += count
        return sums

    def _fields(self, paths: Iterable[Path]) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = defaultdict(list)
        for path in paths:
            for each in self._below.get(path, ()):
                if isinstance(name := each[-1], str):
                    found[name].append(each)
        return found

    def _struct(self, paths: list[Path], where: Path) -> Struct:
        """The struct with all fields of a type, in the order that they mostly have."""
        found = []
        messages = self._sums(paths)["messages"]
        for fields in self._columns(paths):
            best, inner = fields[0]
            counts = self._sums(inner)
            # Names of one column are one field, but where a message has several.
            others = [each for _, other in fields for each in other]
            if (total := self._sums(others)["messages"]) > messages:
                others, total = inner, counts["messages"]
            kind, form = self.type(others, (*where, best))
            if kind is not None:
                metadata = {} if form is None else {"format": form}
                entry = {"name": best, "type": kind, "nullable": True, "metadata": metadata, "messages": total}
                found.append((counts["place"] / counts["messages"], best, entry))
        return {"type": "struct", "fields": [entry for _, _, entry in sorted(found, key=lambda each: each[:2])]}

    def _columns(self, paths: list[Path]) -> list[list[tuple[str, list[Path]]]]:
        """The names and paths of the fields by column, those of a column by the number of their messages."""
        columns: dict[str, list[tuple[str, list[Path]]]] = defaultdict(list)
        for name, inner in self._fields(paths).items():
            if is_column_name(name):
                columns[column_key(name)].append((name, inner))
        for each in columns.values():
            each.sort(key=lambda field: (-self._sums(field[1])["messages"], field[0]))
        return list(columns.values())

    def type(self, paths: list[Path], where: Path, *, is_item: bool = False) -> tuple[Type | None, str | None]:
        """The type of a field, None if no value shows one; and the form of its texts, ``uuid``."""
        hint = self._hints.type_at(where)
        if hint is not None and hint not in ("map", "struct"):
            return hint, None
        counts = self._sums(paths)
        if not is_item and 3 * counts["repeated"] >= counts["element"] > 0:
            item = self.type(paths, (*where, None), is_item=True)[0]
            return (None if item is None else array(item)), None
        votes = dict(_starting(counts, KIND))
        items = self._wrapped(paths, counts, where[-1]) if hint is None else []
        if items:
            votes["array"] = votes.get("array", Fraction()) + votes.pop("struct")
        kind = _majority(votes)
        if kind == "struct" or hint is not None:
            return self._object(paths, where, counts, hint), None
        if kind == "array":
            item = self.type([*((*each, None) for each in paths), *items], (*where, None), is_item=True)[0]
            return (None if item is None else array(item)), None
        leaf, form = _leaf(kind, counts) if votes else (None, None)
        if 2 * counts["attributes"] >= counts["messages"] > 0:
            return self._with_attributes(paths, where, leaf), None
        return leaf, form

    def _wrapped(self, paths: list[Path], counts: dict[str, Fraction], own: str | int | None) -> list[Path]:
        """The paths of the items, if elements are lists: they have children of one name, mostly several.

        One child is enough where its name is that of an item: ``Lines`` with ``Line``, or ``string``.
        """
        fields = self._fields(paths)
        if any(
            2 * self._sums(inner)["messages"] >= counts[_STRUCT] for name, inner in fields.items() if name[:1] == "@"
        ):
            return []
        for name, inner in fields.items():
            found = self._sums(inner)
            if 3 * found["alone"] >= 2 * counts[_STRUCT] > 0:
                is_list = 3 * found["repeated"] >= found["messages"] or _is_item_of(name, own)
                return inner if is_list else []
        return []

    def _object(self, paths: list[Path], where: Path, counts: dict[str, Fraction], hint: Type | None) -> Type | None:
        fields = self._fields(paths)
        if hint == "map" or (hint is None and self._is_dictionary(fields, counts)):
            value = self.type([each for inner in fields.values() for each in inner], (*where, None))[0]
            return None if value is None else map_of(value)
        found = self._struct(paths, where)
        return found if found["fields"] else None

    def _is_dictionary(self, fields: dict[str, list[Path]], counts: dict[str, Fraction]) -> bool:
        if 3 * counts["keys"] >= 2 * counts[_STRUCT]:
            return True
        if len(fields) < _MANY_NAMES:
            return False
        return all(_FREQUENT * self._sums(inner)["messages"] <= counts[_STRUCT] for inner in fields.values())

    def _with_attributes(self, paths: list[Path], where: Path, leaf: Type | None) -> Type | None:
        found = self._struct(paths, where)
        if leaf is not None:
            text = self._hints.type_at((*where, "#text")) or leaf
            messages = self._sums(paths)["messages"]
            entry = {"name": "#text", "type": text, "nullable": True, "metadata": {}, "messages": messages}
            found["fields"].append(entry)
        return found if found["fields"] else None


def _majority(votes: dict[str, Fraction]) -> str | None:
    """The kind of two thirds of the values or more; None for a mixture."""
    kind = max(votes, key=lambda each: (votes[each], each), default=None)
    return kind if kind is not None and 3 * votes[kind] >= 2 * sum(votes.values()) else None


def _is_item_of(name: str, own: str | int | None) -> bool:
    """Whether an element is called as the item of a list: ``Line`` or ``OrderLine`` in ``Lines``, ``string``."""
    item, whole = name.lower(), str(own).lower()
    if item in _ITEM_TYPES or whole == f"arrayof{item}":
        return True
    for suffix in _SUFFIXES:
        one = whole.removesuffix(suffix)
        if one != whole and len(one) > 1:
            singular = {one, f"{one[:-2]}y" if one.endswith("ie") else one, one.removesuffix("e")}
            if any(item.endswith(each) or each.endswith(item) for each in singular):
                return True
    return False


def _leaf(kind: str | None, counts: dict[str, Fraction]) -> tuple[Type, str | None]:
    if kind == "number" and not counts["leading zero"]:
        return _number_type(counts), None
    if kind == "uuid":
        return "string", "uuid"
    return (kind if kind in LEAVES else "string"), None


def _number_type(counts: dict[str, Fraction]) -> Type:
    """The type that takes all numbers, but one in twenty whose size would leave no room for the others."""
    numbers = counts[_NUMBER]
    if 20 * counts["exponent"] > numbers:
        return "double" if 20 * counts["beyond double"] <= numbers else "string"
    whole, scale = _needed(counts, "whole ", numbers), _needed(counts, "scale ", numbers)
    if whole > MOST_DIGITS:
        return "string"
    # Fractions of few numbers are no reason for many digits after the point, but for some.
    scale = scale or int(any(True for _ in _starting(counts, "scale ")))
    return number_type(whole, scale, is_beyond_long=counts["beyond long"] > 0)


def _needed(counts: dict[str, Fraction], prefix: str, numbers: Fraction) -> int:
    """The digits that all numbers but one in twenty need."""
    sizes = sorted(((int(size), count) for size, count in _starting(counts, prefix)), reverse=True)
    beyond = Fraction()
    for digits, count in sizes:
        beyond += count
        if 20 * beyond > numbers:
            return digits
    return 0


def _starting(counts: dict[str, Fraction], prefix: str) -> Iterator[tuple[str, Fraction]]:
    return ((name[len(prefix) :], count) for name, count in counts.items() if name.startswith(prefix))
