"""Redactor: applies rules to the rows of a queue, as a drain reads them.

A rule concerns a message if one of its enclosed types matches. If headers cannot be read, or name no type, the type is
unknown, and every rule concerns the message.
"""

from __future__ import annotations

import hmac
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from airflow_sqlqueue.bodies.decoding import MAX_BYTES
from airflow_sqlqueue.bodies.names import matches_name as matches
from airflow_sqlqueue.bodies.redaction.actions import ACTIONS, Hasher, RedactionAction
from airflow_sqlqueue.bodies.redaction.bodies import redact_body
from airflow_sqlqueue.bodies.redaction.fields import NOTHING, Reach
from airflow_sqlqueue.bodies.redaction.rules import RedactionRule, RedactionRules
from airflow_sqlqueue.errors import BodyError, ConfigurationError
from airflow_sqlqueue.messages.message import DecodedHeaders, HeaderNames, decode_headers, full_name
from airflow_sqlqueue.messages.row import COLUMN_HEADERS, NAMES, Row

_KEY_BYTES = 16
"""The fewest bytes of a key: values such as e-mail addresses could be guessed under a shorter one."""

_CACHED, _CACHED_CHARACTERS = 1_000, 4_096
"""The most texts of types, and names of headers, whose rules are remembered, and the longest; senders choose them."""

_HEADERS = NAMES.index("Headers")

_Of = TypeVar("_Of")
_Found = TypeVar("_Found")


def _remembered(find: Callable[[_Of, str], _Found]) -> Callable[[_Of, str], _Found]:
    known = lru_cache(_CACHED)(find)
    return lambda of, text: (known if len(text) <= _CACHED_CHARACTERS else find)(of, text)


@dataclass
class Redaction:
    """Redaction of one row: the values that replace it, and what was changed, without values.

    :param row: values in the order of :class:`~airflow_sqlqueue.messages.row.Row`.
    :param headers: names of changed headers with their actions; ``*`` if all were dropped.
    :param fields: paths of changed fields with their actions; ``*`` for those that no list of a rule keeps.
    :param body: the reason why the body was left out, None if it was not.
    :param misplaced: those of the paths that name a field of an object where the body has another value, which was
        changed in its place.
    """

    row: Sequence[Any] = field(repr=False)
    headers: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    misplaced: set[str] = field(default_factory=set)


class _Plan:
    """Rules that concern a message, put together."""

    def __init__(self, rules: Sequence[RedactionRule]) -> None:
        self.header_rules = [rule for rule in rules if rule.headers or rule.keep_headers]
        self.drops_body = any(rule.drops_body for rule in rules)
        self.fields = Reach.of(rules)

    @_remembered
    def header_action(self, name: str) -> RedactionAction | None:
        """Return the action on a header, None if it stays."""
        found: list[RedactionAction] = []
        for rule in self.header_rules:
            found += (action for pattern, action in rule.headers if matches(pattern, name))
            if rule.keep_headers and not any(matches(pattern, name) for pattern in rule.keep_headers):
                found.append(ACTIONS["drop"])
        return max(found, key=lambda action: action.strictness, default=None)


@_remembered
def _plan(rules: RedactionRules, types: str) -> _Plan | None:
    names = list(filter(None, map(full_name, types.split(";"))))
    chosen = [each for each in rules.rules if not names or any(matches(each.message_type, name) for name in names)]
    return _Plan(chosen) if chosen else None


@dataclass(frozen=True)
class Redactor:
    """Redactor of rows by rules; ``key`` is that of the hashes, HMAC-SHA-256.

    It can be pickled, with the key. Raises :class:`ConfigurationError` if a rule hashes and the key is missing or
    shorter than 16 bytes.
    """

    rules: RedactionRules
    key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.rules.hashes and len(self.key or b"") < _KEY_BYTES:
            raise ConfigurationError(
                f"The rules hash, which needs a key of at least {_KEY_BYTES} bytes: name an Airflow connection with it "
                "as the password (redaction_conn_id), or set SQLQUEUE_REDACTION_KEY for the command line."
            )

    @classmethod
    def of(cls, rules: object, key: str | bytes | None = None) -> Redactor:
        """Make a redactor of the forms that :meth:`.RedactionRules.of` takes; a text as the key is UTF-8."""
        return cls(RedactionRules.of(rules), key.encode() if isinstance(key, str) else key)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the rules, for the ledger; the key is not part of it."""
        return self.rules.fingerprint

    def hashed(self, text: str) -> str:
        """Return the HMAC-SHA-256 of a text in hex; the same for a header, a column and a field of a body."""
        return hasher_of(self.key)(text)

    def concerns(self, headers: str | None) -> bool:
        """Return whether a rule concerns a message with these headers."""
        return self.concerns_types(_types(decode_headers(headers)))

    def concerns_types(self, types: str) -> bool:
        """Return whether a rule concerns a message with these enclosed types, or with unknown types, an empty text."""
        return _plan(self.rules, types) is not None

    def keeps_large_body(self, headers: str | None, size: int) -> bool | None:
        """Return whether a body of ``size`` bytes stays as it is, with True, or is left out, with False.

        None: the body must be read whole, at most 8 MiB, and redacted.
        """
        plan = _plan(self.rules, _types(decode_headers(headers)))
        if plan is None or not (plan.drops_body or plan.fields != NOTHING):
            return True
        return False if plan.drops_body or size > MAX_BYTES else None

    def examine(self, row: Sequence[Any]) -> Redaction:
        """Return a row as the rules leave it, the same object if none concerns it, and what they changed."""
        decoded = decode_headers(row[_HEADERS])
        plan, result = _plan(self.rules, _types(decoded)), Redaction(row)
        if plan is None:
            return result
        is_malformed = decoded.problem_code is not None or row[_HEADERS] is None
        values = dict(zip(NAMES, row, strict=True))
        body = values["Body"]
        if plan.header_rules:
            result.headers = self._redact_headers(values, decoded.values, plan, is_malformed=is_malformed)
        if body and plan.drops_body:
            values["Body"], result.body = None, "rule"
        elif body and plan.fields != NOTHING:
            content_type = None if is_malformed else decoded.values.get(HeaderNames.CONTENT_TYPE)
            try:
                values["Body"], walk = redact_body(bytes(body), content_type, plan.fields, self.hashed)
                result.fields = {path: action.name for path, action in walk.found.items()}
                result.misplaced = walk.misplaced
            except BodyError as error:
                values["Body"], result.body = None, error.reason
        result.row = Row._make(values.values())
        return result

    def _redact_headers(
        self, values: dict[str, Any], headers: dict[str, str | None], plan: _Plan, *, is_malformed: bool
    ) -> dict[str, str]:
        """Redact the headers and the columns that hold the same values; return the actions on headers."""
        changed: dict[str, str] = {}
        if is_malformed:
            values["Headers"], changed = "{}", {"*": "drop"}
        else:
            kept = {}
            for name, value in headers.items():
                if (action := plan.header_action(name)) is not None:
                    changed[name] = action.name
                    value = None if value is None else action.change("header", value, self.hashed)
                if action is None or not action.removes:
                    kept[name] = value
            if changed:
                values["Headers"] = json.dumps(kept, separators=(",", ":"))
        for column, header in COLUMN_HEADERS.items():
            if values[column] is not None and (action := plan.header_action(header)) is not None:
                values[column] = action.change("header", values[column], self.hashed)
                changed.setdefault(header, action.name)
        own_id, action = headers.get(HeaderNames.MESSAGE_ID), plan.header_action(HeaderNames.MESSAGE_ID)
        if action is not None and values["Id"] is not None and (not own_id or _same_id(own_id, values["Id"])):
            new_id = action.change("row_id", own_id or str(values["Id"]).lower(), self.hashed)
            values["Id"] = new_id or str(uuid.uuid4())
            changed.setdefault(HeaderNames.MESSAGE_ID, action.name)
        return changed


def hasher_of(key: str | bytes | None) -> Hasher:
    """Return the function that makes the HMAC-SHA-256 of a text in hex; a text as the key is UTF-8."""
    secret = key.encode() if isinstance(key, str) else key or b""
    return lambda text: hmac.digest(secret, text.encode("utf-8", "surrogatepass"), "sha256").hex()


def _types(decoded: DecodedHeaders) -> str:
    """Return the enclosed types of a message, an empty text if they are unknown."""
    legible = decoded.problem_code in (None, "value-not-text")
    return (legible and decoded.values.get(HeaderNames.ENCLOSED_MESSAGE_TYPES)) or ""


def _same_id(header: str, row_id: object) -> bool:
    try:
        return uuid.UUID(header) == uuid.UUID(str(row_id))
    except ValueError:
        return False
