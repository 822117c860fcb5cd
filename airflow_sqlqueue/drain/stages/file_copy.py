"""Copying into files: rows are read in the order of the queue, and stay there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from airflow_sqlqueue.drain.counts import PartCounts
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.base import PartPlan
from airflow_sqlqueue.drain.stages.part_file import PartFile, UnwritableError
from airflow_sqlqueue.errors import StagingError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.large_messages import PIECE
from airflow_sqlqueue.row import COLUMNS, EXPIRED, ROW_VERSION
from airflow_sqlqueue.sql import readpast
from airflow_sqlqueue.sql.columns import copied_page

_BODY_BYTES = len(COLUMNS)
_ID = [column.name for column in COLUMNS].index("Id")


class FileCopyWriter:
    """One part that is copied to files. It is all rows between two RowVersions, so the next one begins behind it.

    ``wait`` is how long a row that others have locked is waited for; None: it is passed over. A message with a large
    body makes a part of its own.
    """

    def __init__(
        self, queue: QueueTable, file: PartFile, plan: PartPlan, options: DrainOptions, wait: float | None
    ) -> None:
        self._queue, self._file, self._plan, self._options = queue, file, plan, options
        self._readpast = readpast(wait is None)
        self._wait = wait
        self._after = plan.window.after
        self._has_rows = self._has_large = False

    def take(self, rows: int) -> PartCounts | None:
        while not self._has_large and (found := self._read(rows)):
            inline = 0
            while inline < len(found) and found[inline][_BODY_BYTES] <= self._options.inline_body_bytes:
                inline += 1
            if inline:
                self._has_rows = True
                return self._stage([row[:_BODY_BYTES] for row in found[:inline]])
            if self._has_rows:
                return None
            if counts := self._copy_large(found[0]):
                return counts
        return None

    def _read(self, rows: int) -> list[Any]:
        values = (rows, self._after, self._plan.window.up_to, self._options.bytes_per_statement)
        fragments = copied_page(self._queue.layout.types, self._options.inline_body_bytes)
        with self._waiting():
            rows_found = self._queue.rows("queue.peek_page", *values, **fragments, readpast=self._readpast)
        return [tuple(row) for row in rows_found]

    def _waiting(self) -> Any:
        return nullcontext() if self._wait is None else self._queue.session.lock_timeout(self._wait)

    def _copy_large(self, row: Sequence[Any]) -> PartCounts | None:
        """Copy one message piece by piece; None for one that was received in the middle."""
        self._after, body = row[ROW_VERSION], row[_BODY_BYTES]
        if row[EXPIRED] and not self._options.keep_expired:
            return self._stage([row[:_BODY_BYTES]])
        body_file, size = self._file.write_body(self._pieces(row[ROW_VERSION], str(row[_ID]), body))
        if size != body:
            return None
        self._has_large = True
        return self._stage([row[:_BODY_BYTES]], body_file, size)

    def _pieces(self, row_version: int, row_id: str, size: int) -> Iterator[bytes]:
        for start in range(1, size + 1, PIECE):
            values = (start, PIECE, row_version, row_id)
            with self._waiting():
                found = self._queue.rows("queue.copy_body", *values, readpast=self._readpast)
            if not found:
                return
            yield found[0][0]

    def _stage(self, rows: list[Any], body_file: str | None = None, body_bytes: int = 0) -> PartCounts:
        low, self._after = rows[0][ROW_VERSION], rows[-1][ROW_VERSION]
        kept = rows if self._options.keep_expired else [row for row in rows if not row[EXPIRED]]
        expired, left_out = len(rows) - len(kept), 0
        try:
            size = self._file.write(kept, body_file)
        except UnwritableError as error:
            if not error.reasons:
                raise StagingError(
                    f"Messages {low} to {self._after} (RowVersion) cannot be written together: set a lower "
                    "bytes_per_statement."
                ) from error
            left_out = len(error.reasons)
            kept = [row for row in kept if row[ROW_VERSION] not in error.reasons]
            size = self._file.write(kept, body_file)
        size += body_bytes if kept else 0
        return PartCounts(
            messages=len(kept),
            expired=expired,
            quarantined=left_out,
            bytes=size,
            min_row_version=low,
            max_row_version=self._after,
        )

    def close(self) -> str | None:
        self._file.close()
        return self._file.path

    def abandon(self, *, remove: bool) -> None:
        self._file.abandon(remove=remove)
