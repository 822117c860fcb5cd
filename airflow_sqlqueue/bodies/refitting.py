"""Rows of a table by another schema: the values of its columns and what was rescued become trees, which are fitted.

Source: docs/guides/bodies.md, "Mend a table".
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.bodies.blocks import arrow_type
from airflow_sqlqueue.bodies.fitting import Fitting, to_json
from airflow_sqlqueue.bodies.json_reader import read_json
from airflow_sqlqueue.bodies.names import Path, column_key, path_text, read_path
from airflow_sqlqueue.bodies.schemas import Struct, Type, fields_of, item_of
from airflow_sqlqueue.bodies.tree import TEXT, Element, Number, Repeated, is_blank
from airflow_sqlqueue.bodies.types import leaf_of
from airflow_sqlqueue.errors import BodyError

if TYPE_CHECKING:
    import pyarrow as pa


class Untyped(str):
    """A text that may stand for a value of any type: of a column of texts, or of XML."""

    __slots__ = ()


class Refitting:
    """Values of rows of a table by another schema.

    Columns and ``_rescued`` have all values of the body, so both together are fitted as a body is.

    :param fields: the fields of the table, with its types.
    """

    def __init__(self, schema: Struct, fields: Struct) -> None:
        self._schema, self._fields = schema, fields_of(fields)
        self._shared: dict[int, Any] = {}
        self._known: dict[int, dict[str, Type]] = {}

    def rows(self, columns: Mapping[str, pa.Array], rescued: pa.Array, is_json: Sequence[bool]) -> pa.StructArray:
        """Return the fields of each row and what is rescued of it.

        :param columns: the columns of the table by their fields.
        :param rescued: the column ``_rescued``.
        :param is_json: whether the body of the row was JSON; a text of XML may be a number.
        """
        import pyarrow as pa

        result = pa.struct([("fields", arrow_type(self._schema)), ("rescued", pa.string())])
        trees = [_trees(values, self._fields[name]) for name, values in columns.items()]
        found = []
        for text, is_one, *values in zip(rescued.to_pylist(), is_json, *trees, strict=True):
            tree = {name: value for name, value in zip(columns, values, strict=True) if value is not None}
            found.append(self._row(tree, text, is_one))
        return pa.array(found, result)

    def _row(self, tree: dict[str, Any], rescued: str | None, is_json: bool) -> dict[str, Any]:
        left: dict[str, Any] = {}
        for text, value in (read_json(rescued) if rescued else {}).items():
            try:
                path = read_path(text)
            except ValueError:
                path = ()
            if not path or not self._place(tree, path, value if is_json else _untyped(value), self._schema):
                left[text] = value
        fitting = Fitting(self._shared)
        fields = fitting.struct(self._given(tree, self._schema, is_json), self._schema)
        found = {path_text(path): value for path, value in fitting.rescued.items()}
        for text, value in left.items():
            while text in found:
                text += "'"
            found[text] = value
        return {"fields": fields, "rescued": to_json(found) if found else None}

    def _place(self, node: Any, path: Path, value: Any, kind: Type | None) -> bool:
        """Put a value where it was in the body, unless something else is there; return whether it was put."""
        step, rest = path[0], path[1:]
        if isinstance(node, dict) and not isinstance(node, Repeated) and isinstance(step, str):
            below = node.get(step)
        elif isinstance(node, list) and isinstance(step, int) and step <= len(node):
            below = node[step] if step < len(node) else None
        else:
            return False
        inner = self._kind_at(kind, step)
        if below is None:
            if not all(isinstance(each, str) for each in rest):
                return False
            for each in reversed(rest):
                value = {each: value}
            if step == len(node) and isinstance(node, list):
                node.append(None)
            node[step] = value
            return True
        if not rest:
            return False
        if not isinstance(below, (dict, list)) and str(rest[0])[0] in "@#":
            # A column has the text of an element, and its attributes are rescued.
            below = {TEXT: below}
        elif not isinstance(below, list) and isinstance(rest[0], int):
            if inner is not None and not _is_array(inner):
                return False
            # A column has the first one of several elements.
            below = [below]
        if not isinstance(below, (dict, list)) or not self._place(below, rest, value, inner):
            return False
        node[step] = below
        return True

    def _kind_at(self, kind: Type | None, step: str | int | None) -> Type | None:
        if not isinstance(kind, dict) or kind["type"] != "struct":
            # A name below a list is one of XML, whose items are the children of an element.
            return None if kind is None or _is_array(kind) is isinstance(step, str) else item_of(kind)
        known = self._known.get(id(kind))
        if known is None:
            types = fields_of(kind)
            known = self._known[id(kind)] = {**{column_key(name): each for name, each in types.items()}, **types}
        return known.get(str(step)) or known.get(column_key(str(step)))

    def _given(self, value: Any, kind: Type | None, is_json: bool) -> Any:
        """Return a value as the reader of bodies would give it for a column of the type."""
        is_nested = isinstance(kind, dict)
        if isinstance(value, Repeated):
            return value
        if isinstance(value, Untyped) and is_nested and value[:1] in "{[":
            try:
                value = read_json(value)
            except BodyError:
                return str(value)
            value = value if is_json else _untyped(value)
        if isinstance(value, dict):
            if not is_json and (_is_array(kind) or (not is_nested and _has_parts(value))):
                return _element(value)
            return {name: self._given(each, self._kind_at(kind, name), is_json) for name, each in value.items()}
        if isinstance(value, list):
            return [self._given(each, self._kind_at(kind, 0), is_json) for each in value]
        if is_nested and not is_json and value is not None:
            return _element(value)
        if isinstance(value, Untyped) and not is_nested and kind not in (None, "string"):
            # XML has nothing where it is blank or, of old senders, "null"; here it is a text.
            return str(value) if is_blank(value) or value.strip() == "null" else Element(text=str(value))
        return value


def _is_array(kind: Type | None) -> bool:
    return isinstance(kind, dict) and kind["type"] == "array"


def _has_parts(value: Mapping[str, Any]) -> bool:
    return any(name[:1] == "@" or name == TEXT for name in value)


def _untyped(value: Any) -> Any:
    if isinstance(value, dict) and not isinstance(value, Repeated):
        return {name: _untyped(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_untyped(each) for each in value]
    return Untyped(value) if isinstance(value, str) else value


def _element(value: Any) -> Element | None:
    """The element that was written as this JSON: its members are children, those of a list have one name."""
    if value is None:
        return None
    if isinstance(value, list):
        return Element(children=[("Item", _element(each)) for each in value])
    if not isinstance(value, dict):
        return Element(text=str(value) if isinstance(value, str) else to_json(value))
    children = [(name, each) for name, all_ in value.items() for each in (all_ if isinstance(all_, list) else [all_])]
    return Element(children=[(name, _element(each)) for name, each in children])


def _trees(values: pa.Array, kind: Type) -> list[Any]:
    """The values of a column as a body has them: numbers and texts as they are written, None for null."""
    import pyarrow as pa

    if isinstance(kind, str):
        return _leaves(values, kind)
    if kind["type"] == "struct":
        names = [each["name"] for each in kind["fields"]]
        parts = [_trees(part, each["type"]) for part, each in zip(values.flatten(), kind["fields"], strict=True)]
        is_null = values.is_null().to_pylist()
        return [
            None
            if is_one
            else {name: part[number] for name, part in zip(names, parts, strict=True) if part[number] is not None}
            for number, is_one in enumerate(is_null)
        ]
    if isinstance(values, pa.MapArray):
        keys, items = values.keys.to_pylist(), _trees(values.items, kind["valueType"])
        found: list[Any] = [dict(zip(keys[start:end], items[start:end], strict=True)) for start, end in _spans(values)]
    else:
        items = _trees(values.values, kind["elementType"])
        found = [items[start:end] for start, end in _spans(values)]
    return [None if is_null else each for each, is_null in zip(found, values.is_null().to_pylist(), strict=True)]


def _spans(values: Any) -> itertools.pairwise[tuple[int, int]]:
    offsets = values.offsets.to_pylist()
    return itertools.pairwise(offsets)


def _leaves(values: pa.Array, kind: str) -> list[Any]:
    import pyarrow as pa

    found = leaf_of(kind)
    if found is None or kind == "string":
        return [None if each is None else Untyped(each) for each in values.to_pylist()]
    leaf, _ = found
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    makes: Any = {"number": Number, "boolean": lambda text: text == "true"}.get(leaf.json[0], str)
    return [None if each is None else makes(leaf.write(each)) for each in values.to_pylist()]
