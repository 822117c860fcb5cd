"""Staging folder: the location on a disk or in an object store that batches are written to."""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.dirfs import DirFileSystem

from airflow_sqlqueue.drain.storage.object_stores import (
    call_within,
    error_text,
    raise_staging_error,
    without_secrets,
)
from airflow_sqlqueue.drain.stores import is_staged, spark_uri, store_of
from airflow_sqlqueue.errors import ConfigurationError, StagingError
from airflow_sqlqueue.extras import not_installed

PRIVATE = 0o600
"""Permissions of files that their owner alone may read."""


_LOOK_SECONDS = 15.0
"""Time limit in seconds for the answer of a store to a list request."""

_LONGEST_URI = 850
"""Maximum length in characters of SQL Server; the names of batch and part follow it."""


@dataclass(frozen=True)
class StagingFolder:
    """Folder that batches are written to. ``uri`` is the form in which Spark finds ``root`` on ``filesystem``.

    ``timeout`` is the number of seconds that a store may take to answer before a part is rolled back; the rows of the
    part are locked meanwhile. It does not limit a local disk.

    A folder can be pickled if its filesystem can be. The pickle contains the storage options of the filesystem,
    credentials included; the folder never shows them.
    """

    filesystem: Any = field(repr=False)
    root: str
    uri: str
    timeout: float = 300.0

    @classmethod
    def of(cls, location: Any, what: str = "staging location") -> StagingFolder:
        """Make a folder from a path, a URL, an Airflow ``ObjectStoragePath`` (with ``fs`` and ``path``), or a folder.

        ``what`` is its name in errors. Raises :class:`ConfigurationError` for a location that cannot be reached or that
        Spark has no name for.
        """
        if isinstance(location, cls):
            return location
        if isinstance(location, str) and (unset := location.strip()) in ("", "None"):
            # An unset variable or template gives these; fsspec takes them for the working directory, or one in it.
            raise ConfigurationError(f"The {what} is {unset or 'empty'}: name a folder or the URL of an object store.")
        try:
            if hasattr(location, "fs") and hasattr(location, "path"):
                filesystem, root = location.fs, location.path
            else:
                filesystem, root = fsspec.core.url_to_fs(os.fspath(location))
        except Exception as error:
            protocol = str(location).partition("://")[0]
            # A path of Airflow's needs more than the package: its own error says more.
            store = store_of(protocol) if isinstance(location, (str, os.PathLike)) else None
            if store is not None and store.package is not None and find_spec(store.package) is None:
                raise not_installed(f"The {what} on {protocol}", store.package) from None
            # Libraries raise errors of any class: report their text, without secrets.
            raise ConfigurationError(
                f"The {what} {without_secrets(str(location))} cannot be used: {error_text(error)}."
            ) from None
        while isinstance(filesystem, DirFileSystem):
            filesystem, root = filesystem.fs, filesystem._join(root)
        root = root.rstrip("/")
        protocol = filesystem.protocol if isinstance(filesystem.protocol, str) else filesystem.protocol[0]
        if protocol in {"file", "local"}:
            # Not as_uri(): Hadoop's Path takes a percent sign for itself.
            root = os.path.abspath(root or "/")
            uri = f"file://{root}"
        else:
            uri = spark_uri(protocol, filesystem, root)
        if not is_staged(uri):
            raise ConfigurationError(
                f"The {what} {without_secrets(root)} holds one of [ ] {{ }} * ? \\, patterns to Spark, or '/../', "
                "'/./', '::' or a control character: choose another."
            )
        return cls(filesystem, root, uri)

    @property
    def is_local(self) -> bool:
        return self.uri.startswith("file://")

    @property
    def is_missing(self) -> bool:
        """Whether it is a local folder that does not exist; a store has no empty folders."""
        return self.is_local and not self.filesystem.isdir(self.root)

    def check_exists(self) -> None:
        """Raise :class:`ConfigurationError` for a missing local folder."""
        if self.is_missing:
            raise ConfigurationError(f"There is no staging folder {self.root!r}: name the one that drains were given.")

    def check(self, mode: int = PRIVATE) -> None:
        """Create a missing local folder. Raises :class:`StagingError` if it cannot be written, or if its name is too
        long for the ledger.

        ``mode`` are the permissions of files in it, as :func:`make_folder` takes them. A store is not checked: its
        permissions show only at the first write.
        """
        if len(self.uri.encode("utf-16-le")) // 2 > _LONGEST_URI:
            raise StagingError(
                f"The staging folder has a name of more than {_LONGEST_URI} characters, and the ledger keeps 1,000 of "
                "a part's path: name another one."
            )
        if not self.is_local:
            return
        try:
            make_folder(Path(self.root), mode)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise StagingError(
                f"The staging folder {self.root} cannot be written ({error.strerror}): name another one."
            ) from error

    def check_reachable(self) -> None:
        """Raise :class:`StagingError` for a store that does not answer, or that does not have the bucket.

        A missing folder is no error. A folder that the login may not list is no error either: it may be writable.
        """
        if self.is_local:
            return

        def look() -> None:
            try:
                self.filesystem.ls(self.root)
            except FileNotFoundError:
                self.filesystem.ls("/" if self.root.startswith("/") else self.root.partition("/")[0])

        try:
            call_within(look, min(self.timeout, _LOOK_SECONDS))
        except PermissionError:
            return
        except Exception as error:
            raise_staging_error(f"The staging folder {self.uri} cannot be reached", error)


def make_folder(folder: Path, mode: int) -> None:
    """Create a missing folder, and those above it. Readers of files of ``mode`` may enter them.

    An existing folder keeps the permissions that its owner gave it.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent, mode)
    mode |= (mode & 0o444) >> 2
    try:
        folder.mkdir(mode)
    except FileExistsError:
        # Another worker has created it meanwhile; if it is a file, the next step fails.
        return
    grant(folder, mode)


def grant(file: Path | int, mode: int) -> None:
    """Add the permissions of ``mode`` that the process's umask has left out to a new file.

    Its other permission bits stay: one of them makes files inherit the group of their folder.
    """
    now = stat.S_IMODE(os.stat(file).st_mode)
    if now & mode != mode:
        os.chmod(file, now | mode)


def locate(path: str, staging: StagingFolder | None) -> tuple[Any, str]:
    """Return the filesystem of a part's file, and its path on it.

    The path comes from the ledger. A login that may write there must not make this machine read other files: through
    other protocols, also chained ones, or outside of the folder.
    """
    if staging is not None:
        if not is_staged(path) or not path.startswith(f"{staging.uri}/"):
            raise StagingError(
                f"The part file {without_secrets(path)} is not under {staging.uri}: name the folder it was drained to."
            )
        return staging.filesystem, staging.root + path.removeprefix(staging.uri)
    if "://" not in path or not is_staged(path):
        raise StagingError(
            f"The part file {without_secrets(path)} is not on a local disk, S3, Google Cloud Storage, Azure or HDFS: "
            "name the folder it was drained to."
        )
    # Without the scheme, as a percent sign in the path is an ordinary character.
    found = StagingFolder.of(path.removeprefix("file://"))
    return found.filesystem, found.root
