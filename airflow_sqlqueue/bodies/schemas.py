"""Schemas of message types: the form of Spark's StructType as JSON, or JSON Schema, checked and in files.

A schema is plain data, so that neither Spark nor Arrow is needed to read, compare or write one. Source:
docs/guides/bodies.md, "Schemas".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.untrusted import quoted

Type: TypeAlias = "str | dict[str, Any]"
"""A type as Spark's ``DataType.jsonValue()`` has it: ``long``, or a dict of a struct or an array."""

Struct: TypeAlias = "dict[str, Any]"
"""A struct: ``{"type": "struct", "fields": [{"name": ..., "type": ..., "nullable": True, "metadata": {}}]}``."""

MAX_FIELDS = 2_000
"""The most fields of a schema, those of nested structs included."""

MAX_NESTING = 16
"""The most levels of structs and arrays in a schema."""

LEAVES = frozenset(
    ("string", "boolean", "byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz")
) | {"binary"}
"""The simple types; ``decimal(p,s)`` is one too."""

INTEGERS = {"byte": 7, "short": 15, "integer": 31, "long": 63}
"""The integer types, with the bits of their values."""

_DECIMAL = re.compile(r"decimal\((\d{1,2}), ?(\d{1,2})\)")
_NAME = re.compile(r"[^\x00-\x20\x7f ,;{}()=.`\"\\\[\]]{1,128}")
_JSON_LEAVES: dict[tuple[str, str | None], str] = {
    ("string", None): "string",
    ("string", "date-time"): "timestamp",
    ("string", "date"): "date",
    ("string", "uuid"): "string",
    ("string", "byte"): "binary",
    ("integer", None): "long",
    ("integer", "int32"): "integer",
    ("integer", "int64"): "long",
    ("number", None): "decimal(38,9)",
    ("number", "double"): "double",
    ("number", "float"): "float",
    ("boolean", None): "boolean",
}


def struct(fields: Mapping[str, Type], metadata: Mapping[str, dict[str, Any]] | None = None) -> Struct:
    """Return a struct with fields of these names and types."""
    more = metadata or {}
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": more.get(name, {})}
            for name, kind in fields.items()
        ],
    }


def fields_of(schema: Struct) -> dict[str, Type]:
    """The names and types of a struct's fields."""
    return {each["name"]: each["type"] for each in schema["fields"]}


def decimal_of(kind: Type) -> tuple[int, int] | None:
    """The precision and the scale of a decimal type; None for another type."""
    found = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
    return (int(found.group(1)), int(found.group(2))) if found else None


def is_column_name(name: str) -> bool:
    """Whether a field can be a column: every sink takes the name.

    The characters that Parquet, Delta Lake or Spark's paths do not take are left out, and so are names of more than 128
    characters.
    """
    return _NAME.fullmatch(name) is not None


def read_schema(values: object) -> Struct:
    """Return the schema of a parsed file: a StructType, or a JSON Schema of an object.

    Raises :class:`ConfigurationError` for another form, and for types and names that no column can have.
    """
    if not isinstance(values, dict):
        raise ConfigurationError("A schema is a JSON object: a StructType of Spark, or a JSON Schema.")
    if "properties" in values or "$schema" in values:
        values = _from_json_schema(values, values, 0)
    if not isinstance(values, dict) or values.get("type") != "struct":
        raise ConfigurationError("The root of a schema is a struct (Spark) or has properties (JSON Schema).")
    found: Struct = _checked(values, "", 0)  # type: ignore[assignment]
    if sum(1 for _ in all_fields(found)) > MAX_FIELDS:
        raise ConfigurationError(f"A schema has at most {MAX_FIELDS} fields: leave out some.")
    return found


def all_fields(kind: Type) -> Iterator[str]:
    """The names of all fields of a type, those of nested structs included."""
    if isinstance(kind, dict):
        if kind["type"] == "array":
            yield from all_fields(kind["elementType"])
        else:
            for each in kind["fields"]:
                yield each["name"]
                yield from all_fields(each["type"])


def _checked(kind: object, path: str, depth: int) -> Type:
    """The type in its canonical form."""
    where = f"the field {path}" if path else "the root"
    if depth > MAX_NESTING:
        raise ConfigurationError(f"A schema has at most {MAX_NESTING} levels: make {where} a string.")
    if isinstance(kind, str):
        return _checked_leaf(kind, where)
    if not isinstance(kind, dict):
        raise ConfigurationError(f"The type of {where} is a name, a struct or an array.")
    if kind.get("type") == "array":
        element = _checked(kind.get("elementType"), f"{path}[]", depth + 1)
        return {"type": "array", "elementType": element, "containsNull": True}
    if kind.get("type") != "struct" or not isinstance(kind.get("fields"), list):
        raise ConfigurationError(f"The type of {where} is a name, a struct or an array; maps are not supported.")
    fields: dict[str, Type] = {}
    metadata = {}
    seen: set[str] = set()
    for each in kind["fields"]:
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str) or not is_column_name(name):
            raise ConfigurationError(
                f"A field of {where} has a name that no column can have: {quoted(str(name))}; leave it out."
            )
        if name.lower() in seen:
            raise ConfigurationError(f"Two fields of {where} are called {quoted(name)}, if case is ignored: keep one.")
        seen.add(name.lower())
        fields[name] = _checked(each.get("type"), f"{path}.{name}".lstrip("."), depth + 1)
        given = each.get("metadata")
        metadata[name] = given if isinstance(given, dict) else {}
    return struct(fields, metadata)


def _checked_leaf(kind: str, where: str) -> str:
    if kind in LEAVES:
        return kind
    size = decimal_of(kind)
    if size is None or not 1 <= size[0] <= 38 or size[1] > size[0]:
        raise ConfigurationError(
            f"The type {quoted(kind)} of {where} is not one of {', '.join(sorted(LEAVES))}, decimal(p,s)."
        )
    return f"decimal({size[0]},{size[1]})"


def _from_json_schema(document: Mapping[str, Any], node: object, depth: int) -> Type:
    """Return the type of a node of a JSON Schema; a node of several types is a string.

    References within the document are followed, and ``null`` beside a type is allowed.
    """
    if not isinstance(node, dict) or depth > 2 * MAX_NESTING:
        return "string"
    if isinstance(reference := node.get("$ref"), str):
        return _from_json_schema(document, _referred(document, reference), depth + 1)
    kinds = node.get("type", "object" if "properties" in node else "string")
    named = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
    if len(named) != 1:
        return "string"
    if named[0] == "object" and isinstance(node.get("properties"), dict):
        fields = {str(name): _from_json_schema(document, each, depth + 1) for name, each in node["properties"].items()}
        formats = {
            name: {"format": "uuid"}
            for name, each in node["properties"].items()
            if isinstance(each, dict) and each.get("format") == "uuid"
        }
        return struct(fields, formats)
    if named[0] == "array":
        element = _from_json_schema(document, node.get("items"), depth + 1)
        return {"type": "array", "elementType": element, "containsNull": True}
    kind, form = str(named[0]), node.get("format")
    return _JSON_LEAVES.get((kind, form)) or _JSON_LEAVES.get((kind, None)) or "string"


def _referred(document: Mapping[str, Any], reference: str) -> object:
    node: object = document
    if not reference.startswith("#"):
        raise ConfigurationError(f"The schema refers to {quoted(reference)}: only references within it are followed.")
    for part in reference.removeprefix("#").strip("/").split("/"):
        node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    if node is None:
        raise ConfigurationError(f"The schema refers to {quoted(reference)}, which it does not have.")
    return node


def write_schema(schema: Struct) -> str:
    """Return the text of a schema's file, one field a line, so that a change is one line of a diff."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
