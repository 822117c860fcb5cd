"""Failed message: a row of an error queue, with the failure that its headers describe.

Sources: docs/transport/messages.md, "Header names" and "Poison messages".
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import DecodedHeaders, can_be_written
from airflow_sqlqueue.queue.errors.failure_headers import kept_headers

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
    in an error queue; in the archive ``row_version`` is the message's number there. ``can_be_returned`` is False if the
    headers can be read, but not written again without those of the failure.
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
    can_be_returned: bool = field(default=True, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        hidden = {"size", "machines", "archived", "can_be_returned"}
        values = {name: value for name, value in vars(self).items() if name not in hidden}
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
        can_be_returned=can_be_written(kept_headers(headers.values)),
    )


def table_of(address_text: str | None) -> str | None:
    """Return the table of an address, the text before the first ``@``; the text need not be a valid address."""
    return (address_text or "").partition("@")[0] or None
