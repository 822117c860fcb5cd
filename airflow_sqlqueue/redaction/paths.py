"""Paths of fields in a body, such as ``Customer.Email`` and ``Lines[].Card``, and patterns of names with one ``*``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_sqlqueue.bodies.names import column_key
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.untrusted import quoted

_STEP = re.compile(r'(?:"([^"]+)"|([^."\[\]]+))((?:\[\])*)(\.|\Z)')


@dataclass(frozen=True)
class PathStep:
    """A step of a path: the :func:`.column_key` of a field, None for any field; ``each``: it is marked as a list."""

    name: str | None
    each: bool = False

    def matches(self, name: str) -> bool:
        """Whether an action reaches a member; in doubt ``Email`` reaches the attribute ``@Email`` as well."""
        name = column_key(name)
        return self.name is None or self.name == name or (name[:1] == "@" and self.name == name[1:])

    def keeps(self, name: str) -> bool:
        """Whether a member stays where only listed ones do."""
        return self.name is None or self.name == column_key(name)


@dataclass(frozen=True)
class FieldPath:
    """Path of a field from the root of a body; ``text`` is the path as it was written."""

    text: str
    steps: tuple[PathStep, ...]

    @classmethod
    def of(cls, text: object) -> FieldPath:
        """Parse a path. Raises :class:`ConfigurationError`.

        Names are separated by dots, ``*`` is any name, and a name with a dot or a bracket is in double quotes. In XML
        ``@Ccy`` is an attribute, and ``#text`` the text beside attributes or elements.
        """
        if not isinstance(text, str) or not text:
            raise ConfigurationError("The path of a field is a text such as Customer.Email or Lines[].Card.")
        if text.startswith("$"):
            raise ConfigurationError(f"The path {quoted(text)} begins with $: begin with the name of a field.")
        steps, position = [], 0
        while found := _STEP.match(text, position):
            name = found[1] or found[2]
            steps.append(PathStep(None if found[2] == "*" else column_key(name), bool(found[3])))
            position = found.end()
            if not found[4]:
                return cls(text, tuple(steps))
        raise ConfigurationError(
            f"The path {quoted(text)} cannot be read: write names with dots between them, as Customer.Email or "
            'Lines[].Card, and a name with a dot as "a.b".'
        )


@dataclass(frozen=True)
class NamePattern:
    """Name of a type or a header with at most one ``*``, which stands for any text; compared without case."""

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise ConfigurationError("A name in a rule is text that is not empty.")
        if self.text.count("*") > 1:
            raise ConfigurationError(f"The name {quoted(self.text)} has more than one *: write one, or several rules.")

    def matches(self, name: str) -> bool:
        head, star, tail = self.text.lower().partition("*")
        name = name.lower()
        if not star:
            return name == head
        return len(name) >= len(head) + len(tail) and name.startswith(head) and name.endswith(tail)
