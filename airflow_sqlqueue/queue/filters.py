"""Filters of messages: by their headers, and the common part of all filters."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.envelope.times import format_time, moment_of, parse_time
from airflow_sqlqueue.messages.envelope.typed_headers import Content
from airflow_sqlqueue.messages.message import DecodedHeaders, HeaderNames, check_full_name
from airflow_sqlqueue.options import check_names, describe_fields, option
from airflow_sqlqueue.server.sql.narrowing import Condition, header_pattern, may_match, mention_pattern


@dataclass(frozen=True, kw_only=True)
class TimeFilter:
    """Common part of filters: a range of times, in which a message without a time is not.

    A filter matches if all its conditions do; None is no condition. Raises :class:`ConfigurationError` for a time
    without a zone.
    """

    parameter: ClassVar[str] = "filters"
    """The parameter of operators that takes these conditions as a mapping."""

    texts: ClassVar[tuple[str, ...]] = ()
    """Names of conditions that are texts."""

    since: datetime | None = option(None, "only messages of this time or later: 2026-01-31, or 2026-01-31T08:00Z")
    until: datetime | None = option(None, "only messages before this time")

    def __init_subclass__(cls) -> None:
        describe_fields(cls)

    def __post_init__(self) -> None:
        for name in self.texts:
            if not isinstance(value := getattr(self, name), (str, type(None))):
                raise ConfigurationError(f"The filter {name} takes text, not {type(value).__name__}.")
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and not isinstance(moment, datetime):
                raise ConfigurationError(f"The filter's {name} is a datetime with a zone, not {type(moment).__name__}.")
            if moment is not None and moment.tzinfo is None:
                raise ConfigurationError(f"The filter's {name} has no time zone: give an aware time.")

    @classmethod
    def check_names(cls, values: Mapping[str, Any]) -> None:
        """Raise :class:`ConfigurationError` for a name of no condition, with the names that are like it."""
        check_names(values, [field.name for field in fields(cls)], "There is no filter")

    @classmethod
    def conditions_in(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the conditions of a mapping without None, with times read (UTC without a zone)."""
        if not isinstance(values, Mapping):
            raise ConfigurationError(f"A filter is a mapping of {', '.join(field.name for field in fields(cls))}.")
        cls.check_names(values)
        given = {name: value for name, value in values.items() if value is not None}
        return given | {name: moment_of(name, given[name]) for name in ("since", "until") if name in given}

    def is_in_range(self, moment: datetime | None) -> bool:
        """Return whether the moment is in the range of times."""
        if self.since is None and self.until is None:
            return True
        if moment is None:
            return False
        return (self.since is None or moment >= self.since) and (self.until is None or moment < self.until)


@dataclass(frozen=True)
class MessageFilter(TimeFilter):
    """Filter of messages by their headers. All conditions must match; malformed headers match no filter.

    Its times are those of the header TimeSent. Raises :class:`ConfigurationError` for a filter without a condition,
    which would match every message, for a value of another type, and for a time without a zone.

    :param message_id: the header MessageId; the row's Id where the message has no such header.
    :param message_type: a .NET type in full, without its assembly; any of the enclosed types may be it. A generic type
        is written as in the header, with the text in its brackets.
    :param correlation_id: the header CorrelationId.
    :param headers: headers by name that must be equal, with case; a value of None matches a JSON null and no missing
        header.
    :param endpoint: the endpoint that sent the message, the header OriginatingEndpoint.
    """

    texts = ("message_id", "message_type", "correlation_id", "endpoint")

    message_id: str | None = None
    message_type: str | None = None
    correlation_id: str | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    endpoint: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_headers(self.headers)
        if not self.to_dict():
            raise ConfigurationError("A filter without a condition matches every message: give it one.")
        if empty := next((name for name in self.texts if getattr(self, name) == ""), None):
            raise ConfigurationError(f"The filter's {empty} is empty, as no message has it: give a value, or none.")
        if self.message_type is not None:
            check_full_name(self.message_type)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> MessageFilter:
        """Make a filter from plain values, as templates give them: times may be texts (UTC where they name no zone).

        Raises :class:`ConfigurationError` for values that cannot be read.
        """
        return cls(**cls.conditions_in(values))

    def to_dict(self) -> dict[str, Any]:
        """Return the conditions as JSON values only, which :meth:`of` reads."""
        given: dict[str, Any] = {name: getattr(self, name) for name in self.texts}
        given["headers"] = dict(self.headers) or None
        for name in ("since", "until"):
            moment = getattr(self, name)
            given[name] = None if moment is None else moment.isoformat()
        return {name: value for name, value in given.items() if value is not None}

    @property
    def canonical(self) -> str:
        """Text that is the same for all filters with the same meaning, to compare filters."""
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
        """Return whether a message with these headers matches."""
        if headers.problem_code is not None:
            return False
        values = {HeaderNames.MESSAGE_ID: str(row_id), **headers.values}
        return (
            all(name in values and values[name] == value for name, value in self._equal.items())
            and (self.message_type is None or self.message_type in Content.of(values).message_types)
            and self.is_in_range(parse_time(values.get(HeaderNames.TIME_SENT)))
        )

    @cached_property
    def condition(self) -> Condition:
        """Condition for the server that every matching message meets, and few others."""
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
