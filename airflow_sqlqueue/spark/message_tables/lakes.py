"""Formats of message tables, each with the few operations that writing and parsing again need.

A row belongs to a batch and to an attempt: 0, or the run of ``reparse`` that parsed it. Rows of a batch and an attempt
are replaced or removed together, so that what was killed is repeated.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, get_args
from urllib.parse import unquote

from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError
from airflow_sqlqueue.schemas.files import file_stem
from airflow_sqlqueue.spark.message_tables.work import remove_folder
from airflow_sqlqueue.spark.sinks import write_delta, write_iceberg
from airflow_sqlqueue.spark.sinks.checks import TIMES, is_table_name, quoted, quoted_table, session_settings
from airflow_sqlqueue.spark.sinks.delta import delta_name, save_delta
from airflow_sqlqueue.spark.sinks.keys import AnyKey, partition_of
from airflow_sqlqueue.spark.sinks.partitions import COLUMN, footers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Format: TypeAlias = Literal["parquet", "delta", "iceberg"]
FORMATS: tuple[str, ...] = get_args(Format)
ATTEMPT = "parse_attempt"

_LONGEST = 80
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:"
_DELTA_SIZES = tuple(f"spark.databricks.delta.optimize.{name}FileSize" for name in ("min", "max"))
"""Settings of the session: the size below which files are merged, and the size of the merged ones."""
_STATIC = {"partitionOverwriteMode": "static", "compression": "zstd"}
UNPARSED_SUFFIX = "~unparsed"
"""End of the name of a table of messages that are not parsed; no name of a type has this character in a path."""


class Lake(Protocol):
    """Tables of one format in one location."""

    def table(self, message_type: str | None, *, is_unparsed: bool = False) -> str:
        """The path or the name of the table of a type."""
        ...

    def append(self, rows: DataFrame, table: str, key: AnyKey, cluster_by: Sequence[str] = ()) -> None:
        """Write the rows of a batch, attempt 0, once; a new table is clustered by columns where the format can."""
        ...

    def check(self, key: AnyKey, messages: Mapping[str, int]) -> None:
        """Raise :class:`BatchMismatchError` if a table has another number of the batch's rows than it was given.

        ``messages`` has the number of each table that was written.
        """
        ...

    def replace(self, rows: DataFrame, table: str, batch_id: str, attempt: int) -> None:
        """Put the rows of a batch and an attempt in the place of those that are there."""
        ...

    def remove(self, table: str, batch_id: str, attempt: int) -> None:
        """Remove the rows of a batch and an attempt."""
        ...

    def delete(self, table: str, where: str, batches: Sequence[str]) -> None:
        """Delete the rows of a condition in one commit; of Parquet all rows of these batches."""
        ...

    def read(self, table: str, schema: StructType) -> DataFrame:
        """The rows of a table of unparsed messages, with their batch and attempt."""
        ...

    def unparsed_tables(self) -> Iterator[str]:
        """The tables of unparsed messages."""
        ...

    def tables(self) -> Iterator[str]:
        """All tables of the location."""
        ...

    def compact(self, table: str, target_bytes: int) -> tuple[int, int]:
        """Merge small files in one commit; return the numbers of files that were merged, and that took their place.

        Raises :class:`ConfigurationError` for a format that cannot do so in one step.
        """
        ...


def lake_of(spark: SparkSession, format: Format, location: str) -> Lake:  # noqa: A002
    """The tables of a format. Raises :class:`ConfigurationError` for an unknown one."""
    kinds: dict[str, Callable[[SparkSession, str], Lake]] = {
        "parquet": ParquetLake,
        "delta": DeltaLake,
        "iceberg": IcebergLake,
    }
    if format not in kinds:
        raise ConfigurationError(f"The format of the tables is one of {', '.join(kinds)}.")
    if format == "delta" and not is_folder(location) and _is_schema(spark, location):
        return DeltaCatalogLake(spark, location)
    return kinds[format](spark, location.rstrip("/") if format == "iceberg" else absolute(location))


def is_folder(location: str) -> bool:
    """Whether a location is a folder: it has a slash or a URI's scheme, or is one word without dots.

    Others are ``catalog.schema``, or meant as that.
    """
    is_path = "/" in location or os.sep in location or location in (".", "..")
    return is_path or "." not in location or re.match(_SCHEME, location) is not None


def _is_schema(spark: SparkSession, location: str) -> bool:
    """Whether the session knows a schema in a catalog."""
    return is_table_name(f"{location}.x") and spark.catalog.databaseExists(quoted_table(location))


def absolute(location: str) -> str:
    """A folder without a slash at its end; a relative path is one of this process, as Spark's process may have another.

    Raises :class:`ConfigurationError` for an empty one, and for one that looks like a schema's name.
    """
    if not location.strip("/"):
        raise ConfigurationError("The location of the tables is empty: name a folder, or the URI of one.")
    if not is_folder(location):
        raise ConfigurationError(
            f"{location!r} is neither a folder nor a schema that this session knows: write ./{location} for a folder; "
            "tables in a catalog are of the formats delta and iceberg, in a schema that exists."
        )
    return (location if re.match(_SCHEME, location) else os.path.abspath(location)).rstrip("/")


class _Folders:
    """Tables that are folders."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark, self._location = spark, location

    def table(self, message_type: str | None, *, is_unparsed: bool = False) -> str:
        stem = "" if message_type is None else file_stem(message_type)
        return f"{self._location}/{stem}{UNPARSED_SUFFIX if is_unparsed else ''}"

    def unparsed_tables(self) -> Iterator[str]:
        return (table for table in self.tables() if table.endswith(UNPARSED_SUFFIX))

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


class ParquetLake(_Folders):
    """Folders of Parquet files, with the partitions ``batch_id=.../parse_attempt=...``."""

    def append(self, rows: DataFrame, table: str, key: AnyKey, cluster_by: Sequence[str] = ()) -> None:
        batch_id = partition_of(key)
        remove_folder(f"{table}/{COLUMN}={batch_id}")
        self.replace(rows, table, batch_id, 0)

    def check(self, key: AnyKey, messages: Mapping[str, int]) -> None:
        # With other schemas or decoders an earlier run may have put messages of the batch into other tables.
        for table in self.tables():
            if table not in messages:
                remove_folder(f"{table}/{COLUMN}={partition_of(key)}")
        found = counted(self._spark, [f"{table}/{COLUMN}={partition_of(key)}" for table in messages])
        for table, number in messages.items():
            if found.get(table.rpartition("/")[2], 0) != number:
                raise BatchMismatchError(
                    f"The table {table} does not have the {number} messages of batch {partition_of(key)} that were "
                    "written: run it again, one attempt at a time."
                )

    def replace(self, rows: DataFrame, table: str, batch_id: str, attempt: int) -> None:
        with session_settings(self._spark, TIMES):
            rows.write.mode("overwrite").options(**_STATIC).parquet(self._partition(table, batch_id, attempt))

    def remove(self, table: str, batch_id: str, attempt: int) -> None:
        remove_folder(self._partition(table, batch_id, attempt))

    def delete(self, table: str, where: str, batches: Sequence[str]) -> None:
        for batch_id in batches:
            remove_folder(f"{table}/{COLUMN}={batch_id}")

    def read(self, table: str, schema: StructType) -> DataFrame:
        return self._spark.read.schema(schema).parquet(table)

    def compact(self, table: str, target_bytes: int) -> tuple[int, int]:
        raise ConfigurationError(
            "Tables of Parquet cannot be compacted: a reader would see messages twice or not at all while files "
            "change, and a repeated batch could not find its rows. Write the tables as delta or iceberg."
        )

    @staticmethod
    def _partition(table: str, batch_id: str, attempt: int) -> str:
        return f"{table}/{COLUMN}={batch_id}/{ATTEMPT}={attempt}"


class DeltaLake(_Folders):
    """Folders of Delta Lake."""

    def append(self, rows: DataFrame, table: str, key: AnyKey, cluster_by: Sequence[str] = ()) -> None:
        if cluster_by:
            save_delta(_of(rows, partition_of(key), 0).limit(0), table, "ignore", {}, cluster_by=cluster_by)
        write_delta(_of(rows, partition_of(key), 0), table, key, merge_schema=True)

    def check(self, key: AnyKey, messages: Mapping[str, int]) -> None:
        """Check no number: a commit of Delta Lake has all rows of its job."""

    def replace(self, rows: DataFrame, table: str, batch_id: str, attempt: int) -> None:
        where = f"{COLUMN} = '{batch_id}' AND {ATTEMPT} = {attempt}"
        options = {"replaceWhere": where, "mergeSchema": "true"}
        save_delta(_of(rows, batch_id, attempt), table, "overwrite", options)

    def remove(self, table: str, batch_id: str, attempt: int) -> None:
        self.replace(self._rows(table).limit(0), table, batch_id, attempt)

    def delete(self, table: str, where: str, batches: Sequence[str]) -> None:
        with session_settings(self._spark, TIMES):
            self._spark.sql(f"DELETE FROM {delta_name(table)} WHERE {where}")  # noqa: S608 - names of ours

    def read(self, table: str, schema: StructType) -> DataFrame:
        return self._rows(table)

    def _rows(self, table: str) -> DataFrame:
        read = self._spark.read.format("delta")
        return read.load(table) if "/" in table else read.table(table)

    def compact(self, table: str, target_bytes: int) -> tuple[int, int]:
        sizes = dict.fromkeys(_DELTA_SIZES, str(target_bytes))
        with session_settings(self._spark, sizes), session_settings(self._spark, TIMES):
            row = self._spark.sql(f"OPTIMIZE {delta_name(table)}").select("metrics.*").collect()[0]
        return int(row["numFilesRemoved"]), int(row["numFilesAdded"])


class _Names:
    """Tables that are names in a schema of a catalog."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        if not is_table_name(f"{location}.x"):
            raise ConfigurationError("Iceberg tables are in a namespace: give the location as catalog.namespace.")
        self._spark, self._location = spark, location

    def table(self, message_type: str | None, *, is_unparsed: bool = False) -> str:
        word = "" if message_type is None else _word(message_type)
        return f"{self._location}.{word}{'__unparsed' if is_unparsed else ''}"

    def unparsed_tables(self) -> Iterator[str]:
        return (table for table in self.tables() if table.endswith("__unparsed"))

    def tables(self) -> Iterator[str]:
        for row in self._spark.sql(f"SHOW TABLES IN {quoted_table(self._location)}").collect():
            is_view = row["isTemporary"]
            if not is_view and is_table_name(table := f"{self._location}.{row['tableName']}"):
                yield table


class DeltaCatalogLake(_Names, DeltaLake):
    """Tables of Delta Lake in a schema of a catalog."""


class IcebergLake(_Names):
    """Tables in a namespace of an Iceberg catalog."""

    def append(self, rows: DataFrame, table: str, key: AnyKey, cluster_by: Sequence[str] = ()) -> None:
        write_iceberg(_of(rows, partition_of(key), 0), table, key, merge_schema=True)

    def check(self, key: AnyKey, messages: Mapping[str, int]) -> None:
        """Check no number: a snapshot of Iceberg has all rows of its job."""

    def replace(self, rows: DataFrame, table: str, batch_id: str, attempt: int) -> None:
        if self._spark.catalog.tableExists(quoted_table(table)):
            self.remove(table, batch_id, attempt)
        # The rows are gone, so the table must not take the write for a repetition.
        write_iceberg(_of(rows, batch_id, attempt), table, batch_id, step=f"reparse {uuid.uuid4()}", merge_schema=True)

    def remove(self, table: str, batch_id: str, attempt: int) -> None:
        where = f"{COLUMN} = :batch_id AND {ATTEMPT} = :attempt"
        values = {"batch_id": batch_id, "attempt": attempt}
        self._spark.sql(f"DELETE FROM {self._refreshed(table)} WHERE {where}", args=values)  # noqa: S608 - names of ours

    def delete(self, table: str, where: str, batches: Sequence[str]) -> None:
        self._spark.sql(f"DELETE FROM {self._refreshed(table)} WHERE {where}")  # noqa: S608 - names of ours

    def read(self, table: str, schema: StructType) -> DataFrame:
        return self._spark.table(self._refreshed(table))

    def _refreshed(self, table: str) -> str:
        """Refresh the table, so that the session sees what others have committed, and return its name in a statement.

        Iceberg's catalog keeps a table as a session has read it, by default until the session has not used it for 30
        seconds (``cache.expiration-interval-ms``).
        """
        name = quoted_table(table)
        self._spark.catalog.refreshTable(name)
        return name

    def compact(self, table: str, target_bytes: int) -> tuple[int, int]:
        self._refreshed(table)
        catalog, _, name = table.partition(".")
        options = f"map('target-file-size-bytes', '{target_bytes}', 'min-input-files', '2')"
        # Spark 4.0 takes no parameters in CALL. A name has letters, digits and underscores alone.
        arguments = f"table => '{quoted_table(name)}', options => {options}"
        text = f"CALL {quoted(catalog)}.system.rewrite_data_files({arguments})"
        (row,) = self._spark.sql(text).collect()
        return int(row["rewritten_data_files_count"]), int(row["added_data_files_count"])


def without_repeats(
    rows: DataFrame, lake: Lake, table: str, exists: bool, key: AnyKey, merge_on: Sequence[str]
) -> DataFrame:
    """The rows whose values in these columns no row of another batch has, one for each; rows without a value stay."""
    from functools import reduce
    from operator import and_

    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    has_key = reduce(and_, (sf.col(name).isNotNull() for name in merge_on))
    keyed = rows.where(has_key).dropDuplicates(list(merge_on))
    if exists:
        known = StructType([rows.schema[name] for name in merge_on]).add(COLUMN, "string")
        old = lake.read(table, known).where(sf.col(COLUMN) != partition_of(key)).select(*merge_on)
        keyed = keyed.join(old, list(merge_on), "left_anti")
    return keyed.select(*rows.columns).unionByName(rows.where(~has_key))


def counted(spark: SparkSession, folders: Sequence[str]) -> dict[str, int]:
    """The rows in the files of tables' batches, from their footers, by the last word of a table's path."""
    from pyspark.sql import functions as sf

    if not folders:
        return {}
    table = sf.regexp_extract("_metadata.file_path", f"/([^/]+)/{COLUMN}=", 1)
    # A path is a URI there.
    return {unquote(name): number for name, number in footers(spark, *folders).groupBy(table).count().collect()}


def _word(message_type: str) -> str:
    """The name of a type as one word: its dots as underscores; other names get a hash, so that no two are the same."""
    hashed = hashlib.sha256(message_type.encode()).hexdigest()[:16]
    plain = re.fullmatch(r"[A-Za-z0-9]+(\.[A-Za-z0-9]+)*", message_type)
    if plain and len(message_type) <= _LONGEST and not re.search(r"[0-9a-f]{16}\Z", message_type):
        return message_type.replace(".", "_")
    return f"{re.sub('[^A-Za-z0-9]+', '_', message_type)[:_LONGEST]}_{hashed}"


def _of(rows: DataFrame, batch_id: str, attempt: int) -> DataFrame:
    from pyspark.sql import functions as sf

    return rows.withColumns({COLUMN: sf.lit(batch_id), ATTEMPT: sf.lit(attempt)})
