"""Staging in files: rows come to the client and go to Parquet, large bodies piece by piece to files of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from airflow_sqlqueue.drain.counts import PartCounts
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.base import PartPlan
from airflow_sqlqueue.drain.stages.file_copy import FileCopyWriter
from airflow_sqlqueue.drain.stages.part_file import PartFile, UnwritableError
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.manifest_file import write_manifest
from airflow_sqlqueue.errors import StagingError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.large_messages import lock_large, read_body, take_large
from airflow_sqlqueue.queue.quarantine import Quarantine
from airflow_sqlqueue.row import EXPIRED, ROW_VERSION

_UNDECIDED, _INLINE, _LARGE = range(3)


@dataclass(frozen=True)
class FileStage:
    """Parquet files under ``folder``."""

    folder: StagingFolder
    name = "files"

    def check(self, options: DrainOptions) -> None:
        self.folder.check(options.file_mode)

    def copy(self, queue: QueueTable, plan: PartPlan, options: DrainOptions, wait: float | None) -> FileCopyWriter:
        file = PartFile(self.folder, plan.batch_id, plan.part_id, options.file_mode)
        return FileCopyWriter(queue, file, plan, options, wait)

    def part(self, queue: QueueTable, quarantine: Quarantine, plan: PartPlan, options: DrainOptions) -> FilePartWriter:
        file = PartFile(self.folder, plan.batch_id, plan.part_id, options.file_mode)
        return FilePartWriter(queue, quarantine, file, plan, options)

    def publish(self, batch: Batch, options: DrainOptions) -> None:
        write_manifest(self.folder, batch, options.file_mode)


class FilePartWriter:
    """One part that is written to files. The rows of a statement are released before the next ones are read.

    Its rows are in the order of the queue, which a requeue relies on. So a part has either messages with inline bodies
    or, once the window has no more of them, messages with large ones.
    """

    def __init__(
        self, queue: QueueTable, quarantine: Quarantine, file: PartFile, plan: PartPlan, options: DrainOptions
    ) -> None:
        self._queue, self._quarantine, self._file = queue, quarantine, file
        self._plan, self._options = plan, options
        self._after = plan.window.after
        self._kind = _UNDECIDED

    def take(self, rows: int) -> PartCounts | None:
        if self._kind != _LARGE:
            counts = self._take_inline(rows)
            if counts is not None or self._kind == _INLINE:
                return counts
        return self._take_large()

    def _take_inline(self, rows: int) -> PartCounts | None:
        limits = (self._options.bytes_per_statement, self._options.inline_body_bytes)
        pieces = self._plan.window.above(self._after).pieces()
        head = (self._queue.take_head(rows, piece, *limits) for piece in pieces)
        taken = next(filter(None, head), None)
        if not taken:
            return None
        self._kind = _INLINE
        taken.sort(key=itemgetter(ROW_VERSION))
        counts = self._stage(taken)
        if not counts.quarantined:
            self._after = counts.max_row_version
        return counts

    def _take_large(self) -> PartCounts | None:
        """Take one message that ``take_head`` passes over."""
        self._queue.session.save()
        pieces, limit = self._plan.window.above(self._after).pieces(), self._options.inline_body_bytes
        large = (lock_large(self._queue, piece, limit) for piece in pieces)
        found = next(filter(None, large), None)
        if found is None:
            return None
        body_file, size = None, 0
        if self._options.keep_expired or not found.expired:
            body_file, size = self._file.write_body(read_body(self._queue, found))
        self._kind, self._after = _LARGE, found.row_version
        return self._stage([take_large(self._queue, found)], body_file, size)

    def _stage(self, rows: Sequence[Sequence[Any]], body_file: str | None = None, body_bytes: int = 0) -> PartCounts:
        kept = rows if self._options.keep_expired else [row for row in rows if not row[EXPIRED]]
        low, high = rows[0][ROW_VERSION], rows[-1][ROW_VERSION]
        try:
            size = self._file.write(kept, body_file) + (body_bytes if kept else 0)
        except UnwritableError as error:
            return self._set_aside(error.reasons, low, high)
        expired = len(rows) - len(kept)
        return PartCounts(messages=len(kept), expired=expired, bytes=size, min_row_version=low, max_row_version=high)

    def _set_aside(self, reasons: dict[int, str], low: int, high: int) -> PartCounts:
        """Undo the statement, and nothing else of the part, and move what cannot be written into quarantine.

        The other rows are taken again.
        """
        if not reasons:
            raise StagingError(
                f"Messages {low} to {high} (RowVersion) cannot be written together: set a lower bytes_per_statement."
            )
        self._queue.session.roll_back_to_savepoint()
        moved = self._quarantine.move(self._queue, self._plan.batch_id, reasons)
        return PartCounts(quarantined=moved, min_row_version=min(reasons), max_row_version=max(reasons))

    def close(self) -> str | None:
        self._file.close()
        return self._file.path

    def abandon(self, *, remove: bool) -> None:
        self._file.abandon(remove=remove)
