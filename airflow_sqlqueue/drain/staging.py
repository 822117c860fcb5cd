"""Where batches are written, and files that are durable there once they are closed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import fsspec
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.spec import AbstractBufferedFile

from airflow_sqlqueue.drain.stores import bounded, fail, said, spark_uri, without_secrets
from airflow_sqlqueue.errors import ConfigurationError

T = TypeVar("T")

_PIECE = 2**20
"""Bytes that go to a store's stream at once. Each time takes a thread."""

_PARTING = 15.0
"""Seconds that cancelling an upload may take. The store may be the reason for it."""


@dataclass(frozen=True)
class StagingFolder:
    """Where batches are written. ``uri`` is the form in which Spark finds ``root`` on ``filesystem``.

    ``patience`` is how many seconds a store may take to answer before a part is undone; the rows of the part are locked
    meanwhile. It does not bound a local disk.

    A folder can be pickled where its filesystem can be, which then takes its storage options along, credentials
    included; it never shows them.
    """

    filesystem: Any = field(repr=False)
    root: str
    uri: str
    patience: float = 300.0

    @classmethod
    def of(cls, location: Any) -> StagingFolder:
        """A folder from a path, a URL, or an Airflow ``ObjectStoragePath`` (what has ``fs`` and ``path``).

        Raises :class:`ConfigurationError` for a location that cannot be reached or that Spark has no name for.
        """
        try:
            if hasattr(location, "fs") and hasattr(location, "path"):
                filesystem, root = location.fs, location.path
            else:
                filesystem, root = fsspec.core.url_to_fs(os.fspath(location))
        except Exception as error:
            # Libraries raise what they like. Their words, without secrets, are all there is to tell.
            raise ConfigurationError(
                f"The staging location {without_secrets(str(location))} cannot be used: {said(error)}."
            ) from None
        while isinstance(filesystem, DirFileSystem):
            filesystem, root = filesystem.fs, filesystem._join(root)
        root = root.rstrip("/")
        if re.search(r"[][{}*?\\]", root):
            raise ConfigurationError(
                f"The staging location {without_secrets(root)} holds one of [ ] {{ }} * ? \\, patterns to Spark: "
                "choose another."
            )
        protocol = filesystem.protocol if isinstance(filesystem.protocol, str) else filesystem.protocol[0]
        if protocol in {"file", "local"}:
            # Not as_uri(): Hadoop's Path takes a percent sign for itself.
            root = str(Path(root or "/").absolute())
            return cls(filesystem, root, f"file://{root}")
        return cls(filesystem, root, spark_uri(protocol, filesystem, root))

    @property
    def is_local(self) -> bool:
        return self.uri.startswith("file://")


class DurableFile:
    """A new file under a staging folder, durable once :meth:`close` has returned. A sink for ``pyarrow``.

    Every failure of the store is a :class:`StagingError`, whatever the store's own library raises.
    """

    def __init__(self, staging: StagingFolder, name: str) -> None:
        """Begin the file. ``name`` is its path under ``staging``, one that nobody else uses."""
        self._staging = staging
        self._name = name
        self._durable = False
        self._waiting = bytearray()
        path = f"{staging.root}/{name}"
        try:
            if staging.is_local:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                self._stream: Any = Path(path).open("xb")  # noqa: SIM115 - closed by close() or abandon()
            else:
                # In a transaction of fsspec's that somebody has begun, close() would not finish the upload.
                self._stream = self._bounded(lambda: staging.filesystem.open(path, "wb", autocommit=True))
        except Exception as error:
            self._fail("written", error)

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)

    def write(self, data: Any) -> None:
        """Add bytes, or what has a buffer of them."""
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
        self._bounded(lambda: self._stream.write(piece))

    def flush(self) -> None:
        """Nothing: only :meth:`close` makes a file durable, and parts of uploads have a least size."""

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
                self._bounded(self._stream.close)
        except Exception as error:
            self._fail("made durable", error)
        self._durable = True

    def abandon(self) -> None:
        """Let go of the stream, in silence. An upload that was not finished is cancelled, so it leaves no object.

        A file that :meth:`close` has made durable stays: whoever sent a COMMIT must not remove it, and the sweep finds
        it. What was begun on a file system, or on a store that can neither be reached nor told, is left to the sweep.
        """
        if self._durable:
            # discard() of WebHDFS and FTP would remove it.
            return
        if self._staging.is_local:
            with suppress(Exception):
                self._stream.close()
            return
        patience = min(self._staging.patience, _PARTING)
        with suppress(Exception):
            bounded(self._stream.discard, patience)
        if isinstance(self._stream, AbstractBufferedFile):
            # Its close(), which its finalizer calls if nobody else does, would finish the upload otherwise.
            self._stream.forced = True
        with suppress(Exception):
            bounded(self._stream.close, patience)

    def _bounded(self, call: Callable[[], T]) -> T:
        return bounded(call, self._staging.patience)

    def _fail(self, what: str, error: Exception) -> NoReturn:
        fail(f"The file {self._name} cannot be {what} under {self._staging.root}", error)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
