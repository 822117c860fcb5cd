"""Filter of messages by their headers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property
from typing import Any

from airflow_sqlqueue.envelope.times import format_time, moment_of, parse_time
from airflow_sqlqueue.envelope.typed_headers import Content
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.message import DecodedHeaders, HeaderNames
from airflow_sqlqueue.sql.narrowing import Condition, header_pattern, may_match, mention_pattern

_TEXTS = ("message_id", "message_type", "correlation_id", "endpoint")


@dataclass(frozen=True)
class MessageFilter:
    """Filter of messages: all given conditions must hold; None is no condition. Malformed headers match no filter.

    :param message_id: the header MessageId; for a message without it, the row's Id.
    :param message_type: a .NET type in full, without its assembly; any of the enclosed types may be it. A generic type
        is written as in the header, with the text in its brackets.
    :param correlation_id: the header CorrelationId.
    :param headers: headers by name that must be equal, with case; a value of None matches a JSON null, but not a
        missing header.
    :param endpoint: the endpoint that sent the message, the header OriginatingEndpoint.
    :param since: sent at this moment or later, by the header TimeSent; messages without it are left out.
    :param until: sent before this moment.

    Raises :class:`ConfigurationError` without any condition, because that would match every message, and for a time
    without a zone.
    """

    message_id: str | None = None
    message_type: str | None = None
    correlation_id: str | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    endpoint: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if not self.to_dict():
            raise ConfigurationError("A filter without a condition matches every message: give it one.")
        if empty := next((name for name in _TEXTS if getattr(self, name) == ""), None):
            raise ConfigurationError(f"The filter's {empty} is empty: give a value, or leave it out.")
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise ConfigurationError(f"The filter's {name} has no time zone: give an aware time.")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> MessageFilter:
        """Return the filter of plain values, as templates make them: times may be texts (UTC where they name no zone).

        Raises :class:`ConfigurationError` for unknown or unreadable values.
        """
        known = [field.name for field in fields(cls)]
        if not isinstance(values, Mapping):
            raise ConfigurationError(f"A filter is a mapping of {', '.join(known)}.")
        if unknown := [name for name in values if name not in known]:
            raise ConfigurationError(f"There is no filter {unknown[0]!r}: it is one of {', '.join(known)}.")
        given = {name: value for name, value in values.items() if value is not None}
        for name in _TEXTS:
            if not isinstance(given.get(name, ""), str):
                raise ConfigurationError(f"The filter {name} takes text, not {type(given[name]).__name__}.")
        _check_headers(given.get("headers", {}))
        for name in ("since", "until"):
            if name in given:
                given[name] = moment_of(name, given[name])
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """Return the given conditions as JSON values, for :meth:`of`."""
        given: dict[str, Any] = {name: getattr(self, name) for name in _TEXTS}
        given["headers"] = dict(self.headers) or None
        for name in ("since", "until"):
            moment = getattr(self, name)
            given[name] = None if moment is None else moment.isoformat()
        return {name: value for name, value in given.items() if value is not None}

    @property
    def canonical(self) -> str:
        """Canonical text: equal for filters of the same meaning."""
        times = {name: format_time(moment) for name in ("since", "until") if (moment := getattr(self, name))}
        return json.dumps({**self.to_dict(), **times}, sort_keys=True)

    @cached_property
    def _equal(self) -> dict[str, str | None]:
        known = {
            HeaderNames.MESSAGE_ID: self.message_id,
            HeaderNames.CORRELATION_ID: self.correlation_id,
            HeaderNames.ORIGINATING_ENDPOINT: self.endpoint,
        }
        return {**self.headers, **{name: value for name, value in known.items() if value is not None}}

    def matches(self, row_id: uuid.UUID, headers: DecodedHeaders) -> bool:
        """Whether the message with these headers matches."""
        if headers.problem_code is not None:
            return False
        values = {HeaderNames.MESSAGE_ID: str(row_id), **headers.values}
        return (
            all(name in values and values[name] == value for name, value in self._equal.items())
            and (self.message_type is None or self.message_type in Content.of(values).message_types)
            and self._in_time(values)
        )

    def _in_time(self, values: Mapping[str, str | None]) -> bool:
        if self.since is None and self.until is None:
            return True
        sent = parse_time(values.get(HeaderNames.TIME_SENT))
        if sent is None:
            return False
        return (self.since is None or sent >= self.since) and (self.until is None or sent < self.until)

    @cached_property
    def condition(self) -> Condition:
        """Condition for the server: it holds for every message that matches, and for few others."""
        patterns = [header_pattern(name, value) for name, value in self._equal.items()]
        if self.message_type is not None:
            patterns.append(mention_pattern(HeaderNames.ENCLOSED_MESSAGE_TYPES, self.message_type))
        return may_match(
            patterns,
            unless_without=HeaderNames.MESSAGE_ID if HeaderNames.MESSAGE_ID in self._equal else None,
            since=None if self.since is None else format_time(self.since),
            until=None if self.until is None else format_time(self.until),
        )


def _check_headers(headers: Any) -> None:
    if not isinstance(headers, Mapping):
        raise ConfigurationError(f"The filter headers takes names and values, not {type(headers).__name__}.")
    for name, value in headers.items():
        if not isinstance(name, str) or not (value is None or isinstance(value, str)):
            raise ConfigurationError(f"The filter's header {name!r} takes text, or None for a JSON null.")
