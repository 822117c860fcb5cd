"""The quarantine: a table beside the queue for messages that no file can keep.

They leave the queue in the transaction of the part that met them, server-side, so that one of them never stops a drain,
and stay as they are until an operator has looked at them.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from airflow_sqlqueue.errors import MessageNotFoundError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.window import padded_chunks, placeholders
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.sql import Fragment, identifier, seek
from airflow_sqlqueue.sql.columns import (
    STAGED,
    STAGED_DELETED,
    STAGED_NAMES,
    definitions,
    forwarding,
    row_columns,
    row_names,
)
from airflow_sqlqueue.tables.own import OwnTable, stored_name

NO_BATCH = uuid.UUID(int=0)
"""The batch id of a row that no drain moved here."""


@dataclass(frozen=True)
class QuarantinedMessage:
    """A message in quarantine: where it comes from, why it is here, and the size of its headers and body in bytes.

    ``number`` names it to :meth:`Quarantine.requeue`; ``row_version`` is the one it had in the queue. ``batch_id`` is
    None where no drain moved it here.
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
    """The quarantine of one database, through one connection; made with the ledger."""

    name = "Quarantine"
    made_by = ("quarantine.make",)
    columns = definitions(STAGED)

    def move(self, queue: QueueTable, batch_id: uuid.UUID, reasons: Mapping[int, str]) -> int:
        """Move the rows with these RowVersions out of the queue and return how many; those that others hold stay."""
        types = queue.layout.types
        fragments = {
            "queue": identifier(queue.address),
            "seek": seek(queue.layout.seek_index),
            "names": row_names(types),
            "values": row_columns(types, "deleted."),
        }
        return self._move("quarantine.move", fragments, queue.address, batch_id, reasons)

    def move_staged(
        self,
        rows: ResolvedAddress,
        queue: ResolvedAddress,
        batch_id: uuid.UUID,
        part_id: uuid.UUID,
        reasons: Mapping[int, str],
    ) -> int:
        """Move rows of a part out of ``rows``, the table of staged messages, and return how many."""
        fragments = {"rows": identifier(rows), "values": STAGED_DELETED}
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
                statement = self.query(name, **fragments, columns=STAGED_NAMES, row_versions=placeholders(chunk))
                moved += int(self.session.value(statement, *origin, *values, *chunk))
        return moved

    def messages(self, queue: ResolvedAddress) -> list[QuarantinedMessage]:
        """The messages of a queue in quarantine, in the order in which they came."""
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
        """Put messages back into the queue as they were, behind what is there: all of them or, where one is not there
        (:class:`MessageNotFoundError`), none.

        The next drain meets them again, so this is for an endpoint that reads what a file cannot keep, or for a message
        whose row was repaired.
        """
        moved = forwarding(STAGED, queue.layout.types)
        columns, values = moved["columns"], moved["values"]
        statement = self.query("quarantine.requeue", queue=identifier(queue.address), columns=columns, values=values)
        with self.session.transaction():
            for number in numbers:
                if self.session.value(statement, number, stored_name(queue.address.canonical), number) != 1:
                    raise MessageNotFoundError(f"No message {number} of {queue.address.canonical} is in quarantine.")
