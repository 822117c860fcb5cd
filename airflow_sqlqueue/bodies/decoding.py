"""Parser of bodies: bytes to text, text to a tree of values.

A body is JSON or XML, as its content type says, else as its first character shows. The tree has dicts, lists, texts,
True, False, None, and a :class:`Number` for each number, so that no digit is lost; an :class:`Element` for XML. The
content type and the body are untrusted: size and depth are bounded, XML with a document type is refused, and every
failure is a :class:`BodyError` with a reason.

Source: docs/guides/bodies.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, TypeAlias
from xml.parsers import expat

from airflow_sqlqueue.errors import BodyError

Kind: TypeAlias = Literal["json", "xml"]

MAX_BYTES = 8 * 1024 * 1024
"""The most bytes of a body that is parsed."""

MAX_DEPTH = 64
"""The most levels of a body that is parsed, as in System.Text.Json and Newtonsoft.Json."""

MAX_NODES = 1_000_000
"""The most values of a body, counted after its references are replaced by what they refer to."""

_JSON = re.compile(r"(application|text)/([\w.+-]+\+)?json", re.IGNORECASE)
_XML = re.compile(r"(application|text)/([\w.+-]+\+)?xml", re.IGNORECASE)
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w-]{1,40})", re.IGNORECASE)
_ENCODINGS = {"utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "ascii", "utf-16": "utf-16", "unicode": "utf-16"}
_ENCODINGS |= {"utf-16le": "utf-16-le", "utf-16be": "utf-16-be"}
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_UNNAMED = ("", "application/octet-stream", "text/plain")
_NIL = "http://www.w3.org/2001/XMLSchema-instance nil"


class Number(Decimal):
    """A number of JSON with its own text."""

    text: str

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


@dataclass
class Element:
    """An element of XML: the names and values of its children, or its text; an element that is nil is None."""

    children: list[tuple[str, Element | None]] = field(default_factory=list)
    text: str = ""


def kind_of(content_type: str | None, text: str) -> Kind:
    """Return whether a text is JSON or XML: by its content type, or by its first character if none is named.

    Raises :class:`BodyError` with the reason ``content type`` if it names another format, ``format`` for a text that
    looks like neither.
    """
    if named := _named_kind(content_type):
        return named
    first = text.lstrip(" \t\n\r")[:1]
    if first == "<":
        return "xml"
    if first and first in "{[":
        return "json"
    raise BodyError("format")


def _named_kind(content_type: str | None) -> Kind | None:
    named = (content_type or "").partition(";")[0].strip().lower()
    if _JSON.fullmatch(named):
        return "json"
    if _XML.fullmatch(named):
        return "xml"
    if named not in _UNNAMED:
        raise BodyError("content type")
    return None


def decode(body: bytes, content_type: str | None = None, *, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a body: by its byte order mark, else by the charset of its content type, else UTF-8.

    UTF-16 without either is known by the zero byte of its first character. Raises :class:`BodyError` with the reason
    ``empty``, ``size`` or ``encoding``.
    """
    if not body:
        raise BodyError("empty")
    if len(body) > max_bytes:
        raise BodyError("size")
    try:
        for mark, encoding in _BOMS:
            if body.startswith(mark):
                return body[len(mark) :].decode(encoding)
        return body.decode(_encoding(body, content_type))
    except (UnicodeDecodeError, LookupError) as error:
        raise BodyError("encoding") from error


def _encoding(body: bytes, content_type: str | None) -> str:
    named = _CHARSET.search(content_type or "")
    encoding = _ENCODINGS[named.group(1).lower()] if named else "utf-8"
    if encoding in ("utf-8", "utf-16") and len(body) >= 2 and len(body) % 2 == 0:
        if body[1] == 0 != body[0]:
            return "utf-16-le"
        if body[0] == 0 != body[1]:
            return "utf-16-be"
    return "utf-16-le" if encoding == "utf-16" else encoding


def parse(body: bytes, content_type: str | None = None, *, max_bytes: int = MAX_BYTES) -> Any:
    """Return the tree of a body: a dict for JSON, an :class:`Element` for XML. Raises :class:`BodyError`."""
    if body:
        _named_kind(content_type)
    text = decode(body, content_type, max_bytes=max_bytes)
    return parse_json(text) if kind_of(content_type, text) == "json" else parse_xml(text)


def parse_json(text: str) -> dict[str, Any]:
    """Return the object of a JSON text; of several members of one name the last counts.

    An array of one object, as older serializers write a message, is that object. The metadata of System.Text.Json and
    Newtonsoft.Json is resolved: ``$ref`` is replaced by the object of that ``$id``, an object with ``$values`` by its
    array; ``$id`` and ``$type`` disappear. Raises :class:`BodyError` with the reason ``json``, ``depth``, ``size``,
    ``reference``, or ``object`` for a text that is no object.
    """
    try:
        value = _DECODER.decode(text)
    except RecursionError as error:
        raise BodyError("depth") from error
    except (ValueError, ArithmeticError) as error:
        raise BodyError("json") from error
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        raise BodyError("object")
    resolved = _Resolver().resolve(value) if '"$' in text else value
    _check_depth(resolved)
    if not isinstance(resolved, dict):
        raise BodyError("object")
    return resolved


def _refuse(constant: str) -> None:
    raise ValueError("NaN and Infinity are no JSON.")


_DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_refuse)


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise BodyError("depth")
        level = [child for each in level for child in _children(each) if isinstance(child, (dict, list))]


def _children(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


class _Resolver:
    """Replaces the references of one body; the number of values and the depth stay bounded."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._nodes = 0

    def resolve(self, value: Any) -> Any:
        self._collect(value)
        return self._plain(value, 0)

    def _collect(self, root: Any) -> None:
        waiting = [root]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                identity = value.get("$id")
                if isinstance(identity, str):
                    self._known.setdefault(identity, value)
            if isinstance(value, (dict, list)):
                waiting.extend(_children(value))

    def _plain(self, value: Any, depth: int) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise BodyError("size")
        if depth > MAX_DEPTH:
            raise BodyError("depth")
        if isinstance(value, list):
            return [self._plain(each, depth + 1) for each in value]
        if not isinstance(value, dict):
            return value
        reference = value.get("$ref")
        if isinstance(reference, str) and len(value) == 1:
            if reference not in self._known:
                raise BodyError("reference")
            return self._plain(self._known[reference], depth + 1)
        if isinstance(value.get("$values"), list) and set(value) <= {"$id", "$type", "$values"}:
            return [self._plain(each, depth + 1) for each in value["$values"]]
        return {name: self._plain(each, depth + 1) for name, each in value.items() if name not in ("$id", "$type")}


def parse_xml(text: str) -> Element:
    """Return the element of the message, as the transport's XmlSerializer writes it; namespaces are left out.

    A root ``Messages`` with one child, as older versions write it, is that child. Raises :class:`BodyError` with the
    reason ``xml``, ``depth`` or ``size``.
    """
    builder = _Builder()
    # An encoding that the declaration names no longer holds: the text is decoded.
    parser = expat.ParserCreate("utf-8", " ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler = builder.add_text
    parser.StartDoctypeDeclHandler = builder.refuse_doctype
    try:
        parser.Parse(text.encode(), True)
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise BodyError("xml") from error
    ((name, root),) = builder.top.children
    if name == "Messages" and root is not None and len(root.children) == 1:
        root = root.children[0][1]
    return root or Element()


class _Builder:
    def __init__(self) -> None:
        self.top = Element()
        self._open: list[tuple[Element, list[str]]] = [(self.top, [])]
        self._nodes = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise BodyError("size")
        if len(self._open) > MAX_DEPTH:
            raise BodyError("depth")
        child = Element()
        is_nil = attributes.get(_NIL) in ("true", "1")
        self._open[-1][0].children.append((name.rpartition(" ")[2], None if is_nil else child))
        self._open.append((child, []))

    def end(self, name: str) -> None:
        element, texts = self._open.pop()
        if not element.children:
            element.text = "".join(texts)

    def add_text(self, text: str) -> None:
        self._open[-1][1].append(text)

    def refuse_doctype(self, *_: object) -> None:
        raise BodyError("xml")
