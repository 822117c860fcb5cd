"""Hints of types for new fields, by patterns of message types and of paths: one file for all types.

Source: docs/guides/bodies.md, "Hints".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_sqlqueue.bodies.names import Path, read_path
from airflow_sqlqueue.bodies.patterns import TypePatterns, matches_name
from airflow_sqlqueue.bodies.schemas import Type, fields_of, read_schema
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.untrusted import quoted


@dataclass
class Hint:
    """A type for the fields that a pattern of paths matches; ``map`` and ``struct`` leave the rest to inference."""

    types: TypePatterns
    path: Path
    text: str
    type: Type
    is_matched: bool = False
    """Whether a field had it."""


@dataclass(frozen=True)
class Hints:
    """Hints for all types. Of several that match a field the first one counts."""

    hints: tuple[Hint, ...] = ()

    @classmethod
    def read(cls, values: object) -> Hints:
        """Return the hints of plain data. Raises :class:`ConfigurationError` for the first mistake.

        The form is ``{"Shop.*": {"**.Zip": "string", "Lines[].Price": "decimal(28,6)", "Stock": "map"}}``. In a path
        ``*`` is any step or a part of a name, ``**`` any number of steps, and ``[]`` the items of a list or the values
        of a dictionary, which may be left out before a name.
        """
        if not isinstance(values, Mapping):
            raise ConfigurationError('Hints are a JSON object: {"Shop.*": {"**.Zip": "string"}}.')
        hints = []
        for name, paths in values.items():
            types = TypePatterns.of(name)
            if not isinstance(paths, Mapping):
                raise ConfigurationError(f"The hints for {quoted(str(name))} are a JSON object of paths and types.")
            hints += [Hint(types, _path(str(path)), str(path), _type(kind, path)) for path, kind in paths.items()]
        return cls(tuple(hints))

    def of(self, message_type: str) -> Hints:
        """Return the hints for one type."""
        return Hints(tuple(each for each in self.hints if each.types.matches(message_type)))

    def type_at(self, path: Path) -> Type | None:
        """Return the type for a field; None without a hint."""
        for each in self.hints:
            if _matches(each.path, path):
                each.is_matched = True
                return each.type
        return None

    def unmatched(self) -> list[str]:
        """Return the patterns of the hints that no field has had so far."""
        return [each.text for each in self.hints if not each.is_matched]


NO_HINTS = Hints()


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
    """The type of a hint, checked. Raises :class:`ConfigurationError`."""
    if given in ("map", "struct"):
        return str(given)
    try:
        return fields_of(read_schema({"type": "struct", "fields": [{"name": "hint", "type": given}]}))["hint"]
    except ConfigurationError as error:
        raise ConfigurationError(f"The hint for {quoted(str(path))} has no type of a column: {error}") from error
