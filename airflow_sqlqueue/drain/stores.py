"""Stores that batches are staged on: local disks, object stores and HDFS, with their differences.

A new store is an entry of :data:`STORES`. This module imports nothing heavy: Spark executors and the scheduler use it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError


def _bucket_uri(scheme: str, filesystem: Any, root: str) -> str:
    return f"{scheme}://{root.strip('/')}"


def _azure_uri(scheme: str, filesystem: Any, root: str) -> str:
    container, _, path = root.lstrip("/").partition("/")
    return f"{scheme}://{container}@{_azure_host(filesystem)}/{path}".rstrip("/")


def _azure_host(filesystem: Any) -> str:
    """Host of Azure's Data Lake endpoint; ``fsspec`` has that of Blob Storage."""
    host = getattr(filesystem, "account_host", None)
    if host:
        return str(host).replace(".blob.", ".dfs.", 1)
    account = getattr(filesystem, "account_name", None)
    if account:
        return f"{account}.dfs.core.windows.net"
    raise ConfigurationError(
        "Spark finds a folder on Azure by its storage account: name it, as in "
        "abfss://container@account.dfs.core.windows.net/folder or as account_name of the Airflow connection."
    )


def _azure_unchanged(info: dict[str, Any]) -> dict[str, Any]:
    from azure.core import MatchConditions

    return {"etag": info["etag"], "match_condition": MatchConditions.IfNotModified}


def _hdfs_uri(scheme: str, filesystem: Any, root: str) -> str:
    """Paths on HDFS do not name the host. None, or "default", means ``fs.defaultFS`` of Hadoop's settings."""
    options = {**dict(zip(("host", "port"), filesystem.storage_args, strict=False)), **filesystem.storage_options}
    host = str(options.get("host") or "default").rpartition("://")[2]
    if host == "default":
        return f"{scheme}://{root}"
    port = f":{options['port']}" if options.get("port") else ""
    return f"{scheme}://{host}{port}{root}"


def _webhdfs_uri(scheme: str, filesystem: Any, root: str) -> str:
    scheme = "swebhdfs" if filesystem.url.startswith("https:") else scheme
    return f"{scheme}://{filesystem.url.split('/')[2]}{root}"


@dataclass(frozen=True)
class Store:
    """Store, with its names.

    :param protocols: the schemes of URLs that name it to ``fsspec``.
    :param schemes: the schemes of URIs by which Spark reads from it. Part files have the first one.
    :param uri: makes Spark's URI of that scheme, an ``fsspec`` file system and a path on it.
    :param package: the package that ``fsspec`` needs for it.
    :param connection: a regular expression for the text after ``protocol://`` of a URL with an Airflow connection.
    :param buckets: True if a path begins with the name of a bucket, and not with a slash.
    :param dataset: the scheme of its datasets in OpenLineage's naming, if it differs from the URI's.
    :param modified: the keys of the time of the last change in listings, the best one first.
    :param per_second: the units of such a time in a second, if it is a number.
    :param unchanged: makes, of what a listing has of a file, the options of ``pipe_file`` that write it only if it is
        the same still; None for a store without such writes.
    """

    protocols: tuple[str, ...]
    schemes: tuple[str, ...]
    uri: Callable[[str, Any, str], str] = _bucket_uri
    package: str | None = None
    connection: str | None = None
    buckets: bool = True
    dataset: str | None = None
    modified: tuple[str, ...] = ()
    per_second: int = 1
    unchanged: Callable[[dict[str, Any]], dict[str, Any]] | None = None


_BEFORE_BUCKET = r"[^/@:]+@"
_BEFORE_CONTAINER = r"[^/@:]+@[^/@.]+(?:/|$)"
"""``container@account.dfs...`` is Azure's own form."""

STORES = (
    Store(("file", "local"), ("file",), buckets=False, modified=("mtime",)),
    Store(
        ("s3", "s3a"),
        ("s3a", "s3"),
        package="s3fs",
        connection=_BEFORE_BUCKET,
        dataset="s3",
        modified=("LastModified",),
        unchanged=lambda info: {"IfMatch": info["ETag"]},
    ),
    Store(("gs", "gcs"), ("gs",), package="gcsfs", connection=_BEFORE_BUCKET, modified=("mtime", "updated")),
    Store(
        ("abfs", "abfss", "az"),
        ("abfss", "abfs"),
        _azure_uri,
        package="adlfs",
        connection=_BEFORE_CONTAINER,
        modified=("last_modified",),
        unchanged=_azure_unchanged,
    ),
    Store(("oss",), ("oss",), package="ossfs", modified=("LastModified",)),
    Store(("hdfs",), ("hdfs",), _hdfs_uri, buckets=False, modified=("mtime",)),
    Store(
        ("webhdfs", "webHDFS"),
        ("webhdfs", "swebhdfs"),
        _webhdfs_uri,
        package="requests",
        buckets=False,
        modified=("modificationTime",),
        per_second=1_000,
    ),
    # Memory of one process, for tests.
    Store(("memory",), ("memory",)),
)
"""From any other store, such as http, Spark would read any address in a path."""


_UNUSED = re.compile(r"::|[]\[{}*?\\\x00-\x1f\x7f\ud800-\udfff]")
"""Chained protocols of ``fsspec``, patterns of Spark, control characters, and what cannot be encoded."""


def store_of(protocol: str) -> Store | None:
    """Return the store of a URL's protocol; None if no batch is staged on it."""
    return next((store for store in STORES if protocol in store.protocols), None)


def store_at(path: str) -> Store | None:
    """Return the store of a part file's path, local or a URI that Spark reads; None for any other path."""
    scheme, separator, _ = path.partition("://")
    if not separator:
        scheme = "file" if path.startswith("/") else ""
    return next((store for store in STORES if scheme in store.schemes), None)


def is_staged(path: str) -> bool:
    """True for a path that a drain can have written: local, or a URI of a store that Spark reads from.

    Every reader checks this of the paths that it is given, and a staging folder of its own.
    """
    return not (_UNUSED.search(path) or {"..", "."} & set(path.split("/"))) and store_at(path) is not None


def names_connection(url: str) -> bool:
    """True for a URL that names an Airflow connection, as URLs of Airflow's object storage may."""
    protocol, _, rest = url.partition("://")
    store = store_of(protocol)
    return store is not None and store.connection is not None and re.match(store.connection, rest) is not None


def spark_uri(protocol: str, filesystem: Any, root: str) -> str:
    """Return the URI by which Spark (Hadoop's file systems) finds ``root``, a path on the ``fsspec`` file system.

    Raises :class:`ConfigurationError` for a store that Spark cannot read, or a URI that would contain credentials.
    """
    store = store_of(protocol)
    if store is None:
        raise ConfigurationError(
            f"Spark reads no batches from {protocol}: stage on a local disk that all share, on S3, Google Cloud "
            "Storage, Azure (abfss) or HDFS."
        )
    container = root.lstrip("/").partition("/")[0]
    if store.buckets and (not container or "@" in container):
        raise ConfigurationError(
            f"The staging location names no bucket that {protocol} could have: write {protocol}://bucket/folder, and "
            "give an Airflow connection by an ObjectStoragePath and credentials by the store's own settings."
        )
    return store.uri(store.schemes[0], filesystem, root)
