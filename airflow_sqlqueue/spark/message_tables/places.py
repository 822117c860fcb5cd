"""Places of message tables: folders, or names in a schema of a catalog.

Source: docs/guides/bodies.md, "One table for each message type".
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_sqlqueue.client.schemas.files import file_stem
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.spark.sinks.checks import is_table_name, quoted_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONGEST = 80


def is_folder(location: str) -> bool:
    """Return whether a location is a folder: it has a slash or no dot; others are meant as ``catalog.schema``."""
    return "/" in location or "." not in location or not location.strip(".")


def absolute(location: str) -> str:
    """Return a folder without a slash at its end; a relative path begins in this process's folder, not Spark's."""
    if not location.strip("/"):
        raise ConfigurationError("The location of the tables is empty: name a folder, or the URI of one.")
    if not is_folder(location):
        raise ConfigurationError(
            f"{location!r} is neither a folder nor a schema that this session knows: write ./{location} for a folder; "
            "tables in a catalog are of the formats delta and iceberg, in a schema that exists."
        )
    is_uri = re.match("[A-Za-z][A-Za-z0-9+.-]*:/", location)
    return (location if is_uri else os.path.abspath(location)).rstrip("/")


class Location:
    """Tables in one location: folders in a folder, or names in a schema of a catalog, which has no slash."""

    same_types: Collection[tuple[str, str]] = ()
    """Types of columns, each with one of a schema that the format writes as that."""

    has_exact_names = False
    """Whether a field within a column may not get another case: readers would find two fields."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark, self._location = spark, location
        self._in_catalog = "/" not in location
        # No name of a type ends as that of a table of messages that are not parsed.
        self._suffix = "__unparsed" if self._in_catalog else "~unparsed"

    def table(self, message_type: str | None, *, is_unparsed: bool = False) -> str:
        """Return the path or the name of the table of a type."""
        name_of = _word if self._in_catalog else file_stem
        return self._named(("" if message_type is None else name_of(message_type)) + self._suffix * is_unparsed)

    def check_exists(self) -> None:
        """Raise :class:`ConfigurationError` for a missing folder on a disk; a store has no empty folders."""
        if not self._in_catalog:
            folder = StagingFolder.of(self._location, "location of the tables")
            if folder.is_missing:
                raise ConfigurationError(f"There is no folder {folder.root!r}: name the one that has the tables.")

    def tables(self) -> list[str]:
        """All tables of the location."""
        if self._in_catalog:
            rows = self._spark.sql(f"SHOW TABLES IN {quoted_table(self._location)}").collect()
            # A temporary one is a view of the session.
            tables = [self._named(row["tableName"]) for row in rows if not row["isTemporary"]]
            return [table for table in tables if is_table_name(table)]
        paths: list[str] = []
        with store_of(self._location, "The tables cannot be listed") as folder:
            # A person may have put a file beside the tables.
            entries = folder.filesystem.ls(folder.root, detail=True)
            paths = sorted(str(each["name"]) for each in entries if each["type"] != "file")
        names = [path.rstrip("/").rpartition("/")[2] for path in paths]
        return [self._named(name) for name in names if not name.startswith("_")]

    def unparsed_tables(self) -> list[str]:
        """Return the tables of unparsed messages."""
        return [table for table in self.tables() if table.endswith(self._suffix)]

    def of_type(self, table: str) -> str:
        """Return the table of the type for that of its unparsed messages; another table as it is."""
        return table.removesuffix(self._suffix)

    def _named(self, name: str) -> str:
        return f"{self._location}{'.' if self._in_catalog else '/'}{name}"


def _word(message_type: str) -> str:
    """Return the name of a type as one word: dots as underscores; others get a hash, so that no two are the same."""
    hashed = hashlib.sha256(message_type.encode()).hexdigest()[:16]
    plain = re.fullmatch(r"[A-Za-z0-9]+(\.[A-Za-z0-9]+)*", message_type)
    if plain and len(message_type) <= _LONGEST and not re.search(r"[0-9a-f]{16}\Z", message_type):
        return message_type.replace(".", "_")
    return f"{re.sub('[^A-Za-z0-9]+', '_', message_type)[:_LONGEST]}_{hashed}"


@contextmanager
def store_of(path: str, failure: str) -> Iterator[StagingFolder]:
    """Provide a folder of tables for the block, which ends quietly if a file is missing, or raises ``failure``."""
    folder = StagingFolder.of(path, "location of the tables")
    folder.filesystem.invalidate_cache()
    try:
        yield folder
    except FileNotFoundError:
        return
    except Exception as error:
        raise_staging_error(f"{failure} in {folder.uri}", error)


def remove_folder(path: str) -> None:
    """Remove a folder with its files; a missing one is no error."""
    with store_of(path, "The files cannot be removed") as folder:
        folder.filesystem.rm(folder.root, recursive=True)
