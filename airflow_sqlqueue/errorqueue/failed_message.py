"""Failed message: a row of an error queue, with the failure that its headers describe, and its group by a key.

Sources: docs/transport/messages.md, "Header names" and "Poison messages".
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any

from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.message import DecodedHeaders

FAILED = "failed"
NO_FAILED_QUEUE = "no failed queue"
MALFORMED = "malformed headers"
KINDS = (FAILED, NO_FAILED_QUEUE, MALFORMED)
"""``failed`` messages name the queue where they failed, others do not; the headers of poison cannot be read."""


@dataclass(frozen=True)
class Archived:
    """Time at which a message was archived, by the server's clock, the person or task that did it, and the reason."""

    at: datetime
    by: str
    reason: str


@dataclass(frozen=True)
class FailedMessage:
    """Message of an error queue or of the archive, without its body.

    ``kind`` is one of :data:`KINDS`; ``problem`` says what is wrong with malformed headers. ``message_id`` is the row's
    Id where the headers have none. ``endpoint`` is the one that failed; old versions do not name it, then it is the
    table of ``failed_queue``. ``message_type`` is the first enclosed type without its assembly. Unknown values are
    None. ``machines`` are those that the headers name, ``size`` is in bytes, of headers and body. ``archived`` is None
    in an error queue; in the archive ``row_version`` is the message's number there.
    """

    row_version: int
    id: uuid.UUID
    message_id: str
    kind: str
    exception_type: str | None
    message_type: str | None
    endpoint: str | None
    failed_queue: str | None
    time_of_failure: datetime | None
    body_bytes: int
    size: int
    problem: str | None = None
    machines: frozenset[str] = field(default=frozenset(), repr=False)
    archived: Archived | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        values = {name: value for name, value in vars(self).items() if name not in ("size", "machines", "archived")}
        failed_at = self.time_of_failure.isoformat() if self.time_of_failure else None
        values |= {"id": str(self.id), "time_of_failure": failed_at}
        if self.archived is not None:
            at, by, reason = self.archived.at.isoformat(), self.archived.by, self.archived.reason
            values |= {"archived_at": at, "archived_by": by, "reason": reason}
        return values


def classify(
    row_version: int, identity: uuid.UUID, headers: DecodedHeaders, body_bytes: int, header_bytes: int = 0
) -> FailedMessage:
    """Read the failure from a row's headers; never raises, whatever the headers contain."""
    envelope = Envelope.of(headers)
    failure, audit = envelope.failure, envelope.audit
    failed_queue = failure.failed_queue if (failure.failed_queue or "").strip() else None
    well = FAILED if failed_queue else NO_FAILED_QUEUE
    machines = (envelope.routing.originating_machine, audit.processing_machine)
    return FailedMessage(
        row_version=row_version,
        id=identity,
        message_id=envelope.identity.message_id or str(identity),
        kind=MALFORMED if envelope.problem else well,
        exception_type=failure.exception_type or None,
        message_type=envelope.content.message_type,
        endpoint=audit.processing_endpoint or table_of(failed_queue),
        failed_queue=failed_queue,
        time_of_failure=failure.time_of_failure,
        body_bytes=body_bytes,
        size=body_bytes + header_bytes,
        problem=envelope.problem,
        machines=frozenset(machine for machine in machines if machine),
    )


def table_of(address_text: str | None) -> str | None:
    """Return the table of an address, the text before the first ``@``; the text need not be a valid address."""
    return (address_text or "").partition("@")[0] or None


def _in_utc(form: str) -> Callable[[FailedMessage], str | None]:
    return lambda message: message.time_of_failure.strftime(form) if message.time_of_failure else None


_KEYS: dict[str, Callable[[FailedMessage], str | None]] = {
    **{name: attrgetter(name) for name in ("kind", "exception_type", "message_type", "endpoint", "failed_queue")},
    "day": _in_utc("%Y-%m-%d"),
    "hour": _in_utc("%Y-%m-%dT%H:00Z"),
    "archived_by": lambda message: message.archived.by if message.archived else None,
    "reason": lambda message: message.archived.reason if message.archived else None,
}
KEYS = tuple(_KEYS)
"""Keys that messages can be grouped by. Days and hours are those of the failure, in UTC. The last two have values
in the archive only."""


def value_of(key: str, message: FailedMessage) -> str | None:
    """Return a message's value for one of :data:`KEYS`."""
    return _KEYS[key](message)


def check_keys(keys: tuple[str, ...]) -> None:
    """Raise :class:`ConfigurationError` for an unknown key."""
    if unknown := [key for key in keys if key not in _KEYS]:
        known = ", ".join(map(repr, KEYS))
        raise ConfigurationError(f"Errors cannot be grouped by {unknown[0]!r}: choose from {known}.")


def group_name(key: str, value: str | None) -> str:
    """Name of a group by one key, ``exception_type:<hex>``: a hash, so that URLs and logs do not quote messages."""
    text = f"{key}\0" if value is None else f"{key}\0={value}"
    return f"{key}:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
