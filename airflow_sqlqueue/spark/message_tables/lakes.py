"""Formats of message tables, each with the few operations that writing, parsing again and rewriting need.

A row belongs to a batch and to an attempt: 0, or the run of ``reparse`` that parsed it. Rows of a batch and an attempt
are replaced or removed together, so that what was killed is repeated. Classes with commits mean the same as that of
Parquet, unless they say so.
Source: docs/design.md, "Tables of message types".
"""

from __future__ import annotations

import os
import re
import uuid
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args
from urllib.parse import unquote

from airflow_sqlqueue.bodies.schemas import Struct
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError
from airflow_sqlqueue.schemas.files import file_stem
from airflow_sqlqueue.spark.message_tables.places import Folders, Location, Names
from airflow_sqlqueue.spark.message_tables.replacement import (
    ATTEMPT,
    STATIC,
    Make,
    ParquetReplacement,
    no_table,
    replace_delta,
    replace_iceberg,
)
from airflow_sqlqueue.spark.message_tables.small import write_file
from airflow_sqlqueue.spark.message_tables.work import remove_folder
from airflow_sqlqueue.spark.sinks import write_delta, write_iceberg
from airflow_sqlqueue.spark.sinks.checks import TIMES, is_table_name, quoted, quoted_table, session_settings
from airflow_sqlqueue.spark.sinks.delta import delta_name, save_delta
from airflow_sqlqueue.spark.sinks.keys import AnyKey, partition_of
from airflow_sqlqueue.spark.sinks.partitions import COLUMN, footers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Format: TypeAlias = Literal["parquet", "delta", "iceberg"]
FORMATS: tuple[str, ...] = get_args(Format)
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:"
_DELTA_SIZES = tuple(f"spark.databricks.delta.optimize.{name}FileSize" for name in ("min", "max"))
"""Settings of the session: the size below which files are merged, and the size of the merged ones."""


def lake_of(spark: SparkSession, format: Format, location: str) -> Lake:  # noqa: A002
    """The tables of a format. Raises :class:`ConfigurationError` for an unknown one."""
    if format not in FORMATS:
        raise ConfigurationError(f"The format of the tables is one of {', '.join(FORMATS)}.")
    if format == "iceberg":
        return IcebergLake(spark, location.rstrip("/"))
    if format == "delta":
        # A schema that the session knows.
        is_schema = not is_folder(location) and is_table_name(f"{location}.x")
        if is_schema and spark.catalog.databaseExists(quoted_table(location)):
            return DeltaCatalogLake(spark, location)
        return DeltaLake(spark, absolute(location))
    return ParquetLake(spark, absolute(location))


def is_folder(location: str) -> bool:
    """Whether a location is a folder: it has a slash or a URI's scheme, or is one word without dots.

    Others are ``catalog.schema``, or meant as that.
    """
    is_path = "/" in location or os.sep in location or location in (".", "..")
    return is_path or "." not in location or re.match(_SCHEME, location) is not None


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


class ParquetLake(Folders):
    """Folders of Parquet files, with the partitions ``batch_id=.../parse_attempt=...``, and without commits."""

    same_types: Collection[tuple[str, str]] = ()
    """Types of columns, each with one of a schema that the format writes as that."""

    def append(self, rows: DataFrame, table: str, key: AnyKey) -> None:
        """Write the rows of a batch, attempt 0, once."""
        batch_id = partition_of(key)
        remove_folder(f"{table}/{COLUMN}={batch_id}")
        self.replace(rows, table, batch_id, 0)

    def append_small(self, rows: Iterator[pa.RecordBatch], schema: StructType, table: str, key: AnyKey) -> None:
        """Write the rows of a small table as :meth:`append` does, in this process."""
        batch_id = partition_of(key)
        remove_folder(f"{table}/{COLUMN}={batch_id}")
        write_file(self._partition(table, batch_id, 0), schema, rows, self._spark.version)

    def columns(self, message_type: str) -> Struct | None:
        """The columns of a type's table, those of our own too; None without a table."""
        replacement = self._replacement(message_type)
        replacement.check()
        return replacement.columns()

    def rewrite(self, message_type: str, make: Make) -> None:
        """Replace all rows and columns of the table of a type by those that are made of them."""
        self._replacement(message_type).run(make)

    def _replacement(self, message_type: str) -> ParquetReplacement:
        folder = f"{self._location}/_rewrite-{file_stem(message_type)}"
        return ParquetReplacement(self._spark, self.table(message_type), folder)

    def check(self, key: AnyKey, messages: Mapping[str, int], untouched: Collection[str]) -> None:
        """Raise :class:`BatchMismatchError` if a table has another number of the batch's rows than it was given.

        ``messages`` has the number of each table that was written; those of ``untouched`` keep what they have.
        """
        # With other schemas or decoders an earlier run may have put messages of the batch into other tables.
        for table in self.tables():
            if table not in messages and table not in untouched:
                remove_folder(f"{table}/{COLUMN}={partition_of(key)}")
        found = _counted(self._spark, [f"{table}/{COLUMN}={partition_of(key)}" for table in messages])
        for table, number in messages.items():
            if found.get(table.rpartition("/")[2], 0) != number:
                raise BatchMismatchError(
                    f"The table {table} does not have the {number} messages of batch {partition_of(key)} that were "
                    "written: run it again, one attempt at a time."
                )

    def replace(self, rows: DataFrame, table: str, batch_id: str, attempt: int) -> None:
        """Put the rows of a batch and an attempt in the place of those that are there."""
        with session_settings(self._spark, TIMES):
            rows.write.mode("overwrite").options(**STATIC).parquet(self._partition(table, batch_id, attempt))

    def remove(self, table: str, batch_id: str, attempt: int) -> None:
        """Remove the rows of a batch and an attempt."""
        remove_folder(self._partition(table, batch_id, attempt))

    def delete(self, table: str, where: str, batches: Sequence[str]) -> None:
        """Delete all rows of these batches; with commits, in one, the rows of the condition."""
        for batch_id in batches:
            remove_folder(f"{table}/{COLUMN}={batch_id}")

    def read(self, table: str, schema: StructType) -> DataFrame:
        """The columns of the schema, as files differ; with commits all columns."""
        return self._spark.read.schema(schema).parquet(table)

    def compact(self, table: str, target_bytes: int) -> tuple[int, int]:
        """Merge small files in one commit; return the numbers of files that were merged, and that took their place."""
        raise ConfigurationError(
            "Tables of Parquet cannot be compacted: a reader would see messages twice or not at all while files "
            "change, and a repeated batch could not find its rows. Write the tables as delta or iceberg."
        )

    @staticmethod
    def _partition(table: str, batch_id: str, attempt: int) -> str:
        return f"{table}/{COLUMN}={batch_id}/{ATTEMPT}={attempt}"


class _Commits(Location):
    """Tables of a format with commits."""

    same_types: Collection[tuple[str, str]] = ()
    _replaced: Callable[[SparkSession, str, Make], None]

    def columns(self, message_type: str) -> Struct | None:
        from pyspark.errors import AnalysisException

        try:
            found: Struct = self.read(self.table(message_type)).schema.jsonValue()
        except AnalysisException:
            return None
        return found

    def check(self, key: AnyKey, messages: Mapping[str, int], untouched: Collection[str]) -> None:
        """A commit has all rows of its job."""

    @abstractmethod
    def read(self, table: str, schema: StructType | None = None) -> DataFrame: ...

    def remove(self, table: str, batch_id: str, attempt: int) -> None:
        self.delete(table, _same(batch_id, attempt), [])

    def delete(self, table: str, where: str, batches: Sequence[str]) -> None:
        with session_settings(self._spark, TIMES):
            self._spark.sql(f"DELETE FROM {self._name(table)} WHERE {where}")  # noqa: S608 - names of ours

    def rewrite(self, message_type: str, make: Make) -> None:
        table = self.table(message_type)
        if self.columns(message_type) is None:
            raise no_table(table)
        self._replaced(self._spark, table, make)

    def _name(self, table: str) -> str:
        """The name of a table in a statement."""
        return delta_name(table)


class DeltaLake(_Commits, Folders):
    """Folders of Delta Lake."""

    _replaced = staticmethod(replace_delta)

    def append(self, rows: DataFrame, table: str, key: AnyKey) -> None:
        write_delta(with_attempt(rows, partition_of(key), 0), table, key, merge_schema=True)

    def replace(self, rows: DataFrame, table: str, batch_id: str, attempt: int) -> None:
        options = {"replaceWhere": _same(batch_id, attempt), "mergeSchema": "true"}
        save_delta(with_attempt(rows, batch_id, attempt), table, "overwrite", options)

    def read(self, table: str, schema: StructType | None = None) -> DataFrame:
        read = self._spark.read.format("delta")
        return read.load(table) if "/" in table else read.table(table)

    def compact(self, table: str, target_bytes: int) -> tuple[int, int]:
        sizes = dict.fromkeys(_DELTA_SIZES, str(target_bytes))
        with session_settings(self._spark, sizes), session_settings(self._spark, TIMES):
            row = self._spark.sql(f"OPTIMIZE {self._name(table)}").select("metrics.*").collect()[0]
        return int(row["numFilesRemoved"]), int(row["numFilesAdded"])


class DeltaCatalogLake(Names, DeltaLake):
    """Tables of Delta Lake in a schema of a catalog."""


class IcebergLake(_Commits, Names):
    """Tables in a namespace of an Iceberg catalog."""

    same_types = (("integer", "byte"), ("integer", "short"))
    _replaced = staticmethod(replace_iceberg)

    def append(self, rows: DataFrame, table: str, key: AnyKey) -> None:
        write_iceberg(with_attempt(rows, partition_of(key), 0), table, key, merge_schema=True)

    def columns(self, message_type: str) -> Struct | None:
        # Spark logs an error for a table that is missing.
        exists = self._spark.catalog.tableExists(quoted_table(self.table(message_type)))
        return super().columns(message_type) if exists else None

    def replace(self, rows: DataFrame, table: str, batch_id: str, attempt: int) -> None:
        if self._spark.catalog.tableExists(quoted_table(table)):
            self.remove(table, batch_id, attempt)
        # The rows are gone, so the table must not take the write for a repetition.
        step = f"reparse {uuid.uuid4()}"
        write_iceberg(with_attempt(rows, batch_id, attempt), table, batch_id, step=step, merge_schema=True)

    def read(self, table: str, schema: StructType | None = None) -> DataFrame:
        return self._spark.table(self._name(table))

    def _name(self, table: str) -> str:
        """Refresh the table, so that the session sees what others have committed, and return its name in a statement.

        Iceberg's catalog keeps a table as a session has read it, by default until the session has not used it for 30
        seconds (``cache.expiration-interval-ms``).
        """
        name = quoted_table(table)
        self._spark.catalog.refreshTable(name)
        return name

    def compact(self, table: str, target_bytes: int) -> tuple[int, int]:
        self._name(table)
        catalog, _, name = table.partition(".")
        options = f"map('target-file-size-bytes', '{target_bytes}', 'min-input-files', '2')"
        # Spark 4.0 takes no parameters in CALL. A name has letters, digits and underscores alone.
        arguments = f"table => '{quoted_table(name)}', options => {options}"
        text = f"CALL {quoted(catalog)}.system.rewrite_data_files({arguments})"
        (row,) = self._spark.sql(text).collect()
        return int(row["rewritten_data_files_count"]), int(row["added_data_files_count"])


Lake: TypeAlias = "ParquetLake | DeltaLake | IcebergLake"


def with_attempt(rows: DataFrame, batch_id: str, attempt: int) -> DataFrame:
    """The rows with their batch and their attempt."""
    from pyspark.sql import functions as sf

    return rows.withColumns({COLUMN: sf.lit(batch_id), ATTEMPT: sf.lit(attempt)})


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


def _same(batch_id: str, attempt: int) -> str:
    """The condition of the rows of a batch and an attempt."""
    return f"{COLUMN} = '{partition_of(batch_id)}' AND {ATTEMPT} = {attempt:d}"


def _counted(spark: SparkSession, folders: Sequence[str]) -> dict[str, int]:
    """The rows in the files of tables' batches, from their footers, by the last word of a table's path."""
    from pyspark.sql import functions as sf

    if not folders:
        return {}
    table = sf.regexp_extract("_metadata.file_path", f"/([^/]+)/{COLUMN}=", 1)
    # A path is a URI there.
    return {unquote(name): number for name, number in footers(spark, *folders).groupBy(table).count().collect()}
