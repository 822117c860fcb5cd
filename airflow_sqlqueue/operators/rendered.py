"""Times and filters of templated arguments: a template renders to a text, such as ``"3600"``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.options import interval

if TYPE_CHECKING:
    from airflow_sqlqueue.queue import MessageFilter


def interval_or(default: timedelta, name: str, value: Any) -> timedelta:
    """As :func:`interval`, with a default in place of None."""
    found = interval(name, value)
    return default if found is None else found


def message_filter(filters: Mapping[str, Any] | None) -> MessageFilter | None:
    """Return a filter of messages from its conditions; None for None. Raises :class:`ConfigurationError`."""
    from airflow_sqlqueue.queue.filters import MessageFilter

    return None if filters is None else MessageFilter.of(filters)
