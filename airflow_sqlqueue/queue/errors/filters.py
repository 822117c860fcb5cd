"""Filter of failed messages, by their failure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import check_full_name
from airflow_sqlqueue.options import option, whole_number, whole_numbers
from airflow_sqlqueue.queue.errors.failed_message import KINDS, FailedMessage, table_of
from airflow_sqlqueue.queue.errors.groupings import check_keys, group_name, value_of
from airflow_sqlqueue.queue.filters import TimeFilter


@dataclass(frozen=True)
class ErrorFilter(TimeFilter):
    """Filter of failed messages. All conditions must match; None is no condition.

    Its times are those of the failure; a text ``""`` matches messages without the value. Several messages may have the
    same id, a RowVersion belongs to one.

    Raises :class:`ConfigurationError` for an unknown kind, a time without a zone, a RowVersion that no row has.
    """

    texts = ("exception_type", "message_type", "endpoint", "failed_queue", "kind", "group")

    exception_type: str | None = option(None, "only this exception type, in full; '' for none")
    message_type: str | None = option(None, "only this message type, in full, without its assembly")
    endpoint: str | None = option(None, "only messages that this endpoint failed to handle")
    failed_queue: str | None = option(
        None, "only messages that failed in this queue: its address as in the header, or its table"
    )
    kind: str | None = option(None, f"only one of: {', '.join(KINDS)}")
    message_ids: frozenset[str] | None = option(None, "only these message ids", form="--message-id")
    row_versions: frozenset[int] | None = option(None, "only these rows, by RowVersion", form="--row-version")
    up_to: int | None = option(None, "only rows up to this RowVersion, without later failures", form=None)
    group: str | None = option(
        None, "only this group, by :func:`~airflow_sqlqueue.queue.errors.groupings.group_name`", form=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind is not None and self.kind not in KINDS:
            raise ConfigurationError(f"There is no kind {self.kind!r} of error: it is one of {', '.join(KINDS)}.")
        if self.message_type:
            check_full_name(self.message_type)
        if self.group is not None:
            check_keys((self.group.partition(":")[0],))
        # A generator would be used up by the checks, and match no message.
        if self.message_ids is not None:
            object.__setattr__(self, "message_ids", _texts(self.message_ids))
        if self.row_versions is not None:
            object.__setattr__(self, "row_versions", frozenset(whole_numbers("row_versions", self.row_versions)))
        if any(abs(number) >= 2**62 for number in (*(self.row_versions or ()), self.up_to or 0)):
            raise ConfigurationError("A RowVersion of the filter is larger than any table's can be: check it.")

    @classmethod
    def of(cls, values: Filters | None) -> ErrorFilter:
        """Make a filter from plain values, unless it is one.

        Times may be texts (UTC where they name no zone), ids and RowVersions one or a list.

        Raises :class:`ConfigurationError` for values that cannot be read.
        """
        if isinstance(values, cls):
            return values
        given = cls.conditions_in(values or {})  # type: ignore[arg-type]
        if "message_ids" in given:
            given["message_ids"] = frozenset(map(str, _several(given["message_ids"])))
        if "row_versions" in given:
            given["row_versions"] = frozenset(map(_row_version, _several(given["row_versions"])))
        if "up_to" in given:
            given["up_to"] = _row_version(given["up_to"])
        return cls(**given)

    @classmethod
    def chosen(cls, filters: Filters | None, *, all_messages: bool) -> ErrorFilter:
        """Return the filter of a call that moves messages: either conditions or, explicitly, all messages.

        Raises :class:`ConfigurationError` for neither and for both.
        """
        where = cls.of(filters)
        if where.is_empty != all_messages:
            raise ConfigurationError("Say which messages are meant, by a filter or by asking for all: one of the two.")
        return where

    @property
    def is_empty(self) -> bool:
        """True if the filter has no condition, so that every message matches."""
        return self == ErrorFilter()

    def matches(self, message: FailedMessage) -> bool:
        """Return whether every condition matches the message."""
        failed_queue, key = message.failed_queue, (self.group or "").partition(":")[0]
        return (
            _same(self.exception_type, message.exception_type)
            and _same(self.message_type, message.message_type)
            and _same(self.endpoint, message.endpoint)
            and (_same(self.failed_queue, failed_queue) or self.failed_queue == table_of(failed_queue))
            and self.kind in (None, message.kind)
            and self.is_in_range(message.time_of_failure)
            and (self.message_ids is None or message.message_id in self.message_ids)
            and (self.row_versions is None or message.row_version in self.row_versions)
            and (self.up_to is None or message.row_version <= self.up_to)
            and (self.group is None or self.group == group_name(key, value_of(key, message)))
        )


Filters = ErrorFilter | Mapping[str, Any]
"""Filter of failed messages, or the mapping that :meth:`ErrorFilter.of` reads."""


def _same(wanted: str | None, found: str | None) -> bool:
    return wanted is None or wanted == (found or "")


def _texts(values: Any) -> frozenset[str]:
    given: list[Any] = [None] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    if not all(isinstance(each, str) for each in given):
        raise ConfigurationError("The filter message_ids takes a set of texts: give one, as {'a', 'b'}.")
    return frozenset(given)


def _several(value: Any) -> Collection[Any]:
    return [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)


def _row_version(value: Any) -> int:
    with suppress(ConfigurationError):
        number = whole_number("RowVersion", value)
        if number is not None:
            return number
    raise ConfigurationError(f"{value!r} is no RowVersion: give a whole number.")
