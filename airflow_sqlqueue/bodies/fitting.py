"""Values of one body by a schema, and what does not fit it; :mod:`.blocks` follows the same rule for many bodies.

Source: docs/guides/bodies.md, "Values that do not fit".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import KeysView
from dataclasses import dataclass
from itertools import chain
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

from airflow_sqlqueue.bodies.names import Path, column_key, path_text
from airflow_sqlqueue.bodies.schemas import Struct, Type, fields_of
from airflow_sqlqueue.bodies.tree import BLANKS, TEXT, Element, Number, Repeated, is_blank, is_empty
from airflow_sqlqueue.bodies.types import read_leaf
from airflow_sqlqueue.bodies.values import Misfit
from airflow_sqlqueue.untrusted import is_text

_LONGEST_KEY = 1_024
"""The most characters of a key of a map. A path has each key, and there may be many paths."""


@dataclass(frozen=True)
class Columns:
    """The fields of a struct: their types, and their names by what engines compare."""

    kinds: dict[str, Type]
    own: dict[str, str]
    by_key: dict[str, str]

    @classmethod
    def of(cls, schema: Struct) -> Columns:
        kinds = fields_of(schema)
        return cls(kinds, {name: name for name in kinds}, {column_key(name): name for name in kinds})

    def of_names(self, names: KeysView[str]) -> dict[str, str]:
        """Return the columns of those names that have one: the same one, or the only one that differs in case alone."""
        if names <= self.own.keys():
            return self.own
        others = {name: column_key(name) for name in names if name not in self.own}
        counts = Counter(others.values())
        found = {name: name for name in names if name in self.own}
        for name, key in others.items():
            column = self.by_key.get(key)
            if column is not None and column not in names and counts[key] == 1:
                found[name] = column
        return found


class _Occurrences(list[Any]):
    """The values of a name that occurs more than once in an element."""


class Fitting:
    """The values of one body, and in ``rescued`` what did not fit, by path.

    No two values have one path. Of an element that repeats and is no list the first one counts, and the position of
    another one is its number. Of members of JSON with one name the last one counts, and -2 is the one before.

    :param columns: a dict for what is known of structs, to be shared by the bodies of one schema.
    """

    def __init__(self, columns: dict[int, Columns] | None = None) -> None:
        self.rescued: dict[Path, Any] = {}
        self._columns = {} if columns is None else columns
        self._again: dict[Path, int] = {}

    def struct(self, value: Any, schema: Struct, path: Path = ()) -> dict[str, Any]:
        """Return a value for each field that has one: dicts, lists, and what Arrow takes for the leaf types."""
        columns = self._columns_of(schema)
        members = value if isinstance(value, dict) else _members(value)
        names = columns.of_names(members.keys())
        found: dict[str, Any] = {}
        for name, each in members.items():
            column = names.get(name)
            if column is not None:
                found[column] = self._fitted(each, columns.kinds[column], (*path, name))
            elif not is_empty(each):
                self._rescue((*path, name), each)
        if isinstance(value, Repeated):
            self._rescue_earlier(value, path)
        return found

    def rescued_text(self) -> str | None:
        """JSON of the values that did not fit by their paths, with numbers as they were; None without any."""
        if not self.rescued:
            return None
        return to_json({path_text(path): value for path, value in self.rescued.items()})

    def _columns_of(self, schema: Struct) -> Columns:
        found = self._columns.get(id(schema))
        if found is None:
            found = self._columns[id(schema)] = Columns.of(schema)
        return found

    def _rescue(self, path: Path, value: Any) -> None:
        where = path
        while where in self.rescued:
            self._again[path] = self._again.get(path, 1) + 1
            where = (*path, -self._again[path])
        self.rescued[where] = value

    def _rescue_earlier(self, value: Repeated, path: Path) -> None:
        counts: dict[str, int] = {}
        for name, each in reversed(value.pairs):
            counts[name] = counts.get(name, 0) + 1
            if counts[name] > 1 and not is_empty(each):
                self._rescue((*path, name, -counts[name]), each)

    def _fitted(self, value: Any, kind: Type, path: Path) -> Any:
        """Return the value of a column, None for one that does not fit, which is rescued."""
        if type(value) is _Occurrences and not (isinstance(kind, dict) and kind["type"] == "array"):
            for number, each in enumerate(value):
                if number and not is_empty(each):
                    self._rescue((*path, number), each)
            value = value[0]
        if value is None:
            return None
        try:
            if isinstance(kind, dict):
                return self._nested(value, kind, path)
            return self._simple(value, kind, path) if isinstance(value, Element) else leaf(value, kind)
        except Misfit:
            self._rescue(path, value)
            return None

    def _nested(self, value: Any, kind: dict[str, Any], path: Path) -> Any:
        if isinstance(value, Element) and not value.children and self._is_nothing(value, kind):
            return None if value.is_nil or not is_empty(value) else [] if kind["type"] != "struct" else {}
        if kind["type"] == "array":
            items = self._items(value, kind["elementType"], path)
            return [self._fitted(each, kind["elementType"], (*path, number)) for number, each in enumerate(items)]
        if not isinstance(value, (dict, Element)):
            raise Misfit
        if kind["type"] == "map":
            return self._map(value, kind["valueType"], path)
        if isinstance(value, Element) and not value.children and TEXT not in self._columns_of(kind).kinds:
            raise Misfit
        return self.struct(value, kind, path) or (None if isinstance(value, Element) and value.is_nil else {})

    def _is_nothing(self, value: Element, kind: dict[str, Any]) -> bool:
        """Whether an element without children is no object or list, or the ``null`` of NServiceBus up to 5."""
        if is_blank(value.text):
            return True
        is_text = kind["type"] == "struct" and TEXT in self._columns_of(kind).kinds
        is_text |= kind["type"] == "array" and kind["elementType"] == "string"
        return not is_text and value.text.strip(BLANKS) == "null"

    def _simple(self, value: Element, kind: str, path: Path) -> Any:
        """Return the text of an element by a simple type; attributes are rescued."""
        text = value.text
        if value.children:
            if any(_is_element(name) for name, _ in value.children):
                return leaf(value, kind)
            text = next((each.text for name, each in value.children if each and name == TEXT), "")
        if kind == "string":
            found = None if value.is_nil and is_blank(text) else read_leaf(kind, text, None)
        else:
            found = None if text.strip(BLANKS) in ("", "null") else read_leaf(kind, text, None)
        for name, each in value.children:
            if name != TEXT:
                self._rescue((*path, name), each)
        return found

    def _map(self, value: Any, kind: Type, path: Path) -> list[tuple[str, Any]]:
        found = []
        for name, each in (value if isinstance(value, dict) else _members(value)).items():
            if is_text(name) and len(name) <= _LONGEST_KEY:
                found.append((name, self._fitted(each, kind, (*path, name))))
            elif not is_empty(each):
                self._rescue((*path, name), each)
        if isinstance(value, Repeated):
            self._rescue_earlier(value, path)
        return found

    def _items(self, value: Any, kind: Type, path: Path) -> list[Any]:
        """Return the items of a list: of XML the occurrences themselves, or their children."""
        if isinstance(value, Element):
            value = _Occurrences((value,))
        if not isinstance(value, list):
            raise Misfit
        if not isinstance(value, _Occurrences) or any(each and self._is_item(each, kind) for each in value):
            return value
        if len(value) > 1 and all(map(is_empty, value)):
            return value
        if any(each and not each.children and not is_blank(each.text) for each in value):
            raise Misfit
        items = []
        for name, child in chain.from_iterable(each.children for each in value if each):
            if _is_element(name):
                items.append(child)
            else:
                self._rescue((*path, name), child)
        return items

    def _is_item(self, value: Element, kind: Type) -> bool:
        """Whether an element looks like an item of a list rather than like the list with its items as children."""
        elements = [(name, each) for name, each in value.children if _is_element(name)]
        if not isinstance(kind, dict):
            return not elements and not is_empty(value)
        if kind["type"] != "struct":
            inner = kind["valueType" if kind["type"] == "map" else "elementType"]
            return any(each and self._is_item(each, inner) for _, each in elements)
        by_key = self._columns_of(kind).by_key
        if not elements:
            return any(column_key(name) in by_key for name in _members(value))
        # A list of objects has no texts as its items.
        return any(column_key(name) in by_key or _is_plain_text(each) for name, each in elements)


def _is_element(name: str) -> bool:
    return name[0] not in "@#"


def _is_plain_text(value: Element | None) -> bool:
    return value is not None and not value.children and not is_blank(value.text)


def _members(value: Element) -> dict[str, Any]:
    if not value.children:
        return {} if is_blank(value.text) else {TEXT: value}
    found: dict[str, Any] = {}
    for name, each in value.children:
        if name not in found:
            found[name] = each
        elif isinstance(found[name], _Occurrences):
            found[name].append(each)
        else:
            found[name] = _Occurrences((found[name], each))
    return found


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
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Number):
        return value.text
    if isinstance(value, dict):
        members = value.pairs if isinstance(value, Repeated) else value.items()
        return f"{{{','.join([f'{_quoted(name)}:{to_json(each)}' for name, each in members])}}}"
    if isinstance(value, list):
        return f"[{','.join(map(to_json, value))}]"
    if isinstance(value, Element):
        return to_json(_members(value) if value.children else value.text)
    return "null" if value is None else "true" if value else "false"
