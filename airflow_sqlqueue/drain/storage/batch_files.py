"""Files of batches in a staging folder: parts, bodies, payloads and manifest files, recognized by their names."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from airflow_sqlqueue.drain.manifest import GUID, Batch, batch_of
from airflow_sqlqueue.drain.storage.durable_file import replace_file
from airflow_sqlqueue.drain.storage.folder import PRIVATE, StagingFolder, locate
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.drain.stores import store_at
from airflow_sqlqueue.errors import StagingError

_FILE = re.compile(
    rf"part-({GUID})\.parquet|body-({GUID})-\d+\.bin|_new-({GUID})|manifest-[0-9a-f]{{64}}\.json"
    rf"|payloads-{GUID}\.parquet|payloads\.json"
)


@dataclass(frozen=True)
class StagedFile:
    """File of a part (its rows, or a body), or of the whole batch: its manifest file, and payloads of the data bus.

    A manifest file that is being written has an id that no part has. ``modified`` is None where the filesystem does not
    report it.
    """

    path: str
    part_id: uuid.UUID | None
    bytes: int
    modified: datetime | None


def staged_files(staging: StagingFolder) -> Iterator[tuple[str, list[StagedFile]]]:
    """Yield each folder of a batch by its name, and its files; nothing if the staging folder is missing.

    Files with other names than this package gives are skipped, so that files of others are never touched.
    """
    # Another process may have written to the folder since this one listed it.
    staging.filesystem.invalidate_cache()
    for name, entry in _entries(staging, staging.root):
        if entry["type"] == "directory" and batch_of(name):
            yield name, _files(staging, entry["name"])


def files_of(staging: StagingFolder, folder: str) -> list[StagedFile]:
    """Return the files in the folder of one batch, as :func:`staged_files` does for all."""
    staging.filesystem.invalidate_cache()
    return _files(staging, f"{staging.root}/{folder}")


def check_files(batch: Batch, staging: StagingFolder | None = None) -> None:
    """Raise :class:`StagingError` where a file of the batch is gone, as after a sweep; rows are counted when read."""
    for path in batch.paths:
        # A batch may have been drained to another folder than the task has now.
        under = staging if staging is not None and path.startswith(f"{staging.uri}/") else None
        filesystem, name = locate(path, under)
        try:
            filesystem.invalidate_cache()
            exists = filesystem.exists(name)
        except Exception as error:
            raise_staging_error(f"The part file {path} cannot be checked", error)
        if not exists:
            raise StagingError(
                f"The part file {path} of batch {batch.batch_id} is gone, as after a sweep: the job cannot run on the "
                "batch again; drain a new one (renew)."
            )


def write_manifest(staging: StagingFolder, batch: Batch, mode: int = PRIVATE) -> None:
    """Write the manifest file of a sealed batch, durably, if the batch has too many paths for XCom.

    Every try of the drain writes the same file. It is not written for a batch in another folder, which an earlier try
    drained to. ``mode`` are its permissions on a local disk. Raises :class:`StagingError`.
    """
    if batch.state != "sealed" or batch.is_listed:
        return
    folder, _, name = batch.manifest_path.partition(f"{staging.uri}/")
    if not folder:
        replace_file(staging, name, json.dumps(batch.to_dict()).encode(), mode)


def remove(staging: StagingFolder, file: StagedFile) -> None:
    """Remove a file; a missing file is no error. Raises :class:`StagingError`."""
    try:
        with suppress(FileNotFoundError):
            staging.filesystem.rm_file(file.path)
    except Exception as error:
        raise_staging_error(f"{file.path} cannot be removed", error)


def remove_folder(staging: StagingFolder, folder: str) -> None:
    """Remove a batch's folder on a local disk if it is empty; an object store has no empty folders."""
    if staging.is_local:
        with suppress(OSError):
            Path(staging.root, folder).rmdir()


def _entries(staging: StagingFolder, folder: str) -> list[tuple[str, dict[str, Any]]]:
    try:
        entries = staging.filesystem.ls(folder, detail=True)
    except FileNotFoundError:
        return []
    except Exception as error:
        raise_staging_error(f"{folder} cannot be listed", error)
    return [(entry["name"].rstrip("/").rpartition("/")[2], entry) for entry in entries]


def _files(staging: StagingFolder, folder: str) -> list[StagedFile]:
    return [_file(staging, found) for found in _entries(staging, folder) if _FILE.fullmatch(found[0])]


def _file(staging: StagingFolder, found: tuple[str, dict[str, Any]]) -> StagedFile:
    name, entry = found
    match = _FILE.fullmatch(name)
    assert match is not None
    part_id = uuid.UUID(match[match.lastindex]) if match.lastindex else None
    return StagedFile(entry["name"], part_id, int(entry.get("size") or 0), modified(staging, entry))


def modified(staging: StagingFolder, entry: dict[str, Any]) -> datetime | None:
    """Return the time of a file's last change, of what a listing has of it; None where the store says nothing.

    A time beyond the calendar, which the owner of a file can set, is None too: it stops no sweep of other files.
    """
    store = store_at(staging.uri)
    names = () if store is None else store.modified
    value = next((entry[name] for name in names if entry.get(name) is not None), None)
    # ``modified`` raises NotImplementedError for a store that has no times, and FileNotFoundError for a deleted file.
    with suppress(NotImplementedError, FileNotFoundError, ValueError, OverflowError):
        if store is not None and isinstance(value, (int, float)):
            return datetime.fromtimestamp(value / store.per_second, timezone.utc)
        if not isinstance(value, datetime):
            value = staging.filesystem.modified(entry["name"])
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=timezone.utc)
