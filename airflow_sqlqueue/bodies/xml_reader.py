"""The reader of XML: bounded, without document types, with attributes and mixed text as children, and with places.

Namespaces are left out, comments, processing instructions, and where the texts of an element are among its children.
"""

from __future__ import annotations

import re
from typing import TypeAlias
from xml.parsers import expat

from airflow_sqlqueue.bodies.tree import BLANKS, MAX_DEPTH, MAX_NODES, TEXT, Element, Place
from airflow_sqlqueue.errors import BodyError

_NIL = "http://www.w3.org/2001/XMLSchema-instance nil"
_SPACE = "http://www.w3.org/XML/1998/namespace space"
_DIRECTIVES = {_NIL: ("true", "1", "false", "0"), _SPACE: ("preserve", "default")}
"""Attributes that are no data, with their values."""

_TAG = re.compile(rb"<(?:[^\"'>]|\"[^\"]*\"|'[^']*')*>")
# Blanks that no attribute follows are read once, not from each of them.
_ATTRIBUTE = re.compile(rb"(?<!\s)\s+([^\s=]+)\s*=\s*([\"'])(.*?)\2", re.DOTALL)

_Children: TypeAlias = "list[tuple[str, Element]]"


def read_xml(text: str, *, places: bool = False) -> tuple[str, Element]:
    """Return the name of the root and the root; ``places`` gives each element its place in ``text.encode()``."""
    if len(text) > MAX_NODES and text.count("<") - text.count("</") + text.count('="') + text.count("='") > MAX_NODES:
        raise BodyError("size")
    try:
        return _Reader(text.encode(), places).root()
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise BodyError("xml") from error


class _Locals(dict[str, str]):
    """The local names of names with namespaces, each cut once."""

    def __missing__(self, name: str) -> str:
        local = self[name] = name.rpartition(" ")[2]
        return local


class _Reader:
    def __init__(self, data: bytes, places: bool) -> None:
        self._data, self._has_places, self._locals = data, places, _Locals()

    def root(self) -> tuple[str, Element]:
        # The texts of all open elements; of the innermost one the number of its first text, its children, and itself if
        # it has attributes or a place; and these three of each one around it.
        texts: list[str] = []
        first, children, element = 0, list[tuple[str, Element]](), None
        around: list[tuple[int, _Children, Element | None]] = []
        names, has_places = self._locals, self._has_places

        # These two take most of the time of a body, and variables are faster than attributes.
        def start(name: str, attributes: dict[str, str]) -> None:
            nonlocal first, children, element
            if len(around) == MAX_DEPTH:
                raise BodyError("depth")
            around.append((first, children, element))
            first, children = len(texts), []
            element = self._element(children, attributes) if attributes or has_places else None

        def end(name: str) -> None:
            nonlocal first, children, element
            text = ""
            if (count := len(texts) - first) == 1:
                text = texts.pop()
            elif count:
                text = "".join(texts[first:])
                del texts[first:]
            if children and text:
                if text.strip(BLANKS):
                    children.append((TEXT, Element((), text)))
                text = ""
            if element is None:
                found = Element(children, text)
            else:
                found, found.text = element, text
                self._end(found.place)
            first, children, element = around.pop()
            children.append((names[name], found))

        # An encoding that the declaration names no longer holds: the text is decoded.
        self._parser = parser = expat.ParserCreate("utf-8", " ")
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = start, end
        parser.CharacterDataHandler = texts.append
        parser.StartDoctypeDeclHandler = self._refuse
        try:
            parser.Parse(self._data, True)
        finally:
            # Without this cycle the tree ends with its last user.
            del self._parser
        return children[0]

    def _element(self, children: _Children, attributes: dict[str, str]) -> Element:
        element = Element(children, "", attributes.get(_NIL) in ("true", "1"))
        given = [each for each in attributes.items() if not _is_directive(*each)]
        children += [(f"@{self._locals[each]}", Element((), value)) for each, value in given]
        if self._has_places:
            self._place(element, attributes)
        return element

    def _place(self, element: Element, attributes: dict[str, str]) -> None:
        start = self._parser.CurrentByteIndex
        tag = _TAG.match(self._data, start)
        assert tag is not None
        element.place = Place(start, tag.end(), tag.end(), tag.end())
        found = _ATTRIBUTE.finditer(self._data, start, tag.end()) if attributes else ()
        own = (each for each in found if each[1].partition(b":")[0] != b"xmlns")
        data = (each for each, given in zip(own, attributes.items(), strict=True) if not _is_directive(*given))
        for each, (_, attribute) in zip(data, element.children, strict=True):
            attribute.place = Place(each.start(), *each.span(3), each.end())

    def _end(self, place: Place | None) -> None:
        if place:
            index = self._parser.CurrentByteIndex
            if self._data[index : index + 2] == b"</" and not self._data.endswith(b"/>", place.start, place.inner):
                place.inner_end, place.end = index, self._data.index(b">", index) + 1

    def _refuse(self, *_: object) -> None:
        raise BodyError("xml")


def _is_directive(name: str, value: str) -> bool:
    return value in _DIRECTIVES.get(name, ())
