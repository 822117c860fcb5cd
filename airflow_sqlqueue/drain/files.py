"""Part files: rows as Arrow, Arrow as Parquet, made durable under their final name.

Names hold the batch id and the part id and nothing of the queue's name: Spark drops files that begin with ``_`` or
``.`` without a word, and takes ``[ ] { } * ?`` for patterns (reference/spark.md, points 6 and 8).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_sqlqueue.drain.staging import DurableFile, StagingFolder
from airflow_sqlqueue.errors import StagingError
from airflow_sqlqueue.message import drained_row_schema


class PartFile:
    """One part's file while it is written. Nothing is on disk until the first rows come."""

    def __init__(self, staging: StagingFolder, batch_id: uuid.UUID, part_id: uuid.UUID) -> None:
        self._staging = staging
        self._name = f"{batch_id}/part-{part_id}.parquet"
        self._file: DurableFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self.messages = 0
        self.bytes = 0

    @property
    def path(self) -> str | None:
        """The URI for Spark; None where no row was written."""
        return f"{self._staging.uri}/{self._name}" if self.messages else None

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        """Add rows, as ``QueueTable.take_head`` gives them, as one row group."""
        if not rows:
            return
        try:
            batch = to_arrow(rows)
        except (pa.ArrowException, UnicodeError):
            # The cause would quote the value.
            raise StagingError(
                f"A message among RowVersion {rows[0][7]} to {rows[-1][7]} holds text that no file can keep (half a "
                "surrogate pair): receive it by itself; nothing was taken from the queue."
            ) from None
        if self._writer is None:
            self._open()
        assert self._writer is not None
        self._writer.write_batch(batch)
        self.messages += len(rows)
        self.bytes += sum(pc.sum(pc.binary_length(batch.column(name))).as_py() or 0 for name in ("Headers", "Body"))

    def _open(self) -> None:
        self._file = DurableFile(self._staging, self._name)
        self._writer = pq.ParquetWriter(
            self._file,
            drained_row_schema(),
            compression="zstd",
            compression_level=1,
            use_dictionary=["CorrelationId", "ReplyToAddress"],
            write_statistics=["RowVersion"],
        )

    def close(self) -> None:
        """Make the file durable: synced with its folder on a local disk, its upload finished elsewhere."""
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.close()

    def abandon(self) -> None:
        """Let go of the stream. The file stays: whoever sent a COMMIT must not remove it, and the sweep finds it."""
        if self._file is not None:
            self._file.abandon()
        if self._writer is not None:
            # Now, when its complaint that the stream is closed can be caught: else its finalizer complains on stderr.
            with suppress(Exception):
                self._writer.close()


def to_arrow(rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Rows of a queue table as one record batch of :func:`drained_row_schema`."""
    schema = drained_row_schema()
    identity, correlation, reply_to, recoverable, expires, headers, body, row_version, expired = zip(*rows, strict=True)
    columns = [
        [str(value).lower() for value in identity],
        correlation,
        reply_to,
        recoverable,
        expires,
        headers,
        body,
        row_version,
        expired,
    ]
    return pa.record_batch(
        [pa.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )
