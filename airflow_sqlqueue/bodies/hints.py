"""Hints of types for new fields, by patterns of message types and of paths: one file for all types.

Source: docs/guides/bodies.md, "Hints".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.bodies.names import Path, column_key
from airflow_sqlqueue.bodies.patterns import TypePatterns
from airflow_sqlqueue.bodies.schemas import Struct, Type, array, fields_of, item_of, map_of, read_schema, struct
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.untrusted import quoted

_STEP = re.compile(r'(?:"([^"]+)"|([^."\[\]]+))((?:\[\])*)(\.|\Z)')
_NESTED = re.compile(r"\s*(?:(array)\s*<(.*)>|(map)\s*<\s*string\s*,(.*)>)\s*", re.DOTALL)
_NAME, _ITEM = "\x00", "\x01"
"""Marks of a name and of a list in the text of a path that patterns are compared with."""


@dataclass(frozen=True)
class Hint:
    """A type for the fields that a pattern of paths matches; ``map`` and ``struct`` leave the rest to inference."""

    types: TypePatterns
    text: str
    pattern: re.Pattern[str]
    type: Type

    def matches(self, path: Path) -> bool:
        return self.pattern.fullmatch(_text(path)) is not None


@dataclass(frozen=True)
class Hints:
    """Hints for all types. Of several that match a field the first one counts."""

    hints: tuple[Hint, ...] = ()

    @classmethod
    def read(cls, values: object) -> Hints:
        """Return the hints of plain data. Raises :class:`ConfigurationError` for the first mistake.

        The form is ``{"Shop.*": {"**.Zip": "string", "Lines[].Price": "decimal(28,6)", "Stock": "map<string,long>"}}``.
        In a path ``*`` is any step or a part of a name, ``**`` any number of steps, and ``[]`` the items of a list or
        the values of a dictionary, which may be left out before a dot.
        """
        if not isinstance(values, Mapping):
            raise ConfigurationError('Hints are a JSON object: {"Shop.*": {"**.Zip": "string"}}.')
        hints = []
        for name, paths in values.items():
            types = TypePatterns.of(name)
            if not isinstance(paths, Mapping):
                raise ConfigurationError(f"The hints for {quoted(str(name))} are a JSON object of paths and types.")
            hints += [Hint(types, str(path), _pattern(path), _type(kind, path)) for path, kind in paths.items()]
        return cls(tuple(hints))

    def of(self, message_type: str) -> Hints:
        """Return the hints for one type."""
        return Hints(tuple(each for each in self.hints if each.types.matches(message_type)))

    def type_at(self, path: Path) -> Type | None:
        """Return the type for a field; None without a hint."""
        return next((each.type for each in self.hints if each.matches(path)), None)

    def unmatched(self, schemas: Iterable[tuple[str, Struct]]) -> list[str]:
        """Return the patterns of the hints that match no field of the schemas of these types."""
        left = list(self.hints)
        for name, schema in schemas:
            own = [each for each in left if each.types.matches(name)]
            for path in _paths(schema, ()) if own else ():
                left = [each for each in left if each not in own or not each.matches(path)]
        return [each.text for each in left]


NO_HINTS = Hints()


def _paths(kind: Type, path: Path) -> Iterator[Path]:
    if isinstance(kind, dict) and kind["type"] == "struct":
        for name, inner in fields_of(kind).items():
            yield (*path, name)
            yield from _paths(inner, (*path, name))
    elif (item := item_of(kind)) is not None:
        yield (*path, None)
        yield from _paths(item, (*path, None))


def _text(path: Path) -> str:
    return "".join(f"{_NAME}{column_key(step)}" if isinstance(step, str) else _ITEM for step in path)


def _pattern(path: object) -> re.Pattern[str]:
    """The regular expression of a pattern of paths, for the text of a path."""
    parts, position = [], 0
    while isinstance(path, str) and (found := _STEP.match(path, position)):
        literal, name, items, dot = found.groups()
        optional = f"{_ITEM}*" if dot else ""
        if name == "**":
            parts.append(f"(?:{_NAME}[^{_NAME}{_ITEM}]*{_ITEM}*)*")
        else:
            pieces = [literal] if literal else name.split("*")
            any_text = f"[^{_NAME}{_ITEM}]*"
            parts.append(_NAME + any_text.join(re.escape(column_key(each)) for each in pieces))
            parts.append(_ITEM * (len(items) // 2) + optional)
        position = found.end()
        if not dot:
            return re.compile("".join(parts), re.DOTALL)
    raise ConfigurationError(
        f'The path {quoted(str(path))} of a hint cannot be read: write it as "Lines[].Price", "*.Price" or "**.Price".'
    )


def _type(given: object, path: object) -> Type:
    """The type of a hint, checked. Raises :class:`ConfigurationError`."""
    if given in ("map", "struct"):
        return str(given)
    try:
        return fields_of(read_schema(struct({"hint": _parsed(given)})))["hint"]
    except ConfigurationError as error:
        raise ConfigurationError(f"The hint for {quoted(str(path))} has no type of a column: {error}") from error


def _parsed(given: Any) -> Any:
    found = _NESTED.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        return given.strip() if isinstance(given, str) else given
    return array(_parsed(found[2])) if found[1] else map_of(_parsed(found[4]))
