"""Where batches are written, and files that are durable there once they are closed."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec

from airflow_sqlqueue.errors import ConfigurationError, StagingError

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


class DurableFile:
    """A new file under a staging folder, durable once :meth:`close` has returned. A sink for ``pyarrow``.

    Every failure of the store is a :class:`StagingError`, whatever the store's own library raises.
    """

    def __init__(self, staging: StagingFolder, name: str) -> None:
        """Begin the file; ``name`` is its path under ``staging``. A file that is there already is not replaced."""
        self._staging = staging
        self._name = name
        path = f"{staging.root}/{name}"
        try:
            if staging.is_local:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                self._stream: Any = Path(path).open("xb")  # noqa: SIM115 - closed by close() or abandon()
            else:
                self._stream = staging.filesystem.open(path, "wb")
        except Exception as error:
            raise self._failed("written", error) from error

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)

    def write(self, data: Any) -> None:
        """Add bytes, or what has a buffer of them."""
        try:
            self._stream.write(data)
        except Exception as error:
            raise self._failed("written", error) from error

    def flush(self) -> None:
        """Nothing: only :meth:`close` makes a file durable, and parts of uploads have a least size."""

    def close(self) -> None:
        """Make the file durable: synced with its folder on a local disk, its upload finished elsewhere."""
        try:
            if self._staging.is_local:
                self._stream.flush()
                os.fsync(self._stream.fileno())
            self._stream.close()
            if self._staging.is_local:
                folder = Path(self._staging.root, self._name).parent
                _sync_folder(folder)
                _sync_folder(folder.parent)
        except Exception as error:
            raise self._failed("made durable", error) from error

    def abandon(self) -> None:
        """Let go of the stream. The file stays: whoever sent a COMMIT must not remove it, and the sweep finds it."""
        with suppress(Exception):
            if self._staging.is_local:
                self._stream.close()
            elif hasattr(self._stream, "discard"):
                self._stream.discard()

    def _failed(self, what: str, error: Exception) -> StagingError:
        said = getattr(error, "strerror", None) or error
        return StagingError(f"The file {self._name} cannot be {what} under {self._staging.root}: {said}.")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
