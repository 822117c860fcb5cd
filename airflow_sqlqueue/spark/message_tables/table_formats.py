"""Formats of message tables, each with the few operations that writing, parsing again and rewriting need.

A row belongs to a batch and to an attempt: 0, or the run of ``reparse`` that parsed it. Rows of a batch and an attempt
are replaced or removed together, so that what was killed is repeated. The classes mean the same as that of Parquet.
Source: docs/design.md, "Tables of message types".
"""

from __future__ import annotations

import re
import uuid
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, get_args

from airflow_sqlqueue.bodies.schemas import Struct
from airflow_sqlqueue.errors import ConfigurationError, TransientError
from airflow_sqlqueue.spark.message_tables.parquet import ATTEMPT, Make, ParquetFormat, no_table
from airflow_sqlqueue.spark.message_tables.places import Location, absolute, is_folder
from airflow_sqlqueue.spark.message_tables.repetitions import leave_out_parsed
from airflow_sqlqueue.spark.sinks import write_delta, write_iceberg
from airflow_sqlqueue.spark.sinks.checks import TIMES, is_table_name, quoted, quoted_table, session_settings
from airflow_sqlqueue.spark.sinks.delta import delta_name, save_delta
from airflow_sqlqueue.spark.sinks.iceberg import REPLACED, SNAPSHOT_PROPERTY
from airflow_sqlqueue.spark.sinks.keys import AnyKey, partition_of
from airflow_sqlqueue.spark.sinks.partitions import COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Format: TypeAlias = Literal["parquet", "delta", "iceberg"]
FORMATS: tuple[str, ...] = get_args(Format)


def check_format(format: str) -> None:  # noqa: A002
    """Raise :class:`ConfigurationError` for an unknown format."""
    if format not in FORMATS:
        raise ConfigurationError(f"The format of the tables is {format!r}: it is one of {', '.join(FORMATS)}.")


def table_format(spark: SparkSession, format: Format, location: str) -> TableFormat:  # noqa: A002
    """Return the tables of a format. Raises as :func:`check_format`."""
    check_format(format)
    is_schema = is_table_name(f"{location}.x")
    if format == "iceberg":
        if not is_schema:
            raise ConfigurationError("Iceberg tables are in a namespace: give the location as catalog.namespace.")
        return IcebergFormat(spark, location)
    if format == "parquet":
        return ParquetFormat(spark, absolute(location))
    is_known = is_schema and not is_folder(location) and spark.catalog.databaseExists(quoted_table(location))
    return DeltaFormat(spark, location if is_known else absolute(location))


class CommitFormat(Location):
    """Tables of a format with commits: the base class of both."""

    def columns(self, table: str) -> Struct | None:
        from pyspark.errors import AnalysisException

        try:
            found: Struct = self.read(table).schema.jsonValue()
        except AnalysisException:
            return None
        return found

    def read(self, table: str, schema: StructType | None = None) -> DataFrame:
        return self._spark.table(self._name(table))

    def check(self, key: AnyKey, messages: Mapping[str, int], untouched: Collection[str]) -> None:
        leave_out_parsed(self, key, messages)

    @abstractmethod
    def replace(self, rows: DataFrame, table: str, batch_id: str, attempt: int) -> None:
        """Write the rows of a batch and an attempt in the place of those that the table has."""

    def remove(self, table: str, batch_id: str, attempt: int) -> None:
        self.delete(table, _same(batch_id, attempt), [])

    def delete(self, table: str, where: str, batches: Sequence[str]) -> None:
        with session_settings(self._spark, TIMES):
            self._spark.sql(f"DELETE FROM {self._name(table)} WHERE {where}")  # noqa: S608 - names of ours

    def _name(self, table: str) -> str:
        """Return the name of a table in a statement."""
        return delta_name(table)


class DeltaFormat(CommitFormat):
    """Folders of Delta Lake, or tables in a schema of a catalog."""

    def append(self, rows: DataFrame, table: str, key: AnyKey) -> None:
        write_delta(_with_attempt(rows, partition_of(key), 0), table, key, merge_schema=True)

    def replace(self, rows: DataFrame, table: str, batch_id: str, attempt: int) -> None:
        options = {"replaceWhere": _same(batch_id, attempt), "mergeSchema": "true"}
        save_delta(_with_attempt(rows, batch_id, attempt), table, "overwrite", options)

    def rewrite(self, table: str, make: Make) -> None:
        if self.columns(table) is None:
            raise no_table(table)
        name, mark = self._name(table), f"rewrite {uuid.uuid4()}"
        details = self._spark.sql(f"DESCRIBE DETAIL {name}").select("partitionColumns", "clusteringColumns")
        ((partitioned, clustered),) = details.collect()
        version = self._spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()[0]["version"]
        read = self._spark.read.format("delta").option("versionAsOf", str(version))
        rows = read.load(table) if "/" in table else read.table(table)
        # The log of the table keeps the batches that it knows.
        options = {"overwriteSchema": "true", "partitionOverwriteMode": "static", "userMetadata": mark}
        new = make(rows)
        save_delta(new, table, "overwrite", options, partitioned)
        # Delta refuses what others commit while it writes, but not what they did before, since the version was read.
        for entry in self._spark.sql(f"DESCRIBE HISTORY {name} LIMIT 100").collect():
            if entry["version"] == version:
                break
            if entry["userMetadata"] != mark and entry["operation"] != "SET TBLPROPERTIES":
                _raise_overtaken(table, f"RESTORE TABLE {name} TO VERSION AS OF {entry['version']}")
        # An overwrite leaves a table without clustering.
        kept = [".".join(map(quoted, each.split("."))) for each in clustered if _has_column(new.schema, each)]
        if kept:
            self._spark.sql(f"ALTER TABLE {name} CLUSTER BY ({', '.join(kept)})")

    def compact(self, table: str, target_bytes: int) -> tuple[int, int]:
        """Merge small files in one commit; return the numbers of files that were merged, and that took their place."""
        sizes = {f"spark.databricks.delta.optimize.{name}FileSize": str(target_bytes) for name in ("min", "max")}
        with session_settings(self._spark, sizes), session_settings(self._spark, TIMES):
            row = self._spark.sql(f"OPTIMIZE {self._name(table)}").select("metrics.*").collect()[0]
        return int(row["numFilesRemoved"]), int(row["numFilesAdded"])


class IcebergFormat(CommitFormat):
    """Tables in a namespace of an Iceberg catalog."""

    same_types = (("integer", "byte"), ("integer", "short"))

    def append(self, rows: DataFrame, table: str, key: AnyKey) -> None:
        write_iceberg(_with_attempt(rows, partition_of(key), 0), table, key, merge_schema=True)

    def columns(self, table: str) -> Struct | None:
        # Spark logs an error for a table that is missing.
        return super().columns(table) if self._spark.catalog.tableExists(quoted_table(table)) else None

    def replace(self, rows: DataFrame, table: str, batch_id: str, attempt: int) -> None:
        if self._spark.catalog.tableExists(quoted_table(table)):
            self.remove(table, batch_id, attempt)
        # The rows are gone, so the table must not take the write for a repetition.
        step = f"reparse {uuid.uuid4()}"
        write_iceberg(_with_attempt(rows, batch_id, attempt), table, batch_id, step=step, merge_schema=True)

    def rewrite(self, table: str, make: Make) -> None:
        if self.columns(table) is None:
            raise no_table(table)
        spark, name = self._spark, self._name(table)
        properties = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
        head = properties.get("current-snapshot-id", "none").replace("none", "")
        created = spark.sql(f"SHOW CREATE TABLE {name}").collect()[0][0]
        partitioned = re.search(r"^PARTITIONED BY \(.*\)$", created, re.MULTILINE)
        rows = make(spark.read.option("versionAsOf", head).table(name) if head else spark.table(name))
        layout = partitioned[0] if partitioned else ""
        # The new snapshot names the old one, which has the batches.
        with session_settings(spark, {f"spark.sql.iceberg.{SNAPSHOT_PROPERTY}.{REPLACED}": head}):
            # Spark replaces braces.
            spark.sql(f"REPLACE TABLE {name} USING iceberg {layout} AS SELECT * FROM {{rows}}", rows=rows)  # noqa: S608
        before = spark.table(f"{self._name(table)}.history").orderBy("made_current_at").collect()[-2:-1]
        if before and str(before[0]["snapshot_id"]) != head:
            _raise_overtaken(table, f"CALL system.set_current_snapshot('{table}', {before[0]['snapshot_id']})")

    def compact(self, table: str, target_bytes: int) -> tuple[int, int]:
        self._name(table)
        catalog, _, name = table.partition(".")
        options = f"map('target-file-size-bytes', '{target_bytes}', 'min-input-files', '2')"
        # Spark 4.0 takes no parameters in CALL. A name has letters, digits and underscores alone.
        arguments = f"table => '{quoted_table(name)}', options => {options}"
        text = f"CALL {quoted(catalog)}.system.rewrite_data_files({arguments})"
        (row,) = self._spark.sql(text).collect()
        return int(row["rewritten_data_files_count"]), int(row["added_data_files_count"])

    def _name(self, table: str) -> str:
        """Return the name in a statement of a table, refreshed so that the session sees what others committed."""
        name = quoted_table(table)
        # Iceberg's catalog keeps a table as it was read until it was not used for 30 seconds.
        self._spark.catalog.refreshTable(name)
        return name


TableFormat: TypeAlias = "ParquetFormat | DeltaFormat | IcebergFormat"


def without_repeats(
    rows: DataFrame, lake: TableFormat, table: str, exists: bool, key: AnyKey, merge_on: Sequence[str]
) -> DataFrame:
    """Return the rows whose values in these columns no other batch has, one for each; rows without a value stay."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    has_key = " AND ".join(f"{name} IS NOT NULL" for name in merge_on)
    keyed = rows.where(has_key).dropDuplicates(list(merge_on))
    if exists:
        known = StructType([rows.schema[name] for name in merge_on]).add(COLUMN, "string")
        old = lake.read(table, known).where(sf.col(COLUMN) != partition_of(key)).select(*merge_on)
        keyed = keyed.join(old, list(merge_on), "left_anti")
    return keyed.select(*rows.columns).unionByName(rows.where(f"NOT ({has_key})"))


def _has_column(schema: Any, path: str) -> bool:
    """Return whether a struct of Spark has a field, which may be in others."""
    name, _, rest = path.partition(".")
    return name in getattr(schema, "names", ()) and (not rest or _has_column(schema[name].dataType, rest))


def _with_attempt(rows: DataFrame, batch_id: str, attempt: int) -> DataFrame:
    from pyspark.sql import functions as sf

    return rows.withColumns({COLUMN: sf.lit(batch_id), ATTEMPT: sf.lit(attempt)})


def _same(batch_id: str, attempt: int) -> str:
    """Return the condition of the rows of a batch and an attempt."""
    return f"{COLUMN} = '{partition_of(batch_id)}' AND {ATTEMPT} = {attempt:d}"


def _raise_overtaken(table: str, command: str) -> NoReturn:
    raise TransientError(
        f"Another job wrote rows to the table {table} when its rewrite began, and they are not in the new one: bring "
        f"back the table by `{command}`, and run the rewrite again, alone."
    )
