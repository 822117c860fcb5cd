"""Patterns of message types, for the choice of types that get tables, and of fields, for hints of their types.

Source: docs/guides/bodies.md, "One table for each message type" and "Hints".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from airflow_sqlqueue.bodies.names import Path, matches_name, read_path
from airflow_sqlqueue.bodies.schemas import Type, fields_of, read_schema
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.untrusted import quoted


@dataclass(frozen=True)
class TypePatterns:
    """Patterns of names of message types: ``*`` is any text, ``!`` before a pattern excludes, case is ignored."""

    patterns: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: TypePatterns | str | Sequence[str] | None) -> TypePatterns:
        """Return the patterns of one text or several; None has none. Raises :class:`ConfigurationError`."""
        if given is None or isinstance(given, cls):
            return given or ALL_TYPES
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, Sequence) or not texts or not all(map(_is_pattern, texts)):
            raise ConfigurationError(f'Patterns of message types are texts such as "Shop.*", not {quoted(str(given))}.')
        return cls(tuple(texts))

    def matches(self, message_type: str) -> bool:
        """Return whether a type is one of those that the patterns mean."""
        included = [each for each in self.patterns if each[0] != "!"] or ["*"]
        excluded = [each[1:] for each in self.patterns if each[0] == "!"]
        is_one, is_none = (any(matches_name(each, message_type) for each in some) for some in (included, excluded))
        return is_one and not is_none


ALL_TYPES = TypePatterns()


def _is_pattern(text: object) -> bool:
    return isinstance(text, str) and bool(text.removeprefix("!").strip())


@dataclass
class Hint:
    """A type for the fields that a pattern of paths matches; ``map`` and ``struct`` leave the rest to inference."""

    types: TypePatterns
    path: Path
    text: str
    type: Type
    is_matched: bool = False
    """Whether a field had it."""


class Hints:
    """Hints for all types, as the file has them. Raises :class:`ConfigurationError` for the first mistake."""

    def __init__(self, values: object) -> None:
        if not isinstance(values, Mapping):
            raise ConfigurationError('Hints are a JSON object: {"Shop.*": {"**.Zip": "string"}}.')
        self.hints: list[Hint] = []
        for name, paths in values.items():
            types = TypePatterns.of(name or "")
            if not isinstance(paths, Mapping):
                raise ConfigurationError(f"The hints for {quoted(str(name))} are a JSON object of paths and types.")
            self.hints += [Hint(types, _path(str(path)), str(path), _type(kind, path)) for path, kind in paths.items()]

    def type_at(self, message_type: str, path: Path) -> Type | None:
        """Return the type for a field, by the first hint that matches; None without one."""
        for each in self.hints:
            if each.types.matches(message_type) and _matches(each.path, path):
                each.is_matched = True
                return each.type
        return None

    def unmatched(self) -> list[str]:
        """Return the patterns of the hints that no field has had so far."""
        return [each.text for each in self.hints if not each.is_matched]


NO_HINTS = Hints({})


@lru_cache(maxsize=16_384)
def _matches(pattern: Path, path: Path) -> bool:
    if not pattern or not path:
        return path == () and all(step == "**" for step in pattern)
    step, name = pattern[0], path[0]
    if step == "**":
        return _matches(pattern[1:], path) or _matches(pattern, path[1:])
    if isinstance(step, str) and isinstance(name, str):
        return matches_name(step, name) and _matches(pattern[1:], path[1:])
    return name is None and _matches(pattern[1:] if step is None else pattern, path[1:])


def _path(text: str) -> Path:
    try:
        path = read_path(text)
    except ValueError:
        path = ()
    if not path or any(isinstance(step, int) for step in path):
        raise ConfigurationError(
            f'The path {quoted(text)} of a hint cannot be read: write it as "Lines[].Price", "*.Price" or "**.Price".'
        )
    return path


def _type(given: object, path: object) -> Type:
    """Return the type of a hint, checked. Raises :class:`ConfigurationError`."""
    if given in ("map", "struct"):
        return str(given)
    try:
        return fields_of(read_schema({"type": "struct", "fields": [{"name": "hint", "type": given}]}))["hint"]
    except ConfigurationError as error:
        raise ConfigurationError(f"The hint for {quoted(str(path))} has no type of a column: {error}") from error
