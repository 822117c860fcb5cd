"""The reader of JSON: bounded before it begins, with every member, digit and half of a surrogate pair kept, and the
metadata of System.Text.Json and Newtonsoft.Json: references are followed, the rest is data.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any

from airflow_sqlqueue.bodies.tree import MAX_DEPTH, MAX_NODES, Number, Repeated, expansion_limit, members_of
from airflow_sqlqueue.errors import BodyError

_BRACKETS = re.compile(r"[][{}]")
_WRAPPER = {"$id", "$type", "$values"}


def read_json(text: str) -> Any:
    """Return the tree of a JSON text, whose objects are dicts, :class:`.Repeated` if a name comes twice."""
    _check_bounds(text)
    try:
        return DECODER.decode(text)
    except ValueError as error:
        raise BodyError("json") from error


def _check_bounds(text: str) -> None:
    """Raise :class:`BodyError` for too many levels or values, by the brackets and commas outside of texts."""
    if text.count("[") + text.count("{") <= MAX_DEPTH and text.count(",") < MAX_NODES - MAX_DEPTH:
        return
    outside = _outside(text)
    brackets = _BRACKETS.findall(outside)
    if outside.count(",") + len(brackets) // 2 >= MAX_NODES:
        raise BodyError("size")
    if _most_levels(brackets) > MAX_DEPTH:
        raise BodyError("depth")


def levels_of(text: str) -> int:
    """Return the most levels of a JSON text, by the brackets outside of its texts."""
    return _most_levels(_BRACKETS.findall(_outside(text)))


def _outside(text: str) -> str:
    return "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])


def _most_levels(brackets: list[str]) -> int:
    return max(accumulate(1 if each in "[{" else -1 for each in brackets), default=0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repeated(pairs)


def _refuse(constant: str) -> None:
    raise ValueError("NaN and Infinity are no JSON.")


DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=_refuse)
"""The reader without its bounds."""


def is_number(identity: Any) -> bool:
    """Return whether an ``$id`` is the number of an object, as the serializers count them."""
    return isinstance(identity, str) and identity.isascii() and identity.isdigit()


class References:
    """The references of the tree of a text of ``size``, by the objects that each ``$id`` names."""

    def __init__(self, root: Any, size: int) -> None:
        self._known: dict[str, Any] = {}
        self._nodes, self._characters, self._most = 0, 0, expansion_limit(size)
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
        """Return whether an ``$id`` is no data: others refer to it, or the serializer numbers its objects."""
        if not isinstance(identity, str) or identity not in self._known:
            return False
        return identity in self.referred or (self._is_numbered and is_number(identity))

    def plain(self, value: Any, depth: int = 1) -> Any:
        """Return a value with what it refers to, and without the metadata that a serializer gives no reader."""
        self._nodes += 1
        self._characters += _length(value)
        if self._nodes > MAX_NODES or self._characters > self._most:
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


def _length(value: Any) -> int:
    """Return the characters of a value itself: a text, a number, or the names of an object."""
    text = value.text if isinstance(value, Number) else value
    return len(text) if isinstance(text, str) else 1 + sum(map(len, text)) if isinstance(text, dict) else 1


def is_wrapper(value: Any) -> bool:
    """Return whether a value is an array with its metadata."""
    if not isinstance(value, dict) or isinstance(value, Repeated) or not set(value) <= _WRAPPER:
        return False
    return isinstance(value.get("$values"), list) and all(
        isinstance(value.get(name, ""), str) for name in ("$id", "$type")
    )


def _is_reference(value: dict[str, Any]) -> bool:
    return len(value) == 1 and isinstance(value.get("$ref"), str) and not isinstance(value, Repeated)
