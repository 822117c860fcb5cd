"""Stage ``files``: rows come to the client and are written to Parquet files; large bodies go to files of their own.

A drain takes rows out of the queue, a copy reads them in their order and leaves them there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from airflow_sqlqueue.drain.counts import PartCounts
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.base import PartPlan
from airflow_sqlqueue.drain.stages.enclosed_types import enclosed_types
from airflow_sqlqueue.drain.stages.part_file import PartFile, UnwritableError
from airflow_sqlqueue.drain.storage.batch_files import write_manifest
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import StagingError
from airflow_sqlqueue.messages.row import COLUMNS, EXPIRED, NAMES, ROW_VERSION, Row
from airflow_sqlqueue.queue.large_messages import PIECE, lock_large, read_body, read_heads, take_large
from airflow_sqlqueue.queue.quarantine import Quarantine
from airflow_sqlqueue.queue.redacting import RedactedRow
from airflow_sqlqueue.server.sql import readpast
from airflow_sqlqueue.server.sql.columns import copied_page

_BODY_BYTES = len(COLUMNS)
_ID, _HEADERS, _BODY = map(NAMES.index, ("Id", "Headers", "Body"))


@dataclass(frozen=True)
class FileStage:
    """Parquet files under ``folder``."""

    folder: StagingFolder
    name = "files"

    def check(self, options: DrainOptions) -> None:
        self.folder.check(options.file_mode)

    def copy(self, plan: PartPlan, wait: float | None) -> FileCopyWriter:
        return FileCopyWriter(plan, self.folder, wait)

    def part(self, plan: PartPlan) -> FilePartWriter:
        return FilePartWriter(plan, self.folder)

    def publish(self, batch: Batch, options: DrainOptions) -> None:
        write_manifest(self.folder, batch, options.file_mode)


class _FileWriter:
    """Part that is written to files, by a drain or by a copy."""

    def __init__(self, plan: PartPlan, folder: StagingFolder) -> None:
        self._queue, self._plan, self._options = plan.queue, plan, plan.options
        self._file = PartFile(folder, plan.folder, plan.part_id, plan.options.file_mode)
        self._after = plan.window.after
        self._has_inline = self._has_large = False
        self._redactor = plan.redactor
        self._redacted: list[RedactedRow] = []
        """Rows of the last statement that rules have changed."""

    def _redact(self, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Return the rows of a statement as the rules of the drain leave them."""
        if self._redactor is None:
            return rows
        redactor, types = self._redactor, enclosed_types([row[_HEADERS] for row in rows])
        if types is None:
            redacted = [redactor.examine(row).row for row in rows]
        else:
            redacted = [
                redactor.examine(row).row if redactor.concerns_types(names) else row
                for row, names in zip(rows, types, strict=True)
            ]
        self._redacted = [RedactedRow(old, new) for old, new in zip(rows, redacted, strict=True) if new is not old]
        return redacted

    def _keeps_body(self, headers: str | None, size: int) -> bool | None:
        """Return whether a large body is written as it is, or is left out; None: it must be read whole and redacted."""
        return True if self._redactor is None else self._redactor.keeps_large_body(headers, size)

    def _redact_large(
        self, row: Sequence[Any], body: bytes | None, *, keeps_body: bool
    ) -> tuple[Sequence[Any], bytes | None]:
        """Return a row as the rules leave it, without its body, and the redacted body if it was read."""
        if self._redactor is None:
            return row, None
        new = Row._make(self._redactor.examine((*row[:_BODY], body, *row[_BODY + 1 :])).row)
        self._redacted = [RedactedRow(row, new, keeps_body)]
        return new._replace(body=None), new.body

    def _kept(self, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Return the rows that the batch keeps: those that have not expired, or all."""
        return rows if self._options.keep_expired else [row for row in rows if not row[EXPIRED]]

    def _write(self, rows: Sequence[Sequence[Any]], body_file: str | None) -> int:
        """Write rows and return their bytes. Raises :class:`UnwritableError` with the reason for at least one row."""
        try:
            return self._file.write(rows, body_file)
        except UnwritableError as error:
            if not error.reasons:
                raise StagingError(
                    f"Messages {rows[0][ROW_VERSION]} to {rows[-1][ROW_VERSION]} (RowVersion) cannot be written "
                    "together: set a lower bytes_per_statement."
                ) from error
            raise

    def close(self) -> str | None:
        self._file.close()
        return self._file.path

    def abandon(self, *, remove: bool) -> None:
        self._file.abandon(remove=remove)


class FilePartWriter(_FileWriter):
    """Part that is drained to files. The rows of a statement are released before the next ones are read.

    Its rows are in the order of the queue, which a requeue relies on. So a part has either messages with inline bodies
    or, once the window has no more of them, messages with large ones.
    """

    def take(self, rows: int) -> PartCounts | None:
        if not self._has_large:
            counts = self._take_inline(rows)
            if counts is not None or self._has_inline:
                return counts
        return self._take_large()

    def _take_inline(self, rows: int) -> PartCounts | None:
        limits = (self._options.bytes_per_statement, self._options.inline_body_bytes)
        pieces = self._plan.window.above(self._after).pieces()
        head = (self._queue.delete_first_rows(rows, piece, *limits) for piece in pieces)
        taken = next(filter(None, head), None)
        if not taken:
            return None
        self._has_inline = True
        taken.sort(key=itemgetter(ROW_VERSION))
        counts = self._stage(self._redact(taken))
        if not counts.quarantined:
            self._after = counts.max_row_version
        return counts

    def _take_large(self) -> PartCounts | None:
        """Take one message with a large body, which ``delete_first_rows`` skips."""
        self._queue.session.save()
        pieces, limit = self._plan.window.above(self._after).pieces(), self._options.inline_body_bytes
        large = (lock_large(self._queue, piece, limit) for piece in pieces)
        found = next(filter(None, large), None)
        if found is None:
            return None
        body_file, size, body = None, 0, None
        keeps: bool | None = False
        if self._options.keep_expired or not found.expired:
            keeps = self._redactor is None or self._keeps_body(*read_heads(self._queue, found))
        if keeps:
            body_file, size = self._file.write_body(read_body(self._queue, found))
        elif keeps is None:
            body = b"".join(read_body(self._queue, found))
        self._has_large, self._after = True, found.row_version
        row, body = self._redact_large(take_large(self._queue, found), body, keeps_body=keeps is True)
        if body:
            body_file, size = self._file.write_body([body])
        return self._stage([row], body_file, size)

    def _stage(self, rows: Sequence[Sequence[Any]], body_file: str | None = None, body_bytes: int = 0) -> PartCounts:
        kept = self._kept(rows)
        try:
            size = self._write(kept, body_file) + (body_bytes if kept else 0)
        except UnwritableError as error:
            return self._quarantine_rows(error.reasons)
        low, high = rows[0][ROW_VERSION], rows[-1][ROW_VERSION]
        expired = len(rows) - len(kept)
        return PartCounts(messages=len(kept), expired=expired, bytes=size, min_row_version=low, max_row_version=high)

    def _quarantine_rows(self, reasons: dict[int, str]) -> PartCounts:
        """Undo the last statement of the part only, and move the rows that cannot be written into quarantine.

        The other rows are taken again.
        """
        self._queue.session.roll_back_to_savepoint()
        quarantine = Quarantine(self._queue.session, self._queue.address.catalog)
        moved = quarantine.move(self._queue, self._plan.batch_id, reasons)
        redacted = [row for row in self._redacted if row.old[ROW_VERSION] in reasons]
        quarantine.redact(self._queue.address, self._plan.batch_id, redacted)
        return PartCounts(quarantined=moved, min_row_version=min(reasons), max_row_version=max(reasons))


class FileCopyWriter(_FileWriter):
    """Part that is copied to files. Its rows are those of a window in their order, so the next part begins after it.

    ``wait`` is how long the copy waits for a row that others have locked; None: it skips the row. A message with a
    large body makes a part of its own.
    """

    def __init__(self, plan: PartPlan, folder: StagingFolder, wait: float | None) -> None:
        super().__init__(plan, folder)
        self._wait = wait
        self.copied = list[int]()

    def take(self, rows: int) -> PartCounts | None:
        while not self._has_large and (found := self._read(rows)):
            inline = 0
            while inline < len(found) and found[inline][_BODY_BYTES] <= self._options.inline_body_bytes:
                inline += 1
            if inline:
                self._has_inline = True
                return self._stage(list(self._redact([row[:_BODY_BYTES] for row in found[:inline]])))
            if self._has_inline:
                return None
            if counts := self._copy_large(found[0]):
                return counts
        return None

    def _read(self, rows: int) -> list[Any]:
        for piece in self._plan.window.above(self._after).pieces():
            fragments = copied_page(self._queue.layout.types, self._options.inline_body_bytes)
            values = (rows, *piece.values, self._options.bytes_per_statement)
            if found := self._rows("queue.peek_page", *values, **fragments, window=piece.condition):
                return [tuple(row) for row in found]
        return []

    def _rows(self, name: str, *values: Any, **fragments: Any) -> Any:
        """Run a query that waits for locked rows, or skips them."""
        wait = self._wait
        with nullcontext() if wait is None else self._queue.session.lock_timeout(wait):
            return self._queue.rows(name, *values, **fragments, readpast=readpast(wait is None))

    def _copy_large(self, row: Sequence[Any]) -> PartCounts | None:
        """Copy one message piece by piece; None if it was received in the meantime."""
        self._after, size = row[ROW_VERSION], row[_BODY_BYTES]
        if row[EXPIRED] and not self._options.keep_expired:
            return self._stage([row[:_BODY_BYTES]])
        keeps = self._keeps_body(row[_HEADERS], size)
        pieces, body_file, copied, body = self._pieces(row[ROW_VERSION], str(row[_ID]), size), None, size, None
        if keeps:
            body_file, copied = self._file.write_body(pieces)
        elif keeps is None:
            body = b"".join(pieces)
            copied = len(body)
        if copied != size:
            return None
        self._has_large = True
        new, body = self._redact_large(row[:_BODY_BYTES], body, keeps_body=keeps is True)
        if body:
            body_file, size = self._file.write_body([body])
        return self._stage([tuple(new)], body_file, size if body_file else 0)

    def _pieces(self, row_version: int, row_id: str, size: int) -> Iterator[bytes]:
        for start in range(1, size + 1, PIECE):
            found = self._rows("queue.copy_body", start, PIECE, row_version, row_id)
            if not found:
                return
            yield found[0][0]

    def _stage(self, rows: list[Any], body_file: str | None = None, body_bytes: int = 0) -> PartCounts:
        low, self._after = rows[0][ROW_VERSION], rows[-1][ROW_VERSION]
        self.copied += [row[ROW_VERSION] for row in rows]
        kept = self._kept(rows)
        expired, left_out = len(rows) - len(kept), 0
        try:
            size = self._write(kept, body_file)
        except UnwritableError as error:
            left_out = len(error.reasons)
            kept = [row for row in kept if row[ROW_VERSION] not in error.reasons]
            size = self._write(kept, body_file)
        return PartCounts(
            messages=len(kept),
            expired=expired,
            quarantined=left_out,
            bytes=size + (body_bytes if kept else 0),
            min_row_version=low,
            max_row_version=self._after,
        )
