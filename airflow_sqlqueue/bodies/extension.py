"""Extension of a schema by new fields, and the differences between two schemas.

Fields are compared as columns are, so a field in another case is not new. Source: docs/guides/bodies.md, "Schemas".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.bodies.names import Path, column_key, is_column_name, path_text
from airflow_sqlqueue.bodies.schemas import (
    MAX_FIELDS,
    MAX_NESTING,
    Struct,
    Type,
    all_fields,
    fields_of,
    item_of,
    struct,
    with_item,
)
from airflow_sqlqueue.bodies.types import takes_leaf

EMPTY: Struct = {"type": "struct", "fields": []}


@dataclass(frozen=True)
class Change:
    """A difference: the path of a field, its type in the schema and in the batch; None where it is missing."""

    path: str
    schema: Type | None
    batch: Type | None


def differences(schema: Struct, found: Struct, path: Path = ()) -> Iterator[Change]:
    """Yield the new fields of a batch's own schema, and the fields whose values do not fit."""
    known = _by_key(schema)
    for name, kind in fields_of(found).items():
        yield from _difference(known.get(column_key(name)), kind, (*path, name))


def _difference(known: Type | None, found: Type, path: Path) -> Iterator[Change]:
    items = None if known is None else _items(known, found)
    if items is not None:
        for each in items[1]:
            yield from _difference(items[0], each, (*path, None))
    elif isinstance(known, dict) and isinstance(found, dict) and known["type"] == found["type"]:
        yield from differences(known, found, path)
    elif known is None or not takes(known, found):
        yield Change(path_text(path), known, found)


def _items(known: Type, found: Type) -> tuple[Type, list[Type]] | None:
    """The types of the items of two lists or maps; a map takes the fields of a struct."""
    if not isinstance(known, dict) or not isinstance(found, dict) or (item := item_of(known)) is None:
        return None
    if known["type"] == "map" and found["type"] == "struct":
        return item, list(fields_of(found).values())
    return (item, [item_of(found) or "string"]) if known["type"] == found["type"] else None


def takes(known: Type, found: Type) -> bool:
    """Whether a column of the type ``known`` holds every value of the type ``found``."""
    if known == "string" or known == found:
        return True
    return isinstance(known, str) and isinstance(found, str) and takes_leaf(known, found)


def extended(schema: Struct, found: Struct) -> Struct:
    """The schema with the fields of ``found`` that it has not; its own fields keep their types.

    Of new fields as many are taken as a schema may have, and none that is nested deeper than a schema may be.
    """
    return _extended_by(schema, bounded(schema, found)[0])


class NewFields:
    """The fields that a schema has not and could get, by the paths of values in bodies."""

    def __init__(self, schema: Struct) -> None:
        self._schema = schema
        self._has_room = sum(1 for _ in all_fields(schema)) < MAX_FIELDS
        self._known: dict[int, dict[str, Type]] = {}

    def would_extend(self, path: Path) -> bool:
        """Whether a value at a path could become a new column.

        It could not if a column takes it by its name without case, if no column can have its name, if the schema is
        full or too deep, or in the items of a list and the values of a map, whose fields stay as they are.
        """
        kind: Type = self._schema
        for depth, name in enumerate(path, 1):
            if not isinstance(kind, dict) or kind["type"] != "struct" or not isinstance(name, str):
                return False
            if id(kind) not in self._known:
                self._known[id(kind)] = _by_key(kind)
            known = self._known[id(kind)].get(column_key(name))
            if known is None:
                return self._has_room and depth == len(path) <= MAX_NESTING and is_column_name(name)
            kind = known
        return False


def would_extend(schema: Struct, path: Path) -> bool:
    """Whether a value at a path could become a new column of a schema; see :meth:`NewFields.would_extend`."""
    return NewFields(schema).would_extend(path)


def _by_key(kind: Struct) -> dict[str, Type]:
    return {column_key(name): each for name, each in fields_of(kind).items()}


def _extended_by(schema: Struct, found: Struct) -> Struct:
    known, others = fields_of(schema), _by_key(found)
    metadata = {each["name"]: each["metadata"] for each in (*found["fields"], *schema["fields"])}
    types = {name: _extended(kind, others.get(column_key(name))) for name, kind in known.items()}
    keys = set(map(column_key, known))
    new = {name: kind for name, kind in fields_of(found).items() if column_key(name) not in keys}
    return struct({**types, **new}, metadata)


def _extended(known: Type, found: Type | None) -> Type:
    if isinstance(known, dict) and isinstance(found, dict) and known["type"] == found["type"]:
        if known["type"] == "struct":
            return _extended_by(known, found)
        item, other = item_of(known), item_of(found)
        return known if item is None else with_item(known, _extended(item, other))
    return known


@dataclass(frozen=True)
class _Candidate:
    """A field of a sample: its rank, its place in the sample's schema, and whether the schema has it not."""

    rank: tuple[Any, ...]
    field: dict[str, Any]
    path: Path
    is_new: bool


def bounded(schema: Struct, found: Struct) -> tuple[Struct, list[str], list[str]]:
    """The part of ``found`` that fits into the schema, the paths of its new fields, and of those that are left out.

    Fields that more messages have go first (``messages``, which a sample's fields have), then those of outer structs.
    """
    candidates = sorted(_candidates(found, schema, (), math.inf), key=lambda each: each.rank)
    left = MAX_FIELDS - sum(1 for _ in all_fields(schema))
    chosen: set[int] = set()
    new: list[str] = []
    left_out: list[str] = []
    for each in candidates:
        if each.is_new and len(new) >= left:
            left_out.append(path_text(each.path))
            continue
        chosen.add(id(each.field))
        if each.is_new:
            new.append(path_text(each.path))
    return _chosen_of(found, chosen), new, left_out


def _candidates(found: Struct, known: Struct | None, path: Path, most: float) -> Iterator[_Candidate]:
    names = _by_key(known) if known else {}
    for place, each in enumerate(found["fields"]):
        kind, levels = _innermost(each["type"])
        where = (*path, each["name"])
        if len(where) + levels > MAX_NESTING:
            continue
        other = names.get(column_key(each["name"]))
        # No field is before the one that it is in, though that is in one value of a dictionary alone.
        messages = min(each.get("messages", 0), most)
        yield _Candidate((-messages, len(where), place, path_text(where)), each, where, other is None)
        if isinstance(kind, dict):
            same = None if other is None else _innermost(other)[0]
            inner = same if isinstance(same, dict) else None
            yield from _candidates(kind, inner, (*where, *[None] * levels), messages)


def _innermost(kind: Type) -> tuple[Type, int]:
    """The type of the items of a list or dictionary, and the number of these around it."""
    levels = 0
    while (item := item_of(kind)) is not None:
        kind, levels = item, levels + 1
    return kind, levels


def _chosen_of(found: Struct, chosen: set[int]) -> Struct:
    """The struct without fields that are not chosen, and without structs that have no fields then."""
    types: dict[str, Type] = {}
    for each in found["fields"]:
        if id(each) in chosen:
            kind = _chosen_in(each["type"], chosen)
            if kind is not None:
                types[each["name"]] = kind
    return struct(types, {each["name"]: each["metadata"] for each in found["fields"]})


def _chosen_in(kind: Type, chosen: set[int]) -> Type | None:
    if not isinstance(kind, dict):
        return kind
    if (item := item_of(kind)) is not None:
        inner = _chosen_in(item, chosen)
        return None if inner is None else with_item(kind, inner)
    struct_type = _chosen_of(kind, chosen)
    return struct_type if struct_type["fields"] else None
