"""Which messages of an error queue are meant."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from airflow_sqlqueue.envelope.times import moment_of
from airflow_sqlqueue.errorqueue.failed import KINDS, FailedMessage, table_of
from airflow_sqlqueue.errorqueue.groups import check_keys, group_name, value_of
from airflow_sqlqueue.errors import ConfigurationError

_TEXTS = ("exception_type", "message_type", "endpoint", "failed_queue")


@dataclass(frozen=True)
class ErrorFilter:
    """Every condition that is given must hold; one that is None is not given.

    :param exception_type: the exception's .NET type in full; ``""`` means messages that name none, here and below.
    :param message_type: the first enclosed message type in full, without its assembly.
    :param endpoint: the endpoint that failed.
    :param failed_queue: the queue where it failed: the address as the message has it, or its table alone.
    :param kind: ``failed``, ``no failed queue`` or ``malformed headers``.
    :param since: failed at this moment or later; messages that do not say when are left out.
    :param until: failed before this moment.
    :param message_ids: has one of these message ids; several rows may have the same.
    :param row_versions: has one of these RowVersions, which name a row for certain.
    :param up_to: has this RowVersion or a lower one: what failed later is left out.
    :param group: is of this group, by the name that :func:`~airflow_sqlqueue.errorqueue.groups.group_name` gives it.

    Raises :class:`ConfigurationError` for an unknown kind, a time without a zone, a RowVersion that no row has.
    """

    exception_type: str | None = None
    message_type: str | None = None
    endpoint: str | None = None
    failed_queue: str | None = None
    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    message_ids: frozenset[str] | None = None
    row_versions: frozenset[int] | None = None
    up_to: int | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in KINDS:
            raise ConfigurationError(f"There is no kind {self.kind!r} of error: it is one of {', '.join(KINDS)}.")
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise ConfigurationError(f"The filter's {name} has no time zone: give an aware time.")
        if self.group is not None:
            check_keys((self.group.partition(":")[0],))
        if any(abs(number) >= 2**62 for number in (*(self.row_versions or ()), self.up_to or 0)):
            raise ConfigurationError("A RowVersion of the filter is larger than any table's can be: check it.")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ErrorFilter:
        """From plain values: times may be texts (UTC where they name no zone), ids and RowVersions one or a list.

        Raises :class:`ConfigurationError` for what cannot be read.
        """
        known = [field.name for field in fields(cls)]
        if unknown := [name for name in values if name not in known]:
            raise ConfigurationError(f"There is no filter {unknown[0]!r}: it is one of {', '.join(known)}.")
        given = {name: value for name, value in values.items() if value is not None}
        for name in (*_TEXTS, "kind", "group"):
            if not isinstance(given.get(name, ""), str):
                raise ConfigurationError(f"The filter {name} takes text, not {type(given[name]).__name__}.")
        for name in ("since", "until"):
            if name in given:
                given[name] = moment_of(name, given[name])
        if "message_ids" in given:
            given["message_ids"] = frozenset(map(str, _several(given["message_ids"])))
        if "row_versions" in given:
            given["row_versions"] = frozenset(map(_row_version, _several(given["row_versions"])))
        if "up_to" in given:
            given["up_to"] = _row_version(given["up_to"])
        return cls(**given)

    @classmethod
    def chosen(cls, filters: ErrorFilter | Mapping[str, Any] | None, *, all_messages: bool) -> ErrorFilter:
        """The filter of a call that moves messages: either conditions or, explicitly, all messages.

        Raises :class:`ConfigurationError` for neither and for both.
        """
        where = filters if isinstance(filters, cls) else cls.of(filters or {})  # type: ignore[arg-type]
        if where.is_empty != all_messages:
            raise ConfigurationError("Say which messages are meant, by a filter or by asking for all: one of the two.")
        return where

    @property
    def is_empty(self) -> bool:
        """Whether no condition is given, so that every message matches."""
        return self == ErrorFilter()

    def matches(self, message: FailedMessage) -> bool:
        """Whether every condition holds for the message."""
        failed_queue = message.failed_queue
        return (
            _same(self.exception_type, message.exception_type)
            and _same(self.message_type, message.message_type)
            and _same(self.endpoint, message.endpoint)
            and (_same(self.failed_queue, failed_queue) or self.failed_queue == table_of(failed_queue))
            and self.kind in (None, message.kind)
            and self._in_time(message.time_of_failure)
            and (self.message_ids is None or message.message_id in self.message_ids)
            and (self.row_versions is None or message.row_version in self.row_versions)
            and (self.up_to is None or message.row_version <= self.up_to)
            and (self.group is None or self._is_of_group(self.group, message))
        )

    @staticmethod
    def _is_of_group(group: str, message: FailedMessage) -> bool:
        key = group.partition(":")[0]
        return group_name(key, value_of(key, message)) == group

    def _in_time(self, moment: datetime | None) -> bool:
        if self.since is None and self.until is None:
            return True
        if moment is None:
            return False
        return (self.since is None or moment >= self.since) and (self.until is None or moment < self.until)


def _same(wanted: str | None, found: str | None) -> bool:
    return wanted is None or wanted == (found or "")


def _several(value: Any) -> Collection[Any]:
    return [value] if isinstance(value, (str, int)) else list(value)


def _row_version(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ConfigurationError(f"{value!r} is no RowVersion: it is a whole number.") from None
