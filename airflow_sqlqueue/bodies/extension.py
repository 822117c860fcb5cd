"""Extension of a schema by new fields, and the differences between two schemas.

Fields are compared as columns are, so a field in another case is not new. Source: docs/guides/bodies.md, "Schemas".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from airflow_sqlqueue.bodies.names import Path, column_key, is_column_name, path_text
from airflow_sqlqueue.bodies.schemas import (
    MAX_FIELDS,
    MAX_NESTING,
    Struct,
    Type,
    all_fields,
    field_of,
    fields_of,
    item_of,
    map_of,
    with_item,
)
from airflow_sqlqueue.bodies.types import takes_leaf

EMPTY: Struct = {"type": "struct", "fields": []}


@dataclass(frozen=True)
class Change:
    """A difference: the path of a field, its type in the schema and in the batch; None where it is missing.

    ``misfits`` is the number of messages of a sample with a value that does not fit.
    """

    path: str
    schema: Type | None
    batch: Type | None
    misfits: int = 0


def differences(known: Type | None, found: Type, path: Path = ()) -> Iterator[Change]:
    """Yield the new fields of a batch's own schema, and the fields whose values do not fit."""
    item = known and item_of(known)
    if item and _is_alike(known, found):
        yield from differences(item, item_of(found) or "", (*path, None))
    elif item and known == map_of(item) and _is_alike(EMPTY, found):
        for kind in fields_of(_struct(found)).values():
            yield from differences(item, kind, (*path, None))
    elif known and _is_alike(known, found):
        types = {column_key(name): kind for name, kind in fields_of(_struct(known)).items()}
        for name, kind in fields_of(_struct(found)).items():
            yield from differences(types.get(column_key(name)), kind, (*path, name))
    elif known is None or not takes(known, found):
        yield Change(path_text(path), known, found)


class KnownFields:
    """The fields of a schema, found by the paths of values that were rescued."""

    def __init__(self, schema: Struct) -> None:
        self._schema = schema
        # A body may have many values beside the fields: the names of a struct are put in order once.
        self._structs: dict[int, dict[str, tuple[str, Type]]] = {}

    def of(self, path: Path) -> tuple[Path, Type] | None:
        """Return the path and the type of the field that a value belongs to; None for the value of another field."""
        kind: Type = self._schema
        found: list[str | None] = []
        for step in path:
            item = item_of(kind)
            name = None
            if item is None:
                # The rest of the path is inside a value of a leaf type, or the position of a repeated element.
                if isinstance(kind, str) or not isinstance(step, str):
                    break
                if (field := self._fields(kind).get(column_key(step))) is None:
                    return None
                name, item = field
            found.append(name)
            kind = item
        return (tuple(found), kind) if found else None

    @cached_property
    def _has_room(self) -> bool:
        return sum(1 for _ in all_fields(self._schema)) < MAX_FIELDS

    def would_extend(self, path: Path) -> bool:
        """Return whether a value at a path could become a new column; fields in lists and maps stay as they are."""
        if len(path) > MAX_NESTING or not self._has_room:
            return False
        kind: Type | None = self._schema
        for name in path:
            if not isinstance(name, str) or not is_column_name(name):
                return False
            if kind is not None:
                if isinstance(kind, str) or kind["type"] != "struct":
                    return False
                _, kind = self._fields(kind).get(column_key(name), (name, None))
        return kind is None

    def _fields(self, kind: Struct) -> dict[str, tuple[str, Type]]:
        if id(kind) not in self._structs:
            self._structs[id(kind)] = {column_key(name): (name, each) for name, each in fields_of(kind).items()}
        return self._structs[id(kind)]


def takes(known: Type, found: Type) -> bool:
    """Return whether a column of the type ``known`` holds every value of the type ``found``."""
    return known in ("string", found) or (
        isinstance(known, str) and isinstance(found, str) and takes_leaf(known, found)
    )


def extended(schema: Struct, found: Struct) -> Struct:
    """Return the schema with the fields of ``found`` that it has not, as :func:`extended_by` takes them."""
    return extended_by(schema, found)[0]


def extended_by(schema: Struct, found: Struct) -> tuple[Struct, list[str], list[str]]:
    """Return the schema with the fields of ``found`` that it has not, the paths of these, and of those without room.

    Those come first that more messages have (``messages`` of a field in a sample), then those of outer structs.
    """
    ranks: dict[Path, tuple[Any, ...]] = {}
    result = _extended(schema, found, (), math.inf, ranks, set())
    new = sorted(ranks, key=ranks.__getitem__)
    room = max(0, MAX_FIELDS - sum(1 for _ in all_fields(schema)))
    if len(new) > room:
        result = _extended(schema, found, (), math.inf, ranks, set(new[room:]))
    texts = list(map(path_text, new))
    return _struct(result), texts[:room], texts[room:]


def _extended(
    known: Type | None, found: Type, path: Path, most: float, ranks: dict[Path, tuple[Any, ...]], left_out: set[Path]
) -> Type | None:
    """Return the type with new fields, which get ranks, without those left out; None for a new one that is nothing."""
    if len(path) > MAX_NESTING:
        return known
    value = item_of(known)
    if value and known == map_of(value) and _is_alike(EMPTY, found):
        # Each object of a dictionary with few names, which looks like a struct, is a value.
        for own in fields_of(_struct(found)).values():
            value = _extended(value, own, (*path, None), most, ranks, left_out) or value
        return map_of(value)
    if not isinstance(found, dict) or not _is_alike(known, found):
        return found if known is None else known
    if (item := item_of(found)) is not None:
        inner = _extended(known and item_of(known), item, (*path, None), most, ranks, left_out)
        return None if inner is None else with_item(found, inner)
    fields = {column_key(each["name"]): each for each in _struct(known)["fields"]}
    for place, each in enumerate(found["fields"]):
        key, where = column_key(each["name"]), (*path, each["name"])
        # No field is before the one that it is in, though that is in one value of a dictionary alone.
        old, messages = fields.get(key), min(each.get("messages", 0), most)
        kind = _extended(old and old["type"], each["type"], where, messages, ranks, left_out)
        if kind is None or where in left_out:
            continue
        if old is None:
            ranks[where] = (-messages, len(where), place, path_text(where))
        fields[key] = {**(old or each), "type": kind}
    if known is None and not fields:
        return None
    found_fields = [field_of(each["name"], each["type"], each["metadata"]) for each in fields.values()]
    return {"type": "struct", "fields": found_fields}


def _is_alike(known: Type | None, found: Type) -> bool:
    """Return whether a type is not known, or a struct, list or map as the other."""
    return known is None or (isinstance(known, dict) and isinstance(found, dict) and known["type"] == found["type"])


def _struct(kind: Type | None) -> Struct:
    return kind if isinstance(kind, dict) else EMPTY
