"""Triage: failed messages counted in groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import starmap
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue.errors.failed_message import FailedMessage
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.groupings import check_keys, group_name, value_of
from airflow_sqlqueue.queue.errors.scan import ErrorQueue, FailedMessages, scan
from airflow_sqlqueue.untrusted import EVENT, label

MAX_SCANNED = 100_000
"""Maximum number of messages that a triage reads by default."""

DEFAULT_KEYS = ("kind", "exception_type", "message_type", "endpoint")


@dataclass
class ErrorGroup:
    """Group of messages with the same values of the keys.

    ``values`` are cut after 1,000 characters. ``first`` and ``last`` are times of failure, ``example`` is the
    RowVersion of the newest message.
    """

    values: dict[str, str | None]
    messages: int = 0
    first: datetime | None = None
    last: datetime | None = None
    example: int = 0

    def add(self, message: FailedMessage) -> None:
        """Count a message."""
        self.messages += 1
        self.example = message.row_version
        moment = message.time_of_failure
        if moment is not None:
            self.first = moment if self.first is None else min(self.first, moment)
            self.last = moment if self.last is None else max(self.last, moment)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        first, last = (moment.isoformat() if moment else None for moment in (self.first, self.last))
        return {**self.values, "messages": self.messages, "first": first, "last": last, "example": self.example}


@dataclass(frozen=True)
class Triage:
    """Result of a triage: the groups, the largest first.

    ``matched`` is the number of messages in the groups, ``scanned`` the number of messages read. ``complete`` is False
    if the limit ended the scan.
    """

    groups: tuple[ErrorGroup, ...]
    scanned: int
    matched: int
    complete: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        groups = [group.to_dict() for group in self.groups]
        return {"groups": groups, "scanned": self.scanned, "matched": self.matched, "complete": self.complete}


def triage(
    source: FailedMessages,
    by: Sequence[str] = DEFAULT_KEYS,
    where: ErrorFilter | None = None,
    limit: int = MAX_SCANNED,
) -> Triage:
    """Count the messages of an error queue, or of the archive, by the keys ``by`` of
    :data:`~airflow_sqlqueue.queue.errors.groupings.GROUPINGS`.

    It reads at most ``limit`` messages, the oldest first. Nothing is removed, and no body is read. Messages that
    others have locked are skipped.

    Raises :class:`ConfigurationError` for a key that the messages do not have, :class:`QueueNotFoundError`,
    :class:`NotAQueueError`.
    """
    if isinstance(by, str):
        raise ConfigurationError(f"The keys of a triage are a list, not the text {by!r}: give [{by!r}].")
    by = tuple(by)
    check_keys(by, archived=not isinstance(source, ErrorQueue))
    if not isinstance(limit, int) or limit < 1:
        raise ConfigurationError(f"A triage reads 1 message or more, not {limit}: raise the limit.")
    where = where or ErrorFilter()
    groups: dict[tuple[str, ...], ErrorGroup] = {}
    scanned = matched = 0
    complete = True
    for message in scan(source, source.window(where)):
        if scanned == limit:
            complete = False
            break
        scanned += 1
        if where.matches(message):
            matched += 1
            values = {name: value_of(name, message) for name in by}
            shown = {name: label(value, EVENT) for name, value in values.items()}
            # Memory holds no whole values: the senders of messages choose them, of any length.
            groups.setdefault(tuple(starmap(group_name, values.items())), ErrorGroup(shown)).add(message)
    ordered = sorted(groups.values(), key=lambda group: -group.messages)
    return Triage(tuple(ordered), scanned, matched, complete)
