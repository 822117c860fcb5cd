"""Rows of a table by another schema: the values of its columns and what was rescued become trees, which are fitted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from airflow_sqlqueue.bodies.arrow_parser import arrow_type
from airflow_sqlqueue.bodies.coercion import Coercion, Columns, Occurrences, placed, to_element
from airflow_sqlqueue.bodies.json_reader import DECODER, levels_of, read_json
from airflow_sqlqueue.bodies.names import RESCUED, Path, name_key, read_path
from airflow_sqlqueue.bodies.schemas import Struct, Type, fields_of, item_of
from airflow_sqlqueue.bodies.tree import MAX_DEPTH, Number, Repeated, Untyped, is_element, is_nothing, members_of
from airflow_sqlqueue.bodies.types import leaf_of
from airflow_sqlqueue.errors import BodyError

_MOST_LEVELS = 4 * MAX_DEPTH
"""The most levels of a rescued value with the steps of its path: XML becomes objects, and arrays of objects."""


class StoredRows:
    """Values of rows of a table, whose columns have the types of ``fields``, by another schema."""

    def __init__(self, schema: Struct, fields: Struct) -> None:
        self._schema, self._columns, self._fields = schema, fields, fields_of(fields)
        self._shared: dict[int, Columns] = {}

    def rows(
        self, columns: Mapping[str, pa.Array], rescued: pa.Array, is_json: Sequence[bool | None]
    ) -> pa.StructArray:
        """Return the fields of each row and what is rescued of it; texts of a body that was no JSON may be numbers.

        Where it is not known whether a body was JSON, None, it was if what is rescued has something that no XML has.
        A text of ``rescued`` that :func:`read_rescued` refuses stays as it is, or is beside what else is rescued, with
        the path ``_rescued``.
        """
        kinds = [self._fields[name] for name in columns]
        given = [values.cast(arrow_type(kind, _stored)) for kind, values in zip(kinds, columns.values(), strict=True)]
        found = []
        for text, is_one, *values in zip(
            rescued.to_pylist(), is_json, *(each.to_pylist() for each in given), strict=True
        ):
            members = read_rescued(text)
            if is_one is None and any(_is_of_json(value) for _, value in members or ()):
                is_one = True
            fields = [each for each in zip(columns, kinds, values, strict=True) if each[2] is not None]
            found.append(self._row(fields, members or [], is_one, text if members is None else None))
        return pa.array(found, pa.struct([("fields", arrow_type(self._schema)), ("rescued", pa.string())]))

    def element(self, text: str | None, *, is_json: bool | None = False) -> dict[str, Any] | None:
        """Return the fields of a body of XML, and what is rescued of it, from its JSON; None for another text.

        Where it is not known whether a body was JSON, None, it was if the text has something that no XML has.
        """
        try:
            tree = None if text is None or is_json else read_json(text)
        except BodyError:
            tree = None
        if tree is None or (is_json is None and _is_of_json(tree)):
            return None
        fitting = Coercion(self._shared)
        fields = fitting.struct(to_element(tree), self._schema)
        return {"fields": fields, "rescued": fitting.rescued_text()}

    def _row(
        self,
        columns: Iterable[tuple[str, Type, Any]],
        rescued: Iterable[tuple[Path, Any]],
        is_json: bool | None,
        kept: str | None = None,
    ) -> dict[str, Any]:
        left, fitting = [], _Fitting(self._shared, is_json)
        tree: Any = {name: _tree(value, kind) for name, kind, value in columns}
        # An element comes before its attributes and before the next ones of its name.
        for path, value in sorted(rescued, key=lambda each: len(each[0])):
            try:
                tree = placed(tree, fitting.within_columns(path, self._columns), value)
            except LookupError:
                left.append((path, value))
        fields = fitting.struct(tree, self._schema)
        for path, value in left:
            fitting.rescue(path, value)
        if kept is not None and fitting.rescued:
            fitting.rescue((RESCUED,), kept)
        return {"fields": fields, "rescued": fitting.rescued_text() or kept}


class _Fitting(Coercion):
    """The values of a row, in which a text may stand for another value and, of XML, an object for an element.

    Where it is not known whether the body was JSON, None, a value is read as of XML, unless XML would leave out a part.
    """

    def __init__(self, columns: dict[int, Columns], is_json: bool | None) -> None:
        super().__init__(columns)
        self._is_json = is_json

    def within_columns(self, path: Path, kind: Type | None) -> Path:
        """Return a path through the columns of a type, which may have the names of the body in another case."""
        steps = list(path)
        for number, step in enumerate(path[:-1]):
            if isinstance(step, str) and isinstance(kind, dict) and kind["type"] == "struct":
                steps[number], kind, _ = self._columns_of(kind).by_key.get(name_key(step), (step, None, None))
            else:
                kind = item_of(kind)
        return tuple(steps)

    def fitted(self, value: Any, kind: Type, path: Path) -> Any:
        if isinstance(value, Untyped) and isinstance(kind, dict) and value[:1] in ("{", "["):
            with suppress(BodyError):
                value = read_json(value)
        is_object = isinstance(value, dict) and isinstance(kind, dict) and kind["type"] != "array"
        if type(value) is Occurrences:
            value = Occurrences(map(to_element, value))
        elif not (self._is_json or is_object or isinstance(value, list) or self._stays(value, kind)):
            value = to_element(value)
        return super().fitted(value, kind, path)

    def _stays(self, value: Any, kind: Type) -> bool:
        """Return whether a value of a body that may be JSON is one that is nothing, or no list, to XML alone."""
        if self._is_json is not None or kind == "string":
            return False
        if isinstance(value, str):
            return is_nothing(value)
        return isinstance(value, dict) and sum(map(is_element, value)) > 1


def read_rescued(text: str | None) -> list[tuple[Path, Any]] | None:
    """Return the values of a text of the column ``_rescued`` by their paths.

    None for one that is no JSON object, or has more levels than a body gives: a person may have written any number.
    """
    levels = levels_of(text or "")
    try:
        found = DECODER.decode(text or "{}") if levels <= _MOST_LEVELS else None
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    members = [(_path(name), value) for name, value in members_of(found)]
    return members if all(len(path) + levels <= _MOST_LEVELS for path, _ in members) else None


def _is_of_json(value: Any) -> bool:
    """Return whether a tree has what the JSON of XML has not: that is made of texts, of nulls and of repeated names."""
    if isinstance(value, dict):
        return isinstance(value, Repeated) or not value or any(map(_is_of_json, value.values()))
    if isinstance(value, list):
        return len(value) < 2 or any(isinstance(each, list) or _is_of_json(each) for each in value)
    return isinstance(value, (bool, Number))


def _path(text: str) -> Path:
    try:
        return read_path(text)
    except ValueError:
        return (text,)


def _stored(kind: str) -> pa.DataType:
    """Return the Arrow type of a leaf type, in which days and instants are numbers; texts for another type."""
    found = leaf_of(kind)
    arrow = pa.string() if found is None else found[0].arrow(*found[1])
    return pa.int32() if pa.types.is_date(arrow) else pa.int64() if pa.types.is_timestamp(arrow) else arrow


def _tree(value: Any, kind: Type) -> Any:
    """Return a value of a column as a body has it: numbers and texts as they are written, None for null."""
    if value is None:
        return None
    if isinstance(kind, str):
        found = leaf_of(kind)
        if found is None or kind == "string":
            return Untyped(value)
        text, given = found[0].write(value), found[0].json[0]
        return Number(text) if given == "number" else text == "true" if given == "boolean" else text
    if kind["type"] == "array":
        return [_tree(each, kind["elementType"]) for each in value]
    if kind["type"] == "map":
        return {name: _tree(each, kind["valueType"]) for name, each in value}
    kinds = fields_of(kind)
    return {name: _tree(each, kinds[name]) for name, each in value.items() if each is not None}
