"""Durable files in a staging folder: synced, or uploaded, when they are closed."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from fsspec.spec import AbstractBufferedFile

from airflow_sqlqueue.drain.storage.folder import PRIVATE, StagingFolder, grant, make_folder
from airflow_sqlqueue.drain.storage.object_stores import call_within, raise_staging_error

T = TypeVar("T")

_PIECE = 2**20
"""Bytes of one write to a store's stream. Each write takes a thread."""

_CANCEL_SECONDS = 15.0
"""Time limit in seconds to cancel an upload or remove a file: the store may be the cause of the failure."""


class DurableFile:
    """New file under a staging folder, durable once :meth:`close` has returned. A sink for ``pyarrow``.

    Every failure of the store is a :class:`StagingError`, whatever the store's own library raises.
    """

    def __init__(self, staging: StagingFolder, name: str, mode: int = PRIVATE) -> None:
        """Begin the file. ``name`` is its path under ``staging``, which no other writer uses.

        ``mode`` are its permissions on a local disk. New folders get them too, with the permission to enter.
        """
        self._staging = staging
        self._name = name
        self._durable = False
        self._stream: Any = None
        self._waiting = bytearray()
        path = f"{staging.root}/{name}"
        try:
            if staging.is_local:
                make_folder(Path(path).parent, mode)
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
                self._stream = os.fdopen(descriptor, "wb")
                grant(descriptor, mode)
            else:
                # In a transaction of fsspec, close() would not finish the upload without autocommit.
                self._stream = self._within_timeout(lambda: staging.filesystem.open(path, "wb", autocommit=True))
        except Exception as error:
            if self._stream is not None:
                self.abandon(remove=True)
            self._fail("written", error)

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)

    def write(self, data: Any) -> None:
        """Add bytes, or an object with a buffer."""
        try:
            if self._staging.is_local:
                self._stream.write(data)
                return
            self._waiting += memoryview(data)
            if len(self._waiting) >= _PIECE:
                self._send()
        except Exception as error:
            self._fail("written", error)

    def _send(self) -> None:
        piece = bytes(self._waiting)
        self._waiting.clear()
        self._within_timeout(lambda: self._stream.write(piece))

    def flush(self) -> None:
        """Do nothing: only :meth:`close` makes a file durable, and parts of uploads have a minimum size."""

    def close(self) -> None:
        """Make the file durable: synced with its folder on a local disk, its upload finished elsewhere."""
        try:
            if self._staging.is_local:
                self._stream.flush()
                os.fsync(self._stream.fileno())
                self._stream.close()
                folder = Path(self._staging.root, self._name).parent
                _sync_folder(folder)
                _sync_folder(folder.parent)
            else:
                self._send()
                self._within_timeout(self._stream.close)
        except Exception as error:
            self._fail("made durable", error)
        self._durable = True

    def abandon(self, *, remove: bool = False) -> None:
        """Abandon the stream; never raises. An unfinished upload is cancelled, so it leaves no object.

        With ``remove`` the file is removed, durable or not: only if no COMMIT with its name was ever sent. Without
        ``remove`` a durable file stays, and on a file system also an unfinished one. A sweep removes these files later,
        and files on a store that cannot be reached now.
        """
        # Only for an unfinished file: discard() of WebHDFS and FTP would remove a durable one.
        if not self._durable:
            self._close_unfinished()
        if remove:
            self._remove()

    def _remove(self) -> None:
        path = f"{self._staging.root}/{self._name}"
        with suppress(Exception):
            if self._staging.is_local:
                os.unlink(path)
            elif self._durable:
                call_within(lambda: self._staging.filesystem.rm_file(path), self._cancel_timeout)

    @property
    def _cancel_timeout(self) -> float:
        return min(self._staging.timeout, _CANCEL_SECONDS)

    def _close_unfinished(self) -> None:
        if self._staging.is_local:
            with suppress(Exception):
                self._stream.close()
            return
        with suppress(Exception):
            call_within(self._stream.discard, self._cancel_timeout)
        if isinstance(self._stream, AbstractBufferedFile):
            # Otherwise its close(), which its finalizer calls at the latest, would finish the upload.
            self._stream.forced = True
        with suppress(Exception):
            call_within(self._stream.close, self._cancel_timeout)

    def _within_timeout(self, call: Callable[[], T]) -> T:
        return call_within(call, self._staging.timeout)

    def _fail(self, what: str, error: Exception) -> NoReturn:
        raise_staging_error(f"The file {self._name} cannot be {what} under {self._staging.root}", error)


def replace_file(staging: StagingFolder, name: str, content: bytes, mode: int = PRIVATE) -> None:
    """Write a whole file durably, in place of an existing one: a reader finds the old or the new content.

    On a local disk the file is ``_new-<uuid>`` until it is complete, which Spark does not read, and a sweep removes.
    """
    new = f"{name.rpartition('/')[0]}/_new-{uuid.uuid4()}" if staging.is_local else name
    file = DurableFile(staging, new, mode)
    try:
        file.write(content)
        file.close()
        if staging.is_local:
            os.replace(f"{staging.root}/{new}", f"{staging.root}/{name}")
            _sync_folder(Path(staging.root, name).parent)
    except OSError as error:
        raise_staging_error(f"The file {name} cannot be written under {staging.root}", error)
    finally:
        # In a store a finished upload has the file's own name; on a disk only an unfinished file has the new name.
        file.abandon(remove=staging.is_local)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
