"""Redaction of XML: elements and attributes are changed by their paths, at their places; the rest stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias
from xml.sax.saxutils import escape

from airflow_sqlqueue.bodies.tree import BLANKS, TEXT, Element, Place
from airflow_sqlqueue.bodies.xml_reader import read_xml
from airflow_sqlqueue.redaction.actions import ACTIONS, Hasher
from airflow_sqlqueue.redaction.fields import ANY_ELEMENT, NOTHING, Kind, Reach, Walk, has_elements

_Edit: TypeAlias = "tuple[int, int, str]"
"""The start and the end of bytes, and the text that replaces them."""

_QUOTES = {'"': "&quot;", "'": "&apos;"}


def redact_xml(text: str, walk: Walk, hasher: Hasher) -> str:
    """Return a redacted text of XML. Raises :class:`BodyError`."""
    name, root = read_xml(text, places=True)
    editor = _Editor(text.encode(), walk, hasher)
    edits = editor.edits(name, root)
    pieces, position = [], 0
    for start, end, replacement in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        # One that lies within another has no effect.
        if start >= position:
            pieces += [editor.data[position:start], replacement.encode()]
        position = max(position, end)
    return b"".join([*pieces, editor.data[position:]]).decode()


class _Editor:
    """Finds the edits of a text, whose bytes are ``data``."""

    def __init__(self, data: bytes, walk: Walk, hasher: Hasher) -> None:
        self.data, self._walk, self._hasher = data, walk, hasher

    def edits(self, name: str, root: Element) -> Iterator[_Edit]:
        """Yield the edits of a root, which may have several messages; paths lead from each of these as well."""
        start = of_messages = self._walk.start
        if start.keeps:
            declaration = self.data.find(b"?>") + 2 if self.data.startswith(b"<?xml") else 0
            place = _place(root)
            yield from self._unlisted([(declaration, place.start), (place.end, len(self.data))])
        if name != "Messages" or not has_elements(root):
            yield from self._element(root, self._walk.value(start, self._kind(root)))
            return
        if start.keeps:
            start = start._replace(keeps=(((ANY_ELEMENT,),),))
        yield from self._element(root, start, of_messages)

    def _element(self, element: Element, reach: Reach, of_messages: Reach = NOTHING) -> Iterator[_Edit]:
        """Yield the edits of an element or an attribute."""
        if reach.action is not None and (has_elements(element) or self._kind(element) == "text"):
            place, kind = _place(element), "object" if element.children else "text"
            yield from self._filled([(place.inner, place.inner_end)], self._text(element, reach, kind))
        keeps_text = False
        for name, child in element.children:
            assert child is not None
            kind = self._kind(child)
            below = self._walk.below(reach, name, child, kind)
            if of_messages is not NOTHING and _is_element(name):
                below = self._walk.value(below.merged(of_messages), kind)
            if name == TEXT:
                keeps_text = not below.removed
                if below.action is not None or below.dropped:
                    yield from self._filled(self._gaps(element), self._text(child, below, "text"))
            elif below.removed:
                yield _place(child).start, _place(child).end, ""
            if name != TEXT and below is not NOTHING:
                yield from self._element(child, below)
        if reach.keeps and not keeps_text:
            yield from self._unlisted(self._gaps(element))

    def _text(self, element: Element, reach: Reach, kind: str) -> str:
        """Return what replaces the text of an element, or all that is in it."""
        if reach.action is None or reach.removed:
            return ""
        return escape(reach.action.change(kind)(element.text.strip(BLANKS), self._hasher) or "", _QUOTES)

    def _kind(self, element: Element) -> Kind:
        if element.children:
            return "object"
        place = element.place
        is_filled = element.text.strip(BLANKS) or (place and self.data[place.inner : place.inner_end].strip())
        return "text" if is_filled else "null"

    def _gaps(self, element: Element) -> list[tuple[int, int]]:
        """Return the ranges of all that is between the elements of an element."""
        place = _place(element)
        elements = [_place(child) for name, child in element.children if child and _is_element(name)]
        starts = [place.inner, *(each.end for each in elements)]
        return list(zip(starts, [*(each.start for each in elements), place.inner_end], strict=True))

    def _filled(self, ranges: Iterable[tuple[int, int]], text: str) -> Iterator[_Edit]:
        """Yield the replacement of ranges that are not blank: the text instead of the first, nothing of the others."""
        for start, end in ranges:
            if self.data[start:end].strip():
                yield start, end, text
                text = ""

    def _unlisted(self, ranges: Iterable[tuple[int, int]]) -> Iterator[_Edit]:
        """Yield the removal of what no list of a rule keeps."""
        for edit in self._filled(ranges, ""):
            self._walk.changes.add("*", ACTIONS["drop"])
            yield edit


def _place(element: Element) -> Place:
    assert element.place is not None
    return element.place


def _is_element(name: str) -> bool:
    return name[0] not in "@#"
