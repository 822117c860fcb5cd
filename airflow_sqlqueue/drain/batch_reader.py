"""Reader of staged parts, files or rows of a table: their rows in the order of the queue."""

from __future__ import annotations

import heapq
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.stages.staging_table import MessageTable
from airflow_sqlqueue.drain.storage.folder import StagingFolder, locate
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.errors import BatchMismatchError, SqlQueueError, StagingError
from airflow_sqlqueue.messages.row import BODY_FILE, NAMES, Row

_ROWS = 256


def rows_in_order(parts: Iterable[Part], staging: StagingFolder | None = None) -> Iterator[Row]:
    """Yield the rows of the parts' files by ascending RowVersion.

    Memory holds one row group (the rows of one statement of the drain) of each file that overlaps the present
    RowVersion: parts of parallel workers interleave. ``staging`` is the folder that the batch was drained to, needed if
    its object store takes more than the environment's credentials.

    Raises :class:`StagingError` for a file that cannot be read, and :class:`BatchMismatchError` for a file whose number
    of rows differs from the ledger's.
    """

    def rows(part: Part) -> Iterator[Row]:
        filesystem, path = locate(str(part.path), staging)
        for batch in _batches(part, filesystem, path):
            yield from (_row(values, filesystem, path) for values in batch.to_pylist())

    return merged((part for part in parts if part.path is not None), rows)


def batch_rows(ledger: Ledger, batch_id: uuid.UUID, stage: str, staging: StagingFolder | None = None) -> Iterator[Row]:
    """Yield the rows of a batch by ascending RowVersion; ``stage`` is the ledger's, ``staging`` is for files.

    Memory holds one row group of a file, or one page of the table of staged messages, for each part that overlaps the
    present RowVersion. Raises as :func:`rows_in_order`.
    """
    parts = ledger.parts(batch_id)
    if stage != "table":
        return rows_in_order(parts, staging)
    table = MessageTable(ledger.session, ledger.catalog, ledger.schema)

    def rows(part: Part) -> Iterator[Row]:
        return chain.from_iterable(table.part(batch_id, part.id, part.messages))

    return merged((part for part in parts if part.messages), rows)


def batch_headers(
    ledger: Ledger, batch_id: uuid.UUID, stage: str, staging: StagingFolder | None, having: str
) -> Iterator[list[str]]:
    """Yield the texts of the headers of a batch that contain ``having``, in no order; bodies are not read.

    Each list has those of some hundred messages, and may be empty, so that the caller can end the search. ``having`` is
    found as it is written, with case. Memory holds the headers of some hundred messages. Raises as
    :func:`rows_in_order`.
    """
    if stage != "table":
        for part in ledger.parts(batch_id):
            if part.path is not None:
                for batch in part_batches(part, ["Headers"], staging):
                    texts = batch.column(0)
                    yield texts.filter(pc.match_substring(texts, having)).to_pylist()
        return
    table = MessageTable(ledger.session, ledger.catalog, ledger.schema)
    for part in ledger.parts(batch_id):
        for page in table.part(batch_id, part.id, part.messages, bodies=False) if part.messages else ():
            yield [row.headers for row in page if having in row.headers]


def merged(parts: Iterable[Part], rows: Callable[[Part], Iterator[Row]]) -> Iterator[Row]:
    """Merge the rows of parts that are each in order. A part is opened when its lowest RowVersion is next."""
    waiting = deque(sorted(parts, key=lambda part: part.min_row_version))
    heads: list[tuple[int, int, Row, Iterator[Row]]] = []
    opened = 0
    while waiting or heads:
        while waiting and (not heads or waiting[0].min_row_version <= heads[0][0]):
            rest = rows(waiting.popleft())
            opened += 1
            for first in rest:
                heapq.heappush(heads, (first.row_version, opened, first, rest))
                break
        if not heads:
            continue
        _, number, row, rest = heads[0]
        yield row
        following = next(rest, None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following.row_version, number, following, rest))


def part_batches(part: Part, columns: Sequence[str], staging: StagingFolder | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the named columns of a part's file, in the order of its rows. Raises as :func:`rows_in_order`."""
    return _batches(part, *locate(str(part.path), staging), list(columns))


def _batches(part: Part, filesystem: Any, path: str, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    # A cached directory may be older than the file: then the file would not be found.
    filesystem.invalidate_cache()
    with _translate_read_errors(path), filesystem.open(path, "rb") as stream, pq.ParquetFile(stream) as file:
        if file.metadata.num_rows != part.messages:
            raise BatchMismatchError(
                f"The part file {path} has {file.metadata.num_rows} messages, the ledger says {part.messages}: "
                "the file or the database was changed; nothing was done."
            )
        for group in range(file.num_row_groups):
            # One group at a time: otherwise a batch of rows spans groups, and one row can be as large as a group.
            yield from file.iter_batches(_ROWS, row_groups=[group], columns=columns)


def _row(values: dict[str, Any], filesystem: Any, path: str) -> Row:
    row = Row._make(values[name] for name in NAMES)
    if row.expires is not None:
        row = row._replace(expires=row.expires.replace(tzinfo=None))
    body_file = values[BODY_FILE]
    return row._replace(body=_body(body_file, filesystem, path)) if body_file else row


def _body(uri: str, filesystem: Any, part_path: str) -> bytes:
    """Read a body that was too large for its row; its file is beside the part's."""
    path = part_path.rpartition("/")[0] + "/" + uri.rpartition("/")[2]
    with _translate_read_errors(path):
        return bytes(filesystem.cat_file(path))


@contextmanager
def _translate_read_errors(path: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowException as error:
        raise StagingError(f"The part file {path} is damaged: restore it from a backup.") from error
    except (SqlQueueError, MemoryError):
        raise
    except Exception as error:
        raise_staging_error(f"The part file {path} cannot be read", error)
