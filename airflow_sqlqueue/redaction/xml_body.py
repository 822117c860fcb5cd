"""Redaction of XML: elements and attributes are changed by their paths, at their places; the rest stays as it is.

The steps of a path are local names below the element of the message. A list is an element with an element for each
item, so a step that is marked as a list (``Lines[]``), or that stands for what looks like one, stands for the element
and for each element in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias
from xml.sax.saxutils import escape

from airflow_sqlqueue.bodies.tree import BLANKS, TEXT, Element
from airflow_sqlqueue.bodies.xml_reader import read_xml
from airflow_sqlqueue.redaction.actions import Hasher, RedactionAction
from airflow_sqlqueue.redaction.fields import Member, Node

_Edit: TypeAlias = "tuple[int, int, str]"
"""The start and the end of bytes, and the text that replaces them."""

_QUOTES = {'"': "&quot;", "'": "&apos;"}


class XmlBody:
    """The nodes of an XML text; ``messages`` are those of its messages. Raises :class:`BodyError`."""

    def __init__(self, text: str) -> None:
        name, root = read_xml(text, places=True)
        self._data = text.encode()
        self.root = self._node(name, root)
        messages = [member.node for member in self.root.members if _is_element(member)]
        self.messages: Sequence[Node] = messages if messages and name == "Messages" else [self.root]

    def _node(self, name: str, element: Element) -> Node:
        members = [Member(each, self._node(each, child)) for each, child in element.children if child is not None]
        elements = [member for member in members if _is_element(member)]
        text = element.text.strip(BLANKS)
        place = element.place
        has_content = members or text or (place and self._data[place.inner : place.inner_end].strip())
        node = Node("object" if members else "text" if has_content else "null", text, members, element)
        node.is_element = name[0] not in "@#"
        node.has_elements = bool(elements)
        node.is_list_like = len({each.name for each in elements}) == 1 and all(e.node.members for e in elements)
        return node

    def written(self, hasher: Hasher, encoding: str) -> bytes:
        """Return the bytes of the text as the marks leave it; a character that the encoding lacks is a reference."""
        data, pieces, position = self._data, [], 0
        edits = [*self._around(), *self._edits(self.root, hasher)]
        for start, end, replacement in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
            # One that lies within another has no effect.
            if start >= position:
                pieces += [data[position:start], replacement.encode()]
            position = max(position, end)
        return b"".join([*pieces, data[position:]]).decode().encode(encoding, "xmlcharrefreplace")

    def _around(self) -> Iterator[_Edit]:
        """Yield the removal of all that is before and behind a root, if only listed members of it stay."""
        root, data = self.root.source.place, self._data
        if self.root.pruned:
            declaration = data.find(b"?>") + 2 if data.startswith(b"<?xml") else 0
            yield from self._filled([(declaration, root.start), (root.end, len(data))], "")

    def _edits(self, node: Node, hasher: Hasher) -> Iterator[_Edit]:
        action = node.action
        if action is not None and (node.has_elements or not node.members):
            place = node.source.place
            yield from self._filled([(place.inner, place.inner_end)], _replacement(action, node, hasher))
        for member in node.members:
            if member.name == TEXT:
                if member.node.action is not None or member.dropped:
                    text = "" if member.is_removed else _replacement(member.node.action, member.node, hasher)
                    yield from self._texts(node, text)
            elif member.is_removed:
                place = member.node.source.place
                yield place.start, place.end, ""
            else:
                yield from self._edits(member.node, hasher)
        if node.pruned and not any(member.name == TEXT and not member.is_removed for member in node.members):
            yield from self._texts(node, "")

    def _texts(self, node: Node, text: str) -> Iterator[_Edit]:
        """Return the replacement of all that is between the elements of an element."""
        place = node.source.place
        elements = [member.node.source.place for member in node.members if _is_element(member)]
        starts = [place.inner, *(each.end for each in elements)]
        ends = [*(each.start for each in elements), place.inner_end]
        return self._filled(zip(starts, ends, strict=True), text)

    def _filled(self, ranges: Iterable[tuple[int, int]], text: str) -> Iterator[_Edit]:
        """Yield the replacement of ranges that are not blank: the text instead of the first, nothing of the others."""
        for start, end in ranges:
            if self._data[start:end].strip():
                yield start, end, text
                text = ""


def _is_element(member: Member) -> bool:
    return member.name[0] not in "@#"


def _replacement(action: RedactionAction | None, node: Node, hasher: Hasher) -> str:
    if action is None or action.removes:
        return ""
    text = action.change("object" if node.has_elements else "text")(node.text, hasher)
    return escape(text or "", _QUOTES)
