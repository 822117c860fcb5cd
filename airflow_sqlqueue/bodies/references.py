"""Metadata of System.Text.Json and Newtonsoft.Json in a tree of JSON: references are followed, the rest is data.

Source: docs/guides/bodies.md, "Constructs of .NET and XML".
"""

from __future__ import annotations

from typing import Any

from airflow_sqlqueue.bodies.tree import MAX_DEPTH, MAX_NODES, Repeated, members_of
from airflow_sqlqueue.errors import BodyError

_WRAPPER = {"$id", "$type", "$values"}


def is_number(identity: Any) -> bool:
    """Whether an ``$id`` is the number of an object, as the serializers count them."""
    return isinstance(identity, str) and identity.isascii() and identity.isdigit()


class References:
    """The references of a tree, by the objects that each ``$id`` names."""

    def __init__(self, root: Any) -> None:
        self._known: dict[str, Any] = {}
        self._nodes = 0
        referred, twice, waiting = set(), set(), [root]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                identity = value.get("$id")
                if isinstance(identity, str) and self._known.setdefault(identity, value) is not value:
                    twice.add(identity)
                if _is_reference(value):
                    referred.add(value["$ref"])
                waiting.extend(each for _, each in members_of(value))
            elif isinstance(value, list):
                waiting.extend(value)
        for identity in twice:
            del self._known[identity]
        self.referred = referred & self._known.keys()
        """Each ``$id`` that another object refers to."""
        self.message = root[0] if isinstance(root, list) and len(root) == 1 else root
        self._is_numbered = isinstance(self.message, dict) and is_number(self.message.get("$id"))

    def target(self, value: Any) -> Any:
        """Return what an object refers to, or the value itself."""
        return self._known.get(value["$ref"], value) if isinstance(value, dict) and _is_reference(value) else value

    def is_metadata(self, identity: Any) -> bool:
        """Whether an ``$id`` is no data: others refer to it, or the serializer numbers its objects."""
        if not isinstance(identity, str) or identity not in self._known:
            return False
        return identity in self.referred or (self._is_numbered and is_number(identity))

    def plain(self, value: Any, depth: int = 1) -> Any:
        """Return a value with what it refers to, and without the metadata that a serializer would not give its reader.

        ``$id`` disappears where a ``$ref`` names it, and where the one of the root, which stays, is a number.
        """
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise BodyError("size")
        if not isinstance(value, (dict, list)):
            return value
        if depth > MAX_DEPTH:
            raise BodyError("depth")
        if isinstance(value, list):
            return [self.plain(each, depth + 1) for each in value]
        if (target := self.target(value)) is not value:
            return self.plain(target, depth + 1)
        if is_wrapper(value):
            return [self.plain(each, depth + 1) for each in value["$values"]]
        if isinstance(value, Repeated):
            return Repeated([(name, self.plain(each, depth + 1)) for name, each in value.pairs])
        leaves_id = value is not self.message and self.is_metadata(value.get("$id"))
        return {name: self.plain(each, depth + 1) for name, each in value.items() if not (leaves_id and name == "$id")}


def is_wrapper(value: Any) -> bool:
    """Whether a value is an array with its metadata."""
    if not isinstance(value, dict) or isinstance(value, Repeated) or not set(value) <= _WRAPPER:
        return False
    return isinstance(value.get("$values"), list) and all(
        isinstance(value.get(name, ""), str) for name in ("$id", "$type")
    )


def _is_reference(value: dict[str, Any]) -> bool:
    return len(value) == 1 and isinstance(value.get("$ref"), str) and not isinstance(value, Repeated)
