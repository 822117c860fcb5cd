"""The reader of XML: bounded, without document types, with attributes and mixed text as children, and with places.

Namespaces are left out, comments, processing instructions, and where the texts of an element are among its children.
"""

from __future__ import annotations

import re
from xml.parsers import expat

from airflow_sqlqueue.bodies.tree import BLANKS, MAX_DEPTH, MAX_NODES, TEXT, Element, Place
from airflow_sqlqueue.errors import BodyError

_NIL = "http://www.w3.org/2001/XMLSchema-instance nil"
_SPACE = "http://www.w3.org/XML/1998/namespace space"
_DIRECTIVES = {_NIL: ("true", "1", "false", "0"), _SPACE: ("preserve", "default")}
"""Attributes that are no data, with their values."""

_TAG = re.compile(rb"<(?:[^\"'>]|\"[^\"]*\"|'[^']*')*>")
_ATTRIBUTE = re.compile(rb"\s+([^\s=]+)\s*=\s*([\"'])(.*?)\2", re.DOTALL)


def read_xml(text: str, *, places: bool = False) -> tuple[str, Element]:
    """Return the name of the root and the root; ``places`` gives each element its place in ``text.encode()``."""
    if text.count("<") - text.count("</") + text.count('="') + text.count("='") > MAX_NODES:
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
        # The texts of all open elements; of each of these the number of its first text, its children, and itself.
        self._texts: list[str] = []
        self._open: list[tuple[int, list[tuple[str, Element]], Element]] = [(0, [], Element())]

    def root(self) -> tuple[str, Element]:
        # An encoding that the declaration names no longer holds: the text is decoded.
        self._parser = parser = expat.ParserCreate("utf-8", " ")
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._texts.append
        parser.StartDoctypeDeclHandler = self._refuse
        try:
            parser.Parse(self._data, True)
        finally:
            # Without this cycle the tree ends with its last user.
            del self._parser
        return self._open[0][1][0]

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) > MAX_DEPTH:
            raise BodyError("depth")
        children: list[tuple[str, Element]] = []
        element = Element(children)
        if attributes:
            given = [each for each in attributes.items() if not _is_directive(*each)]
            children += [(f"@{self._locals[each]}", Element((), value)) for each, value in given]
            element.is_nil = attributes.get(_NIL) in ("true", "1")
        self._open[-1][1].append((self._locals[name], element))
        self._open.append((len(self._texts), children, element))
        if self._has_places:
            self._place(element, attributes)

    def _end(self, name: str) -> None:
        first, children, element = self._open.pop()
        text = "".join(self._texts[first:])
        del self._texts[first:]
        if not children:
            element.text = text
        elif text.strip(BLANKS):
            children.append((TEXT, Element((), text)))
        if place := element.place:
            index = self._parser.CurrentByteIndex
            if self._data[index : index + 2] == b"</" and not self._data.endswith(b"/>", place.start, place.inner):
                place.inner_end, place.end = index, self._data.index(b">", index) + 1

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

    def _refuse(self, *_: object) -> None:
        raise BodyError("xml")


def _is_directive(name: str, value: str) -> bool:
    return value in _DIRECTIVES.get(name, ())
