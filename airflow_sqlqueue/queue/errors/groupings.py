"""Groupings of failed messages: the one table from which triage, filters, commands and the page take them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue.errors.failed_message import FailedMessage
from airflow_sqlqueue.untrusted import quoted


@dataclass(frozen=True)
class Grouping:
    """Key that messages are grouped by. ``label`` is its name for people; ``archived``: in the archive only."""

    label: str
    value: Callable[[FailedMessage], str | None]
    archived: bool = False


def _in_utc(form: str) -> Callable[[FailedMessage], str | None]:
    return lambda message: message.time_of_failure.strftime(form) if message.time_of_failure else None


GROUPINGS: dict[str, Grouping] = {
    "kind": Grouping("Kind", attrgetter("kind")),
    "exception_type": Grouping("Exception", attrgetter("exception_type")),
    "message_type": Grouping("Message type", attrgetter("message_type")),
    "endpoint": Grouping("Endpoint", attrgetter("endpoint")),
    "failed_queue": Grouping("Failed queue", attrgetter("failed_queue")),
    "day": Grouping("Day", _in_utc("%Y-%m-%d")),
    "hour": Grouping("Hour", _in_utc("%Y-%m-%dT%H:00Z")),
    "reason": Grouping("Reason", lambda message: message.archived.reason if message.archived else None, archived=True),
    "archived_by": Grouping(
        "Archived by", lambda message: message.archived.by if message.archived else None, archived=True
    ),
}
"""Groupings by their keys. Days and hours are those of the failure, in UTC."""


def value_of(key: str, message: FailedMessage) -> str | None:
    """Return a message's value for one of :data:`GROUPINGS`."""
    return GROUPINGS[key].value(message)


def check_keys(keys: tuple[str, ...], *, archived: bool = True) -> None:
    """Raise :class:`ConfigurationError` for an unknown key, and outside the archive for one of the archive."""
    if unknown := [key for key in keys if key not in GROUPINGS]:
        known = ", ".join(map(repr, GROUPINGS))
        raise ConfigurationError(f"Errors cannot be grouped by {quoted(unknown[0])}: choose from {known}.")
    if not archived and (of_archive := [key for key in keys if GROUPINGS[key].archived]):
        raise ConfigurationError(f"Only archived messages have {quoted(of_archive[0])}: group these by another key.")


def group_name(key: str, value: str | None) -> str:
    """Name of a group by one key, ``exception_type:<hex>``: a hash, so that URLs and logs do not quote messages."""
    text = f"{key}\0" if value is None else f"{key}\0={value}"
    return f"{key}:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
