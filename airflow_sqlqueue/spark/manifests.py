"""Manifest of a batch, found by its id, by a path, or by a value from XCom."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, cast

from airflow_sqlqueue.drain.manifest import GUID, Batch, is_manifest, manifest_of
from airflow_sqlqueue.drain.stores import is_staged
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError
from airflow_sqlqueue.options import check_type
from airflow_sqlqueue.spark.errors import is_read_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_sqlqueue.server.settings import ConnectionSettings

AnyBatch = Union[Batch, Mapping[str, Any], uuid.UUID, str, "os.PathLike[str]"]
"""A name of a batch: see :func:`load_batch`."""

_ID = re.compile(GUID, re.IGNORECASE)


def check_connection(connection: ConnectionSettings | None) -> None:
    """Raise :class:`ConfigurationError` for what is no settings of a connection, as a client or a URL."""
    if connection is not None:
        check_type("connection", "ConnectionSettings", connection)


def load_batch(spark: SparkSession, batch: AnyBatch, connection: ConnectionSettings | None = None) -> Batch:
    """Return the manifest of a batch, with all its paths.

    ``batch`` is one of these:

    - a manifest, which is returned as it is;
    - the XCom value of a drain, or its ``batch``. If it names a manifest file in place of the paths, Spark reads that
      file, unless the ledger can be asked;
    - the batch's id, which needs a ``connection`` to the database of its queue;
    - the path or the text of a manifest, as an application gets it (``--manifest``), or the URI of a manifest file,
      which Spark reads.

    With a ``connection`` the ledger is asked, and the given values must equal those of the ledger, except for the
    state. Without a connection a manifest file is checked against the hash in its name, and the state is that of the
    time when it was written.

    Raises :class:`ConfigurationError` for an argument that does not name a batch, :class:`BatchMismatchError` for a
    manifest that was changed or cannot be read, and with a connection the errors of a session and of
    :meth:`.Ledger.manifest`.
    """
    check_connection(connection)
    if isinstance(batch, Batch):
        return batch
    if isinstance(batch, str) and _ID.fullmatch(batch):
        batch = uuid.UUID(batch)
    if isinstance(batch, uuid.UUID):
        if connection is None:
            raise ConfigurationError(f"Batch {batch} is given by its id: give the connection to its database as well.")
        from airflow_sqlqueue.drain.ledger import Ledger
        from airflow_sqlqueue.server.session import Session

        with Session(connection) as session:
            return Ledger(session, connection.database).manifest(batch)
    if isinstance(batch, Mapping):
        values = batch
    elif isinstance(batch, (str, os.PathLike)):
        values = _read(spark, os.fspath(batch))
    else:
        raise ConfigurationError(
            f"A batch is named by its manifest, its id, or a manifest's path, not {type(batch).__name__}."
        )
    values = values.get("batch", values)
    Batch.check_names(values)
    if connection is not None:
        from airflow_sqlqueue.drain.batches import recorded_batch
        from airflow_sqlqueue.server.session import Session

        with Session(connection) as session:
            return recorded_batch(session, values)
    if "manifest" not in values:
        return Batch.from_dict(values)
    found = Batch.from_dict(_read(spark, manifest_of(values)))
    found.check_same(values)
    return replace(found, state=values["state"])


def _read(spark: SparkSession, path: str) -> dict[str, Any]:
    """Read the manifest in a file, or in a text of JSON.

    The name of a file that a drain wrote beside its parts must match its content.
    """
    is_text = path.startswith("{")
    content = path if is_text else _content(spark, path)
    try:
        values = json.loads(content)
        is_whole = isinstance(values, dict)
        name = path.rpartition("/")[2]
        if is_manifest(name):
            found = Batch.from_dict(values)
            is_whole = bool(found.paths) and found.manifest_path.rpartition("/")[2] == name
        if not is_whole:
            raise ValueError("The content is not that of a manifest of this name.")
    except (ValueError, RecursionError) as error:
        raise BatchMismatchError(
            f"{'The text' if is_text else f'The file {path}'} is not the manifest that a drain wrote: it was changed, "
            "or is another; read the batch by its id and a connection."
        ) from error
    return cast("dict[str, Any]", values)


def _content(spark: SparkSession, path: str) -> bytes:
    """Return the content of a file on this machine, or of a file that Spark reads by its URI."""
    if "://" not in path:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"The manifest {path} cannot be read ({error.strerror}): check its path."
            ) from error
    if not is_staged(path):
        raise ConfigurationError(f"The manifest {path} is not on a disk or a store that batches are staged on.")
    try:
        rows = spark.read.format("binaryFile").load(path).select("content").collect()
    except Exception as error:
        if not is_read_error(error):
            raise
        raise BatchMismatchError(
            f"The manifest file {path} is missing or cannot be read: read the batch by its id and a connection."
        ) from error
    if len(rows) != 1:
        raise ConfigurationError(f"The manifest {path} is not one file: check its path.")
    return bytes(rows[0][0])
