"""Staging in a table: rows move from the queue to a table beside it, on the server, and nothing is written elsewhere.

Short transactions without files under locks. The price is that the server writes every message twice and keeps the
batch until it is swept, and that Spark reads it from the server.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.quarantine import Quarantine
from airflow_sqlqueue.drain.stages.base import PartCounts, PartWindow, PartWriter
from airflow_sqlqueue.drain.stages.message_table import MessageTable, MovedRows
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import Span
from airflow_sqlqueue.row import unreadable
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA


@dataclass(frozen=True)
class TableStage:
    """The table of staged messages of the queue's database, in the schema of the ledger."""

    ledger_schema: str = LEDGER_SCHEMA
    name = "table"

    def check(self, options: DrainOptions) -> None:
        """Nothing: the table is made with the ledger."""

    def copy(self, queue: QueueTable, plan: PartWindow, options: DrainOptions, wait: float | None) -> PartWriter:
        raise ConfigurationError('A copy goes to files: leave out stage="table" and name a staging folder.')

    def part(
        self, queue: QueueTable, quarantine: Quarantine, plan: PartWindow, options: DrainOptions
    ) -> TablePartWriter:
        table = MessageTable(queue.session, queue.address.catalog, self.ledger_schema)
        return TablePartWriter(queue, quarantine, table, plan, options)

    def publish(self, batch: Batch, options: DrainOptions) -> None:
        """Nothing: there are no files to name."""


class TablePartWriter:
    """One part that is moved into the table. The transaction is all there is: a rollback leaves nothing behind."""

    def __init__(
        self, queue: QueueTable, quarantine: Quarantine, table: MessageTable, plan: PartWindow, options: DrainOptions
    ) -> None:
        self._queue, self._quarantine, self._table = queue, quarantine, table
        self._plan, self._options = plan, options
        self._after = plan.after

    def take(self, rows: int) -> PartCounts | None:
        pieces = self._plan.pieces_above(self._after)
        moved = next(filter(None, (self._move(rows, piece) for piece in pieces)), None)
        if moved is None:
            return None
        quarantined, size = self._set_aside() if moved.suspect else (0, 0)
        self._after = moved.high
        messages = moved.rows - moved.expired - quarantined
        return PartCounts(messages, moved.expired, quarantined, moved.bytes - size, moved.low, moved.high)

    def _move(self, rows: int, piece: Span) -> MovedRows | None:
        return self._table.take(
            self._queue,
            self._plan.batch_id,
            self._plan.part_id,
            rows=rows,
            after=piece.after,
            up_to=piece.up_to,
            chosen=piece.chosen,
            max_bytes=self._options.bytes_per_statement,
            keep_expired=self._options.keep_expired,
        )

    def _set_aside(self) -> tuple[int, int]:
        """Move what Spark cannot read from the last statement's rows into quarantine; how many, and their bytes."""
        plan = self._plan
        reasons, size = {}, 0
        for row, row_bytes in self._table.suspect(self._queue, plan.batch_id, plan.part_id, self._after):
            if reason := unreadable(row):
                reasons[row.row_version] = reason
                size += row_bytes
        where = (self._table.address, self._queue.address, plan.batch_id, plan.part_id)
        return self._quarantine.move_staged(*where, reasons) if reasons else 0, size

    def close(self) -> None:
        """Nothing: the COMMIT makes it durable."""

    def abandon(self) -> None:
        """Nothing: the rollback undoes it."""
