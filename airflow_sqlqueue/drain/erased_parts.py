"""Parts of a batch that are written again without erased messages, and the removal of files that no part lists."""

from __future__ import annotations

import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from airflow_sqlqueue.bodies.text import MAX_BYTES
from airflow_sqlqueue.drain.batch_reader import part_batches
from airflow_sqlqueue.drain.ledger import ErasedPart, Part
from airflow_sqlqueue.drain.manifest import Batch, is_manifest
from airflow_sqlqueue.drain.stages.part_file import PartFile
from airflow_sqlqueue.drain.storage.batch_files import files_of, remove
from airflow_sqlqueue.drain.storage.folder import PRIVATE, StagingFolder, locate
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.row import BODY_FILE, COLUMN_HEADERS, drained_row_schema

ErasedRows: TypeAlias = "frozenset[int]"
"""Positions of erased rows in a part's file."""

_PIECE = 4 * 1024 * 1024


class FileEraser:
    """Eraser of messages in the files of one batch, whose names were checked.

    :param staging: the folder that the batch was drained to; None: by its paths, with the environment's credentials.
    """

    def __init__(self, batch: Batch, staging: StagingFolder | None, *, reads_bodies: bool) -> None:
        self.folders = [] if staging is None else [staging]
        if staging is not None and batch.paths and not batch.paths[0].startswith(f"{staging.uri}/"):
            # A batch may have been drained to another folder.
            staging = None
        self._batch, self._staging, self._reads_bodies = batch, staging, reads_bodies
        for path in batch.paths[:1]:
            locate(path, staging)
            above = path.rpartition("/")[0].rpartition("/")[0].removeprefix("file://")
            self.folder = StagingFolder.of(above) if staging is None else staging
            self.mode = _mode_of(self.folder, path)
            self.folders = [self.folder]

    def has_payloads(self) -> bool:
        """Whether payloads of the data bus were fetched for the batch, which :meth:`rewrite` does not change."""
        files = files_of(self.folder, uuid.UUID(self._batch.batch_id))
        return any(file.part_id is None and not is_manifest(file.path.rpartition("/")[2]) for file in files)

    def find(self, part: Part, matches: Callable[[Mapping[str, Any], bytes | None], bool]) -> ErasedRows:
        """Return the positions of the rows that match, by their ids, headers and, if conditions read them, bodies."""
        columns = ["Id", *COLUMN_HEADERS, "Headers", *(("Body", BODY_FILE) if self._reads_bodies else ())]
        rows = chain.from_iterable(each.to_pylist() for each in part_batches(part, columns, self._staging))
        return frozenset(position for position, row in enumerate(rows) if matches(row, self._body(row)))

    def _body(self, row: Mapping[str, Any]) -> bytes | None:
        """Return a body, only the beginning of one that is too large to be parsed, which no reader takes."""
        body_file = row.get(BODY_FILE)
        return b"".join(self._pieces(body_file, MAX_BYTES + 1)) if body_file else row.get("Body")

    def rewrite(self, found: Mapping[Part, ErasedRows]) -> list[ErasedPart]:
        """Write new files for these parts, durable, and return the parts; no file is left after an error."""
        written: list[PartFile] = []
        erased = []
        try:
            for part, rows in found.items():
                new_id = uuid.uuid4()
                file = PartFile(self.folder, uuid.UUID(self._batch.batch_id), new_id, self.mode)
                written.append(file)
                size = self._copy(part, rows, file)
                file.close()
                new = replace(part, id=new_id, path=file.path, messages=file.messages, bytes=size)
                erased.append(ErasedPart(part, new))
        except BaseException:
            for file in written:
                file.abandon(remove=True)
            raise
        return erased

    def _copy(self, part: Part, erased: ErasedRows, file: PartFile) -> int:
        schema, position, size = drained_row_schema(), 0, 0
        for rows in part_batches(part, schema.names, self._staging):
            kept = pa.array(index not in erased for index in range(position, position + rows.num_rows))
            position += rows.num_rows
            rest = rows.filter(kept)
            if not rest.num_rows:
                continue
            uris = rest.column(BODY_FILE).to_pylist()
            for place, uri in enumerate(uris):
                if uri:
                    uris[place], copied = file.write_body(self._pieces(uri))
                    size += copied
            columns = [*rest.columns[:-1], pa.array(uris, pa.string())]
            columns = [column.cast(kind) for column, kind in zip(columns, schema.types, strict=True)]
            size += file.write_batch(pa.record_batch(columns, schema))
        return size

    def _pieces(self, uri: str, most: int | None = None) -> Iterator[bytes]:
        """Read a body's file in pieces, at most about ``most`` bytes."""
        self._batch.check_files([uri])
        filesystem, path = locate(uri, self._staging)
        try:
            filesystem.invalidate_cache()
            with filesystem.open(path, "rb") as stream:
                read = 0
                while (most is None or read < most) and (piece := stream.read(_PIECE)):
                    read += len(piece)
                    yield piece
        except Exception as error:
            raise_staging_error(f"The file of a body {path} cannot be read", error)


def remove_unlisted(batch: Batch, parts: Iterable[Part], folders: Iterable[StagingFolder]) -> int:
    """Remove the files in a batch's folder that belong to none of its parts, and manifest files of earlier lists.

    The batch is not open, so that no part can be added to it. Returns the number of removed files.
    """
    listed = {part.id for part in parts}
    manifest = batch.manifest_path.rpartition("/")[2] if batch.paths else None
    removed = 0
    for folder in folders:
        for file in files_of(folder, uuid.UUID(batch.batch_id)):
            name = file.path.rpartition("/")[2]
            is_old = is_manifest(name) and name != manifest
            if is_old if file.part_id is None else file.part_id not in listed:
                remove(folder, file)
                removed += 1
    return removed


def _mode_of(folder: StagingFolder, path: str) -> int:
    """Return the permissions of a part's file on a local disk."""
    if not folder.is_local:
        return PRIVATE
    try:
        return stat.S_IMODE(Path(folder.root + path.removeprefix(folder.uri)).stat().st_mode)
    except OSError as error:
        raise_staging_error(f"The part file {path} cannot be read", error)
