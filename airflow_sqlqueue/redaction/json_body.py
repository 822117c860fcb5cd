"""Redaction of JSON: fields are changed by their paths, and the rest keeps its values, numbers digit by digit.

An object that others refer to is one object, which each path changes at all of its places.
"""

from __future__ import annotations

from collections.abc import Callable
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any

from airflow_sqlqueue.bodies.json_reader import read_json
from airflow_sqlqueue.bodies.references import References, is_wrapper, resolved
from airflow_sqlqueue.bodies.tree import Number, Repeated, members_of
from airflow_sqlqueue.errors import BodyError
from airflow_sqlqueue.redaction.actions import Hasher
from airflow_sqlqueue.redaction.fields import NOTHING, VALUES, Kind, Reach, Walk

_KINDS: dict[type, Kind] = {dict: "object", Repeated: "object", list: "list", str: "text", bool: "boolean"}
_KINDS |= {Number: "number", type(None): "null"}


def redact_json(text: str, walk: Walk, hasher: Hasher, encoding: str) -> str:
    """Return a redacted text of JSON; a character that the encoding lacks is escaped. Raises :class:`BodyError`."""
    tree = read_json(text)
    message = tree[0] if isinstance(tree, list) and len(tree) == 1 else tree
    if not isinstance(message, dict):
        raise BodyError("object")
    # A name may be written with escapes, which are gone in the redacted text.
    references = References(tree if "$" in text or "u0024" in text else None)
    writer = _JsonWriter(references, walk, hasher, None if text.isascii() else encoding)
    if references.referred:
        # Refuses what parsing refuses: references to a tree that is too large, or without an end.
        resolved(tree)
        # What concerns an object is known when all of its places were seen.
        writer.value(tree, walk.start)
    return writer.value(tree, walk.start)


class _JsonWriter:
    """Writes redacted values; ``shared`` has what concerns objects that others refer to, by their ``$id``."""

    def __init__(self, references: References, walk: Walk, hasher: Hasher, encoding: str | None) -> None:
        self._references, self._walk, self._hasher, self._encoding = references, walk, hasher, encoding
        self._text: Callable[[str], str] = self._encoded if encoding else encode_basestring_ascii
        self._shared = dict.fromkeys(references.referred, NOTHING)

    def value(self, value: Any, reach: Reach) -> str:
        if reach is NOTHING and not self._shared:
            return self._plain(value)
        if isinstance(value, list):
            return f"[{','.join(text for _, text in self._members(value, reach))}]"
        action = reach.action if value is not None and not reach.removed else None
        if isinstance(value, dict):
            # What is below is written in any case: other places may refer to it, and an erasure reads it.
            members = self._members(value, reach)
            if action and is_wrapper(value):
                members = [member for member in members if member[0] == VALUES]
            elif action:
                return self._replaced(action.object("", self._hasher))
            return f"{{{','.join(f'{self._text(name)}:{text}' for name, text in members)}}}"
        if action:
            plain = value if isinstance(value, str) else self._plain(value)
            return self._replaced(action.change(_KINDS[type(value)])(plain, self._hasher))
        return self._plain(value)

    def _members(self, value: Any, reach: Reach) -> list[tuple[str, str]]:
        """Return the names and texts of the members or items that stay."""
        found = []
        for name, child in [(None, each) for each in value] if isinstance(value, list) else members_of(value):
            child = self._references.target(child)
            below = reach if reach is NOTHING else self._walk.below(reach, name, child, _KINDS[type(child)])
            identity = child.get("$id") if self._shared and isinstance(child, dict) else None
            if isinstance(identity, str) and identity in self._shared:
                below = below.merged(self._shared[identity])
                self._shared[identity] = below
            text = self.value(child, below)
            # Copies would have this $id as well, and then it names none of them.
            is_shared_id = self._shared and name == "$id" and self._references.is_metadata(child)
            if not (below.removed or is_shared_id):
                found.append((name or "", text))
        return found

    def _plain(self, value: Any) -> str:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Number):
            return value.text
        if isinstance(value, dict):
            return f"{{{','.join([f'{self._text(name)}:{self._plain(each)}' for name, each in members_of(value)])}}}"
        if isinstance(value, list):
            return f"[{','.join(map(self._plain, value))}]"
        return "null" if value is None else "true" if value else "false"

    def _replaced(self, text: str | None) -> str:
        return "null" if text is None else self._text(text)

    def _encoded(self, text: str) -> str:
        """Write a text in a form that the body's encoding has."""
        if not text.isascii():
            try:
                text.encode(self._encoding or "ascii")
            except UnicodeEncodeError:
                return encode_basestring_ascii(text)
        return encode_basestring(text)
