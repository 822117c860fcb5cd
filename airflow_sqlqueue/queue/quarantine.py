"""Quarantine: a table beside the queue for messages that no file can hold.

The transaction of the part that meets such a message moves it there, on the server, so that it never stops a drain. It
stays there, unchanged, until an operator has seen to it.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from airflow_sqlqueue.errors import MessageNotFoundError
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.options import whole_numbers
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.redacting import RedactedRow, redact_rows
from airflow_sqlqueue.queue.tables.own import OwnTable, stored_name
from airflow_sqlqueue.queue.window import padded_chunks, placeholders
from airflow_sqlqueue.server.sql import Fragment, identifier
from airflow_sqlqueue.server.sql.columns import STAGED, STAGED_DELETED, STAGED_NAMES, definitions, forwarding

NO_BATCH = uuid.UUID(int=0)
"""Batch id of a message that no drain moved here."""


@dataclass(frozen=True)
class QuarantinedMessage:
    """Message in quarantine: its origin, the reason, and the size of its headers and body in bytes.

    ``number`` is its name for :meth:`Quarantine.requeue`; ``row_version`` is its RowVersion in the queue. ``batch_id``
    is None where no drain moved it here.
    """

    number: int
    batch_id: uuid.UUID | None
    reason: str
    since: datetime
    id: uuid.UUID | None
    row_version: int
    header_bytes: int
    body_bytes: int


class Quarantine(OwnTable):
    """Quarantine table of one database, through one connection; created with the ledger."""

    name = "Quarantine"
    made_by = ("quarantine.make",)
    columns = definitions(STAGED)

    def move(self, queue: QueueTable, batch_id: uuid.UUID, reasons: Mapping[int, str]) -> int:
        """Move the rows with these RowVersions out of the queue, except locked ones, and return how many it moved."""
        return self._move("quarantine.move", queue.staged(queue.layout), queue.address, batch_id, reasons)

    def move_staged(
        self,
        rows: ResolvedAddress,
        queue: ResolvedAddress,
        batch_id: uuid.UUID,
        part_id: uuid.UUID,
        reasons: Mapping[int, str],
    ) -> int:
        """Move rows of a part out of ``rows``, the table of staged messages, and return how many it moved."""
        fragments = {"rows": identifier(rows), "values": STAGED_DELETED, "columns": STAGED_NAMES}
        return self._move("quarantine.move_staged", fragments, queue, batch_id, reasons, str(part_id))

    def _move(
        self,
        name: str,
        fragments: Mapping[str, Fragment],
        queue: ResolvedAddress,
        batch_id: uuid.UUID,
        reasons: Mapping[int, str],
        *values: str,
    ) -> int:
        by_reason: dict[str, list[int]] = defaultdict(list)
        for row_version, reason in reasons.items():
            by_reason[reason].append(row_version)
        moved = 0
        for reason, row_versions in by_reason.items():
            origin = (str(batch_id), stored_name(queue.canonical), reason[:200])
            for chunk in padded_chunks(row_versions):
                statement = self.query(name, **fragments, row_versions=placeholders(chunk))
                moved += int(self.session.value(statement, *origin, *values, *chunk))
        return moved

    def redact(self, queue: ResolvedAddress, batch_id: uuid.UUID, rows: Sequence[RedactedRow]) -> None:
        """Redact messages that :meth:`move` has moved here, in its transaction."""
        redact_rows(self, "Queue", (str(batch_id), stored_name(queue.canonical)), rows)

    def messages(self, queue: ResolvedAddress) -> list[QuarantinedMessage]:
        """List the messages of a queue in quarantine, in the order of their arrival."""
        rows = self.session.run(self.query("quarantine.list"), stored_name(queue.canonical))
        return [
            QuarantinedMessage(
                number=number,
                batch_id=found if (found := uuid.UUID(str(batch_id))) != NO_BATCH else None,
                reason=reason,
                since=since.replace(tzinfo=timezone.utc),
                id=row_id and uuid.UUID(str(row_id)),
                row_version=row_version,
                header_bytes=header_bytes or 0,
                body_bytes=body_bytes,
            )
            for number, batch_id, reason, since, row_id, row_version, header_bytes, body_bytes in rows
        ]

    def requeue(self, queue: QueueTable, numbers: Iterable[int]) -> None:
        """Put messages back into the queue, unchanged, behind its present messages, in one transaction.

        Raises :class:`MessageNotFoundError`, and puts no message back, where one is missing. The next drain meets the
        messages again, so this is for an endpoint that can read them, or for messages whose rows were repaired.
        """
        moved = forwarding(STAGED, queue.layout.types)
        columns, values = moved["columns"], moved["values"]
        statement = self.query("quarantine.requeue", queue=identifier(queue.address), columns=columns, values=values)
        with self.session.transaction():
            for number in dict.fromkeys(whole_numbers("numbers", numbers)):
                if self.session.value(statement, number, stored_name(queue.address.canonical), number) != 1:
                    raise MessageNotFoundError(f"No message {number} of {queue.address.canonical} is in quarantine.")
