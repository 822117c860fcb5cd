"""Redaction of JSON: fields are changed by their paths, and the rest keeps its values, numbers digit by digit.

A path goes through the wrappers ``$values`` of Newtonsoft.Json and System.Text.Json. An object that others refer to is
one object, which each path changes at all of its places. Then its references (``$ref``) are replaced by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any

from airflow_sqlqueue.bodies.json_reader import read_json
from airflow_sqlqueue.bodies.references import References, is_wrapper, resolved
from airflow_sqlqueue.bodies.tree import Number, Repeated
from airflow_sqlqueue.errors import BodyError
from airflow_sqlqueue.redaction.actions import Hasher, RedactionAction
from airflow_sqlqueue.redaction.fields import VALUES, Member, Node


class JsonBody:
    """The nodes of a JSON text; ``messages`` has the one of its message. Raises :class:`BodyError`."""

    def __init__(self, text: str) -> None:
        tree = read_json(text)
        message = tree[0] if isinstance(tree, list) and len(tree) == 1 else tree
        if not isinstance(message, dict):
            raise BodyError("object")
        self._text = text
        # A name may be written with escapes, which are gone in the redacted text.
        self._references = References(tree if "$" in text or "u0024" in text else None)
        if self._references.referred:
            # Refuses what parsing refuses: references to a tree that is too large, or without an end.
            resolved(tree)
        self._nodes: dict[int, Node] = {}
        self.root = self._node(tree)
        self.messages: Sequence[Node] = [self.root]

    def _node(self, value: Any) -> Node:
        """Return a value's node, the same one for all that refer to it."""
        value = self._references.target(value)
        if not isinstance(value, (dict, list)):
            return _leaf(value)
        if (node := self._nodes.get(id(value))) is None:
            node = self._nodes[id(value)] = Node("object" if isinstance(value, dict) else "list", source=value)
            node.members = [Member(name, self._node(each)) for name, each in _members(value)]
        return node

    def written(self, hasher: Hasher, encoding: str) -> bytes:
        """Return the bytes of the text as the marks leave it; a character that the encoding lacks is escaped."""
        writer = _NodeWriter(self._references, hasher, "ascii" if self._text.isascii() else encoding)
        return writer.value(self.root).encode(encoding)


def _members(value: Any) -> Sequence[tuple[str, Any]]:
    if isinstance(value, list):
        return [("", each) for each in value]
    return value.pairs if isinstance(value, Repeated) else list(value.items())


def _leaf(value: Any) -> Node:
    if isinstance(value, bool):
        return Node("boolean", ("false", "true")[value])
    if isinstance(value, Number):
        return Node("number", value.text)
    return Node("null") if value is None else Node("text", value)


class _NodeWriter:
    """Writes nodes as JSON, each text in a form that the body's encoding has."""

    def __init__(self, references: References, hasher: Hasher, encoding: str) -> None:
        self._references, self._hasher, self._encoding = references, hasher, encoding

    def value(self, node: Node) -> str:
        if node.kind == "list":
            return f"[{','.join(self.value(each.node) for each in node.members if not each.is_removed)}]"
        if node.action is not None and node.kind != "null" and not node.action.removes:
            if not is_wrapper(node.source):
                return self._replaced(node, node.action)
            members = [each for each in node.members if each.name == VALUES]
        else:
            members = [each for each in node.members if not each.is_removed]
        if node.kind == "object":
            if self._references.referred:
                # Copies would have it as well, and then it names none of them.
                members = [m for m in members if not (m.name == "$id" and self._references.is_metadata(m.node.text))]
            return f"{{{','.join(f'{self._text(each.name)}:{self.value(each.node)}' for each in members)}}}"
        return self._text(node.text) if node.kind == "text" else node.text or "null"

    def _replaced(self, node: Node, action: RedactionAction) -> str:
        text = action.change(node.kind)(node.text, self._hasher)
        return "null" if text is None else self._text(text)

    def _text(self, text: str) -> str:
        if not text.isascii():
            try:
                text.encode(self._encoding)
            except UnicodeEncodeError:
                return encode_basestring_ascii(text)
        return encode_basestring(text)
