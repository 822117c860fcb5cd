"""Values of one body by a schema, and what does not fit it; :mod:`.arrow_parser` has the same rule for many bodies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, KeysView
from itertools import chain
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, TypeAlias

from airflow_sqlqueue.bodies.names import Path, name_key, path_text
from airflow_sqlqueue.bodies.schemas import Struct, Type, fields_of, item_of, width
from airflow_sqlqueue.bodies.tree import (
    BLANKS,
    TEXT,
    Element,
    Number,
    Repeated,
    Untyped,
    expansion_limit,
    is_element,
    is_empty,
    members_of,
)
from airflow_sqlqueue.bodies.types import Given, read_leaf, text_reader
from airflow_sqlqueue.bodies.values import CoercionError
from airflow_sqlqueue.errors import BodyError
from airflow_sqlqueue.untrusted import is_text

_LONGEST_KEY = 1_024
"""The most characters of a key of a map. A path has each key, and there may be many paths."""


Column: TypeAlias = "tuple[str, Type, Callable[[str, bool], Any] | None]"
"""A column: its name, its type, and of a leaf type the reader of the texts of elements."""


def _column(name: str, kind: Type) -> Column:
    return name, kind, text_reader(kind) if isinstance(kind, str) else None


class Columns:
    """The columns of the fields of a struct, by their names and by what engines compare."""

    def __init__(self, schema: Struct) -> None:
        self.own = {name: _column(name, kind) for name, kind in fields_of(schema).items()}
        self.by_key = {name_key(name): each for name, each in self.own.items()}
        self.width = width(schema)

    def of_names(self, names: KeysView[str]) -> dict[str, Column]:
        """Return the columns of those names that have one: the same one, or the only one that differs in case alone."""
        own = self.own.keys()
        if names <= own or not any(name_key(name) in self.by_key for name in names - own):
            return self.own
        keys = {name: name_key(name) for name in names}
        counts = Counter(keys.values())
        alike = {name: self.by_key[key] for name, key in keys.items() if counts[key] == 1 and key in self.by_key}
        return alike | {name: self.own[name] for name in names & self.own.keys()}


class Occurrences(list[Any]):
    """The values of a name that occurs more than once in an element."""


class Coercion:
    """The values of one body, and in ``rescued`` what did not fit, by path.

    No two values have one path. Of an element that repeats and is no list the first one counts, and the position of
    another one is its number. Of members of JSON with one name the last one counts, and -2 is the one before. The
    bodies of one schema share ``columns``, a dict for what is known of its structs. A ``size`` of the body limits the
    values that items of lists and maps take in columns.
    """

    def __init__(self, columns: dict[int, Columns] | None = None, size: int | None = None) -> None:
        self.rescued: dict[Path, Any] = {}
        self._columns = {} if columns is None else columns
        self._times: dict[Path, int] = {}
        self._cells = math.inf if size is None else expansion_limit(size)

    def struct(self, value: Any, schema: Struct, path: Path = ()) -> dict[str, Any]:
        """Return a value for each field that has one: dicts, lists, and what Arrow takes for the leaf types.

        Raises :class:`BodyError` if its items take too many values.
        """
        members = _members(value)
        return self._object(members, self._columns_of(schema).of_names(members.keys()), path)

    def rescue(self, path: Path, value: Any) -> None:
        """Keep a value that is in no column."""
        self._times[path] = times = self._times.get(path, 0) + 1
        if times > 1:
            self.rescue((*path, -times), value)
        else:
            self.rescued[path] = value

    def rescued_text(self, size: int | None = None) -> str | None:
        """Return the JSON of the values that did not fit by their paths, with numbers as they were; None without any.

        Raises :class:`BodyError` if it is too long for a body of a ``size``.
        """
        room = math.inf if size is None else expansion_limit(size)
        members = []
        for path, value in self.rescued.items():
            members.append(f"{_quoted(path_text(path))}:{to_json(value)}")
            room -= len(members[-1])
            if room < 0:
                raise BodyError("size")
        return f"{{{','.join(members)}}}" if members else None

    def _columns_of(self, schema: Struct) -> Columns:
        found = self._columns.get(id(schema))
        if found is None:
            found = self._columns[id(schema)] = Columns(schema)
        return found

    def _object(self, members: dict[str, Any], columns: dict[str, Column], path: Path) -> dict[str, Any]:
        found = {}
        for name, each in members.items():
            if name in columns:
                column, kind, read = columns[name]
                if read and type(each) is Element and not each.children:
                    # A path takes time, and most values fit.
                    try:
                        found[column] = read(each.text, each.is_nil)
                        continue
                    except CoercionError:
                        pass
                found[column] = self.fitted(each, kind, (*path, name))
            elif not is_empty(each):
                self.rescue((*path, name), each)
        if isinstance(members, Repeated):
            times = Counter[str]()
            for name, each in reversed(members.pairs):
                times[name] += 1
                if times[name] > 1 and not is_empty(each):
                    self.rescue((*path, name, -times[name]), each)
        return found

    def fitted(self, value: Any, kind: Type, path: Path) -> Any:
        """Return the value of a column, None for one that does not fit, which is rescued."""
        if type(value) is Occurrences and (isinstance(kind, str) or kind["type"] != "array"):
            for number, each in enumerate(value):
                if number and not is_empty(each):
                    self.rescue((*path, number), each)
            value = value[0]
        if value is None:
            return None
        try:
            if isinstance(kind, dict):
                return self._nested(value, kind, path)
            return self._simple(value, kind, path) if isinstance(value, Element) else _leaf(value, kind)
        except CoercionError:
            self.rescue(path, value)
            return None

    def _nested(self, value: Any, kind: dict[str, Any], path: Path) -> Any:
        is_struct = kind["type"] == "struct"
        if isinstance(value, Element) and not value.children:
            takes_text = TEXT in self._columns_of(kind).own if is_struct else kind.get("elementType") == "string"
            text = value.text.strip(BLANKS)
            if not text or (text == "null" and not takes_text):
                return None if text or value.is_nil else {} if is_struct else []
            if is_struct and not takes_text:
                raise CoercionError
        if kind["type"] == "array":
            items = self._items(value, kind["elementType"], path)
            self._take(len(items), kind["elementType"])
            return [self.fitted(each, kind["elementType"], (*path, number)) for number, each in enumerate(items)]
        if not isinstance(value, (dict, Element)):
            raise CoercionError
        if is_struct:
            return self.struct(value, kind, path) or (None if isinstance(value, Element) and value.is_nil else {})
        members = _members(value)
        _, inner, read = _column("", kind["valueType"])
        keys = [name for name in members if is_text(name) and len(name) <= _LONGEST_KEY]
        self._take(len(keys), inner)
        return list(self._object(members, {name: (name, inner, read) for name in keys}, path).items())

    def _take(self, items: int, kind: Type) -> None:
        """Take room for items in the columns of their fields. Raises :class:`BodyError` if too little is left."""
        if isinstance(kind, dict) and kind["type"] == "struct":
            self._cells -= items * self._columns_of(kind).width
            if self._cells < 0:
                raise BodyError("size")

    def _simple(self, value: Element, kind: str, path: Path) -> Any:
        """Return the text of an element by a simple type; attributes are rescued."""
        text = value.text
        if value.children:
            if any(is_element(name) for name, _ in value.children):
                return _leaf(value, kind)
            text = dict(value.children).get(TEXT, value).text
        found = text_reader(kind)(text, value.is_nil)
        for name, each in value.children:
            if name != TEXT:
                self.rescue((*path, name), each)
        return found

    def _items(self, value: Any, kind: Type, path: Path) -> list[Any]:
        """Return the items of a list: of XML the occurrences themselves, or their children."""
        if isinstance(value, Element):
            value = Occurrences((value,))
        if not isinstance(value, list):
            raise CoercionError
        if type(value) is not Occurrences or any(self._is_item(each, kind) for each in value):
            return value
        if len(value) > 1 and all(map(is_empty, value)):
            return value
        if any(map(_is_plain_text, value)):
            raise CoercionError
        items = []
        for name, child in chain.from_iterable(each.children for each in value):
            if is_element(name):
                items.append(child)
            else:
                self.rescue((*path, name), child)
        return items

    def _is_item(self, value: Element, kind: Type) -> bool:
        """Return whether an element looks like an item of a list and not like the list with its items as children."""
        elements = {name: each for name, each in value.children if is_element(name)}
        if isinstance(kind, str):
            return not elements and not is_empty(value)
        if (inner := item_of(kind)) is not None:
            return any(self._is_item(each, inner) for name, each in value.children if is_element(name))
        # A list of objects has no texts as its items.
        by_key = self._columns_of(kind).by_key
        return any(name_key(name) in by_key for name in elements or _members(value)) or any(
            is_element(name) and _is_plain_text(each) for name, each in value.children
        )


def _is_plain_text(value: Element) -> bool:
    return not value.children and not is_empty(value)


def _members(value: Any) -> dict[str, Any]:
    """Return the members of an object; of an element its children by their names."""
    if isinstance(value, dict):
        return value
    if not value.children:
        return {} if is_empty(value) else {TEXT: value}
    found: dict[str, Any] = dict(value.children)
    if len(found) == len(value.children):
        return found
    found = {}
    for name, each in value.children:
        if name not in found:
            found[name] = each
        elif type(found[name]) is Occurrences:
            found[name].append(each)
        else:
            found[name] = Occurrences((found[name], each))
    return found


def _leaf(value: Any, kind: str) -> Any:
    """Return the value of a leaf type, or CoercionError; see :func:`~airflow_sqlqueue.bodies.types.read_leaf`."""
    if isinstance(value, str):
        return read_leaf(kind, value, None if isinstance(value, Untyped) else "text")
    given: Given = "boolean" if isinstance(value, bool) else "number" if isinstance(value, Number) else "nested"
    return read_leaf(kind, to_json(value), given)


def to_json(value: Any) -> str:
    """Return the JSON of a tree, with each number as it was written; XML becomes objects, repeated names arrays."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Number):
        return value.text
    if isinstance(value, dict):
        return f"{{{','.join([f'{_quoted(name)}:{to_json(each)}' for name, each in members_of(value)])}}}"
    if isinstance(value, list):
        return f"[{','.join(map(to_json, value))}]"
    if isinstance(value, Element) and not (value.is_nil and is_empty(value)):
        return to_json(_members(value) if value.children else value.text)
    return "true" if value is True else "false" if value is False else "null"


def to_element(value: Any) -> Element:
    """Return the element whose :func:`to_json` a value is; the items of a list in a list are called ``Item``."""
    if value is None:
        return Element(is_nil=True)
    if isinstance(value, Element):
        return value
    if isinstance(value, list):
        return Element([("Item", to_element(each)) for each in value])
    if isinstance(value, dict):
        is_nil = value.get(TEXT, TEXT) is None
        members = [(name, each if isinstance(each, list) else [each]) for name, each in value.items()]
        children = [(name, _part(name, to_element(each))) for name, all_ in members for each in all_]
        return Element([each for each in children if each[0] != TEXT or not is_nil], is_nil=is_nil)
    return Element((), str(value) if isinstance(value, str) else to_json(value))


def _part(name: str, value: Element) -> Element:
    """Return a child; a text or an attribute has its own text, though a column has it in an object of its own."""
    while not is_element(name) and [inner for inner, _ in value.children] == [TEXT]:
        ((_, value),) = value.children
    return value


def placed(node: Any, path: Path, value: Any) -> Any:
    """Return a tree with a value where it was in the body. Raises LookupError if something else is there."""
    if not path:
        if node is not None:
            raise LookupError
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        if type(node) is Occurrences:
            node[0] = placed(node[0], path, value)
            return node
        if node is None:
            # A column is null for an element that is nil, whose attributes are rescued.
            node = {TEXT: None} if step[:1] == "@" else {}
        elif step[:1] in ("@", "#") and not isinstance(node, (dict, list)):
            # A column has the text of an element, and its attributes are rescued.
            node = {TEXT: node}
        if type(node) is not dict:
            raise LookupError
        node[step] = placed(node.get(step), rest, value)
        return node
    if node is None or step is None:
        raise LookupError
    if not isinstance(node, list):
        # A column has the first one of several elements.
        node = Occurrences([node])
    if not 0 <= step <= len(node):
        raise LookupError
    node[step : step + 1] = [placed(node[step] if step < len(node) else None, rest, value)]
    return node
