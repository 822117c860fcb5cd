"""Where batches are written."""

from __future__ import annotations

import os
import re
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
"""After which a store that is only looked at does not answer."""

_LONGEST_URI = 850
"""In characters of SQL Server; the names of batch and part come behind it."""


@dataclass(frozen=True)
class StagingFolder:
    """Where batches are written. ``uri`` is the form in which Spark finds ``root`` on ``filesystem``.

    ``timeout`` is how many seconds a store may take to answer before a part is rolled back; the rows of the part are
    locked meanwhile. It does not bound a local disk.

    A folder can be pickled where its filesystem can be, which then takes its storage options along, credentials
    included; it never shows them.
    """

    filesystem: Any = field(repr=False)
    root: str
    uri: str
    timeout: float = 300.0

    @classmethod
    def of(cls, location: Any) -> StagingFolder:
        """A folder from a path, a URL, an Airflow ``ObjectStoragePath`` (what has ``fs`` and ``path``), or a folder.

        Raises :class:`ConfigurationError` for a location that cannot be reached or that Spark has no name for.
        """
        if isinstance(location, cls):
            return location
        if location == "":
            # As a variable or template gives that nobody has set; fsspec takes it for the working directory.
            raise ConfigurationError("The staging location is empty: name a folder or the URL of an object store.")
        try:
            if hasattr(location, "fs") and hasattr(location, "path"):
                filesystem, root = location.fs, location.path
            else:
                filesystem, root = fsspec.core.url_to_fs(os.fspath(location))
        except Exception as error:
            protocol = str(location).partition("://")[0]
            # A path of Airflow's needs more than the package, as its error says.
            store = store_of(protocol) if isinstance(location, (str, os.PathLike)) else None
            if store is not None and store.package is not None and find_spec(store.package) is None:
                raise not_installed(f"A staging location of {protocol}", store.package) from None
            # Libraries raise errors of any class. Their text, without secrets, is all that can be reported.
            raise ConfigurationError(
                f"The staging location {without_secrets(str(location))} cannot be used: {error_text(error)}."
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

    def check(self, mode: int = PRIVATE) -> None:
        """Make a local folder where it is missing. Raises :class:`StagingError` where nothing can be written to it, or
        where its name is too long for the ledger.

        ``mode`` are the permissions of files in it, as :func:`make_folder` takes them. A store is not asked: what a
        login may do there shows only when it does it.
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
        """Raise :class:`StagingError` for a store that does not answer, or that has no such bucket.

        A folder that is not there yet is no error, nor one that the login may not list: it may be allowed to write.
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
    """Make a folder, and those above it, where they are missing. Who may read files of ``mode`` may enter them.

    A folder that is there keeps the permissions that its owner gave it.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent, mode)
    mode |= (mode & 0o444) >> 2
    try:
        folder.mkdir(mode)
    except FileExistsError:
        # Made by another worker meanwhile; where it is a file, the next step says so.
        return
    grant(folder, mode)


def grant(file: Path | int, mode: int) -> None:
    """Add what of ``mode`` the process's umask has left out, to a file that was just made by its path or descriptor.

    What it has besides stays: a folder's group that files in it are to get comes by a bit of its own.
    """
    now = stat.S_IMODE(os.stat(file).st_mode)
    if now & mode != mode:
        os.chmod(file, now | mode)


def locate(path: str, staging: StagingFolder | None) -> tuple[Any, str]:
    """The filesystem of a part's file, and its path there.

    The path is the ledger's, and whoever may write there must not make this machine read what he names: through other
    protocols, chained ones among them, or beside the folder.
    """
    if ".." in path.split("/") or (staging is not None and not path.startswith(f"{staging.uri}/")):
        where = "its folder" if staging is None else staging.uri
        raise StagingError(
            f"The part file {without_secrets(path)} is not under {where}: name the folder it was drained to."
        )
    if staging is not None:
        return staging.filesystem, staging.root + path.removeprefix(staging.uri)
    if "://" not in path or not is_staged(path):
        raise StagingError(
            f"The part file {without_secrets(path)} is not on a local disk, S3, Google Cloud Storage, Azure or HDFS: "
            "name the folder it was drained to."
        )
    # Not by its URL: a percent sign in it stands for itself.
    found = StagingFolder.of(path.removeprefix("file://"))
    return found.filesystem, found.root
