"""Message tables in folders of Parquet files, which have no commits: their partitions are replaced one by one.

Source: docs/design.md, "Tables of message types".
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from airflow_sqlqueue.bodies.schemas import Struct
from airflow_sqlqueue.drain.storage.batch_files import modified
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError
from airflow_sqlqueue.spark.message_tables.parquet_file import COLUMNS_NOTE, write_file
from airflow_sqlqueue.spark.message_tables.places import Location, remove_folder, store_of
from airflow_sqlqueue.spark.sinks.checks import TIMES, session_settings
from airflow_sqlqueue.spark.sinks.keys import AnyKey, partition_of
from airflow_sqlqueue.spark.sinks.partitions import COLUMN, footers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ATTEMPT = "parse_attempt"
"""The column with the attempt that parsed a row: 0, or the run of ``reparse``."""

_OLD = datetime.min.replace(tzinfo=timezone.utc)
_UNREACHED = "The files of a table cannot be reached"

Make: TypeAlias = "Callable[[DataFrame], DataFrame]"
"""Makes the new rows of the old ones."""


class ParquetFormat(Location):
    """Folders of Parquet files, with the partitions ``batch_id=.../parse_attempt=...``."""

    has_exact_names = True

    def append(self, rows: DataFrame, table: str, key: AnyKey) -> None:
        """Write the rows of a batch, attempt 0, once."""
        batch_id = partition_of(key)
        remove_folder(f"{table}/{COLUMN}={batch_id}")
        self.replace(rows, table, batch_id, 0)

    def append_small(self, rows: Iterator[pa.RecordBatch], schema: StructType, table: str, key: AnyKey) -> None:
        """Write the rows of a small table as :meth:`append` does, in this process."""
        batch_id = partition_of(key)
        remove_folder(f"{table}/{COLUMN}={batch_id}")
        write_file(f"{table}/{COLUMN}={batch_id}/{ATTEMPT}=0", schema, rows, self._spark.version)

    def check(self, key: AnyKey, messages: Mapping[str, int], untouched: Collection[str]) -> None:
        """Raise :class:`BatchMismatchError` if a table has another number of the batch's rows than it was given.

        ``messages`` has the number of each table that was written; those of ``untouched`` keep what they have.
        """
        # An earlier run with other schemas or decoders may have put messages of the batch into other tables.
        for table in self.tables():
            partition = f"{table}/{COLUMN}={partition_of(key)}"
            if table not in messages and table not in untouched and _has_attempts(partition):
                remove_folder(partition)
        found = _counted(self._spark, [f"{table}/{COLUMN}={partition_of(key)}" for table in messages])
        for table, number in messages.items():
            if found.get(table.rpartition("/")[2], 0) != number:
                raise BatchMismatchError(
                    f"The table {table} does not have the {number} messages of batch {partition_of(key)} that were "
                    "written: run it again, one attempt at a time."
                )

    def replace(self, rows: DataFrame, table: str, batch_id: str, attempt: int) -> None:
        """Put the rows of a batch and an attempt in the place of those that are there."""
        _write(rows, f"{table}/{COLUMN}={batch_id}/{ATTEMPT}={attempt}")

    def remove(self, table: str, batch_id: str, attempt: int) -> None:
        """Remove the rows of a batch and an attempt."""
        remove_folder(f"{table}/{COLUMN}={batch_id}/{ATTEMPT}={attempt}")

    def delete(self, table: str, where: str, batches: Sequence[str]) -> None:
        """Delete all rows of these batches; with commits, in one, the rows of the condition."""
        for batch_id in batches:
            remove_folder(f"{table}/{COLUMN}={batch_id}")

    def read(self, table: str, schema: StructType) -> DataFrame:
        """Return the columns of the schema, as files differ; with commits all columns."""
        return self._spark.read.schema(schema).parquet(table)

    def columns(self, table: str) -> Struct | None:
        """Return the columns of a table, with our own, as its newest file has them noted; None without a table."""
        import pyarrow.parquet as pq

        noted, is_rewritten = None, False
        with store_of(_new(table), _UNREACHED) as folder:
            is_rewritten = folder.filesystem.exists(folder.root)
        if is_rewritten:
            raise ConfigurationError(
                f"A rewrite of the table {table} was killed, or runs: wait for it, or run `sqlqueue tables rewrite` "
                "for the type again."
            )
        files = _files(table, ".parquet").values()
        with store_of(table, _UNREACHED) as folder:
            if files:
                newest = max(files, key=lambda each: modified(folder, each) or _OLD)
                with folder.filesystem.open(newest["name"]) as file:
                    noted = (pq.read_metadata(file).metadata or {}).get(COLUMNS_NOTE.encode())
        columns: Struct | None = noted and json.loads(noted)
        return columns

    def rewrite(self, table: str, make: Make) -> None:
        """Replace all rows and columns of a table by those that are made of them; end what a run before has begun.

        The new rows of a partition are beside the table until Spark has written ``_SUCCESS``, as its last file. Their
        folder is there until all are replaced.
        """
        for partition in _partitions(_new(table), "_SUCCESS"):
            self.move(table, partition)
        partitions = _partitions(table, ".parquet")
        if not partitions:
            raise no_table(table)
        with store_of(_new(table), _UNREACHED) as folder:
            folder.filesystem.makedirs(folder.root, exist_ok=True)
            # Stores have no folders without files.
            folder.filesystem.pipe_file(f"{folder.root}/_running", b"1")
        for partition in partitions:
            self.make(table, partition, make)
            self.move(table, partition)
        remove_folder(_new(table))

    def make(self, table: str, partition: str, make: Make) -> None:
        """Write the new rows of a partition beside the table."""
        old, new = f"{table}/{partition}", f"{_new(table)}/{partition}"
        _write(make(self._spark.read.parquet(old)), new)
        before, after = (footers(self._spark, each).count() for each in (old, new))
        if before != after:
            raise BatchMismatchError(
                f"{old} has {before} rows, and {after} were written for it: run the rewrite again, alone."
            )

    def move(self, table: str, partition: str) -> None:
        """Put a complete partition in the place of the old one."""
        source, target = (StagingFolder.of(f"{each}/{partition}") for each in (_new(table), table))
        remove_folder(f"{table}/{partition}")
        if target.is_local:
            # A rename is one step, so that a reader finds no file that is not complete.
            os.makedirs(os.path.dirname(target.root), exist_ok=True)
            os.rename(source.root, target.root)
            return
        source.filesystem.invalidate_cache()
        for path in source.filesystem.find(source.root):
            source.filesystem.cp_file(path, f"{target.root}{path[len(source.root) :]}")
        # First what says that the copy is complete: the other files go one by one.
        source.filesystem.rm_file(f"{source.root}/_SUCCESS")
        remove_folder(f"{_new(table)}/{partition}")


def no_table(table: str) -> ConfigurationError:
    """Return the error for a table that is not there."""
    return ConfigurationError(f"There is no table {table} of this format: name the location that it was written to.")


def _new(table: str) -> str:
    """Return the folder of the new partitions of a table that is rewritten."""
    location, _, name = table.rpartition("/")
    return f"{location}/_rewrite-{name}"


def _write(rows: DataFrame, folder: str) -> None:
    # A rewrite knows by the mark what is complete, and the settings of a session may leave it out.
    mark = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "true"}
    options = {"partitionOverwriteMode": "static", "compression": "zstd", **mark}
    with session_settings(rows.sparkSession, TIMES):
        rows.write.mode("overwrite").options(**options).parquet(folder)


def _files(table: str, suffix: str) -> dict[str, dict[str, Any]]:
    """Return the files with this end of their name in partitions, by their paths; not those of killed runs."""
    files: dict[str, dict[str, Any]] = {}
    with store_of(table, _UNREACHED) as folder:
        found = folder.filesystem.find(folder.root, detail=True)
        files = {str(path)[len(folder.root) + 1 :]: each for path, each in found.items() if path.endswith(suffix)}
    # Files that are not complete are below _temporary.
    own = [path for path in files if path.startswith(f"{COLUMN}=") and "/_" not in path.rpartition("/")[0]]
    return {path: files[path] for path in own}


def _has_attempts(partition: str) -> bool:
    """Return whether a partition is one of a message table; an audit table in the same folder has batches as well."""
    names: list[str] = []
    with store_of(partition, _UNREACHED) as folder:
        names = [path.rstrip("/").rpartition("/")[2] for path in folder.filesystem.ls(folder.root, detail=False)]
    return any(name.startswith(f"{ATTEMPT}=") for name in names)


def _partitions(table: str, suffix: str) -> list[str]:
    """Return the partitions with such a file."""
    return sorted({path.rpartition("/")[0] for path in _files(table, suffix)})


def _counted(spark: SparkSession, folders: Sequence[str]) -> dict[str, int]:
    """Return the rows in the files of tables' batches, from their footers, by the last word of a table's path."""
    from pyspark.sql import functions as sf

    if not folders:
        return {}
    # A path is a URI there. A folder above the tables may be called as a partition.
    table = sf.regexp_extract("_metadata.file_path", f".*/([^/]+)/{COLUMN}=", 1)
    return {unquote(name): number for name, number in footers(spark, *folders).groupBy(table).count().collect()}
