"""Rules of a redaction: fields, headers and bodies of messages that are dropped, masked or hashed.

Source: docs/guides/redaction.md, "The rules".
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from airflow_sqlqueue.bodies.names import name_key
from airflow_sqlqueue.bodies.redaction.actions import Place, RedactionAction, find_action
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import full_name
from airflow_sqlqueue.untrusted import quoted

_NAMES = {"message_type", "body", "headers", "keep_headers", "fields", "keep_fields"}

_STEP = re.compile(r'(?:"([^"]+)"|([^."\[\]]+))((?:\[\])*)(\.|\Z)')

_Name = TypeVar("_Name")


class PathStep(NamedTuple):
    """A step of a path: the :func:`.name_key` of a field, None for any field, and how many levels of lists it has."""

    name: str | None
    lists: int = 0


class FieldPath(NamedTuple):
    """Path of a field from the root of a body; ``text`` is the path as it was written."""

    text: str
    steps: tuple[PathStep, ...]

    @classmethod
    def of(cls, text: object) -> FieldPath:
        """Parse a path as the guide describes it. Raises :class:`ConfigurationError`."""
        if not isinstance(text, str) or not text:
            raise ConfigurationError("The path of a field is a text such as Customer.Email or Lines[].Card.")
        if text.startswith("$"):
            raise ConfigurationError(f"The path {quoted(text)} begins with $: begin with the name of a field.")
        steps, position = [], 0
        while found := _STEP.match(text, position):
            name = found[1] or found[2]
            steps.append(PathStep(None if found[2] == "*" else name_key(name), len(found[3]) // 2))
            position = found.end()
            if not found[4]:
                return cls(text, tuple(steps))
        raise ConfigurationError(
            f"The path {quoted(text)} cannot be read: write names with dots between them, as Customer.Email or "
            'Lines[].Card, and a name with a dot as "a.b".'
        )


@dataclass(frozen=True)
class RedactionRule:
    """A rule for the messages of a type; in names of types and headers ``*`` is any text.

    ``keep_headers`` and ``keep_fields`` are the only ones that stay, also those whose action does not remove them.
    """

    message_type: str
    drops_body: bool
    headers: tuple[tuple[str, RedactionAction], ...]
    keep_headers: tuple[str, ...] | None
    fields: tuple[tuple[FieldPath, RedactionAction], ...]
    keep_fields: tuple[FieldPath, ...] | None

    @classmethod
    def of(cls, values: object) -> RedactionRule:
        """Make a rule of plain data. Raises :class:`ConfigurationError` with one sentence for the first mistake."""
        if not isinstance(values, Mapping):
            raise ConfigurationError(f"A rule is a JSON object with a 'message_type', not {type(values).__name__}.")
        if unknown := [name for name in values if name not in _NAMES]:
            names = ", ".join(map(repr, sorted(_NAMES)))
            raise ConfigurationError(f"A rule does not know {quoted(str(unknown[0]))}: choose among {names}.")
        if "message_type" not in values:
            raise ConfigurationError("A rule has no 'message_type': name a type, 'Shop.*' for several, or '*' for all.")
        kind, body = _pattern(full_name(_pattern(values["message_type"]))), values.get("body")
        if body is not None:
            find_action(body, "body", quoted(kind))
        headers, keep_headers = _named(values, "headers", _pattern)
        fields, keep_fields = _named(values, "fields", FieldPath.of)
        about_fields = fields or keep_fields
        if not (body or headers or keep_headers or about_fields):
            raise ConfigurationError(
                f"The rule for {quoted(kind)} changes nothing: give body, headers, keep_headers, fields or keep_fields."
            )
        if body and about_fields:
            raise ConfigurationError(
                f"The rule for {quoted(kind)} leaves out the body and names fields of it: choose one."
            )
        return cls(kind, bool(body), headers, keep_headers, fields, keep_fields)


@dataclass(frozen=True, eq=False)
class RedactionRules:
    """Rules of a redaction; all rules whose type matches concern a message, and the strictest action counts.

    :param fingerprint: SHA-256 of the canonical JSON of the rules, in hex; without the key of the hashes.
    """

    rules: tuple[RedactionRule, ...]
    fingerprint: str

    @property
    def hashes(self) -> bool:
        """Whether a rule hashes, so that a key is needed."""
        return any(action.needs_key for rule in self.rules for _, action in (*rule.headers, *rule.fields))

    @classmethod
    def of(cls, values: object) -> RedactionRules:
        """Make rules of plain data: a list of rules, one rule, or an object whose only member ``rules`` is the list.

        A text is JSON if it begins with a bracket or a brace, and otherwise the path of a JSON file. Raises
        :class:`ConfigurationError` with one sentence for the first mistake.
        """
        if isinstance(values, cls):
            return values
        if isinstance(values, (str, os.PathLike)):
            values = _loaded(values)
        if isinstance(values, Mapping):
            values = values["rules"] if set(values) == {"rules"} else [values]
        if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
            raise ConfigurationError(f"The rules of a redaction are a list of objects, not {type(values).__name__}.")
        if not values:
            raise ConfigurationError("The list of rules is empty: leave out the redaction, or name a rule.")
        rules = tuple(map(RedactionRule.of, values))
        plain = [{**each, "message_type": rule.message_type} for each, rule in zip(values, rules, strict=True)]
        canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"), default=dict)
        return cls(rules, hashlib.sha256(canonical.encode()).hexdigest())


def _loaded(source: str | os.PathLike[str]) -> object:
    """Return the JSON of a text or of a file."""
    text, name = source, "The redaction"
    if not (isinstance(source, str) and source.lstrip()[:1] in ("[", "{")):
        name = f"The file of rules {quoted(str(source))}"
        try:
            text = Path(source).read_text("utf-8-sig")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigurationError(f"{name} cannot be read ({reason}): name a JSON file.") from None
    try:
        return json.loads(str(text), object_pairs_hook=_unique)
    except ConfigurationError:
        raise
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigurationError(f"{name} is not JSON{where}: write a list of rules.") from None


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in members:
        if name in found:
            raise ConfigurationError(f"The rules name {quoted(name)} twice in one object: write it once.")
        found[name] = value
    return found


def _pattern(text: object) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ConfigurationError("A name in a rule is text that is not empty.")
    return text


def _named(
    values: Mapping[str, Any], place: Place, make: Callable[[object], _Name]
) -> tuple[tuple[tuple[_Name, RedactionAction], ...], tuple[_Name, ...] | None]:
    """Return what a rule names in a part with actions, and what it keeps there."""
    actions, kept = values.get(place), values.get(f"keep_{place}")
    for given, shape in ((actions, Mapping), (kept, (list, tuple))):
        if given is not None and not (isinstance(given, shape) and given):
            raise ConfigurationError(
                f"{place} of a rule is an object of names and actions, keep_{place} a list of names, and not empty."
            )
    if twice := [name for name in kept or () if isinstance(name, str) and name in (actions or {})]:
        raise ConfigurationError(f"A rule has {quoted(twice[0])} in keep_{place} and with an action: write it once.")
    named = [(make(name), find_action(action, place, quoted(str(name)))) for name, action in (actions or {}).items()]
    stays = (name for name, action in named if not action.removes)
    return tuple(named), None if kept is None else (*map(make, kept), *stays)
