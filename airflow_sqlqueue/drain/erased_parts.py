"""Parts of a batch in files, which are written again without erased messages, and the removal of unlisted files."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa

from airflow_sqlqueue.drain.batch_reader import part_batches
from airflow_sqlqueue.drain.ledger import ErasedPart, Part
from airflow_sqlqueue.drain.manifest import Batch, is_manifest
from airflow_sqlqueue.drain.stages.part_file import PartFile
from airflow_sqlqueue.drain.storage.batch_files import files_of, remove, write_manifest
from airflow_sqlqueue.drain.storage.folder import PRIVATE, StagingFolder, locate
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.messages.row import BODY_FILE, COLUMN_HEADERS, drained_row_schema
from airflow_sqlqueue.options.budget import MIB

_PIECE = MIB
"""Bytes of a body that are in memory while its file is copied."""


class FileEraser:
    """Eraser of messages in the files of one batch, whose names were checked; without parts it needs ``staging``.

    ``folder`` is the name of the batch's folder in the ledger.
    """

    def __init__(self, batch: Batch, folder: str, staging: StagingFolder | None) -> None:
        self._batch, self._folder = batch, folder
        path = batch.paths[0] if batch.paths else ""
        # A batch may have been drained to another folder.
        if staging is None or (path and not path.startswith(f"{staging.uri}/")):
            locate(path, None)
            staging = StagingFolder.of(path.rsplit("/", 2)[0].removeprefix("file://"))
        self._staging = staging

    def has_payloads(self) -> bool:
        """Return whether payloads of the data bus were fetched for the batch, which :meth:`rewrite` does not change."""
        files = files_of(self._staging, self._folder)
        return any(file.part_id is None and not is_manifest(file.path.rpartition("/")[2]) for file in files)

    def rows(self, part: Part, *, bodies: bool) -> Iterator[dict[str, Any]]:
        """Yield the ids and headers of a part's rows and, if asked for, bodies, of large ones only the beginning."""
        columns = ["Id", *COLUMN_HEADERS, "RowVersion", "Headers", *(("Body", BODY_FILE) if bodies else ())]
        for row in chain.from_iterable(each.to_pylist() for each in part_batches(part, columns, self._staging)):
            if row.get(BODY_FILE):
                row["Body"] = next(self._pieces(row[BODY_FILE]), b"")
            yield row

    def rewrite(self, found: Mapping[Part, Collection[tuple[int, str]]]) -> list[ErasedPart]:
        """Write durable files for parts without the rows of these RowVersions and Ids; an error leaves none."""
        written: list[PartFile] = []
        erased = []
        try:
            for part, rows in found.items():
                new_id = uuid.uuid4()
                file = PartFile(self._staging, self._folder, new_id, self._mode())
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

    def _copy(self, part: Part, erased: Collection[tuple[int, str]], file: PartFile) -> int:
        schema, size = drained_row_schema(), 0
        for batch in part_batches(part, schema.names, self._staging):
            kept = [row for row in batch.to_pylist() if (row["RowVersion"], row["Id"]) not in erased]
            for row in kept:
                if row[BODY_FILE]:
                    row[BODY_FILE], copied = file.write_body(self._pieces(row[BODY_FILE]))
                    size += copied
            if kept:
                size += file.write_batch(pa.RecordBatch.from_pylist(kept, schema))
        return size

    def _pieces(self, uri: str) -> Iterator[bytes]:
        """Read a body's file in pieces."""
        self._batch.check_files([uri])
        filesystem, path = locate(uri, self._staging)
        try:
            filesystem.invalidate_cache()
            with filesystem.open(path, "rb") as stream:
                while piece := stream.read(_PIECE):
                    yield piece
        except Exception as error:
            raise_staging_error(f"The file of a body {path} cannot be read", error)

    def _mode(self) -> int:
        """Return the permissions of the batch's files on a local disk."""
        path = self._batch.paths[0].removeprefix(self._staging.uri)
        return stat.S_IMODE(os.stat(self._staging.root + path).st_mode) if self._staging.is_local else PRIVATE

    def publish(self, batch: Batch) -> None:
        """Write the manifest file of a batch with new parts, if it has one."""
        if batch.paths:
            write_manifest(self._staging, replace(batch, state="sealed"), self._mode())

    def remove_unlisted(self, batch: Batch, parts: Iterable[Part]) -> int:
        """Remove files of other parts, which no drain can add any more, and old manifests; return how many."""
        listed = {part.id for part in parts}
        manifest = batch.manifest_path.rpartition("/")[2] if batch.paths else None
        files = [(file, file.path.rpartition("/")[2]) for file in files_of(self._staging, self._folder)]
        old = [file for file, name in files if file.part_id is None and is_manifest(name) and name != manifest]
        unlisted = [*old, *(file for file, _ in files if file.part_id is not None and file.part_id not in listed)]
        for file in unlisted:
            remove(self._staging, file)
        return len(unlisted)
