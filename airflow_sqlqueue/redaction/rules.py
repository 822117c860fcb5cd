"""Rules of a redaction: for each message type, the parts of a message that are dropped, masked or hashed.

Source: docs/guides/redaction.md, "The rules".
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.message import full_name
from airflow_sqlqueue.redaction.actions import Place, RedactionAction, find_action
from airflow_sqlqueue.redaction.paths import FieldPath, NamePattern
from airflow_sqlqueue.untrusted import quoted

MAX_FILE_BYTES = 1024 * 1024
"""The most bytes of a file of rules."""

_NAMES = {"message_type", "body", "headers", "keep_headers", "fields", "keep_fields"}


@dataclass(frozen=True)
class RedactionRule:
    """A rule for the messages of a type. Actions are those of :data:`~airflow_sqlqueue.redaction.actions.ACTIONS`.

    :param message_type: the full name of a .NET type, with at most one ``*``: ``Shop.PlaceOrder``, ``Shop.*`` or ``*``.
    :param body: the name of an action on the whole body, which is left out; None: it is not.
    :param headers: names of headers, each with the name of an action.
    :param keep_headers: the only headers that stay, besides those with an action that does not remove; None: all.
    :param fields: paths of fields of the body, each with the name of an action.
    :param keep_fields: the only fields that stay, besides those with an action that does not remove; None: all.

    Raises :class:`ConfigurationError` for an action that is unknown or not for that part of a rule.
    """

    message_type: NamePattern
    body: str | None = None
    headers: tuple[tuple[NamePattern, str], ...] = ()
    keep_headers: tuple[NamePattern, ...] | None = None
    fields: tuple[tuple[FieldPath, str], ...] = ()
    keep_fields: tuple[FieldPath, ...] | None = None

    def __post_init__(self) -> None:
        self.actions()

    def actions(self) -> list[RedactionAction]:
        """Return the actions that the rule names. Raises :class:`ConfigurationError` for an unknown one."""
        named: list[tuple[str, Place, str]] = [(action, "headers", quoted(key.text)) for key, action in self.headers]
        named += [(action, "fields", quoted(key.text)) for key, action in self.fields]
        if self.body is not None:
            named.append((self.body, "body", quoted(self.message_type.text)))
        return [find_action(*each) for each in named]

    @property
    def changes_headers(self) -> bool:
        return bool(self.headers) or self.keep_headers is not None

    @property
    def changes_fields(self) -> bool:
        return bool(self.fields) or self.keep_fields is not None

    @property
    def hashes(self) -> bool:
        return any(action.needs_key for action in self.actions())

    @classmethod
    def of(cls, values: object) -> RedactionRule:
        """Make a rule of plain data. Raises :class:`ConfigurationError` with one sentence for the first mistake."""
        if not isinstance(values, Mapping):
            raise ConfigurationError(f"A rule is a JSON object with a message_type, not {type(values).__name__}.")
        if unknown := [name for name in values if name not in _NAMES]:
            names = ", ".join(sorted(_NAMES))
            raise ConfigurationError(f"A rule does not know {quoted(str(unknown[0]))}: choose among {names}.")
        if "message_type" not in values:
            raise ConfigurationError('A rule has no message_type: name a type, "Shop.*" for several, or "*" for all.')
        kind = values["message_type"]
        kind = NamePattern(full_name(kind) if isinstance(kind, str) else kind)
        headers = _actions(values.get("headers"), "headers")
        fields = _actions(values.get("fields"), "fields")
        rule = cls(
            kind,
            values.get("body"),
            tuple((NamePattern(name), action) for name, action in headers.items()),
            _kept(values.get("keep_headers"), "keep_headers", headers, NamePattern),
            tuple((FieldPath.of(path), action) for path, action in fields.items()),
            _kept(values.get("keep_fields"), "keep_fields", fields, FieldPath.of),
        )
        if not (rule.body or rule.changes_headers or rule.changes_fields):
            raise ConfigurationError(
                f"The rule for {quoted(kind.text)} changes nothing: give body, headers, keep_headers, fields or "
                "keep_fields."
            )
        if rule.body and rule.changes_fields:
            raise ConfigurationError(
                f"The rule for {quoted(kind.text)} leaves out the body and names fields of it: choose one."
            )
        return rule

    def to_dict(self) -> dict[str, Any]:
        """Return the plain data of the rule, without what was left out."""
        values: dict[str, Any] = {"message_type": self.message_type.text}
        if self.body is not None:
            values["body"] = self.body
        for name in ("headers", "fields"):
            if given := getattr(self, name):
                values[name] = {key.text: action for key, action in given}
        for name in ("keep_headers", "keep_fields"):
            if (given := getattr(self, name)) is not None:
                values[name] = [key.text for key in given]
        return values


@dataclass(frozen=True)
class RedactionRules:
    """Rules of a redaction; all rules whose type matches concern a message, and the strictest action counts."""

    rules: tuple[RedactionRule, ...]
    fingerprint: str = field(init=False)
    """SHA-256 of the canonical JSON of the rules, in hex; without the key of the hashes."""

    def __post_init__(self) -> None:
        canonical = json.dumps([rule.to_dict() for rule in self.rules], sort_keys=True, separators=(",", ":"))
        object.__setattr__(self, "fingerprint", hashlib.sha256(canonical.encode()).hexdigest())

    @property
    def hashes(self) -> bool:
        """Whether a rule hashes, so that a key is needed."""
        return any(rule.hashes for rule in self.rules)

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
        return cls(tuple(map(RedactionRule.of, values)))


def _loaded(source: str | os.PathLike[str]) -> object:
    """Return the JSON of a text or of a file."""
    text, name = source, "The redaction"
    if not (isinstance(source, str) and source.lstrip()[:1] in ("[", "{")):
        path = Path(source)
        name = f"The file of rules {quoted(str(source))}"
        try:
            with path.open("rb") as stream:
                text = stream.read(MAX_FILE_BYTES + 1).decode("utf-8-sig")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigurationError(f"{name} cannot be read ({reason}): name a JSON file.") from None
        if len(text) > MAX_FILE_BYTES:
            raise ConfigurationError(f"{name} has more than {MAX_FILE_BYTES:,} bytes: write fewer rules.")
    try:
        return json.loads(str(text), object_pairs_hook=_unique)
    except ConfigurationError:
        raise
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigurationError(f"{name} is not JSON{where}: write a list of rules.") from None


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) != len(members):
        names = [name for name, _ in members]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigurationError(f"The rules name {quoted(twice)} twice in one object: write it once.")
    return found


def _actions(values: object, name: str) -> dict[str, str]:
    if values is None:
        return {}
    if not isinstance(values, Mapping) or not values:
        raise ConfigurationError(f"{name} of a rule is an object of names and actions that is not empty.")
    return dict(values)


def _kept(values: object, name: str, actions: Collection[str], make: Any) -> tuple[Any, ...] | None:
    if values is None:
        return None
    if not isinstance(values, (list, tuple)) or not values:
        raise ConfigurationError(f"{name} of a rule is a list of names that is not empty.")
    if twice := [value for value in values if isinstance(value, str) and value in actions]:
        raise ConfigurationError(f"A rule has {quoted(str(twice[0]))} in {name} and with an action: write it once.")
    return tuple(map(make, values))
