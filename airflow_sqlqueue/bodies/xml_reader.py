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
        return (_PlaceReader if places else _Reader)(text.encode()).root()
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise BodyError("xml") from error


class _Locals(dict[str, str]):
    """The local names of names with namespaces."""

    def __missing__(self, name: str) -> str:
        local = self[name] = name.rpartition(" ")[2]
        return local


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._locals = data, _Locals()
        # The texts of all open elements; of each of these the number of its first text, its children, and if it is nil.
        self._texts: list[str] = []
        self._open: list[tuple[int, list[tuple[str, Element]], bool]] = [(0, [], False)]

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
        is_nil = False
        if attributes:
            given = [each for each in attributes.items() if not _is_directive(*each)]
            children += [(f"@{self._locals[each]}", Element((), value)) for each, value in given]
            is_nil = attributes.get(_NIL) in ("true", "1")
        self._open.append((len(self._texts), children, is_nil))

    def _end(self, name: str) -> None:
        first, children, is_nil = self._open.pop()
        texts = self._texts[first:]
        del self._texts[first:]
        text = texts[0] if len(texts) == 1 else "".join(texts)
        if children and text.strip(BLANKS):
            children.append((TEXT, Element((), text)))
        self._open[-1][1].append((self._locals[name], Element(children, "" if children else text, is_nil)))

    def _refuse(self, *_: object) -> None:
        raise BodyError("xml")


class _PlaceReader(_Reader):
    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._places: list[Place] = []

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        super()._start(name, attributes)
        start = self._parser.CurrentByteIndex
        tag = _TAG.match(self._data, start)
        assert tag is not None
        self._places.append(Place(start, tag.end(), tag.end(), tag.end()))
        if not attributes:
            return
        own = [each for each in _ATTRIBUTE.finditer(self._data, start, tag.end()) if not _is_namespace(each[1])]
        data = (each for each, given in zip(own, attributes.items(), strict=True) if not _is_directive(*given))
        for each, (_, attribute) in zip(data, self._open[-1][1], strict=True):
            attribute.place = Place(each.start(), *each.span(3), each.end())

    def _end(self, name: str) -> None:
        index, place = self._parser.CurrentByteIndex, self._places.pop()
        if self._data[index : index + 2] == b"</" and not self._data.endswith(b"/>", place.start, place.inner):
            place.inner_end, place.end = index, self._data.index(b">", index) + 1
        super()._end(name)
        self._open[-1][1][-1][1].place = place


def _is_directive(name: str, value: str) -> bool:
    return value in _DIRECTIVES.get(name, ())


def _is_namespace(name: bytes) -> bool:
    return name == b"xmlns" or name.startswith(b"xmlns:")
