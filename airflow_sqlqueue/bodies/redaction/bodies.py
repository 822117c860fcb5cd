"""Redaction of a body, JSON or XML, whose encoding and byte order mark stay, and the values that it would change.

JSON is written again, numbers digit by digit; an object that others refer to is one object, which each path changes at
all of its places. XML is edited at the places of its elements and attributes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, TypeAlias
from xml.sax.saxutils import escape

from airflow_sqlqueue.bodies.decoding import kind_of, read_text
from airflow_sqlqueue.bodies.json_reader import References, is_wrapper, read_json
from airflow_sqlqueue.bodies.redaction.actions import ACTIONS, Hasher, RedactionAction
from airflow_sqlqueue.bodies.redaction.fields import NOTHING, VALUES, Kind, Reach, Walk, Way, elements_of
from airflow_sqlqueue.bodies.redaction.rules import FieldPath
from airflow_sqlqueue.bodies.tree import BLANKS, TEXT, Element, Number, Place, Repeated, members_of
from airflow_sqlqueue.bodies.xml_reader import read_xml
from airflow_sqlqueue.errors import BodyError
from airflow_sqlqueue.untrusted import is_text

_KINDS: dict[type, Kind] = {dict: "object", Repeated: "object", list: "list", str: "text", bool: "boolean"}
_KINDS |= {Number: "number", type(None): "null"}

_Edit: TypeAlias = "tuple[int, int, str]"
"""The start and the end of bytes, and the text that replaces them."""

_QUOTES = {'"': "&quot;", "'": "&apos;"}


def redact_body(body: bytes, content_type: str | None, start: Reach, hasher: Hasher) -> tuple[bytes, Walk]:
    """Return the redacted body, and the walk with the paths that were found in it. ``start`` is what rules say.

    Raises :class:`BodyError` for a body that cannot be parsed, which must be left out whole.
    """
    (text, mark, encoding), walk = read_text(body, content_type), Walk(start, hasher)
    if kind_of(content_type, text) == "json":
        redacted = _redact_json(text, walk, in_ascii=text.isascii() or "utf" not in encoding).encode(encoding)
    else:
        redacted = _redact_xml(text, walk).encode(encoding, "xmlcharrefreplace")
    return (mark + redacted if walk.found else body), walk


def field_values(body: bytes, content_type: str | None, path: FieldPath) -> tuple[list[str], bool]:
    """Return texts of the values that an action on a path would change, and whether one is in place of an object."""
    texts: list[str] = []

    def noted(text: str) -> str:
        texts.append(text)
        return text

    start = Reach(ways=(Way(path.text, ACTIONS["hash"], path.steps),))
    return texts, bool(redact_body(body, content_type, start, noted)[1].misplaced)


def _redact_json(text: str, walk: Walk, *, in_ascii: bool) -> str:
    tree = read_json(text)
    message = tree[0] if isinstance(tree, list) and len(tree) == 1 else tree
    if not isinstance(message, dict):
        raise BodyError("object")
    # A name may be written with escapes.
    references = References(tree if "$" in text or "u0024" in text else None, len(text))
    writer = _JsonWriter(references, walk, encode_basestring_ascii if in_ascii else _quoted)
    if references.referred:
        # Refuses what parsing refuses: references to a tree that is too large, or without an end.
        references.plain(tree)
        # What concerns an object is known when all of its places were seen.
        writer.value(tree, walk.start)
    return writer.value(tree, walk.start)


def _quoted(text: str) -> str:
    return encode_basestring(text) if is_text(text) else encode_basestring_ascii(text)


class _JsonWriter:
    """Writes redacted values; ``_shared`` has what concerns objects that others refer to, by their identity."""

    def __init__(self, references: References, walk: Walk, quote: Callable[[str], str]) -> None:
        self._references, self._walk, self._quote = references, walk, quote
        self._shared = {id(references.target({"$ref": each})): NOTHING for each in references.referred}

    def value(self, value: Any, reach: Reach) -> str:
        if isinstance(value, list):
            return f"[{','.join(text for _, text in self._members(value, reach))}]"
        action, text = reach.action, ""
        if action is not None and (value is None or reach.removed):
            action = None
        if isinstance(value, dict):
            # What is below is written in any case: other places may refer to it, and an erasure reads it.
            members = self._members(value, reach)
            if action is None or is_wrapper(value):
                kept = [f"{self._quote(name)}:{each}" for name, each in members if action is None or name == VALUES]
                return f"{{{','.join(kept)}}}"
        else:
            text = value if isinstance(value, str) else value.text if isinstance(value, Number) else json.dumps(value)
        if action is None:
            return self._quote(text) if isinstance(value, str) else text
        changed = action.change(_KINDS[type(value)], text, self._walk.hasher)
        return "null" if changed is None else self._quote(changed)

    def _members(self, value: Any, reach: Reach) -> list[tuple[str, str]]:
        """Return the names and texts of the members or items that stay."""
        found = []
        members = [(None, each) for each in value] if isinstance(value, list) else members_of(value)
        if reach is NOTHING and not self._shared:
            return [(name or "", self.value(child, NOTHING)) for name, child in members]
        for name, child in members:
            child = self._references.target(child)
            below = self._walk.below(reach, name, child, _KINDS[type(child)])
            if id(child) in self._shared:
                below = self._shared[id(child)] = below.merged(self._shared[id(child)])
            text = self.value(child, below)
            # Copies would have this $id as well, and then it names none of them.
            is_shared_id = self._shared and name == "$id" and self._references.is_metadata(child)
            if not (below.removed or is_shared_id):
                found.append((name or "", text))
        return found


def _redact_xml(text: str, walk: Walk) -> str:
    name, root = read_xml(text, places=True)
    editor = _XmlEditor(text.encode(), walk)
    pieces, position = [], 0
    for start, end, replacement in sorted(editor.document(name, root), key=lambda edit: (edit[0], -edit[1])):
        # One that lies within another has no effect.
        if start >= position:
            pieces += [editor.data[position:start], replacement.encode()]
        position = max(position, end)
    return b"".join([*pieces, editor.data[position:]]).decode()


class _XmlEditor:
    """Finds the edits of a text, whose bytes are ``data``."""

    def __init__(self, data: bytes, walk: Walk) -> None:
        self.data, self._walk = data, walk

    def document(self, name: str, root: Element) -> Iterator[_Edit]:
        """Yield the edits of a root, and the removal of what is around it if a rule lists what stays."""
        start, place = self._walk.start, _place(root)
        if start.keeps:
            declaration = self.data.find(b"?>") + 2 if self.data.startswith(b"<?xml") else 0
            yield from self._filled([(declaration, place.start), (place.end, len(self.data))], start, "")
        if name == "Messages" and elements_of(root):
            start = start.of_messages()
        yield from self._element(root, self._walk.value(start, self._kind(root)))

    def _element(self, element: Element, reach: Reach) -> Iterator[_Edit]:
        """Yield the edits of an element or an attribute."""
        place, text, of_text = _place(element), element.text, reach
        if reach.action is not None and elements_of(element):
            of_text = NOTHING
            yield place.inner, place.inner_end, self._changed(reach.action, "object", "")
        starts, ends = [place.inner], []
        for name, child in element.children:
            below = self._walk.below(reach, name, child, self._kind(child))
            if name == TEXT:
                text, of_text = child.text, below
                continue
            if below.removed:
                yield _place(child).start, _place(child).end, ""
            if below is not NOTHING:
                yield from self._element(child, below)
            if not name.startswith("@"):
                starts.append(_place(child).end)
                ends.append(_place(child).start)
        yield from self._filled(zip(starts, [*ends, place.inner_end], strict=True), of_text, text)

    def _filled(self, ranges: Iterable[tuple[int, int]], reach: Reach, text: str) -> Iterator[_Edit]:
        """Yield the edits of a text and of comments in it: the first range that is not blank gets the new text."""
        if not (reach.action or reach.dropped or reach.keeps):
            return
        filled = [(start, end) for start, end in ranges if self.data[start:end].strip()]
        if filled and reach.keeps:
            self._walk.note("*", ACTIONS["drop"])
        action = None if reach.dropped or reach.keeps else reach.action
        for number, (start, end) in enumerate(filled):
            yield start, end, self._changed(action, "text", text) if action and not number else ""

    def _changed(self, action: RedactionAction, kind: Kind, text: str) -> str:
        return escape(action.change(kind, text.strip(BLANKS), self._walk.hasher) or "", _QUOTES)

    def _kind(self, element: Element) -> Kind:
        if element.children:
            return "object"
        place = element.place
        has_comment = place is not None and self.data[place.inner : place.inner_end].strip()
        return "text" if has_comment or element.text.strip(BLANKS) else "null"


def _place(element: Element) -> Place:
    assert element.place is not None
    return element.place
