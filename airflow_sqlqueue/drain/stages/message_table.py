"""The table of staged messages, beside the ledger: where batches are that no file is written for.

Its rows come in the transaction that deletes them from the queue, are part of a batch once that is committed, and stay
as they are until the batch is finished and swept.

Source: docs/design.md, "Batches in a table".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.budget import MIB
from airflow_sqlqueue.errors import BatchMismatchError
from airflow_sqlqueue.queue import MAX_ROWS_PER_STATEMENT, QueueTable
from airflow_sqlqueue.queue.browsing import Span
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.row import Row
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Fragment, Query, identifier, query, seek
from airflow_sqlqueue.sql.columns import (
    STAGED,
    STAGED_HEADS,
    STAGED_NAMES,
    definitions,
    row_columns,
    row_names,
    suspect,
)
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA, Definition
from airflow_sqlqueue.tables.layout import Layout

PAGE_BYTES = 8 * MIB
"""Bytes of headers and bodies that one page brings to the client, and one row more."""


@dataclass(frozen=True)
class MovedRows:
    """What one statement moved: ``rows`` in all, ``expired`` of them dropped, ``bytes`` of the others, RowVersions.

    ``suspect`` is how many :meth:`MessageTable.suspect` would return.
    """

    rows: int
    expired: int
    bytes: int
    low: int
    high: int
    suspect: int


def message_table_definition(catalog: str, schema: str = LEDGER_SCHEMA) -> Definition:
    """The table, made with the ledger."""
    table = message_table(catalog, schema)
    make = query("message_table.make", rows=identifier(table), columns=definitions(STAGED))
    index = query("message_table.index", rows=identifier(table))
    return Definition(table, "ledger", (make, index), with_schema=True)


def message_table(catalog: str, schema: str = LEDGER_SCHEMA) -> ResolvedAddress:
    """Where the table stands."""
    return ResolvedAddress("BatchMessage", schema, catalog)


class MessageTable:
    """The staged messages of one database, through one connection."""

    def __init__(self, session: Session, catalog: str, schema: str = LEDGER_SCHEMA) -> None:
        self._session = session
        self.address = message_table(catalog, schema)

    def _query(self, name: str, **fragments: Fragment) -> Query:
        return query(f"message_table.{name}", rows=identifier(self.address), **fragments)

    def take(
        self,
        queue: QueueTable,
        batch_id: uuid.UUID,
        part_id: uuid.UUID,
        *,
        rows: int,
        after: int,
        up_to: int,
        max_bytes: int,
        keep_expired: bool,
        chosen: tuple[int, ...] | None = None,
    ) -> MovedRows | None:
        """Move the next rows above ``after`` and not above ``up_to`` out of the queue; None where there is none.

        The limits and ``chosen`` are those of :meth:`~airflow_sqlqueue.queue.QueueTable.take_head`; ``after`` is not
        below the RowVersions that the part has. One round trip, in a transaction of the caller's, and no message in it.
        """

        span = Span(after, up_to, chosen)

        def run(layout: Layout) -> Any:
            types = layout.types
            statement = self._query(
                "take",
                queue=identifier(queue.address),
                seek=seek(layout.seek_index),
                names=row_names(types),
                values=row_columns(types, "deleted."),
                columns=STAGED_NAMES,
                suspect=suspect(types),
                span=span.condition,
            )
            part = (str(batch_id), str(part_id), after, keep_expired)
            return self._session.run(statement, *part, rows, *span.values, max_bytes)[0]

        moved = queue.run_for_layout(run)
        return MovedRows(*map(int, moved)) if moved[0] else None

    def suspect(self, queue: QueueTable, batch_id: uuid.UUID, part_id: uuid.UUID, after: int) -> list[tuple[Row, int]]:
        """The rows of the part above ``after`` that a reader may refuse, without bodies, each with its bytes."""
        statement = self._query("suspect", columns=STAGED_HEADS, suspect=suspect(queue.layout.types))
        rows = self._session.run(statement, str(batch_id), str(part_id), after)
        return [(Row._make(row), int(size)) for *row, size in rows]

    def pages(
        self, batch_id: uuid.UUID, part_id: uuid.UUID, *, page_bytes: int = PAGE_BYTES, bodies: bool = True
    ) -> Iterator[list[Row]]:
        """The rows of a part by ascending RowVersion, in pages, on request without their bodies.

        No result is open on the server between two pages, however long the caller takes.
        """
        statement = self._query("read", columns=STAGED_NAMES if bodies else STAGED_HEADS)
        after = FIRST
        while page := self._session.run(
            statement, str(batch_id), str(part_id), after, MAX_ROWS_PER_STATEMENT, page_bytes
        ):
            rows = list(map(Row._make, page))
            yield rows
            after = rows[-1].row_version

    def part(
        self, batch_id: uuid.UUID, part_id: uuid.UUID, messages: int, *, bodies: bool = True
    ) -> Iterator[list[Row]]:
        """:meth:`pages` of a part of which the ledger says how many messages it has.

        Raises :class:`BatchMismatchError`, in the end, where they are fewer or more.
        """
        read = 0
        for page in self.pages(batch_id, part_id, bodies=bodies):
            read += len(page)
            yield page
        if read != messages:
            raise BatchMismatchError(
                f"The part {part_id} of batch {batch_id} has {read} messages, the ledger says {messages}: the batch "
                "was swept meanwhile, or the database was changed."
            )

    def remove(self, batch_id: uuid.UUID) -> int:
        """Delete the rows of a batch, in chunks that are committed one by one, and return how many there were."""
        statement = self._query("remove")
        removed = 0
        while chunk := int(self._session.value(statement, MAX_ROWS_PER_STATEMENT, str(batch_id))):
            removed += chunk
        return removed
