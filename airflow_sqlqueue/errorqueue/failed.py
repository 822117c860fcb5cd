"""A row of an error queue, with what its headers say of the failure.

Sources: docs/transport/messages.md, "Header names" and "Poison messages".
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.message import DecodedHeaders

FAILED = "failed"
NO_FAILED_QUEUE = "no failed queue"
MALFORMED = "malformed headers"
KINDS = (FAILED, NO_FAILED_QUEUE, MALFORMED)
"""``failed`` messages name the queue where they failed, others do not; the headers of poison cannot be read."""


@dataclass(frozen=True)
class FailedMessage:
    """A message of an error queue, without its body.

    ``kind`` is one of :data:`KINDS`; ``problem`` says what is wrong with malformed headers. ``message_id`` is the row's
    Id where the headers give none. ``endpoint`` is the one that failed, for old versions, which do not say, the table
    of ``failed_queue``. ``message_type`` is the first enclosed type without its assembly. What is not known is None.
    ``machines`` are those that the headers name, ``size`` is in bytes, of headers and body.
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

    def to_dict(self) -> dict[str, Any]:
        """The message as plain JSON values."""
        return {
            "row_version": self.row_version,
            "id": str(self.id),
            "message_id": self.message_id,
            "kind": self.kind,
            "problem": self.problem,
            "exception_type": self.exception_type,
            "message_type": self.message_type,
            "endpoint": self.endpoint,
            "failed_queue": self.failed_queue,
            "time_of_failure": self.time_of_failure.isoformat() if self.time_of_failure else None,
            "body_bytes": self.body_bytes,
        }


def classify(
    row_version: int, identity: uuid.UUID, headers: DecodedHeaders, body_bytes: int, header_bytes: int = 0
) -> FailedMessage:
    """What a row's headers say of its failure; never raises, whatever stands in them."""
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
    """The table of an address, which may be no address at all: what stands before the first ``@``."""
    return (address_text or "").partition("@")[0] or None
