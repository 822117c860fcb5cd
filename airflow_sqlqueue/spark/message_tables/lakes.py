"""Formats of message tables, each with the few operations that writing and parsing again need.

A row belongs to a batch and to an attempt: 0, or the run of ``reparse`` that parsed it. Rows of a batch and an attempt
are replaced or removed together, so that what was killed is repeated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, get_args
from urllib.parse import unquote

from airflow_sqlqueue.bodies.names import RESCUED
from airflow_sqlqueue.bodies.schemas import Struct
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError
from airflow_sqlqueue.schemas.files import SchemaFolder, file_stem
from airflow_sqlqueue.spark.message_tables.columns import is_wider
from airflow_sqlqueue.spark.message_tables.named_tables import IcebergLake, Names, summed
from airflow_sqlqueue.spark.message_tables.replacement import (
    ATTEMPT,
    Make,
    ParquetReplacement,
    no_table,
    replace_delta,
    with_attempt,
)
from airflow_sqlqueue.spark.message_tables.work import remove_folder
from airflow_sqlqueue.spark.sinks import write_delta
from airflow_sqlqueue.spark.sinks.checks import TIMES, is_table_name, quoted_table, session_settings
from airflow_sqlqueue.spark.sinks.delta import delta_name, save_delta
from airflow_sqlqueue.spark.sinks.keys import AnyKey, partition_of
from airflow_sqlqueue.spark.sinks.partitions import COLUMN, footers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Format: TypeAlias = Literal["parquet", "delta", "iceberg"]
FORMATS: tuple[str, ...] = get_args(Format)
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

    def columns(self, message_type: str) -> Struct | None:
        """The columns of a type's table, those of our own too; None without a table."""
        ...

    def claim(self, message_type: str, columns: Struct) -> Struct:
        """Make sure that no other run writes these columns with other types; return the columns of the table then.

        A format whose commits do so has nothing to do.
        """
        ...

    def takes(self, table: str, old: str, new: str) -> bool:
        """Whether a column of the table changes from a simple type to another one with the next write."""
        ...

    def append(self, rows: DataFrame, table: str, key: AnyKey) -> None:
        """Write the rows of a batch, attempt 0, once."""
        ...

    def check(self, key: AnyKey, messages: Mapping[str, int], untouched: Collection[str] = ()) -> None:
        """Raise :class:`BatchMismatchError` if a table has another number of the batch's rows than it was given.

        ``messages`` has the number of each table that was written; those of ``untouched`` keep what they have.
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

    def rewrite(self, message_type: str, make: Make, columns: Struct) -> None:
        """Replace all rows of the table of a type by those that are made of them, which have these columns."""
        ...

    def sums(self, table: str) -> tuple[int, int]:
        """The number of rows of a table, and of those with rescued values."""
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

    def _has(self, table: str) -> bool:
        folder = StagingFolder.of(table, "location of the tables")
        return bool(folder.filesystem.exists(folder.root))

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
    """Folders of Parquet files, with the partitions ``batch_id=.../parse_attempt=...``.

    Parquet has no commits: the folder ``_tables`` records the columns of each table.
    """

    def __init__(self, spark: SparkSession, location: str) -> None:
        super().__init__(spark, location)
        self._records = SchemaFolder(f"{location}/_tables")

    def append(self, rows: DataFrame, table: str, key: AnyKey) -> None:
        batch_id = partition_of(key)
        remove_folder(f"{table}/{COLUMN}={batch_id}")
        self.replace(rows, table, batch_id, 0)

    def columns(self, message_type: str) -> Struct | None:
        self._replacement(message_type).check()
        found = self._records.get(message_type)
        if found is None and self._has(table := self.table(message_type)):
            # Footers are read once: the files of a table may be many.
            found = self._merged(table)
        return found

    def _replacement(self, message_type: str) -> ParquetReplacement:
        table, folder = self.table(message_type), f"{self._location}/_rewrite-{file_stem(message_type)}"
        return ParquetReplacement(self._spark, table, folder, self._records, message_type)

    def rewrite(self, message_type: str, make: Make, columns: Struct) -> None:
        self._replacement(message_type).run(make, columns)

    def claim(self, message_type: str, columns: Struct) -> Struct:
        return self._records.extend(message_type, columns)

    def _merged(self, table: str) -> Struct:
        from pyspark.errors import AnalysisException

        try:
            read: Struct = self._spark.read.option("mergeSchema", "true").parquet(table).schema.jsonValue()
        except AnalysisException as error:
            if "CANNOT_MERGE_SCHEMAS" not in str(error):
                raise
            raise ConfigurationError(
                f"The batches in the table {table} have columns of the same name and different types: run 'sqlqueue "
                "tables rewrite'."
            ) from error
        return read

    def takes(self, table: str, old: str, new: str) -> bool:
        return False

    def sums(self, table: str) -> tuple[int, int]:
        return summed(self._spark.read.schema(f"{RESCUED} string").parquet(table))

    def check(self, key: AnyKey, messages: Mapping[str, int], untouched: Collection[str] = ()) -> None:
        # With other schemas or decoders an earlier run may have put messages of the batch into other tables.
        for table in self.tables():
            if table not in messages and table not in untouched:
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

    def append(self, rows: DataFrame, table: str, key: AnyKey) -> None:
        write_delta(with_attempt(rows, partition_of(key), 0), table, key, merge_schema=True)

    def columns(self, message_type: str) -> Struct | None:
        from pyspark.errors import AnalysisException

        try:
            found: Struct = self._rows(self.table(message_type)).schema.jsonValue()
        except AnalysisException:
            return None
        return found

    def claim(self, message_type: str, columns: Struct) -> Struct:
        return columns

    def takes(self, table: str, old: str, new: str) -> bool:
        (row,) = self._spark.sql(f"DESCRIBE DETAIL {delta_name(table)}").select("properties").collect()
        return row["properties"].get("delta.enableTypeWidening") == "true" and is_wider(old, new)

    def check(self, key: AnyKey, messages: Mapping[str, int], untouched: Collection[str] = ()) -> None:
        """Check no number: a commit of Delta Lake has all rows of its job."""

    def replace(self, rows: DataFrame, table: str, batch_id: str, attempt: int) -> None:
        where = f"{COLUMN} = '{batch_id}' AND {ATTEMPT} = {attempt}"
        options = {"replaceWhere": where, "mergeSchema": "true"}
        save_delta(with_attempt(rows, batch_id, attempt), table, "overwrite", options)

    def rewrite(self, message_type: str, make: Make, columns: Struct) -> None:
        if self.columns(message_type) is None:
            raise no_table(self.table(message_type))
        replace_delta(self._spark, self.table(message_type), make)

    def sums(self, table: str) -> tuple[int, int]:
        return summed(self._rows(table))

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


class DeltaCatalogLake(Names, DeltaLake):
    """Tables of Delta Lake in a schema of a catalog."""


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
