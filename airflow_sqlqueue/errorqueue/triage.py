"""What failed, in groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_sqlqueue.errorqueue.failed import FailedMessage
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.groups import KEYS, check_keys, value_of
from airflow_sqlqueue.errorqueue.scan import scan, window_of
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue import QueueTable

MAX_SCANNED = 100_000
"""Messages that a triage looks at by default."""


__all__ = ["DEFAULT_KEYS", "KEYS", "MAX_SCANNED", "ErrorGroup", "Triage", "triage"]

DEFAULT_KEYS = ("kind", "exception_type", "message_type", "endpoint")


@dataclass
class ErrorGroup:
    """Messages with the same values of the keys. ``first`` and ``last`` are times of failure, ``example`` the
    RowVersion of the newest of them."""

    values: dict[str, str | None]
    messages: int = 0
    first: datetime | None = None
    last: datetime | None = None
    example: int = 0

    def add(self, message: FailedMessage) -> None:
        """Count a message in."""
        self.messages += 1
        self.example = message.row_version
        moment = message.time_of_failure
        if moment is not None:
            self.first = moment if self.first is None else min(self.first, moment)
            self.last = moment if self.last is None else max(self.last, moment)

    def to_dict(self) -> dict[str, Any]:
        """The group as plain JSON values."""
        first, last = (moment.isoformat() if moment else None for moment in (self.first, self.last))
        return {**self.values, "messages": self.messages, "first": first, "last": last, "example": self.example}


@dataclass(frozen=True)
class Triage:
    """Groups, the largest first.

    ``matched`` messages are in them, of ``scanned``. ``complete`` is False where the limit cut the scan short.
    """

    groups: tuple[ErrorGroup, ...]
    scanned: int
    matched: int
    complete: bool

    def to_dict(self) -> dict[str, Any]:
        """The triage as plain JSON values."""
        groups = [group.to_dict() for group in self.groups]
        return {"groups": groups, "scanned": self.scanned, "matched": self.matched, "complete": self.complete}


def triage(
    queue: QueueTable,
    by: Sequence[str] = DEFAULT_KEYS,
    where: ErrorFilter | None = None,
    limit: int = MAX_SCANNED,
) -> Triage:
    """Count the messages of an error queue by the keys ``by`` (see :data:`KEYS`), looking at ``limit``, oldest first.

    Nothing is removed, and no body is read. Messages that others have locked are passed over.

    Raises :class:`ConfigurationError` for a key that there is not, :class:`QueueNotFoundError`,
    :class:`NotAQueueError`.
    """
    check_keys(tuple(by))
    if limit < 1:
        raise ConfigurationError(f"A triage looks at 1 message or more, not {limit}.")
    where = where or ErrorFilter()
    groups: dict[tuple[str | None, ...], ErrorGroup] = {}
    scanned = matched = 0
    complete = True
    for message in scan(queue, window_of(queue, where)):
        if scanned == limit:
            complete = False
            break
        scanned += 1
        if where.matches(message):
            matched += 1
            key = tuple(value_of(name, message) for name in by)
            groups.setdefault(key, ErrorGroup(dict(zip(by, key, strict=True)))).add(message)
    ordered = sorted(groups.values(), key=lambda group: -group.messages)
    return Triage(tuple(ordered), scanned, matched, complete)
