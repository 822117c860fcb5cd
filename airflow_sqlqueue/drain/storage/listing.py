"""What lies in a staging folder: the files of parts, and manifests, recognized by their names."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from airflow_sqlqueue.drain.manifest import GUID
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.drain.stores import store_at

_FOLDER = re.compile(GUID)
_FILE = re.compile(rf"part-({GUID})\.parquet|body-({GUID})-\d+\.bin|new-({GUID})\.json|manifest-[0-9a-f]{{64}}\.json")


@dataclass(frozen=True)
class StagedFile:
    """A file of a part: its rows, or a body; or the batch's manifest file, which is of none.

    A manifest file that is being written has an id that no part has. ``modified`` is None where the filesystem does not
    say.
    """

    path: str
    part_id: uuid.UUID | None
    bytes: int
    modified: datetime | None


def staged_files(staging: StagingFolder) -> Iterator[tuple[uuid.UUID, list[StagedFile]]]:
    """The files of each batch that has a folder, one folder at a time; nothing where there is no staging folder.

    Names that are not those of this package's are passed over, so what others keep there is never touched. Raises
    :class:`StagingError` where the folder cannot be listed.
    """
    # Another process wrote there since this one looked.
    staging.filesystem.invalidate_cache()
    for name, entry in _entries(staging, staging.root):
        if entry["type"] == "directory" and _FOLDER.fullmatch(name):
            files = [_file(staging, found) for found in _entries(staging, entry["name"]) if _FILE.fullmatch(found[0])]
            yield uuid.UUID(name), files


def remove(staging: StagingFolder, file: StagedFile) -> None:
    """Remove a file; one that is gone already is no error. Raises :class:`StagingError`."""
    try:
        with suppress(FileNotFoundError):
            staging.filesystem.rm_file(file.path)
    except Exception as error:
        raise_staging_error(f"{file.path} cannot be removed", error)


def remove_folder(staging: StagingFolder, batch_id: uuid.UUID) -> None:
    """Remove a batch's folder on a local disk if it is empty; an object store has no empty folders."""
    if staging.is_local:
        with suppress(OSError):
            Path(staging.root, str(batch_id)).rmdir()


def _entries(staging: StagingFolder, folder: str) -> list[tuple[str, dict[str, Any]]]:
    try:
        entries = staging.filesystem.ls(folder, detail=True)
    except FileNotFoundError:
        return []
    except Exception as error:
        raise_staging_error(f"{folder} cannot be listed", error)
    return [(entry["name"].rstrip("/").rpartition("/")[2], entry) for entry in entries]


def _file(staging: StagingFolder, found: tuple[str, dict[str, Any]]) -> StagedFile:
    name, entry = found
    match = _FILE.fullmatch(name)
    assert match is not None
    part_id = uuid.UUID(match[match.lastindex]) if match.lastindex else None
    return StagedFile(entry["name"], part_id, int(entry.get("size") or 0), _modified(staging, entry))


def _modified(staging: StagingFolder, entry: dict[str, Any]) -> datetime | None:
    store = store_at(staging.uri)
    names = () if store is None else store.modified
    value = next((entry[name] for name in names if entry.get(name) is not None), None)
    if isinstance(value, (int, float)):
        return datetime.fromtimestamp(value, timezone.utc)
    if not isinstance(value, datetime):
        value = None
        with suppress(NotImplementedError, FileNotFoundError):
            value = staging.filesystem.modified(entry["name"])
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=timezone.utc)
