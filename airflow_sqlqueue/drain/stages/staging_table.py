"""Table of staged messages, beside the ledger: it holds the batches without files.

Its rows are inserted in the transaction that deletes them from the queue, belong to a batch once that is committed, and
stay unchanged until the batch is finished and swept.

Source: docs/design.md, "Batches in a table".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from airflow_sqlqueue.bodies.decoding import MAX_BYTES
from airflow_sqlqueue.bodies.redaction.redactor import Redactor
from airflow_sqlqueue.drain.counts import PartCounts
from airflow_sqlqueue.drain.stages.base import PartPlan
from airflow_sqlqueue.errors import BatchMismatchError, StagingError
from airflow_sqlqueue.messages.row import NAMES, Row
from airflow_sqlqueue.options.budget import MIB
from airflow_sqlqueue.queue import MAX_ROWS_PER_STATEMENT
from airflow_sqlqueue.queue.redacting import RedactedRow, redact_rows
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.queue.tables.layout import Layout
from airflow_sqlqueue.queue.tables.own import OwnTable
from airflow_sqlqueue.queue.window import Window, padded_chunks, placeholders
from airflow_sqlqueue.server.sql import Fragment, readpast
from airflow_sqlqueue.server.sql.columns import STAGED, STAGED_HEADS, STAGED_NAMES, definitions, suspect

PAGE_BYTES = 8 * MIB
"""Bytes of headers and bodies in one page for the client, and one row more."""


class MessageTable(OwnTable):
    """Table of the staged messages of one database, through one connection; created with the ledger."""

    name = "BatchMessage"
    made_by = ("message_table.make", "message_table.index")
    columns = definitions(STAGED)

    def take(self, plan: PartPlan, rows: int, window: Window) -> tuple[PartCounts, int] | None:
        """Move the next rows of the window out of the queue; None if the window has no row.

        Returns their counts, and how many :meth:`suspect` would return. The limits and the window are those of
        :meth:`~airflow_sqlqueue.queue.QueueTable.delete_first_rows`; the part has no RowVersion above the window's
        ``after``. One round trip, in the caller's transaction, without messages.
        """
        moved = self._stage("message_table.take", plan, rows, window, source="deleted.")[0]
        if not moved[0]:
            return None
        rows_moved, expired, size, low, high, suspects = map(int, moved)
        staged = rows_moved - expired
        counts = PartCounts(messages=staged, expired=expired, bytes=size, min_row_version=low, max_row_version=high)
        return counts, suspects

    def copy(
        self, plan: PartPlan, rows: int, window: Window, *, passes: bool
    ) -> tuple[PartCounts, int, list[int]] | None:
        """Copy the next rows of the window, which stay in the queue; None if the window has no row.

        Returns as :meth:`take`, and the RowVersions of the rows. ``passes``: it skips rows that others have locked,
        instead of waiting for them.
        """
        copied = self._stage("message_table.copy", plan, rows, window, source="", readpast=readpast(passes))
        if not copied:
            return None
        numbers = [int(row[0]) for row in copied]
        staged = [row for row in copied if not row[1]]
        counts = PartCounts(
            messages=len(staged),
            expired=len(copied) - len(staged),
            bytes=sum(int(row[2]) for row in staged),
            min_row_version=numbers[0],
            max_row_version=numbers[-1],
        )
        return counts, sum(bool(row[3]) for row in staged), numbers

    def _stage(
        self, name: str, plan: PartPlan, rows: int, window: Window, *, source: str, **hints: Fragment
    ) -> list[Any]:
        def run(layout: Layout) -> list[Any]:
            fragments = plan.queue.staged(layout, source) | hints
            statement = self.query(name, **fragments, suspect=suspect(layout.types), window=window.condition)
            part = (*_ids(plan), window.after, plan.options.keep_expired)
            return self.session.run(statement, *part, rows, *window.values, plan.options.bytes_per_statement)

        return plan.queue.run_for_layout(run)

    def suspect(self, plan: PartPlan, after: int) -> list[tuple[Row, int]]:
        """Return the rows of the part above ``after`` that a reader may refuse, without bodies, each with its size."""
        statement = self.query("message_table.suspect", columns=STAGED_HEADS, suspect=suspect(plan.queue.layout.types))
        return [(Row._make(row), int(size)) for *row, size in self.session.run(statement, *_ids(plan), after)]

    def redact(self, plan: PartPlan, after: int, redactor: Redactor) -> int:
        """Redact the rows of a part above ``after``, in the transaction that has moved them here.

        Returns the number of bytes by which headers and bodies became longer, below 0 if they became shorter.
        """
        longer = 0
        for page in self.pages(plan.batch_id, plan.part_id, after=after, bodies=False):
            concerned = sorted({row.row_version for row in page if redactor.concerns(row.headers)})
            redacted = []
            for chunk in padded_chunks(concerned):
                for old, size in self._redactable(plan, chunk):
                    new = redactor.examine(old).row
                    keeps_body = size > MAX_BYTES and redactor.keeps_large_body(old.headers, size) is True
                    redacted.append(RedactedRow(old, new, keeps_body))
                    longer += _bytes(new) - _bytes(old) - (0 if keeps_body or size <= MAX_BYTES else size)
            if redact_rows(self, "PartId", _ids(plan), redacted) < len(redacted):
                raise StagingError("Messages that rules concern could not be redacted: do not change the staged rows.")
        return longer

    def _redactable(self, plan: PartPlan, row_versions: Sequence[int]) -> Iterator[tuple[Row, int]]:
        columns = STAGED_NAMES.replace(
            "[Body]", f"CASE WHEN DATALENGTH([Body]) <= {MAX_BYTES} THEN [Body] END AS [Body]"
        )
        statement = self.query(
            "message_table.redactable", columns=Fragment(columns), row_versions=placeholders(row_versions)
        )
        for *row, size in self.session.run(statement, *_ids(plan), *row_versions):
            yield Row._make(row), int(size)

    def pages(
        self,
        batch_id: uuid.UUID,
        part_id: uuid.UUID,
        *,
        page_bytes: int = PAGE_BYTES,
        bodies: bool = True,
        after: int = FIRST,
    ) -> Iterator[list[Row]]:
        """Yield the rows of a part above ``after`` by ascending RowVersion, in pages, on request without their bodies.

        No result is open on the server between two pages, however long the caller takes.
        """
        statement = self.query("message_table.read", columns=STAGED_NAMES if bodies else STAGED_HEADS)
        while page := self.session.run(
            statement, str(batch_id), str(part_id), after, MAX_ROWS_PER_STATEMENT, page_bytes
        ):
            rows = list(map(Row._make, page))
            yield rows
            after = rows[-1].row_version

    def part(
        self, batch_id: uuid.UUID, part_id: uuid.UUID, messages: int, *, bodies: bool = True
    ) -> Iterator[list[Row]]:
        """Yield the :meth:`pages` of a part whose number of ``messages`` is in the ledger.

        Raises :class:`BatchMismatchError` at the end if the number of rows differs.
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

    def erase(self, batch_id: uuid.UUID, part_id: uuid.UUID, rows: Sequence[tuple[int, str]]) -> tuple[int, int]:
        """Delete rows of a part, named by RowVersion and Id; return their number and their bytes."""
        erased = size = 0
        for piece in padded_chunks(rows):
            statement = self.query("message_table.erase", rows=Fragment(", ".join(["(?, ?)"] * len(piece))))
            values = [value for row in piece for value in row]
            count, gone = self.session.run(statement, *values, str(batch_id), str(part_id))[0]
            erased, size = erased + int(count), size + int(gone)
        return erased, size

    def leave_out(self, plan: PartPlan, row_versions: Sequence[int]) -> int:
        """Delete rows of a part, which stay in the queue, and return their number."""
        left = 0
        for chunk in padded_chunks(row_versions):
            statement = self.query("message_table.leave_out", row_versions=placeholders(chunk))
            left += int(self.session.value(statement, *_ids(plan), *chunk))
        return left

    def remove(self, batch_id: uuid.UUID) -> int:
        """Delete the rows of a batch in chunks, each with its own COMMIT, and return their number."""
        statement = self.query("message_table.remove")
        return self.session.sum_in_chunks(statement, MAX_ROWS_PER_STATEMENT, str(batch_id))


def _ids(plan: PartPlan) -> tuple[str, str]:
    return str(plan.batch_id), str(plan.part_id)


def _bytes(row: Sequence[Any]) -> int:
    """Return the bytes of a row's headers and body as the table counts them: its texts are UTF-16."""
    headers, body = row[NAMES.index("Headers")], row[NAMES.index("Body")]
    return len((headers or "").encode("utf-16-le", "surrogatepass")) + len(body or b"")
