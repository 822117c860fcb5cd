"""Payloads of a sealed batch: fetched from the data bus to a file beside the batch's parts.

The drain is over by then: the batch is complete without its payloads, and a payload that is gone does not fail it.
Each payload that a message names has one row, with its content or with the reason for its absence.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_sqlqueue import errors
from airflow_sqlqueue.drain.batch_reader import part_batches
from airflow_sqlqueue.drain.ledger import Part
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import FILE_MODES
from airflow_sqlqueue.drain.stages.part_file import PARQUET_OPTIONS
from airflow_sqlqueue.drain.storage.durable_file import DurableFile, replace_file
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.endpoint.databus import payload_file
from airflow_sqlqueue.endpoint.databus.data_bus import DataBus
from airflow_sqlqueue.endpoint.databus.options import PayloadOptions
from airflow_sqlqueue.messages.envelope.payloads import PayloadReference, payload_references
from airflow_sqlqueue.messages.message import HeaderNames, decode_headers
from airflow_sqlqueue.options.budget import MIB
from airflow_sqlqueue.threads import run_in_thread
from airflow_sqlqueue.untrusted import row_text

log = logging.getLogger(__name__)

_GROUP_BYTES, _GROUP_ROWS = 32 * MIB, 10_000
"""Bytes and rows after which a row group is written."""


@dataclass(frozen=True)
class StagedPayload:
    """Payload of a message of a batch, from the file beside the parts.

    :param row_id: the ``Id`` of the message's row.
    :param row_version: the RowVersion of the message's row.
    :param message_id: the message id, or the row's ``Id`` without that header.
    :param name: the name of the property, or the ``Key`` in the message's body for a ``ClaimCheckProperty``.
    :param key: the key in the data bus.
    :param content_type: the content type of the serialized value.
    :param content: the serialized value; None if it could not be fetched.
    :param reason: None, or ``gone``, ``too_large``, ``refused``, ``unreadable`` or ``over_limit``.
    """

    row_id: str
    row_version: int
    message_id: str
    name: str = field(repr=False)
    key: str | None = field(repr=False)
    content_type: str | None
    content: bytes | None = field(repr=False)
    reason: str | None


def fetch_payloads(
    batch: Batch,
    parts: Iterable[Part],
    data_bus: DataBus,
    staging: StagingFolder | None = None,
    options: PayloadOptions | None = None,
    on_payload: Callable[[], None] | None = None,
) -> payload_file.PayloadsResult:
    """Fetch the payloads that the messages of a sealed batch name, to one Parquet file in the batch's folder.

    ``parts`` are those of the ledger. Idempotent: once the payloads were fetched, a further call returns the first
    result and fetches nothing, because payloads may be gone by then. A call that is killed leaves a file that is not
    listed, which a sweep removes with the batch. ``on_payload`` is called after each payload.

    Raises :class:`BatchError` for a batch that is open or was put back, :class:`ConfigurationError` for a batch in a
    table, :class:`~airflow_sqlqueue.errors.DataBusUnreachableError` if the data bus cannot be read (nothing is listed
    then: repeat the call), and :class:`StagingError` and :class:`BatchMismatchError` for the batch's files.
    """
    payload_file.check_staged(batch)
    if not batch.paths:
        return payload_file.PayloadsResult(batch.batch_id)
    folder = _folder_of(batch, staging)
    found = _result_in(folder, batch)
    if found is not None:
        log.info("The payloads of batch %s were fetched already: %d", batch.batch_id, found.payloads)
        return found
    options = PayloadOptions.or_default(options)
    mode = FILE_MODES[options.readable_by or "owner"]
    writer = _Writer(folder, batch, mode)
    try:
        for payload in _Fetch(data_bus, options).all(_references(parts, folder)):
            writer.add(payload)
            if on_payload is not None:
                on_payload()
        result = writer.close()
    except BaseException:
        writer.abandon()
        raise
    replace_file(folder, f"{batch.folder}/{payload_file.MANIFEST}", json.dumps(result.to_dict()).encode(), mode)
    log.info(
        "Batch %s has %d payloads: %d fetched with %d bytes, %d gone, %d too large, %d refused, "
        "%d unreadable, %d over the limit",
        *(batch.batch_id, result.payloads, result.fetched, result.bytes),
        *(result.gone, result.too_large, result.refused, result.unreadable, result.over_limit),
    )
    return result


def staged_payloads(batch: Batch, staging: StagingFolder | None = None) -> Iterator[StagedPayload]:
    """Yield the payloads of a batch that :func:`fetch_payloads` has staged, in the order of the parts.

    Memory holds one row group, which is up to 32 MiB and one payload. Raises :class:`BatchError` if they were not
    fetched, and :class:`StagingError` and :class:`BatchMismatchError` for a file that is missing or was changed.
    """
    payload_file.check_staged(batch)
    if not batch.paths:
        return
    folder = _folder_of(batch, staging)
    result = _result_in(folder, batch)
    if result is None:
        raise errors.BatchError(f"The payloads of batch {batch.batch_id} were not fetched: call fetch_payloads first.")
    if result.file is None:
        return
    path = f"{folder.root}/{batch.folder}/{result.file}"
    try:
        with folder.filesystem.open(path, "rb") as stream, pq.ParquetFile(stream) as file:
            if file.metadata.num_rows != result.payloads:
                raise errors.BatchMismatchError(
                    f"The payloads of batch {batch.batch_id} are {file.metadata.num_rows}, and their manifest says "
                    f"{result.payloads}: a file was changed; do not use them."
                )
            for group in range(file.num_row_groups):
                for rows in file.iter_batches(64, row_groups=[group]):
                    yield from (StagedPayload(*row.values()) for row in rows.to_pylist())
    except (errors.SqlQueueError, MemoryError, GeneratorExit):
        raise
    except Exception as error:
        raise_staging_error(f"The payloads of batch {batch.batch_id} cannot be read", error)


@dataclass(frozen=True)
class _Named:
    """Payload that a message names."""

    row_id: str
    row_version: int
    message_id: str
    reference: PayloadReference
    content_type: str | None


def _references(parts: Iterable[Part], folder: StagingFolder) -> Iterator[_Named]:
    """Yield the payloads that the messages of the parts name; of the rows only ids and headers are read."""
    for part in parts:
        if part.path is None:
            continue
        for rows in part_batches(part, ("Id", "RowVersion", "Headers"), folder):
            for row_id, row_version, text in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                if HeaderNames.DATA_BUS_PREFIX not in text and "\\u" not in text:
                    continue
                headers = decode_headers(text).values
                message_id = headers.get(HeaderNames.MESSAGE_ID) or row_id
                content_type = headers.get(HeaderNames.DATA_BUS_CONTENT_TYPE)
                for reference in payload_references(headers):
                    yield _Named(row_id, row_version, message_id, reference, content_type)


class _Fetch:
    """Fetch of payloads side by side, in their order, within the limits of a batch."""

    def __init__(self, data_bus: DataBus, options: PayloadOptions) -> None:
        self._data_bus, self._options, self._left = data_bus, options, options.max_bytes

    def all(self, named: Iterable[_Named]) -> Iterator[StagedPayload]:
        """Yield each payload with its content or a reason. The workers hold as many payloads as there are workers."""
        waiting: deque[tuple[_Named, Future[tuple[bytes | None, str | None]]]] = deque()
        for each in named:
            # An abandoned worker must not keep the process alive, so it is no thread of a pool.
            waiting.append((each, run_in_thread(partial(self._fetch, each.reference, self._left), "staging")))
            if len(waiting) == self._options.workers:
                yield self._settle(*waiting.popleft())
        while waiting:
            yield self._settle(*waiting.popleft())

    def _fetch(self, reference: PayloadReference, left: int) -> tuple[bytes | None, str | None]:
        most = min(self._options.payload_bytes, left)
        try:
            return self._data_bus.fetch(reference.key, reference.property_name, limit=most), None
        except errors.PayloadGoneError:
            return None, payload_file.GONE
        except errors.PayloadTooLargeError as error:
            return None, payload_file.TOO_LARGE if error.size > self._options.payload_bytes else payload_file.OVER_LIMIT
        except errors.PayloadKeyError:
            return None, payload_file.REFUSED
        except errors.PayloadUnreadableError:
            return None, payload_file.UNREADABLE

    def _settle(self, named: _Named, fetched: Future[tuple[bytes | None, str | None]]) -> StagedPayload:
        content, reason = fetched.result()
        # Payloads that were fetched at the same time may be too many together.
        if content is not None and len(content) > self._left:
            content, reason = None, payload_file.OVER_LIMIT
        self._left -= len(content or b"")
        reference = named.reference
        return StagedPayload(
            named.row_id,
            named.row_version,
            row_text(named.message_id),
            row_text(reference.name),
            None if reference.key is None else row_text(reference.key),
            None if named.content_type is None else row_text(named.content_type),
            content,
            reason,
        )


class _Writer:
    """Writer of one file of payloads; the first payload creates it."""

    def __init__(self, folder: StagingFolder, batch: Batch, mode: int) -> None:
        self._folder, self._batch, self._mode = folder, batch, mode
        self._name = f"payloads-{uuid.uuid4()}.parquet"
        self._file: DurableFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._rows: list[StagedPayload] = []
        self._waiting = 0
        self._bytes, self._counts = 0, dict.fromkeys((None, *payload_file.REASONS), 0)

    def add(self, payload: StagedPayload) -> None:
        """Add a payload; raises :class:`StagingError`."""
        size = len(payload.content or b"")
        self._rows.append(payload)
        self._waiting += size + len(payload.key or "") + len(payload.name)
        self._bytes += size
        self._counts[payload.reason] += 1
        if self._waiting >= _GROUP_BYTES or len(self._rows) >= _GROUP_ROWS:
            self._flush()

    def close(self) -> payload_file.PayloadsResult:
        """Make the file durable and return its counts."""
        self._flush()
        if self._writer is None or self._file is None:
            return payload_file.PayloadsResult(self._batch.batch_id)
        self._writer.close()
        self._file.close()
        counts = {reason: count for reason, count in self._counts.items() if reason is not None}
        return payload_file.PayloadsResult(self._batch.batch_id, self._name, self._counts[None], self._bytes, **counts)

    def abandon(self) -> None:
        """Remove the file, which no manifest names; never raises."""
        if self._file is not None:
            self._file.abandon(remove=True)
        if self._writer is not None:
            with suppress(Exception):
                self._writer.close()

    def _flush(self) -> None:
        if not self._rows:
            return
        if self._writer is None:
            self._file = DurableFile(self._folder, f"{self._batch.folder}/{self._name}", self._mode)
            self._writer = pq.ParquetWriter(
                self._file,
                payload_file.arrow_schema(),
                **{**PARQUET_OPTIONS, "use_dictionary": ["property", "content_type", "reason"]},
            )
        columns = zip(*(vars(row).values() for row in self._rows), strict=True)
        arrays = [
            pa.array(values, field.type) for values, field in zip(columns, payload_file.arrow_schema(), strict=True)
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=payload_file.arrow_schema()))
        self._rows.clear()
        self._waiting = 0


def _folder_of(batch: Batch, staging: StagingFolder | None) -> StagingFolder:
    """Return the staging folder that has the batch's folder: ``staging``, or that of the part files' paths."""
    uri = batch.paths[0].rsplit("/", 2)[0]
    if staging is not None and uri == staging.uri:
        return staging
    # Without the scheme, as a percent sign in the path is an ordinary character.
    return StagingFolder.of(uri.removeprefix("file://"))


def _result_in(folder: StagingFolder, batch: Batch) -> payload_file.PayloadsResult | None:
    try:
        folder.filesystem.invalidate_cache()
        content = folder.filesystem.cat_file(f"{folder.root}/{batch.folder}/{payload_file.MANIFEST}")
    except FileNotFoundError:
        return None
    except Exception as error:
        raise_staging_error(f"The payloads of batch {batch.batch_id} cannot be read", error)
    return payload_file.read_result(content, batch.batch_id)
