"""Patterns of message types, for the choice of types that get tables, and for hints.

Source: docs/guides/bodies.md, "One table for each message type".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_sqlqueue.bodies.names import column_key
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.untrusted import quoted


@dataclass(frozen=True)
class TypePatterns:
    """Patterns of names of message types: ``*`` is any text, ``!`` before a pattern excludes, case is ignored.

    A type matches if a pattern without ``!`` matches it, or all patterns have one, and if no pattern with ``!`` matches
    it.
    """

    patterns: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: TypePatterns | str | Sequence[str] | None) -> TypePatterns:
        """Return the patterns of one text or several; None has none. Raises :class:`ConfigurationError`."""
        if given is None or isinstance(given, cls):
            return given or ALL_TYPES
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, Sequence) or not texts:
            raise ConfigurationError('Patterns of message types are a text or a list of texts, such as "Shop.*".')
        for text in texts:
            if not isinstance(text, str) or not text.removeprefix("!").strip():
                raise ConfigurationError(
                    f'{quoted(str(text))} cannot be a pattern of message types: write it as "Shop.*".'
                )
        return cls(tuple(texts))

    def matches(self, message_type: str) -> bool:
        """Whether a type is one of those that the patterns mean."""
        included = [each for each in self.patterns if each[0] != "!"] or ["*"]
        excluded = [each[1:] for each in self.patterns if each[0] == "!"]
        return any(matches_name(each, message_type) for each in included) and not any(
            matches_name(each, message_type) for each in excluded
        )


ALL_TYPES = TypePatterns()


def matches_name(pattern: str, name: str) -> bool:
    """Whether the parts between the stars of a pattern are in a name, in their order; in linear time."""
    first, *others = column_key(pattern).split("*")
    name = column_key(name)
    if not others:
        return name == first
    if not name.startswith(first):
        return False
    *middle, last = others
    place = len(first)
    for each in middle:
        found = name.find(each, place)
        if found < 0:
            return False
        place = found + len(each)
    return len(name) - place >= len(last) and name.endswith(last)
