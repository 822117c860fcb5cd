"""Parser of bodies: bytes to text, text to a tree of values; every failure is a :class:`BodyError` with a reason."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any, Literal, NamedTuple, TypeAlias

from airflow_sqlqueue.bodies.json_reader import References, is_number, read_json
from airflow_sqlqueue.bodies.tree import Element, Repeated, is_element
from airflow_sqlqueue.bodies.xml_reader import read_xml
from airflow_sqlqueue.errors import BodyError
from airflow_sqlqueue.messages.envelope import cloud_events

Kind: TypeAlias = Literal["json", "xml"]

MAX_BYTES = 8 * 1024 * 1024
"""The most bytes of a body that is parsed."""

_NAMED = re.compile(r"(?:application|text)/(?:[\w.+-]+\+)?(json|xml)")
_UNNAMED = ("", "application/octet-stream", "text/plain")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s\"';,]{1,40})", re.IGNORECASE)
_DECLARED = re.compile(rb"""<\?xml\s[^>]{0,200}?\bencoding\s*=\s*["']([^"']{1,40})["']""")
_ENCODINGS = {"utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "ascii", "ascii": "ascii"}
_ENCODINGS |= dict.fromkeys(("utf-16", "unicode", "ucs-2", "iso-10646-ucs-2"), "utf-16")
_ENCODINGS |= {"utf-16le": "utf-16-le", "utf-16be": "utf-16-be", "unicodefffe": "utf-16-be"}
_ENCODINGS |= dict.fromkeys(("iso-8859-1", "latin1", "latin-1", "iso_8859-1", "l1"), "latin-1")
_ENCODINGS |= dict.fromkeys(("windows-1252", "cp1252", "x-cp1252"), "cp1252")
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class Text(NamedTuple):
    """A text, and what its bytes are made of: ``mark + text.encode(encoding)``."""

    text: str
    mark: bytes
    encoding: str


def parse(
    body: bytes, content_type: str | None = None, *, max_bytes: int = MAX_BYTES, fields: Container[str] = ()
) -> Any:
    """Return the tree of a body: a dict, or an :class:`.Element`; ``$type`` or ``$id`` in ``fields`` stay in a root.

    The tree of a CloudEvent is that of its data.
    """
    if cloud_events.is_structured(content_type) and len(body) <= max_bytes:
        try:
            found = cloud_events.content(body)
        except (ValueError, IndexError, RecursionError) as error:
            raise BodyError("json") from error
        if found is None:
            raise BodyError("empty")
        body, content_type = found
    text = read_text(body, content_type, max_bytes=max_bytes).text
    return parse_json(text, fields) if kind_of(content_type, text) == "json" else parse_xml(text)


def parse_json(text: str, fields: Container[str] = ()) -> dict[str, Any]:
    """Return the object of a JSON text, or of an array of one object, as older serializers write it.

    Unless they are ``fields``, the root has no ``$type``, nor an ``$id`` that is a number.
    """
    value = read_json(text)
    has_metadata = '"$' in text or r"\u0024" in text
    if has_metadata:
        value = References(value, len(text)).plain(value)
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
        if sum(is_element(name) for name, _ in root.children) > 1:
            raise BodyError("messages")
        if len(root.children) == 1 and not root.children[0][0].startswith("@"):
            return root.children[0][1]
    return root


def kind_of(content_type: str | None, text: str) -> Kind:
    """Return whether a text is JSON or XML: by its content type, or by its first character if none is named."""
    if named := named_kind(content_type):
        return named
    first = text.lstrip(" \t\n\r")[:1]
    if first not in ("<", "{", "["):
        raise BodyError("format")
    return "xml" if first == "<" else "json"


def named_kind(content_type: str | None) -> Kind | None:
    """Return the kind that a content type names, None for one that says nothing. Raises :class:`BodyError`."""
    named = (content_type or "").partition(";")[0].strip().lower()
    found = _NAMED.fullmatch(named)
    if found is None and named not in _UNNAMED:
        raise BodyError("content type")
    return found and found[1]  # type: ignore[return-value]


def read_text(body: bytes, content_type: str | None = None, *, max_bytes: int = MAX_BYTES) -> Text:
    """Return the text of a body and its encoding, from which the same bytes can be made again."""
    if not body:
        raise BodyError("empty")
    named_kind(content_type)
    if len(body) > max_bytes:
        raise BodyError("size")
    mark, encoding = next((each for each in _MARKS if body.startswith(each[0])), (b"", ""))
    try:
        encoding = encoding or _encoding(body, content_type)
        return Text(body[len(mark) :].decode(encoding), mark, encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise BodyError("encoding") from error


def _encoding(body: bytes, content_type: str | None) -> str:
    """Return the encoding by the content type, the declaration of XML, or zero bytes.

    A declaration of UTF-16, which .NET writes into any text, is not trusted.
    """
    named = _CHARSET.search(content_type or "")
    encoding = _ENCODINGS[named.group(1).lower()] if named else "utf-8"
    if encoding in ("utf-8", "utf-16") and len(body) >= 2 and len(body) % 2 == 0:
        if body[1] == 0 != body[0]:
            return "utf-16-le"
        if body[0] == 0 != body[1]:
            return "utf-16-be"
    if named is None and (declared := _DECLARED.match(body)):
        encoding = _ENCODINGS[declared.group(1).decode("latin-1").lower()]
        return "utf-8" if encoding.startswith("utf-16") else encoding
    return "utf-16-le" if encoding == "utf-16" else encoding
