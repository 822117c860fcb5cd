"""Actions of redaction, in one table from which rules, headers, bodies, the command line and the guide are made.

A new action is an entry of :data:`ACTIONS`. Source: docs/guides/redaction.md, "The rules".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.untrusted import quoted

Hasher: TypeAlias = Callable[[str], str]
"""Function that returns the hash of a value's text."""

Place: TypeAlias = Literal["fields", "headers", "body"]
"""Part of a rule that names an action."""

PLACES: tuple[Place, ...] = get_args(Place)

MASK = "***"
"""The text that replaces a masked text."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RedactionAction:
    """An action of rules. It is pickled by its name, and a process that lacks it refuses it.

    :param meaning: the clause for it in the guide and on the command line.
    :param strictness: of several actions on one thing that with the highest number counts.
    :param places: the parts of a rule that may name it; on ``body`` it leaves out the whole body.
    :param removes: whether the field or header goes, with its name.
    :param changes: the change of a value's text by the kind of the value. The text of an object is empty, a ``header``
        is that of columns as well, a ``row_id`` becomes a GUID. A value of another kind becomes null.
    """

    name: str
    meaning: str
    strictness: int
    places: frozenset[Place]
    needs_key: bool = False
    removes: bool = False
    changes: Mapping[str, Callable[[str, Hasher], str]]

    def __reduce__(self) -> tuple[Any, ...]:
        return find_action, (self.name, min(self.places))

    def change(self, kind: str, text: str, hasher: Hasher) -> str | None:
        """Return what replaces a value, None for null."""
        return self.changes[kind](text, hasher) if kind in self.changes else None


def _hashed(text: str, hasher: Hasher) -> str:
    return hasher(text)


ACTIONS = {
    action.name: action
    for action in (
        RedactionAction(
            name="hash",
            meaning="HMAC-SHA-256 in hex of the value as it is written; an object becomes `null`",
            strictness=10,
            places=frozenset({"fields", "headers"}),
            needs_key=True,
            changes={
                **dict.fromkeys(("text", "number", "boolean", "header"), _hashed),
                "row_id": lambda text, hasher: str(uuid.UUID(hasher(text)[:32])),
            },
        ),
        RedactionAction(
            name="mask",
            meaning=f"a text becomes `{MASK}`, any other value `null`",
            strictness=20,
            places=frozenset({"fields"}),
            changes={"text": lambda text, hasher: MASK},
        ),
        RedactionAction(
            name="drop",
            meaning="the field or the header is removed with its name, the body left out",
            strictness=30,
            places=frozenset({"fields", "headers", "body"}),
            removes=True,
            changes={},
        ),
    )
}
"""The actions by name."""


def find_action(name: object, place: Place, subject: str = "a name") -> RedactionAction:
    """Return the action that a rule names for a subject. Raises :class:`ConfigurationError` for an unknown one."""
    action = ACTIONS.get(name) if isinstance(name, str) else None
    if action is None or place not in action.places:
        known = " or ".join(f'"{each}"' for each in names(place))
        raise ConfigurationError(
            f"{place} of a rule gives {subject} an unknown action, {quoted(str(name))}: it is {known}."
        )
    return action


def names(place: Place) -> list[str]:
    """Return the names of the actions that a part of a rule may have, the strictest first."""
    strictest_first = sorted(ACTIONS.values(), key=lambda action: -action.strictness)
    return [action.name for action in strictest_first if place in action.places]


def stricter(one: RedactionAction, other: RedactionAction | None) -> RedactionAction:
    """Return the stricter of two actions."""
    return one if other is None or one.strictness >= other.strictness else other


def keyed_forms(text: str, hasher: Hasher, kinds: Iterable[str]) -> set[str | None]:
    """Return what actions with a key make of a text as a value of these kinds."""
    return {each.change(kind, text, hasher) for each in ACTIONS.values() if each.needs_key for kind in kinds} - {None}
