"""Inference of schemas from trees of bodies, and the differences between two schemas.

Source: docs/guides/bodies.md, "Inferred types".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from airflow_sqlqueue.bodies.names import column_key, is_column_name
from airflow_sqlqueue.bodies.schemas import (
    MAX_FIELDS,
    MAX_NESTING,
    Struct,
    Type,
    all_fields,
    array,
    fields_of,
    item_of,
    struct,
    with_item,
)
from airflow_sqlqueue.bodies.tree import Element, Number
from airflow_sqlqueue.bodies.types import forms, number_type, takes_leaf

_MOST_NAMES = 10_000
"""The most names of one object that are counted; others get no column."""

_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass
class Seen:
    """Statistics of one field in a sample: counts by kind of value, sizes of numbers, and what it contains."""

    values: int = 0
    texts: int = 0
    forms: dict[str, int] = field(default_factory=dict)
    booleans: int = 0
    numbers: int = 0
    exponents: int = 0
    integer_digits: int = 0
    scale: int = 0
    is_beyond_long: bool = False
    structs: int = 0
    arrays: int = 0
    fields: dict[str, Seen] = field(default_factory=dict)
    repeated: set[str] = field(default_factory=set)
    element: Seen | None = None
    untyped: int = 0
    """Texts of XML, whose types only their forms tell."""

    def add(self, value: Any) -> None:
        """Add a value of a tree; null adds nothing."""
        if value is None:
            return
        self.values += 1
        if isinstance(value, bool):
            self.booleans += 1
        elif isinstance(value, Number):
            self._add_number(value)
        elif isinstance(value, str):
            self._add_text(value)
        elif isinstance(value, dict):
            self.structs += 1
            for name, each in value.items():
                self._field(name).add(each)
        elif isinstance(value, list):
            self.arrays += 1
            self.element = self.element or Seen()
            for each in value:
                self.element.add(each)
        else:
            self._add_element(value)

    def merge(self, other: Seen) -> None:
        """Add the statistics of another sample of the same field."""
        self.values += other.values
        self.texts += other.texts
        self.booleans += other.booleans
        self.numbers += other.numbers
        self.exponents += other.exponents
        self.structs += other.structs
        self.arrays += other.arrays
        self.untyped += other.untyped
        self.integer_digits = max(self.integer_digits, other.integer_digits)
        self.scale = max(self.scale, other.scale)
        self.is_beyond_long |= other.is_beyond_long
        for form, count in other.forms.items():
            self.forms[form] = self.forms.get(form, 0) + count
        for name, seen in other.fields.items():
            self._field(name).merge(seen)
        self.repeated |= other.repeated
        if other.element is not None:
            self.element = self.element or Seen()
            self.element.merge(other.element)

    def to_values(self) -> dict[str, Any]:
        """Return the statistics as values for JSON, for :meth:`from_values`."""
        values = {
            **vars(self),
            "fields": {name: each.to_values() for name, each in self.fields.items()},
            "repeated": sorted(self.repeated),
            "element": self.element and self.element.to_values(),
        }
        return {name: value for name, value in values.items() if value}

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Seen:
        """Return the statistics that :meth:`to_values` gave."""
        element = values.get("element")
        given = {
            **values,
            "fields": {name: cls.from_values(each) for name, each in values.get("fields", {}).items()},
            "repeated": set(values.get("repeated", ())),
            "element": None if element is None else cls.from_values(element),
        }
        return cls(**given)

    def _field(self, name: str) -> Seen:
        if name not in self.fields and len(self.fields) >= _MOST_NAMES:
            return Seen()
        return self.fields.setdefault(name, Seen())

    def _add_number(self, value: Number) -> None:
        self.numbers += 1
        if not _PLAIN.fullmatch(value.text):
            self.exponents += 1
            return
        whole, _, fraction = value.text.lstrip("-").partition(".")
        self.integer_digits = max(self.integer_digits, len(whole))
        self.scale = max(self.scale, len(fraction))
        self.is_beyond_long |= not fraction and not -(1 << 63) <= int(whole[:40]) < 1 << 63

    def _add_text(self, text: str) -> None:
        self.texts += 1
        for form, pattern in (*forms().items(), ("uuid", _UUID)):
            if pattern.fullmatch(text):
                self.forms[form] = self.forms.get(form, 0) + 1

    def _add_element(self, value: Element) -> None:
        if not value.children:
            self._add_leaf(value.text)
            return
        self.structs += 1
        names: set[str] = set()
        for name, child in value.children:
            if name in names:
                self.repeated.add(name)
            names.add(name)
            self._field(name).add(child)

    def _add_leaf(self, text: str) -> None:
        if text == "":
            self.values -= 1
            return
        self.untyped += 1
        if text in ("true", "false"):
            self.booleans += 1
        elif _PLAIN.fullmatch(text):
            self._add_number(Number(text))
        else:
            self._add_text(text)

    def type(self) -> tuple[Type | None, str | None]:
        """The type of the field, None without a value that tells one; and the form of its texts, ``uuid``."""
        if self.values == 0:
            return None, None
        if self.structs == self.values:
            return self._struct_type(), None
        if self.arrays == self.values:
            element = self.element.type()[0] if self.element else None
            return (None if element is None else array(element)), None
        if self.booleans == self.values:
            return "boolean", None
        if self.numbers == self.values:
            return self._number_type(), None
        if self.texts == self.values:
            for form, count in self.forms.items():
                if count == self.values:
                    return ("string", "uuid") if form == "uuid" else (form, None)
        return "string", None

    def _struct_type(self) -> Type | None:
        if len(self.fields) == 1 and set(self.fields) == self.repeated:
            # A list as the XmlSerializer writes it: its items are the only children.
            ((_, item),) = self.fields.items()
            element = item.type()[0]
            return None if element is None else array(element)
        found = struct_of(self)
        return found if found["fields"] else None

    def _number_type(self) -> Type:
        return number_type(
            self.integer_digits, self.scale, is_beyond_long=self.is_beyond_long, has_exponents=self.exponents > 0
        )


def struct_of(seen: Seen) -> Struct:
    """The struct of a sample, its fields in the order of their first appearance.

    A name that no column can have gets no field. Of names that differ in case alone the one with most values gets it.
    """
    # Once for each field: a second look at each level would double with every level.
    found = {name: each.type() for name, each in seen.fields.items() if is_column_name(name)}
    chosen: dict[str, str] = {}
    for name, (kind, _) in found.items():
        if kind is not None:
            rival = chosen.get(column_key(name))
            if rival is None or (seen.fields[name].values, rival) > (seen.fields[rival].values, name):
                chosen[column_key(name)] = name
    names = [name for name in found if chosen.get(column_key(name)) == name][:MAX_FIELDS]
    types: dict[str, Type] = {}
    metadata: dict[str, dict[str, Any]] = {}
    for name in names:
        kind, form = found[name]
        if kind is not None:
            types[name] = array(kind) if name in seen.repeated else kind
            if form is not None:
                metadata[name] = {"format": form}
    return struct(types, metadata)


@dataclass(frozen=True)
class Change:
    """A difference: the path of a field, its type in the schema and in the batch; None where it is missing."""

    path: str
    schema: Type | None
    batch: Type | None


def differences(schema: Struct, found: Struct, path: str = "") -> Iterator[Change]:
    """Yield the new fields of a batch's own schema, and the fields whose values do not fit."""
    known = fields_of(schema)
    for name, kind in fields_of(found).items():
        yield from _difference(known.get(name), kind, f"{path}.{name}".lstrip("."))


def _difference(known: Type | None, found: Type, path: str) -> Iterator[Change]:
    if known is None:
        yield Change(path, None, found)
    elif isinstance(known, dict) and isinstance(found, dict) and known["type"] == found["type"]:
        if known["type"] == "struct":
            yield from differences(known, found, path)
        else:
            yield from _difference(_item(known), _item(found), f"{path}[]")
    elif not takes(known, found):
        yield Change(path, known, found)


def _item(kind: Type) -> Type:
    return item_of(kind) or "string"


def takes(known: Type, found: Type) -> bool:
    """Whether a column of the type ``known`` holds every value of the type ``found``."""
    if known == "string" or known == found:
        return True
    return isinstance(known, str) and isinstance(found, str) and takes_leaf(known, found)


def extended(schema: Struct, found: Struct) -> Struct:
    """The schema with the fields of ``found`` that it has not; its own fields keep their types.

    Of new fields as many are taken as a schema may have, those of outer structs first, and none that is nested deeper
    than a schema may be.
    """
    return _extended_by(schema, _bounded(schema, found))


def _extended_by(schema: Struct, found: Struct) -> Struct:
    known = fields_of(schema)
    metadata = {each["name"]: each["metadata"] for each in (*found["fields"], *schema["fields"])}
    lowered = {column_key(name) for name in known}
    others = fields_of(found)
    types = {name: _extended(kind, others.get(name)) for name, kind in known.items()}
    new = {name: kind for name, kind in others.items() if column_key(name) not in lowered}
    return struct({**types, **new}, metadata)


def _extended(known: Type, found: Type | None) -> Type:
    if isinstance(known, dict) and isinstance(found, dict) and known["type"] == found["type"]:
        if known["type"] == "struct":
            return _extended_by(known, found)
        return with_item(known, _extended(_item(known), _item(found)))
    return known


def _bounded(schema: Struct, found: Struct) -> Struct:
    """The fields of ``found`` that fit into the schema, level by level."""
    left = MAX_FIELDS - sum(1 for _ in all_fields(schema))
    chosen: set[int] = set()
    level: list[tuple[Struct, Struct | None, int]] = [(found, schema, 0)]
    while level:
        deeper: list[tuple[Struct, Struct | None, int]] = []
        for each, known, depth in level:
            names = fields_of(known) if known else {}
            for one in each["fields"]:
                kind, levels = _without_arrays(one["type"])
                is_new = one["name"] not in names
                if depth + 1 + levels > MAX_NESTING or (is_new and left == 0):
                    continue
                left -= is_new
                chosen.add(id(one))
                if isinstance(kind, dict):
                    same, _ = _without_arrays(names.get(one["name"], ""))
                    deeper.append((kind, same if isinstance(same, dict) else None, depth + 1 + levels))
        level = deeper
    return _chosen_of(found, chosen)


def _without_arrays(kind: Type) -> tuple[Type, int]:
    """The type of the items of lists and maps, and the number of these around it."""
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
        element = _chosen_in(item, chosen)
        return None if element is None else with_item(kind, element)
    inner = _chosen_of(kind, chosen)
    return inner if inner["fields"] else None
