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
from airflow_sqlqueue.queue.browsing import padded_chunks, placeholders
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Fragment, Query, identifier, query, seek
from airflow_sqlqueue.sql.columns import (
    STAGED,
    STAGED_DELETED,
    STAGED_NAMES,
    definitions,
    row_columns,
    row_names,
)
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA, Definition


@dataclass(frozen=True)
class QuarantinedMessage:
    """A message in quarantine: where it comes from, why it is here, and the size of its headers and body in bytes.

    ``number`` names it to :meth:`Quarantine.requeue`; ``row_version`` is the one it had in the queue.
    """

    number: int
    batch_id: uuid.UUID
    reason: str
    since: datetime
    id: uuid.UUID | None
    row_version: int
    header_bytes: int
    body_bytes: int


def quarantine_definition(catalog: str, schema: str = LEDGER_SCHEMA) -> Definition:
    """The quarantine table, made with the ledger."""
    table = _table(catalog, schema)
    make = query("quarantine.make", quarantine=identifier(table), columns=definitions(STAGED))
    return Definition(table, "ledger", (make,), with_schema=True)


def _table(catalog: str, schema: str) -> ResolvedAddress:
    return ResolvedAddress("Quarantine", schema, catalog)


class Quarantine:
    """The quarantine of one database, through one connection."""

    def __init__(self, session: Session, catalog: str, schema: str = LEDGER_SCHEMA) -> None:
        self._session = session
        self._table = _table(catalog, schema)

    def _query(self, name: str, **fragments: Fragment) -> Query:
        return query(f"quarantine.{name}", quarantine=identifier(self._table), **fragments)

    def move(self, queue: QueueTable, batch_id: uuid.UUID, reasons: Mapping[int, str]) -> int:
        """Move the rows with these RowVersions out of the queue and return how many; those that others hold stay."""
        types = queue.layout.types
        fragments = {
            "queue": identifier(queue.address),
            "seek": seek(queue.layout.seek_index),
            "names": row_names(types),
            "values": row_columns(types, "deleted."),
        }
        return self._move("move", fragments, queue.address, batch_id, reasons)

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
        return self._move("move_staged", fragments, queue, batch_id, reasons, str(part_id))

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
            origin = (str(batch_id), queue.canonical[:400], reason[:200])
            for chunk in padded_chunks(row_versions):
                statement = self._query(name, **fragments, columns=STAGED_NAMES, row_versions=placeholders(chunk))
                moved += int(self._session.value(statement, *origin, *values, *chunk))
        return moved

    def messages(self, queue: ResolvedAddress) -> list[QuarantinedMessage]:
        """The messages of a queue in quarantine, in the order in which they came."""
        rows = self._session.run(self._query("list"), queue.canonical[:400])
        return [
            QuarantinedMessage(
                number=number,
                batch_id=uuid.UUID(str(batch_id)),
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
        types = queue.layout.types
        names = Fragment(", ".join(f"[{name}]" for name in STAGED if name in types and name != "RowVersion"))
        statement = self._query("requeue", queue=identifier(queue.address), columns=names)
        with self._session.transaction():
            for number in numbers:
                if self._session.value(statement, number, queue.address.canonical[:400], number) != 1:
                    raise MessageNotFoundError(f"No message {number} of {queue.address.canonical} is in quarantine.")
