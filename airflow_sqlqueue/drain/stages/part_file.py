"""Files of a part: a Parquet file of its rows, and a file beside it for each large body.

Names have the ids of batch and part, and not the queue's name: Spark silently drops files that begin with ``_`` or
``.``, and takes ``[ ] { } * ?`` for patterns (docs/design.md, "Files that Spark reads").
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_sqlqueue.drain.storage.durable_file import DurableFile
from airflow_sqlqueue.drain.storage.folder import PRIVATE, StagingFolder
from airflow_sqlqueue.messages.row import BODY_FILE, COLUMN_HEADERS, HALF_A_PAIR, ROW_VERSION, Row, drained_row_schema
from airflow_sqlqueue.threads import run_in_thread

# The first array of a process loads pandas, if installed, which takes a second: do it before rows are locked.
pa.array([], pa.int64())


PARQUET_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": list(COLUMN_HEADERS),
    "write_statistics": ["RowVersion"],
}
"""Options of Parquet's writer; ``make bench PARTS=compression`` compares others."""


class UnwritableError(Exception):
    """Error of rows that no file can keep: ``reasons`` by RowVersion. No row of their statement was written."""

    def __init__(self, reasons: dict[int, str]) -> None:
        super().__init__(f"{len(reasons)} rows cannot be written.")
        self.reasons = reasons


class PartFile:
    """Files of one part while they are written. The first rows create the file.

    Rows are compressed and written while the caller fetches the next ones; the next call raises their error.
    """

    def __init__(self, staging: StagingFolder, folder: str, part_id: uuid.UUID, mode: int = PRIVATE) -> None:
        """Begin a part without files, in the batch's folder. ``mode`` are their permissions on a local disk."""
        self._staging, self._folder, self._part_id, self._mode = staging, folder, part_id, mode
        self._file: DurableFile | None = None
        self._bodies: list[DurableFile] = []
        self._writer: pq.ParquetWriter | None = None
        self._writing: Future[None] | None = None
        self.messages = 0

    @property
    def _name(self) -> str:
        return f"{self._folder}/part-{self._part_id}.parquet"

    @property
    def path(self) -> str | None:
        """URI for Spark; None if no row was written."""
        return f"{self._staging.uri}/{self._name}" if self.messages else None

    def write(self, rows: Sequence[Sequence[Any]], body_file: str | None = None) -> int:
        """Add rows as one row group; return the bytes of headers and bodies.

        ``body_file`` is the file of the body, for a single row. Raises :class:`UnwritableError` for rows that cannot be
        kept; then no row is written.
        """
        if not rows:
            return 0
        try:
            batch = to_arrow(rows, body_file)
        except (pa.ArrowException, UnicodeError, ValueError):
            # The cause would quote the value.
            raise UnwritableError({row[ROW_VERSION]: reason for row in rows if (reason := unwritable(row))}) from None
        return self.write_batch(batch)

    def write_batch(self, batch: pa.RecordBatch) -> int:
        """Add rows of :func:`drained_row_schema` as one row group; return the bytes of headers and bodies."""
        self._settle()
        writer = self._writer = self._writer or self._open()
        self._writing = run_in_thread(lambda: writer.write_batch(batch), "staging")
        self.messages += batch.num_rows
        return sum(pc.sum(pc.binary_length(batch.column(name))).as_py() or 0 for name in ("Headers", "Body"))

    def write_body(self, pieces: Iterable[bytes]) -> tuple[str, int]:
        """Write a body to a file of its own, made durable; return its URI and its size in bytes."""
        name = f"{self._folder}/body-{self._part_id}-{len(self._bodies) + 1:06}.bin"
        body = DurableFile(self._staging, name, self._mode)
        self._bodies.append(body)
        size = 0
        for piece in pieces:
            body.write(piece)
            size += len(piece)
        body.close()
        return f"{self._staging.uri}/{name}", size

    def _settle(self) -> None:
        """Wait until the last rows are written."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _open(self) -> pq.ParquetWriter:
        self._file = DurableFile(self._staging, self._name, self._mode)
        return pq.ParquetWriter(self._file, drained_row_schema(), **PARQUET_OPTIONS)

    def close(self) -> None:
        """Make the file durable: synced with its folder on a local disk, its upload finished elsewhere."""
        self._settle()
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.close()

    def abandon(self, *, remove: bool) -> None:
        """Abandon the files, as :meth:`.DurableFile.abandon` does: after a COMMIT was sent no file may be removed."""
        with suppress(Exception):
            self._settle()
        for file in (self._file, *self._bodies):
            if file is not None:
                file.abandon(remove=remove)
        if self._writer is not None:
            # Close it here, where the error of the closed stream can be caught: its finalizer would print it on stderr.
            with suppress(Exception):
                self._writer.close()


def to_arrow(rows: Sequence[Sequence[Any]], body_file: str | None = None) -> pa.RecordBatch:
    """Make one record batch of :func:`drained_row_schema` from rows, each a :class:`Row` or the driver's.

    Raises :class:`ValueError` or an error of Arrow's for a value that the schema does not take.
    """
    schema = drained_row_schema()
    columns: dict[str, Sequence[Any]] = dict(zip(Row._fields, zip(*rows, strict=True), strict=True))
    columns["id"] = _lower_case(columns["id"])
    columns[BODY_FILE] = pa.repeat(pa.scalar(body_file, pa.string()), len(rows))
    arrays = [pa.array(values, type=field.type) for values, field in zip(columns.values(), schema, strict=True)]
    for array, field in zip(arrays, schema, strict=True):
        if array.null_count and not field.nullable:
            raise ValueError(f"{field.name} is NULL")
    return pa.record_batch(arrays, schema=schema)


def _lower_case(ids: Sequence[Any]) -> Any:
    """Return GUIDs as text in lower case. The driver gives texts or, if ``pyodbc.native_uuid`` is set, UUIDs."""
    try:
        return pc.ascii_lower(pa.array(ids, pa.string()))
    except pa.ArrowTypeError:
        return [None if value is None else str(value).lower() for value in ids]


def unwritable(row: Sequence[Any], convert: Callable[[Sequence[Any]], Any] = to_arrow) -> str | None:
    """Return the reason why a file or Spark cannot keep a row, without its values; None if they can.

    ``convert`` makes Arrow of rows, and raises the errors of :func:`to_arrow`.
    """
    try:
        convert([row])
    except UnicodeError:
        return HALF_A_PAIR
    except pa.ArrowException:
        return "a value is out of the range of its column"
    except ValueError as error:
        return str(error)
    return None
