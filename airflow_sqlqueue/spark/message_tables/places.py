"""Places of message tables: folders, or names in a schema of a catalog.

Source: docs/guides/bodies.md, "One table for each message type".
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.schemas.files import file_stem
from airflow_sqlqueue.spark.sinks.checks import is_table_name, quoted_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONGEST = 80


class Location(ABC):
    """Tables in one location.

    ``_suffix`` is the end of the name of a table of messages that are not parsed; no name of a type has it.
    """

    _separator: str
    _suffix: str
    _name_of: Callable[[str], str]

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark, self._location = spark, location

    def table(self, message_type: str | None, *, is_unparsed: bool = False) -> str:
        """The path or the name of the table of a type."""
        name = "" if message_type is None else self._name_of(message_type)
        return f"{self._location}{self._separator}{name}{self._suffix if is_unparsed else ''}"

    @abstractmethod
    def tables(self) -> Iterator[str]:
        """All tables of the location."""

    def unparsed_tables(self) -> Iterator[str]:
        """The tables of unparsed messages."""
        return (table for table in self.tables() if table.endswith(self._suffix))


class Folders(Location):
    """Tables that are folders."""

    _separator, _suffix, _name_of = "/", "~unparsed", staticmethod(file_stem)

    def tables(self) -> Iterator[str]:
        """All tables of the location."""
        folder = StagingFolder.of(self._location, "location of the tables")
        folder.filesystem.invalidate_cache()
        try:
            names = sorted(folder.filesystem.ls(folder.root, detail=False))
        except FileNotFoundError:
            return
        except Exception as error:
            raise_staging_error(f"The tables in {folder.uri} cannot be listed", error)
        for path in names:
            name = str(path).rstrip("/").rpartition("/")[2]
            if not name.startswith("_"):
                yield f"{self._location}/{name}"


class Names(Location):
    """Tables that are names in a schema of a catalog."""

    _separator, _suffix = ".", "__unparsed"

    def __init__(self, spark: SparkSession, location: str) -> None:
        if not is_table_name(f"{location}.x"):
            raise ConfigurationError("Iceberg tables are in a namespace: give the location as catalog.namespace.")
        super().__init__(spark, location)

    @staticmethod
    def _name_of(message_type: str) -> str:
        """The name of a type as one word: dots as underscores; others get a hash, so that no two are the same."""
        hashed = hashlib.sha256(message_type.encode()).hexdigest()[:16]
        plain = re.fullmatch(r"[A-Za-z0-9]+(\.[A-Za-z0-9]+)*", message_type)
        if plain and len(message_type) <= _LONGEST and not re.search(r"[0-9a-f]{16}\Z", message_type):
            return message_type.replace(".", "_")
        return f"{re.sub('[^A-Za-z0-9]+', '_', message_type)[:_LONGEST]}_{hashed}"

    def tables(self) -> Iterator[str]:
        """All tables of the location."""
        for row in self._spark.sql(f"SHOW TABLES IN {quoted_table(self._location)}").collect():
            is_view = row["isTemporary"]
            if not is_view and is_table_name(table := f"{self._location}.{row['tableName']}"):
                yield table
