"""Stage ``table``: rows move from the queue to a table beside it, on the server, and no file is written.

Transactions are short, as no file is written while rows are locked. On the other hand the server writes every message
twice and keeps the batch until it is swept, and Spark reads it from the server.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, replace

from airflow_sqlqueue.drain.counts import PartCounts
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.base import PartPlan
from airflow_sqlqueue.drain.stages.staging_table import MessageTable
from airflow_sqlqueue.messages.row import unreadable
from airflow_sqlqueue.queue.quarantine import Quarantine
from airflow_sqlqueue.queue.window import Window


@dataclass(frozen=True)
class TableStage:
    """Stage in the table of staged messages of the queue's database, in the schema of the ledger."""

    name = "table"

    def check(self, options: DrainOptions) -> None:
        """Do nothing: the table is created with the ledger."""

    def copy(self, plan: PartPlan, wait: float | None) -> TableCopyWriter:
        return TableCopyWriter(plan, wait)

    def part(self, plan: PartPlan) -> TablePartWriter:
        return TablePartWriter(plan)

    def publish(self, batch: Batch, options: DrainOptions) -> None:
        """Do nothing: the batch has no files."""


class _TableWriter:
    """Part that is written to the table. A rollback of its transaction undoes it completely."""

    def __init__(self, plan: PartPlan) -> None:
        self._plan, self._after = plan, plan.window.after
        self._session, self._catalog = plan.queue.session, plan.queue.address.catalog
        self._table = MessageTable(self._session, self._catalog)

    def take(self, rows: int) -> PartCounts | None:
        pieces = self._plan.window.above(self._after).pieces()
        moved = next(filter(None, (self._stage(rows, piece) for piece in pieces)), None)
        if moved is None:
            return None
        counts, suspect = moved
        if self._plan.redactor is not None:
            # The transaction that moves the rows redacts them, so that no committed row has what a rule names.
            longer = self._table.redact(self._plan, self._after, self._plan.redactor)
            counts = replace(counts, bytes=counts.bytes + longer)
        if suspect:
            counts = self._set_aside(counts)
        self._after = counts.max_row_version
        return counts

    @abstractmethod
    def _stage(self, rows: int, piece: Window) -> tuple[PartCounts, int] | None:
        """Stage the next rows of a window, which is one piece; return their counts, and how many may be unreadable."""

    def _set_aside(self, counts: PartCounts) -> PartCounts:
        """Remove rows of the last statement, whose counts are given, from the part if Spark cannot read them."""
        reasons, size = {}, 0
        for row, row_bytes in self._table.suspect(self._plan, self._after):
            if reason := unreadable(row):
                reasons[row.row_version] = reason
                size += row_bytes
        moved = self._remove(reasons) if reasons else 0
        return replace(counts, messages=counts.messages - moved, quarantined=moved, bytes=counts.bytes - size)

    @abstractmethod
    def _remove(self, reasons: dict[int, str]) -> int:
        """Remove rows, named by RowVersion, from the part, and return their number."""

    def close(self) -> None:
        """Do nothing: the COMMIT makes the part durable."""

    def abandon(self, *, remove: bool) -> None:
        """Do nothing: the rollback undoes the part."""


class TablePartWriter(_TableWriter):
    """Part that is moved into the table; rows that Spark cannot read go into quarantine."""

    def _stage(self, rows: int, piece: Window) -> tuple[PartCounts, int] | None:
        return self._table.take(self._plan, rows, piece)

    def _remove(self, reasons: dict[int, str]) -> int:
        where = (self._table.address, self._plan.queue.address, self._plan.batch_id, self._plan.part_id)
        return Quarantine(self._session, self._catalog).move_staged(*where, reasons)


class TableCopyWriter(_TableWriter):
    """Part that is copied into the table; rows that Spark cannot read are left out. ``wait`` as for files."""

    def __init__(self, plan: PartPlan, wait: float | None) -> None:
        super().__init__(plan)
        self._wait = wait
        self.copied = list[int]()

    def _stage(self, rows: int, piece: Window) -> tuple[PartCounts, int] | None:
        wait = self._wait
        with nullcontext() if wait is None else self._session.lock_timeout(wait):
            copied = self._table.copy(self._plan, rows, piece, passes=wait is None)
        if copied is None:
            return None
        counts, suspect, numbers = copied
        self.copied += numbers
        return counts, suspect

    def _remove(self, reasons: dict[int, str]) -> int:
        return self._table.leave_out(self._plan, sorted(reasons))
