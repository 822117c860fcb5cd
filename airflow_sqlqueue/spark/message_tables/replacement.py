"""Replacement of all rows and columns of a table: in one commit, or, of Parquet, partition by partition.

Source: docs/design.md, "Tables of message types".
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from airflow_sqlqueue.bodies.schemas import Struct
from airflow_sqlqueue.drain.storage.batch_files import modified
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError, TransientError
from airflow_sqlqueue.spark.message_tables.small import COLUMNS_NOTE
from airflow_sqlqueue.spark.message_tables.work import remove_folder
from airflow_sqlqueue.spark.sinks.checks import TIMES, quoted_table, session_settings
from airflow_sqlqueue.spark.sinks.delta import delta_name, save_delta
from airflow_sqlqueue.spark.sinks.iceberg import REPLACED, SNAPSHOT_PROPERTY
from airflow_sqlqueue.spark.sinks.partitions import COLUMN, footers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ATTEMPT = "parse_attempt"
"""The column with the attempt that parsed a row: 0, or the run of ``reparse``."""

STATIC = {"partitionOverwriteMode": "static", "compression": "zstd"}
_OLD = datetime.min.replace(tzinfo=timezone.utc)

Make: TypeAlias = "Callable[[DataFrame], DataFrame]"
"""Makes the new rows of the old ones."""


def replace_delta(spark: SparkSession, table: str, make: Make) -> None:
    """Replace the rows and the columns of a table of Delta Lake; its log keeps the batches that it knows."""
    name, mark = delta_name(table), f"rewrite {uuid.uuid4()}"
    (layout,) = spark.sql(f"DESCRIBE DETAIL {name}").select("partitionColumns").collect()
    version = spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()[0]["version"]
    read = spark.read.format("delta").option("versionAsOf", str(version))
    rows = read.load(table) if "/" in table else read.table(table)
    options = {"overwriteSchema": "true", "partitionOverwriteMode": "static", "userMetadata": mark}
    save_delta(make(rows), table, "overwrite", options, *layout)
    # Delta refuses what others commit while it writes, but not what they did before, since the version was read.
    for entry in spark.sql(f"DESCRIBE HISTORY {name} LIMIT 100").collect():
        if entry["version"] == version:
            break
        if entry["userMetadata"] != mark and entry["operation"] != "SET TBLPROPERTIES":
            _raise_overtaken(table, f"RESTORE TABLE {name} TO VERSION AS OF {entry['version']}")


def replace_iceberg(spark: SparkSession, table: str, make: Make) -> None:
    """Replace the rows and the columns of a table of Iceberg; the new snapshot names the old one, which has batches."""
    name = quoted_table(table)
    spark.catalog.refreshTable(name)
    head = _head(spark, name)
    created = spark.sql(f"SHOW CREATE TABLE {name}").collect()[0][0]
    partitioned = re.search(r"^PARTITIONED BY \(.*\)$", created, re.MULTILINE)
    rows = make(spark.read.option("versionAsOf", head).table(name) if head else spark.table(name))
    # Braces name the rows.
    text = f"REPLACE TABLE {name} USING iceberg {partitioned[0] if partitioned else ''} AS TABLE @"
    text = text.replace("{", "{{").replace("}", "}}").replace("AS TABLE @", "AS SELECT * FROM {rows}")
    with session_settings(spark, {f"spark.sql.iceberg.{SNAPSHOT_PROPERTY}.{REPLACED}": head}):
        spark.sql(text, rows=rows)
    spark.catalog.refreshTable(name)
    before = spark.table(f"{name}.history").orderBy("made_current_at").collect()[-2:-1]
    if before and str(before[0]["snapshot_id"]) != head:
        command = f"CALL system.set_current_snapshot('{table}', {before[0]['snapshot_id']})"
        _raise_overtaken(table, command)


def _head(spark: SparkSession, name: str) -> str:
    properties = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    found = properties.get("current-snapshot-id", "none")
    return "" if found == "none" else found


def no_table(table: str) -> ConfigurationError:
    """Error for a table that is not there."""
    return ConfigurationError(f"There is no table {table} of this format: name the location that it was written to.")


def _raise_overtaken(table: str, command: str) -> NoReturn:
    raise TransientError(
        f"Another job wrote rows to the table {table} when its rewrite began, and they are not in the new one: bring "
        f"back the table by `{command}`, and run the rewrite again, alone."
    )


@dataclass(frozen=True)
class ParquetReplacement:
    """Replacement of the partitions of a Parquet table, one after the other; each is beside the table until complete.

    The file ``_SUCCESS``, which Spark writes last, says that one is. The folder is there until all are replaced.
    """

    spark: SparkSession
    table: str
    folder: str

    def check(self) -> None:
        """Raise :class:`ConfigurationError` for a table that has some of the new rows."""
        if self._call(lambda files, root: files.exists(root), self.folder):
            raise ConfigurationError(
                f"A rewrite of the table {self.table} was killed, or runs: wait for it, or run `sqlqueue tables "
                "rewrite` for the type again."
            )

    def columns(self) -> Struct | None:
        """The columns of the newest file, as Spark has noted them in it; None without a file of Spark."""
        import pyarrow.parquet as pq

        def found(files: Any, root: str) -> Struct | None:
            files.invalidate_cache()
            entries = [each for path, each in files.find(root, detail=True).items() if path.endswith(".parquet")]
            if not entries:
                return None
            newest = max(entries, key=lambda each: modified(StagingFolder.of(self.table), each) or _OLD)
            with files.open(newest["name"]) as file:
                noted = (pq.read_metadata(file).metadata or {}).get(COLUMNS_NOTE.encode())
            return None if noted is None else json.loads(noted)

        columns: Struct | None = self._call(found, self.table)
        return columns

    def run(self, make: Make) -> None:
        """Replace all partitions; end what a run before has begun."""
        for partition in self._partitions(self.folder, "_SUCCESS"):
            self.move(partition)
        partitions = self._partitions(self.table, ".parquet")
        if not partitions:
            raise no_table(self.table)
        remove_folder(self.folder)
        self._call(_put, f"{self.folder}/_running")
        for partition in partitions:
            self.write(partition, make)
            self.move(partition)
        remove_folder(self.folder)

    def write(self, partition: str, make: Make) -> None:
        """Write the new rows of a partition."""
        old, new = f"{self.table}/{partition}", f"{self.folder}/{partition}"
        with session_settings(self.spark, TIMES):
            make(self.spark.read.parquet(old)).write.mode("overwrite").options(**STATIC).parquet(new)
        before, after = (footers(self.spark, each).count() for each in (old, new))
        if before != after:
            raise BatchMismatchError(
                f"{old} has {before} rows, and {after} were written for it: run the rewrite again, alone."
            )

    def move(self, partition: str) -> None:
        """Put a complete partition in the place of the old one."""
        source, target = (StagingFolder.of(f"{each}/{partition}") for each in (self.folder, self.table))
        remove_folder(f"{self.table}/{partition}")
        if target.is_local:
            # At once, so that a reader finds no file that is not complete.
            os.makedirs(os.path.dirname(target.root), exist_ok=True)
            os.rename(source.root, target.root)
            return
        source.filesystem.invalidate_cache()
        for path in source.filesystem.find(source.root):
            source.filesystem.cp_file(path, f"{target.root}{path[len(source.root) :]}")
        # First what says that the copy is complete: the other files go one by one.
        source.filesystem.rm_file(f"{source.root}/_SUCCESS")
        remove_folder(f"{self.folder}/{partition}")

    def _partitions(self, table: str, suffix: str) -> list[str]:
        """The partitions with a file whose name ends so."""

        def found(files: Any, root: str) -> list[str]:
            files.invalidate_cache()
            paths = [str(path)[len(root) + 1 :] for path in files.find(root) if path.endswith(suffix)]
            folders = {path.rpartition("/")[0] for path in paths}
            return sorted(each for each in folders if each.startswith(f"{COLUMN}=") and "/_" not in each)

        partitions: list[str] = self._call(found, table)
        return partitions

    def _call(self, call: Callable[[Any, str], Any], path: str) -> Any:
        folder = StagingFolder.of(path, "location of the tables")
        try:
            return call(folder.filesystem, folder.root)
        except Exception as error:
            raise_staging_error(f"The files of the table {self.table} cannot be reached", error)


def _put(files: Any, root: str) -> None:
    files.makedirs(root.rpartition("/")[0], exist_ok=True)
    files.pipe_file(root, b"1")
