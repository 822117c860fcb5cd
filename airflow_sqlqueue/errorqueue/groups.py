"""What failed messages are grouped by, and how a group is named without saying what stands in its messages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from airflow_sqlqueue.errorqueue.failed import FailedMessage
from airflow_sqlqueue.errors import ConfigurationError


def _in_utc(form: str) -> Callable[[FailedMessage], str | None]:
    return lambda message: message.time_of_failure.strftime(form) if message.time_of_failure else None


_KEYS: dict[str, Callable[[FailedMessage], str | None]] = {
    "kind": lambda message: message.kind,
    "exception_type": lambda message: message.exception_type,
    "message_type": lambda message: message.message_type,
    "endpoint": lambda message: message.endpoint,
    "failed_queue": lambda message: message.failed_queue,
    "day": _in_utc("%Y-%m-%d"),
    "hour": _in_utc("%Y-%m-%dT%H:00Z"),
}
KEYS = tuple(_KEYS)
"""What messages can be grouped by. Days and hours are those of the failure, in UTC."""


def value_of(key: str, message: FailedMessage) -> str | None:
    """What a message has for one of :data:`KEYS`."""
    return _KEYS[key](message)


def check_keys(keys: tuple[str, ...]) -> None:
    """Raise :class:`ConfigurationError` for a key that there is not."""
    if unknown := [key for key in keys if key not in _KEYS]:
        known = ", ".join(map(repr, KEYS))
        raise ConfigurationError(f"Errors cannot be grouped by {unknown[0]!r}: choose from {known}.")


def group_name(key: str, value: str | None) -> str:
    """The name of a group by one key, ``exception_type:<hex>``: a hash, so that it may stand in URLs and logs."""
    text = f"{key}\0" if value is None else f"{key}\0={value}"
    return f"{key}:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
