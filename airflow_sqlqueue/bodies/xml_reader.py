"""The reader of XML: bounded, without document types, with attributes and mixed text as children, and with places.

Namespaces are left out: a name is a local name. So are comments, processing instructions, and where the texts of an
element are among its children. Source: docs/guides/bodies.md, "Constructs of .NET and XML".
"""

from __future__ import annotations

import re
from typing import cast
from xml.parsers import expat

from airflow_sqlqueue.bodies.tree import MAX_DEPTH, MAX_NODES, TEXT, Element, Place, is_blank
from airflow_sqlqueue.errors import BodyError

_NIL = "http://www.w3.org/2001/XMLSchema-instance nil"
_SPACE = "http://www.w3.org/XML/1998/namespace space"
_DIRECTIVES = {_NIL: ("true", "1", "false", "0"), _SPACE: ("preserve", "default")}
"""Attributes that are no data, with their values."""

_TAG = re.compile(rb"<(?:[^\"'>]|\"[^\"]*\"|'[^']*')*>")
_ATTRIBUTE = re.compile(rb"\s+([^\s=]+)\s*=\s*([\"'])(.*?)\2", re.DOTALL)


def read_xml(text: str, *, places: bool = False) -> tuple[str, Element]:
    """Return the name of the root and the root; each element has its place in ``text.encode()`` if ``places`` is True.

    With places an element that is nil is an :class:`.Element` in any case, because it has a place as well. Raises
    :class:`BodyError` with the reason ``xml``, ``depth`` or ``size``. Time and memory are bounded by the size of the
    text.
    """
    try:
        return (_PlaceReader if places else _Reader)(text.encode()).root()
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise BodyError("xml") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._open: list[tuple[Element, list[str], list[tuple[str, Element | None]]]] = [(Element(), [], [])]
        self._nodes = 0
        # An encoding that the declaration names no longer holds: the text is decoded.
        self._parser = parser = expat.ParserCreate("utf-8", " ")
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._refuse

    def root(self) -> tuple[str, Element]:
        self._parser.Parse(self._data, True)
        ((name, root),) = self._open[0][2]
        return name, root or Element(is_nil=True)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._nodes += 1 + len(attributes)
        if self._nodes > MAX_NODES:
            raise BodyError("size")
        if len(self._open) > MAX_DEPTH:
            raise BodyError("depth")
        element = Element()
        children: list[tuple[str, Element | None]] = []
        if attributes:
            element.is_nil = attributes.get(_NIL) in ("true", "1")
            children = [
                (f"@{each.rpartition(' ')[2]}", Element(text=value))
                for each, value in attributes.items()
                if not _is_directive(each, value)
            ]
        self._open[-1][2].append((name.rpartition(" ")[2], element))
        self._open.append((element, [], children))

    def _end(self, name: str) -> None:
        element, texts, children = self._open.pop()
        text = "".join(texts)
        if children:
            if not is_blank(text):
                children.append((TEXT, Element(text=text)))
            element.children = children
        elif element.is_nil and is_blank(text):
            self._nil()
        else:
            element.text = text

    def _nil(self) -> None:
        beside = self._open[-1][2]
        beside[-1] = (beside[-1][0], None)

    def _text(self, text: str) -> None:
        self._open[-1][1].append(text)

    def _refuse(self, *_: object) -> None:
        raise BodyError("xml")


class _PlaceReader(_Reader):
    def _start(self, name: str, attributes: dict[str, str]) -> None:
        super()._start(name, attributes)
        start = self._parser.CurrentByteIndex
        tag = _TAG.match(self._data, start)
        assert tag is not None
        element, _, children = self._open[-1]
        element.place = Place(start, tag.end(), tag.end(), tag.end())
        if not attributes:
            return
        found = [each for each in _ATTRIBUTE.finditer(self._data, start, tag.end()) if not _is_namespace(each[1])]
        data = (each for each, given in zip(found, attributes.items(), strict=True) if not _is_directive(*given))
        for each, (_, attribute) in zip(data, children, strict=True):
            cast("Element", attribute).place = Place(each.start(), *each.span(3), each.end())

    def _end(self, name: str) -> None:
        index, place = self._parser.CurrentByteIndex, self._open[-1][0].place
        assert place is not None
        if self._data[index : index + 2] == b"</" and not self._data.endswith(b"/>", place.start, place.inner):
            place.inner_end, place.end = index, self._data.index(b">", index) + 1
        element, _, children = self._open[-1]
        has_attributes_only = all(each.startswith("@") for each, _ in children)
        super()._end(name)
        if has_attributes_only and element.children and (text := element.children[-1])[0] == TEXT:
            cast("Element", text[1]).place = Place(place.inner, place.inner, place.inner_end, place.inner_end)

    def _nil(self) -> None:
        pass


def _is_directive(name: str, value: str) -> bool:
    return value in _DIRECTIVES.get(name, ())


def _is_namespace(name: bytes) -> bool:
    return name == b"xmlns" or name.startswith(b"xmlns:")
