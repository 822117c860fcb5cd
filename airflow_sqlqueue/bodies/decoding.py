"""Parser of bodies: bytes to text, text to a tree of values; every failure is a :class:`BodyError` with a reason."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from airflow_sqlqueue.bodies.json_reader import read_json
from airflow_sqlqueue.bodies.references import References, is_number
from airflow_sqlqueue.bodies.text import MAX_BYTES, kind_of, named_kind, read_text
from airflow_sqlqueue.bodies.tree import Element, Repeated
from airflow_sqlqueue.bodies.xml_reader import read_xml
from airflow_sqlqueue.errors import BodyError


def parse(
    body: bytes, content_type: str | None = None, *, max_bytes: int = MAX_BYTES, fields: Container[str] = ()
) -> Any:
    """Return the tree of a body: a dict, or an :class:`.Element`; ``$type`` or ``$id`` in ``fields`` stay in a root."""
    if body:
        named_kind(content_type)
    text = read_text(body, content_type, max_bytes=max_bytes).text
    return parse_json(text, fields) if kind_of(content_type, text) == "json" else parse_xml(text)


def parse_json(text: str, fields: Container[str] = ()) -> dict[str, Any]:
    """Return the object of a JSON text, or of an array of one object, as older serializers write it.

    Unless they are ``fields``, the root has no ``$type``, nor an ``$id`` that is a number.
    """
    value = read_json(text)
    has_metadata = '"$' in text
    if has_metadata:
        value = References(value).plain(value)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        raise BodyError("object")
    if has_metadata and not isinstance(value, Repeated):
        if isinstance(value.get("$type"), str) and "$type" not in fields:
            del value["$type"]
        if is_number(value.get("$id")) and "$id" not in fields:
            del value["$id"]
    return value


def parse_xml(text: str) -> Element:
    """Return the element of the message: the only child of a root ``Messages``, as older versions write it."""
    name, root = read_xml(text)
    if name == "Messages":
        if sum(name[0] not in "@#" for name, _ in root.children) > 1:
            raise BodyError("messages")
        if len(root.children) == 1 and not root.children[0][0].startswith("@"):
            return root.children[0][1]
    return root
