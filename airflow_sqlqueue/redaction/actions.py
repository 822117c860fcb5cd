"""Actions of redaction, in one table from which rules, headers, bodies, the command line and the guide are made.

A new action is an entry of :data:`ACTIONS`. Values of kinds that it does not define become null.

Source: docs/guides/redaction.md, "The rules".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.untrusted import quoted

Hasher: TypeAlias = Callable[[str], str]
"""Function that returns the hash of a value's text."""

Change: TypeAlias = "Callable[[str, Hasher], str | None]"
"""Function of a value's text that returns the text that replaces it, None for null or an empty element."""

Place: TypeAlias = Literal["fields", "headers", "body"]
"""Part of a rule that names an action."""

PLACES: tuple[Place, ...] = get_args(Place)

MASK = "***"
"""The text that replaces a masked text."""


def _nothing(text: str, hasher: Hasher) -> None:
    """Replace a value by null."""


def _hashed(text: str, hasher: Hasher) -> str:
    return hasher(text)


@dataclass(frozen=True, kw_only=True, eq=False)
class RedactionAction:
    """An action of rules. It is pickled by its name, and a process that lacks it refuses it.

    :param meaning: the clause for it in the guide and on the command line.
    :param strictness: of several actions on one thing that with the highest number counts.
    :param places: the parts of a rule that may name it; on ``body`` it leaves out the whole body.
    :param removes: whether the field or header goes, with its name.
    :param text: the change of a text, which is also that of a plain element or an attribute.
    :param number: the change of a number, by its text as written, as that of a bool.
    :param object: the change of an object, which is called with an empty text. Null stays null.
    :param header: the change of a header's value, and of a column that holds the same.
    :param row_id: the change of the row's Id, which stays a GUID; None: a random one.
    """

    name: str
    meaning: str
    strictness: int
    places: frozenset[Place]
    needs_key: bool = False
    removes: bool = False
    text: Change = _nothing
    number: Change = _nothing
    boolean: Change = _nothing
    object: Change = _nothing
    header: Change = _nothing
    row_id: Change = _nothing

    def __reduce__(self) -> tuple[Any, ...]:
        return find_action, (self.name, min(self.places))

    def change(self, kind: str) -> Change:
        """Return the change of a value of a kind in a field."""
        return {"text": self.text, "number": self.number, "boolean": self.boolean}.get(kind, self.object)

    def new_id(self, text: str, hasher: Hasher) -> str:
        return self.row_id(text, hasher) or str(uuid.uuid4())


ACTIONS = {
    action.name: action
    for action in (
        RedactionAction(
            name="hash",
            meaning="HMAC-SHA-256 in hex of the value as it is written; an object becomes `null`",
            strictness=10,
            places=frozenset({"fields", "headers"}),
            needs_key=True,
            text=_hashed,
            number=_hashed,
            boolean=_hashed,
            header=_hashed,
            row_id=lambda text, hasher: str(uuid.UUID(hasher(text)[:32])),
        ),
        RedactionAction(
            name="mask",
            meaning=f"a text becomes `{MASK}`, any other value `null`",
            strictness=20,
            places=frozenset({"fields"}),
            text=lambda text, hasher: MASK,
        ),
        RedactionAction(
            name="drop",
            meaning="the field or the header is removed with its name, the body left out",
            strictness=30,
            places=frozenset({"fields", "headers", "body"}),
            removes=True,
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


_Some = TypeVar("_Some", RedactionAction, "RedactionAction | None")


def stricter(one: _Some, other: _Some) -> _Some:
    """Return the stricter of two actions, None without one."""
    if one is None or other is None:
        return one or other
    return one if one.strictness >= other.strictness else other


def keyed_forms(text: str, hasher: Hasher) -> set[str]:
    """Return what actions with a key make of a text, a number, a bool or a header."""
    keyed = [action for action in ACTIONS.values() if action.needs_key]
    changes = [change for each in keyed for change in (each.text, each.number, each.boolean, each.header)]
    return {form for change in changes if (form := change(text, hasher)) is not None}


def keyed_ids(text: str, hasher: Hasher) -> set[str]:
    """Return what actions with a key make of the Id of a row."""
    return {action.new_id(text, hasher) for action in ACTIONS.values() if action.needs_key}
