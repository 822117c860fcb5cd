"""Redaction of JSON: fields are changed by their paths, and the rest keeps its values, numbers digit by digit.

A path goes through every array on its way, and through the wrappers ``$values`` of Newtonsoft.Json and
System.Text.Json. References (``$ref``) are replaced by what they refer to, so that each place is changed by its own
path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any

from airflow_sqlqueue.bodies.tree import MAX_DEPTH, MAX_NODES
from airflow_sqlqueue.errors import BodyError
from airflow_sqlqueue.redaction.actions import MASK, FieldActions, Hasher
from airflow_sqlqueue.redaction.paths import PathStep
from airflow_sqlqueue.untrusted import is_text


class _Number(str):
    """Number as it is written."""

    __slots__ = ()


class _Redacted(str):
    """Text that an action has written, which another hash leaves as it is."""

    __slots__ = ()


class _Members(list[list[Any]]):
    """Members of an object, pairs of name and value; a name may come twice."""


@dataclass
class JsonRedaction:
    """Redaction of one JSON text. ``changed`` has the paths that were found, each with its action."""

    actions: FieldActions
    hasher: Hasher
    changed: dict[str, str] = field(default_factory=dict)

    def apply(self, text: str) -> str:
        """Return the redacted text, the same one if no field was found. Raises :class:`BodyError`."""
        root = _parse(text)
        if not self.actions:
            return text
        for path, action in self.actions.actions:
            if self._act(root, path.steps, action):
                self.changed[path.text] = action
        for kept in self.actions.kept:
            if _prune(root, [path.steps for path in kept]):
                self.changed["*"] = "drop"
        return _written(root, ascii_only=text.isascii()) if self.changed else text

    def _act(self, value: Any, steps: tuple[PathStep, ...], action: str) -> bool:
        found = False
        for members in _objects(value):
            hits = [member for member in members if steps[0].matches(member[0])]
            if len(steps) > 1:
                for member in hits:
                    found |= self._act(member[1], steps[1:], action)
            elif hits and action == "drop":
                members[:] = [member for member in members if not steps[0].matches(member[0])]
                found = True
            elif hits:
                for member in hits:
                    member[1] = self._replaced(member[1], action)
                found = True
        return found

    def _replaced(self, value: Any, action: str) -> Any:
        if (items := _items(value)) is not None:
            return [self._replaced(item, action) for item in items]
        if value is None or (action == "hash" and isinstance(value, _Redacted)):
            return value
        if action == "mask":
            return _Redacted(MASK) if isinstance(value, str) and not isinstance(value, _Number) else None
        if isinstance(value, _Members):
            return None
        return _Redacted(self.hasher(canonical_text(value)))


def canonical_text(value: Any) -> str:
    """Return the text of a value that is hashed: a number as it is written, ``true``, ``false``, or the text itself."""
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


def json_values(text: str, steps: tuple[PathStep, ...]) -> Iterator[str]:
    """Yield the :func:`canonical_text` of each text, number and bool at a path. Raises :class:`BodyError`."""
    yield from _values(_parse(text), steps)


def _values(value: Any, steps: tuple[PathStep, ...]) -> Iterator[str]:
    if steps:
        for members in _objects(value):
            for name, member in members:
                if steps[0].matches(name):
                    yield from _values(member, steps[1:])
    elif (items := _items(value)) is not None:
        for item in items:
            yield from _values(item, ())
    elif value is not None and not isinstance(value, _Members):
        yield canonical_text(value)


def _parse(text: str) -> Any:
    try:
        root = _DECODER.decode(text)
    except RecursionError as error:
        raise BodyError("depth") from error
    except ValueError as error:
        raise BodyError("json") from error
    message = root[0] if isinstance(root, list) and not isinstance(root, _Members) and len(root) == 1 else root
    if not isinstance(message, _Members):
        raise BodyError("object")
    root = _References(root).replaced()
    _check_depth(root)
    return root


def _refuse(constant: str) -> None:
    raise ValueError("NaN and Infinity are no JSON.")


_DECODER = json.JSONDecoder(
    object_pairs_hook=lambda pairs: _Members(map(list, pairs)),
    parse_int=_Number,
    parse_float=_Number,
    parse_constant=_refuse,
)


def _children(value: Any) -> Any:
    return (member[1] for member in value) if isinstance(value, _Members) else value


def _check_depth(root: Any) -> None:
    level, depth = [root], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise BodyError("depth")
        level = [child for each in level for child in _children(each) if isinstance(child, list)]


def _items(value: Any) -> list[Any] | None:
    """Return the items of an array or of the wrapper of one; None for any other value."""
    if not isinstance(value, _Members):
        return value if isinstance(value, list) else None
    wrapped = next((member[1] for member in value if member[0] == "$values"), None)
    return wrapped if isinstance(wrapped, list) and not isinstance(wrapped, _Members) else None


def _objects(value: Any) -> Iterator[_Members]:
    """Yield the objects that a path reaches at a value: itself, or those in its arrays."""
    if (items := _items(value)) is not None:
        for item in items:
            yield from _objects(item)
    if isinstance(value, _Members):
        yield value


def _prune(value: Any, paths: list[tuple[PathStep, ...]]) -> bool:
    """Remove from an object, or from those of an array, what no path leads to; True if anything was removed."""
    items = _items(value)
    if items is not None:
        before = len(items)
        items[:] = [item for item in items if isinstance(item, list)]
        removed = len(items) < before
        for item in items:
            removed |= _prune(item, paths)
        if isinstance(value, _Members):
            removed |= len(value) > 1
            value[:] = [["$values", items]]
        return removed
    kept, removed = [], False
    for member in value:
        rest = [path[1:] for path in paths if path[0].matches(member[0])]
        if () in rest:
            kept.append(member)
        elif rest and isinstance(member[1], list):
            removed |= _prune(member[1], rest)
            kept.append(member)
        else:
            removed = True
    value[:] = kept
    return removed


class _References:
    """Replaces the references of one body by copies of their objects, within bounds of number and depth."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[str, _Members] = {}
        self._nodes = 0

    def replaced(self) -> Any:
        waiting, referring = [self._root], False
        while waiting:
            value = waiting.pop()
            if isinstance(value, _Members):
                names = {member[0] for member in value}
                if sum(member[0] == "$values" for member in value) > 1:
                    # A reader takes the last one, so all would have to be redacted.
                    raise BodyError("reference")
                if "$ref" in names:
                    if len(value) > 1 or not isinstance(value[0][1], str):
                        raise BodyError("reference")
                    referring = True
                if "$id" in names:
                    self._know(value)
            waiting.extend(child for child in _children(value) if isinstance(child, list))
        return self._copy(self._root, 0) if referring else self._root

    def _know(self, value: _Members) -> None:
        for identity in (member[1] for member in value if member[0] == "$id"):
            if not isinstance(identity, str) or self._known.setdefault(identity, value) is not value:
                raise BodyError("reference")

    def _copy(self, value: Any, depth: int) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise BodyError("size")
        if depth > MAX_DEPTH:
            raise BodyError("depth")
        if not isinstance(value, list):
            return value
        if not isinstance(value, _Members):
            return [self._copy(item, depth + 1) for item in value]
        if len(value) == 1 and value[0][0] == "$ref":
            if value[0][1] not in self._known:
                raise BodyError("reference")
            return self._copy(self._known[value[0][1]], depth + 1)
        return _Members([name, self._copy(item, depth + 1)] for name, item in value if name != "$id")


def _written(value: Any, *, ascii_only: bool) -> str:
    if isinstance(value, _Number):
        return str.__str__(value)
    if isinstance(value, str):
        plain = not ascii_only and is_text(value)
        return (encode_basestring if plain else encode_basestring_ascii)(value)
    if isinstance(value, _Members):
        members = (f"{_written(n, ascii_only=ascii_only)}:{_written(v, ascii_only=ascii_only)}" for n, v in value)
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(_written(item, ascii_only=ascii_only) for item in value)}]"
    return "null" if value is None else canonical_text(value)
