"""Schemas of message types: the form of Spark's StructType as JSON, or JSON Schema, checked and in files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

from airflow_sqlqueue.bodies.names import Path, column_key, is_column_name, path_text
from airflow_sqlqueue.bodies.types import LEAVES, leaf_of, leaf_of_json_schema, spark_leaf
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.untrusted import is_text, quoted

Type: TypeAlias = "str | dict[str, Any]"
"""A type as Spark's ``DataType.jsonValue()`` has it: ``long``, or a dict of a struct, an array or a map."""

Struct: TypeAlias = "dict[str, Any]"
"""A struct: ``{"type": "struct", "fields": [{"name": ..., "type": ..., "nullable": True, "metadata": {}}]}``."""

MAX_FIELDS = 2_000
"""The most fields of a schema, those of nested structs included."""

MAX_NESTING = 16
"""The most levels of structs, arrays and maps in a schema."""


_TOO_MANY = f"A schema has at most {MAX_FIELDS} fields: leave out some."


def struct(fields: Mapping[str, Type], metadata: Mapping[str, dict[str, Any]] | None = None) -> Struct:
    """Return a struct with fields of these names and types."""
    more = metadata or {}
    return {"type": "struct", "fields": [field_of(name, kind, more.get(name)) for name, kind in fields.items()]}


def field_of(name: str, kind: Type, metadata: object = None) -> dict[str, Any]:
    """Return a field of a struct."""
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata if isinstance(metadata, dict) else {}}


def fields_of(schema: Struct) -> dict[str, Type]:
    """Return the names and types of a struct's fields."""
    return {each["name"]: each["type"] for each in schema["fields"]}


def array(item: Type) -> Type:
    """Return an array with items of this type."""
    return {"type": "array", "elementType": item, "containsNull": True}


def map_of(value: Type) -> Type:
    """Return a map with texts as keys and values of this type."""
    return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}


def item_of(kind: Type | None) -> Type | None:
    """Return the type of an array's items or of a map's values; None for another type."""
    return kind.get("elementType") or kind.get("valueType") if isinstance(kind, dict) else None


def with_item(kind: Type, item: Type) -> Type:
    """Return an array or a map with another type of its items or values."""
    return map_of(item) if isinstance(kind, dict) and kind["type"] == "map" else array(item)


def read_schema(values: object, document: Mapping[str, Any] | None = None) -> Struct:
    """Return the schema of a parsed file: a StructType, or a JSON Schema of an object, which is a part of ``document``.

    Raises :class:`ConfigurationError`.
    """
    if not isinstance(values, dict):
        raise ConfigurationError("A schema is a JSON object: a StructType of Spark, or a JSON Schema.")
    if document is not None or not values.keys().isdisjoint(("properties", "$schema", "$ref")):
        values = _JsonSchema(document or values).type(values)
    if not isinstance(values, dict) or values.get("type") != "struct":
        raise ConfigurationError("The root of a schema is a struct (Spark) or has properties (JSON Schema).")
    found: Struct = _checked(values, ())  # type: ignore[assignment]
    if sum(1 for _ in all_fields(found)) > MAX_FIELDS:
        raise ConfigurationError(_TOO_MANY)
    return found


def all_fields(kind: Type) -> Iterator[str]:
    """Return the names of all fields of a type, those of nested structs included."""
    return (name for _, name in _all_types(kind) if name is not None)


def all_leaves(kind: Type) -> Iterator[tuple[str, str | None]]:
    """Return the leaf types in a type with the names of their fields, None for items and values."""
    return ((each, name) for each, name in _all_types(kind) if isinstance(each, str))


def width(kind: Type) -> int:
    """Return the number of columns that a value of a type takes, without those of items in it."""
    if isinstance(kind, dict) and kind["type"] == "struct":
        return sum(width(each["type"]) for each in kind["fields"])
    return 1


def widest_item(kind: Type) -> int:
    """Return the largest :func:`width` of the items in a type, 0 without lists and maps."""
    return max((width(item) for each, _ in _all_types(kind) if (item := item_of(each)) is not None), default=0)


def _all_types(kind: Type, name: str | None = None) -> Iterator[tuple[Type, str | None]]:
    yield kind, name
    if (item := item_of(kind)) is not None:
        yield from _all_types(item)
    elif isinstance(kind, dict):
        for each in kind["fields"]:
            yield from _all_types(each["type"], each["name"])


def spark_schema(kind: Type) -> Any:
    """Return the JSON of Spark's type: a leaf type may have another name there."""
    if isinstance(kind, str):
        return spark_leaf(kind)
    if (item := item_of(kind)) is not None:
        return with_item(kind, spark_schema(item))
    # Other metadata than the comment could have a meaning to Spark, such as the longest text of a column.
    fields = [
        field_of(each["name"], spark_schema(each["type"]), _comment(each["metadata"].get("comment")))
        for each in kind["fields"]
    ]
    return {"type": "struct", "fields": fields}


def _checked(kind: object, path: Path) -> Type:
    """Return the type in its canonical form."""
    where = f"the field {path_text(path)}" if path else "the root"
    if len(path) > MAX_NESTING:
        raise ConfigurationError(f"A schema has at most {MAX_NESTING} levels: make {where} a string.")
    if isinstance(kind, str):
        if leaf_of(kind) is None:
            names = ", ".join(sorted(LEAVES.keys() - {"decimal"}))
            raise ConfigurationError(f"The type {quoted(kind)} of {where} is not one of {names}, decimal(p,s).")
        return kind.replace(" ", "")
    if isinstance(kind, dict):
        if kind.get("type") == "array":
            return array(_checked(kind.get("elementType"), (*path, None)))
        if kind.get("type") == "map" and kind.get("keyType") == "string":
            return map_of(_checked(kind.get("valueType"), (*path, None)))
        if kind.get("type") == "struct" and isinstance(kind.get("fields"), list):
            return _checked_struct(kind["fields"], path, where)
    raise ConfigurationError(
        f"The type of {where} is a name, a struct with fields, an array or a map, whose keyType is string."
    )


def _checked_struct(given: list[Any], path: Path, where: str) -> Struct:
    if path and not given:
        # Parquet has no group without fields.
        raise ConfigurationError(f"A struct within another one has fields, and {where} has none: make it a string.")
    fields: dict[str, dict[str, Any]] = {}
    for each in given:
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str) or not is_column_name(name):
            raise ConfigurationError(
                f"A field of {where} has a name that no column can have: {quoted(str(name))}; leave it out."
            )
        if column_key(name) in fields:
            raise ConfigurationError(
                f"Two fields of {where} are called {quoted(name)}, as engines compare names: keep one."
            )
        fields[column_key(name)] = field_of(name, _checked(each.get("type"), (*path, name)), each.get("metadata"))
    return {"type": "struct", "fields": list(fields.values())}


class _JsonSchema:
    """The types of a JSON Schema; references may lead to many fields, so they are counted."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._fields = 0

    def type(self, node: object, depth: int = 0, inside: frozenset[str] = frozenset()) -> Type:
        """Return the type of a node; one of several types, but for ``null``, or that refers to itself is a string."""
        if not isinstance(node, dict) or depth > 2 * MAX_NESTING:
            return "string"
        if isinstance(reference := node.get("$ref"), str):
            node = referred(self._document, reference)
            return "string" if reference in inside else self.type(node, depth + 1, inside | {reference})
        kinds = node.get("type", "object" if "properties" in node else None)
        named = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
        if named == [None]:
            choices = [each for name in ("anyOf", "oneOf", "allOf") for each in _list(node.get(name))]
            named = [each for each in choices if each != {"type": "null"}]
            return self.type(named[0], depth + 1, inside) if len(named) == 1 else "string"
        if len(named) != 1:
            return "string"
        if named[0] == "object" and isinstance(node.get("properties"), dict):
            found = node["properties"].items()
            return {"type": "struct", "fields": [self._field(str(name), each, depth, inside) for name, each in found]}
        if named[0] == "object" and isinstance(values := node.get("additionalProperties"), dict):
            return map_of(self._inner(values, depth, inside))
        if named[0] == "array":
            return array(self._inner(node.get("items"), depth, inside))
        return leaf_of_json_schema(str(named[0]), node.get("format"))

    def _field(self, name: str, node: object, depth: int, inside: frozenset[str]) -> dict[str, Any]:
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise ConfigurationError(_TOO_MANY)
        described = node.get("description") if isinstance(node, dict) else None
        return field_of(name, self._inner(node, depth, inside), _comment(described))

    def _inner(self, node: object, depth: int, inside: frozenset[str]) -> Type:
        """Return the type of a node within another one: an object without properties is a string."""
        found = self.type(node, depth + 1, inside)
        return "string" if found == struct({}) else found


def referred(document: object, reference: str) -> object:
    """Return what a reference within a document leads to. Raises :class:`ConfigurationError`."""
    if not reference.startswith("#"):
        raise ConfigurationError(f"The schema refers to {quoted(reference)}: only references within it are followed.")
    node = document if reference == "#" or reference.startswith("#/") else None
    for part in reference.split("/")[1:]:
        # A reference is a URI, in which generators escape the marks of generic types.
        names = (each.replace("~1", "/").replace("~0", "~") for each in (part, unquote(part)))
        node = next((node[name] for name in names if name in node), None) if isinstance(node, dict) else None
    if node is None:
        raise ConfigurationError(f"The schema refers to {quoted(reference)}, which it does not have.")
    return node


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _comment(text: object) -> dict[str, str]:
    """Return the metadata of a field for Spark, which takes it for a column's comment."""
    return {"comment": text} if isinstance(text, str) and is_text(text) else {}


def write_schema(schema: Struct) -> str:
    """Return the text of a schema's file, one field a line, so that a change is one line of a diff."""
    return _text(schema, "") + "\n"


def _text(value: object, indent: str) -> str:
    """JSON with a line for each object of a list."""
    if isinstance(value, dict):
        members = (f"{_text(name, indent)}: {_text(each, indent)}" for name, each in value.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        lines = ",\n".join(f"{indent}  {_text(each, indent + '  ')}" for each in value)
        return f"[\n{lines}\n{indent}]"
    text = json.dumps(value, ensure_ascii=False)
    return text if is_text(text) else json.dumps(value)
