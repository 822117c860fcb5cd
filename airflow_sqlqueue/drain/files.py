"""Part files: rows as Arrow, Arrow as Parquet, made durable under their final name.

Names hold the batch id and the part id and nothing of the queue's name: Spark drops files that begin with ``_`` or
``.`` without a word, and takes ``[ ] { } * ?`` for patterns (reference/spark.md, points 6 and 8).
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_sqlqueue.errors import ConfigurationError, StagingError
from airflow_sqlqueue.message import drained_row_schema

_SPARK_SCHEMES = {"s3": "s3a", "gcs": "gs", "adl": "abfs", "az": "abfs"}


@dataclass(frozen=True)
class StagingFolder:
    """Where batches are written. ``uri`` is the form in which Spark finds ``root`` on ``filesystem``."""

    filesystem: Any
    root: str
    uri: str

    @classmethod
    def of(cls, location: Any) -> StagingFolder:
        """A folder from a path, a URL, or an Airflow ``ObjectStoragePath`` (what has ``fs`` and ``path``)."""
        if hasattr(location, "fs") and hasattr(location, "path"):
            filesystem, root = location.fs, location.path
        else:
            try:
                filesystem, root = fsspec.core.url_to_fs(os.fspath(location))
            except (ValueError, ImportError, TypeError) as error:
                raise ConfigurationError(f"The staging location {location!r} cannot be used: {error}.") from error
        root = root.rstrip("/")
        if re.search(r"[][{}*?\\]", root):
            raise ConfigurationError(
                f"The staging location {root!r} holds one of [ ] {{ }} * ? \\, patterns to Spark: choose another."
            )
        protocol = filesystem.protocol if isinstance(filesystem.protocol, str) else filesystem.protocol[0]
        if protocol in {"file", "local"}:
            # Not as_uri(): Hadoop's Path takes a percent sign for itself.
            return cls(filesystem, str(Path(root).absolute()), f"file://{Path(root).absolute()}")
        return cls(filesystem, root, f"{_SPARK_SCHEMES.get(protocol, protocol)}://{root.lstrip('/')}")

    @property
    def is_local(self) -> bool:
        return self.uri.startswith("file://")


class PartFile:
    """One part's file while it is written. Nothing is on disk until the first rows come."""

    def __init__(self, staging: StagingFolder, batch_id: uuid.UUID, part_id: uuid.UUID) -> None:
        self._staging = staging
        self._name = f"{batch_id}/part-{part_id}.parquet"
        self._stream: Any = None
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
        try:
            if self._writer is None:
                self._open()
            assert self._writer is not None
            self._writer.write_batch(batch)
        except OSError as error:
            raise self._failed("written", error) from error
        self.messages += len(rows)
        self.bytes += sum(pc.sum(pc.binary_length(batch.column(name))).as_py() or 0 for name in ("Headers", "Body"))

    def _open(self) -> None:
        path = f"{self._staging.root}/{self._name}"
        if self._staging.is_local:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._stream = Path(path).open("xb")  # noqa: SIM115 - closed by close() or abandon()
        else:
            self._stream = self._staging.filesystem.open(path, "wb")
        self._writer = pq.ParquetWriter(
            self._stream,
            drained_row_schema(),
            compression="zstd",
            compression_level=1,
            use_dictionary=["CorrelationId", "ReplyToAddress"],
            write_statistics=["RowVersion"],
        )

    def close(self) -> None:
        """Make the file durable: synced with its folder on a local disk, its upload finished elsewhere."""
        if self._writer is None:
            return
        try:
            self._writer.close()
            if self._staging.is_local:
                self._stream.flush()
                os.fsync(self._stream.fileno())
            self._stream.close()
            if self._staging.is_local:
                folder = Path(self._staging.root, self._name).parent
                _sync_folder(folder)
                _sync_folder(folder.parent)
        except OSError as error:
            raise self._failed("made durable", error) from error

    def abandon(self) -> None:
        """Let go of the stream. The file stays: whoever sent a COMMIT must not remove it, and the sweep finds it."""
        if self._stream is not None and self._staging.is_local:
            self._stream.close()
        elif self._stream is not None and hasattr(self._stream, "discard"):
            self._stream.discard()
        if self._writer is not None:
            # Now, when its complaint that the stream is closed can be caught: else its finalizer complains on stderr.
            with suppress(Exception):
                self._writer.close()

    def _failed(self, what: str, error: OSError) -> StagingError:
        return StagingError(
            f"The part file {self._name} cannot be {what} under {self._staging.root}: {error.strerror or error}."
        )


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


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
