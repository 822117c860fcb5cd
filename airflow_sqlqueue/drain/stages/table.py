"""Stage ``table``: rows move from the queue to a table beside it, on the server, and no file is written.

Transactions are short, as no file is written while rows are locked. On the other hand the server writes every message
twice and keeps the batch until it is swept, and Spark reads it from the server.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_sqlqueue.drain.counts import PartCounts
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.base import PartPlan, PartWriter
from airflow_sqlqueue.drain.stages.message_table import MessageTable
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.quarantine import Quarantine
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.row import unreadable
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA


@dataclass(frozen=True)
class TableStage:
    """Stage in the table of staged messages of the queue's database, in the schema of the ledger."""

    ledger_schema: str = LEDGER_SCHEMA
    name = "table"

    def check(self, options: DrainOptions) -> None:
        """Do nothing: the table is created with the ledger."""

    def copy(self, queue: QueueTable, plan: PartPlan, options: DrainOptions, wait: float | None) -> PartWriter:
        raise ConfigurationError('A copy goes to files: leave out stage="table" and name a staging folder.')

    def part(self, queue: QueueTable, quarantine: Quarantine, plan: PartPlan, options: DrainOptions) -> TablePartWriter:
        table = MessageTable(queue.session, queue.address.catalog, self.ledger_schema)
        return TablePartWriter(queue, quarantine, table, plan, options)

    def publish(self, batch: Batch, options: DrainOptions) -> None:
        """Do nothing: the batch has no files."""


class TablePartWriter:
    """Part that is moved into the table. A rollback of its transaction undoes it completely."""

    def __init__(
        self, queue: QueueTable, quarantine: Quarantine, table: MessageTable, plan: PartPlan, options: DrainOptions
    ) -> None:
        self._queue, self._quarantine, self._table = queue, quarantine, table
        self._plan, self._options = plan, options
        self._after = plan.window.after

    def take(self, rows: int) -> PartCounts | None:
        pieces = self._plan.window.above(self._after).pieces()
        moved = next(filter(None, (self._move(rows, piece) for piece in pieces)), None)
        if moved is None:
            return None
        counts, suspect = moved
        if self._plan.redactor is not None:
            # The transaction that moves the rows redacts them, so that no committed row has what a rule names.
            longer = self._table.redact(self._plan.batch_id, self._plan.part_id, self._after, self._plan.redactor)
            counts = replace(counts, bytes=counts.bytes + longer)
        if suspect:
            counts = self._quarantine_rows(counts)
        self._after = counts.max_row_version
        return counts

    def _move(self, rows: int, piece: Window) -> tuple[PartCounts, int] | None:
        return self._table.take(
            self._queue,
            self._plan.batch_id,
            self._plan.part_id,
            rows=rows,
            window=piece,
            max_bytes=self._options.bytes_per_statement,
            keep_expired=self._options.keep_expired,
        )

    def _quarantine_rows(self, counts: PartCounts) -> PartCounts:
        """Move rows of the last statement, whose counts are given, into quarantine if Spark cannot read them."""
        plan = self._plan
        reasons, size = {}, 0
        for row, row_bytes in self._table.suspect(self._queue, plan.batch_id, plan.part_id, self._after):
            if reason := unreadable(row):
                reasons[row.row_version] = reason
                size += row_bytes
        where = (self._table.address, self._queue.address, plan.batch_id, plan.part_id)
        moved = self._quarantine.move_staged(*where, reasons) if reasons else 0
        return replace(counts, messages=counts.messages - moved, quarantined=moved, bytes=counts.bytes - size)

    def close(self) -> None:
        """Do nothing: the COMMIT makes the part durable."""

    def abandon(self, *, remove: bool) -> None:
        """Do nothing: the rollback undoes the part."""
