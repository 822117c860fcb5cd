"""Values of one body by a schema, and what does not fit it.

This is the rule that :mod:`airflow_sqlqueue.bodies.blocks` follows faster for many bodies at once. Source:
docs/guides/bodies.md, "Values that do not fit".
"""

from __future__ import annotations

import json
from typing import Any

from airflow_sqlqueue.bodies.decoding import Element, Number
from airflow_sqlqueue.bodies.schemas import Struct, Type, fields_of
from airflow_sqlqueue.bodies.types import read_leaf
from airflow_sqlqueue.bodies.values import Misfit
from airflow_sqlqueue.untrusted import is_text


class Fitting:
    """The values of one body, and in ``rescued`` what did not fit, by path."""

    def __init__(self) -> None:
        self.rescued: dict[str, Any] = {}

    def struct(self, value: Any, schema: Struct, path: str = "") -> dict[str, Any]:
        """Return a value for each field that has one: dicts, lists, and what Arrow takes for the leaf types."""
        kinds = fields_of(schema)
        found: dict[str, Any] = {}
        for name, each in _members(value, kinds):
            where = f"{path}.{name}" if path else name
            if each is None:
                continue
            if name not in kinds:
                if not is_empty(each):
                    self._rescue(where, each)
                continue
            try:
                fitted = self._value(each, kinds[name], where)
            except Misfit:
                self._rescue(where, each)
            else:
                found[name] = fitted
        return found

    def _value(self, value: Any, kind: Type, path: str) -> Any:
        if not isinstance(kind, dict):
            return leaf(value, kind)
        if kind["type"] == "struct":
            if isinstance(value, Element) and not value.children and not value.text.strip():
                return {}
            if not isinstance(value, dict) and not (isinstance(value, Element) and value.children):
                raise Misfit
            return self.struct(value, kind, path)
        if kind["type"] == "map":
            return self._map(value, kind["valueType"], path)
        items = _items(value)
        found = []
        for number, each in enumerate(items):
            where = f"{path}[{number}]"
            try:
                found.append(None if each is None else self._value(each, kind["elementType"], where))
            except Misfit:
                self._rescue(where, each)
                found.append(None)
        return found

    def _map(self, value: Any, kind: Type, path: str) -> list[tuple[str, Any]]:
        """The keys and values. A key that comes again or is no text is rescued, and a value that does not fit."""
        if not isinstance(value, dict) and not (isinstance(value, Element) and not value.text.strip()):
            raise Misfit
        found: dict[str, Any] = {}
        for key, each in value.items() if isinstance(value, dict) else value.children:
            where = f"{path}.{key}"
            if key in found or not is_text(key):
                self._rescue(where, each)
                continue
            try:
                found[key] = None if each is None else self._value(each, kind, where)
            except Misfit:
                self._rescue(where, each)
        return list(found.items())

    def _rescue(self, path: str, value: Any) -> None:
        # XML may repeat a name.
        while path in self.rescued:
            path += "'"
        self.rescued[path] = value

    def rescued_text(self) -> str | None:
        """JSON of the values that did not fit by their paths, with numbers as they were; None without any."""
        return to_json(self.rescued) if self.rescued else None


def is_empty(value: Any) -> bool:
    """Whether a value of a field that a schema has not counts as null: an empty object or element, a list of nothing.

    A list of nulls and empty objects is one: Arrow's reader does not tell it from an empty list.
    """
    if isinstance(value, Element):
        return not value.children and not value.text.strip()
    if isinstance(value, list):
        return all(each is None or each == {} for each in value)
    return value == {} or value is None


def _members(value: Any, kinds: dict[str, Type]) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    flat: dict[str, list[Any]] = {}
    members: list[tuple[str, Any]] = []
    for name, child in value.children:
        kind = kinds.get(name)
        if isinstance(kind, dict) and kind["type"] == "array":
            flat.setdefault(name, []).append(child)
        else:
            members.append((name, child))
    # A name that occurs once is a list with its items as children, one that is repeated is the list itself.
    return members + [(name, found[0] if len(found) == 1 else found) for name, found in flat.items()]


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, Element) and not value.text.strip():
        return [child for _, child in value.children]
    raise Misfit


def leaf(value: Any, kind: str) -> Any:
    """The value of a leaf type; see :func:`~airflow_sqlqueue.bodies.types.read_leaf`. Raises :class:`Misfit`."""
    if isinstance(value, (dict, list)) or (isinstance(value, Element) and value.children):
        return read_leaf(kind, to_json(value), "nested")
    if isinstance(value, Element):
        return read_leaf(kind, value.text, None)
    if isinstance(value, bool):
        return read_leaf(kind, "true" if value else "false", "boolean")
    if isinstance(value, Number):
        return read_leaf(kind, value.text, "number")
    return read_leaf(kind, value, "text")


def to_json(value: Any) -> str:
    """JSON of a tree, with each number as it was written; XML becomes objects, repeated names arrays."""
    pieces: list[str] = []
    _write(value, pieces)
    return "".join(pieces)


def _write(value: Any, pieces: list[str]) -> None:
    if isinstance(value, Number):
        pieces.append(value.text)
    elif isinstance(value, dict):
        separator = "{"
        for name, each in value.items():
            pieces.append(f"{separator}{json.dumps(name)}:")
            _write(each, pieces)
            separator = ","
        pieces.append("}" if value else "{}")
    elif isinstance(value, list):
        separator = "["
        for each in value:
            pieces.append(separator)
            _write(each, pieces)
            separator = ","
        pieces.append("]" if value else "[]")
    elif isinstance(value, Element):
        _write(_plain(value), pieces)
    else:
        pieces.append(json.dumps(value))


def _plain(element: Element) -> Any:
    if not element.children:
        return element.text
    found: dict[str, list[Any]] = {}
    for name, child in element.children:
        found.setdefault(name, []).append(child)
    return {name: each[0] if len(each) == 1 else each for name, each in found.items()}
