"""Paths of fields in a body, such as ``Customer.Email`` and ``Lines[].Card``."""

from __future__ import annotations

import re
from typing import NamedTuple

from airflow_sqlqueue.bodies.names import column_key
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.untrusted import quoted

_STEP = re.compile(r'(?:"([^"]+)"|([^."\[\]]+))((?:\[\])*)(\.|\Z)')


class PathStep(NamedTuple):
    """A step of a path: the :func:`.column_key` of a field, None for any field; ``each``: it is marked as a list."""

    name: str | None
    each: bool = False

    def matches(self, key: str) -> bool:
        """Whether an action reaches a member; in doubt ``Email`` reaches the attribute ``@Email`` as well."""
        return self.name is None or self.name == key or (key[:1] == "@" and self.name == key[1:])


class FieldPath(NamedTuple):
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
