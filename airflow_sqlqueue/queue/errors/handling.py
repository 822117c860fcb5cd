"""Messages that an endpoint of this process is handling now, so that its function can put them into the error queue."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

from airflow_sqlqueue.messages.routing import ResolvedAddress


@dataclass
class CurrentMessages:
    """Ids of the messages that ``endpoint`` is handling, and of those that its handler has put into the error queue."""

    endpoint: str
    queue: ResolvedAddress
    error_queue: ResolvedAddress
    message_ids: frozenset[str | None]
    given_up: set[str | None] = field(default_factory=set)


HANDLING: ContextVar[CurrentMessages | None] = ContextVar("sqlqueue_handling", default=None)
"""The messages that are being handled in this thread or task; None outside of handlers."""
