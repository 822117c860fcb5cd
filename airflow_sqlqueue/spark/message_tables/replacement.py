"""Replacement of all rows and columns of a table: in one commit, or, of Parquet, beside the old rows at first.

Source: docs/design.md, "Tables of message types".
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from airflow_sqlqueue.bodies.schemas import Struct
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError, SqlQueueError, TransientError
from airflow_sqlqueue.schemas.files import SchemaFolder
from airflow_sqlqueue.spark.message_tables.work import remove_folder
from airflow_sqlqueue.spark.sinks.checks import TIMES, quoted_table, session_settings
from airflow_sqlqueue.spark.sinks.delta import delta_name, save_delta
from airflow_sqlqueue.spark.sinks.iceberg import REPLACED, SNAPSHOT_PROPERTY
from airflow_sqlqueue.spark.sinks.partitions import COLUMN, footers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ATTEMPT = "parse_attempt"
"""The column with the attempt that parsed a row: 0, or the run of ``reparse``."""

Make: TypeAlias = "Callable[[DataFrame], DataFrame]"
"""Makes the new rows of the old ones."""


def replace_delta(spark: SparkSession, table: str, make: Make) -> None:
    """Replace the rows and the columns of a table of Delta Lake; its log keeps the batches that it knows."""
    name, mark = delta_name(table), f"rewrite {uuid.uuid4()}"
    (layout,) = spark.sql(f"DESCRIBE DETAIL {name}").select("partitionColumns", "clusteringColumns").collect()
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


def with_attempt(rows: DataFrame, batch_id: str, attempt: int) -> DataFrame:
    """The rows with their batch and their attempt."""
    from pyspark.sql import functions as sf

    return rows.withColumns({COLUMN: sf.lit(batch_id), ATTEMPT: sf.lit(attempt)})


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
    """The new rows of a table of Parquet, in a folder beside it until they are complete.

    The file ``_complete`` of the folder says that they are. From then on the partitions of the table are replaced one
    after the other, which a run that was killed goes on with: they stay in the folder until all are there.
    """

    spark: SparkSession
    table: str
    folder: str
    records: SchemaFolder
    message_type: str

    def check(self) -> None:
        """Raise :class:`ConfigurationError` for a table that has some of the new rows."""
        if self._exists(self._mark):
            raise ConfigurationError(
                f"A rewrite of the table {self.table} was killed, or runs: wait for it, or run `sqlqueue tables "
                "rewrite` for the type again."
            )

    def run(self, make: Make, columns: Struct) -> None:
        """Write the new rows and replace the old ones; end the run before if that was killed."""
        if self._exists(self._mark):
            self.publish()
        self.write(make, columns)
        self.publish()

    def write(self, make: Make, columns: Struct) -> None:
        """Write the new rows of each partition."""
        remove_folder(self.folder)
        partitions = self._partitions(self.table)
        if not partitions:
            raise no_table(self.table)
        for partition in partitions:
            rows = self.spark.read.parquet(f"{self.table}/{partition}")
            with session_settings(self.spark, TIMES):
                options = {"partitionOverwriteMode": "static", "compression": "zstd"}
                make(rows).write.mode("overwrite").options(**options).parquet(f"{self.folder}/{partition}")
        old, new = (footers(self.spark, each).count() for each in (self.table, self.folder))
        if old != new or partitions != self._partitions(self.table):
            raise BatchMismatchError(
                f"The table {self.table} has {old} rows, and {new} were written for it: run the rewrite again, alone."
            )
        self._put(self._mark, json.dumps({"partitions": partitions, "columns": columns}).encode())

    def publish(self) -> None:
        """Replace the partitions of the table by those of the folder, and remove that."""
        values = json.loads(self._call(lambda files, root: files.cat_file(root), self._mark))
        for partition in values["partitions"]:
            self.move(partition)
        self.records.put(self.message_type, values["columns"])
        self._call(lambda files, root: files.rm_file(root), self._mark)
        remove_folder(self.folder)

    def move(self, partition: str) -> None:
        """Replace a partition; the folder keeps its files."""
        source, target = (StagingFolder.of(f"{each}/{partition}") for each in (self.folder, self.table))
        if target.is_local:
            # Beside it at first: a reader finds no file that is not complete.
            hidden = f"{os.path.dirname(target.root)}/_{os.path.basename(target.root)}"
            shutil.rmtree(hidden, ignore_errors=True)
            shutil.copytree(source.root, hidden)
            shutil.rmtree(target.root, ignore_errors=True)
            os.rename(hidden, target.root)
            return
        remove_folder(f"{self.table}/{partition}")
        source.filesystem.invalidate_cache()
        for path in source.filesystem.find(source.root):
            source.filesystem.cp_file(path, f"{target.root}{path[len(source.root) :]}")

    @property
    def _mark(self) -> str:
        return f"{self.folder}/_complete"

    def _partitions(self, table: str) -> list[str]:
        def found(files: Any, root: str) -> list[str]:
            files.invalidate_cache()
            paths = {str(path)[len(root) + 1 :].rpartition("/")[0] for path in files.find(root)}
            return sorted(path for path in paths if path.startswith(f"{COLUMN}=") and "/_" not in path)

        partitions: list[str] = self._call(found, table)
        return partitions

    def _exists(self, path: str) -> bool:
        return bool(self._call(lambda files, root: files.exists(root), path))

    def _put(self, path: str, content: bytes) -> None:
        self._call(lambda files, root: files.pipe_file(root, content), path)

    def _call(self, call: Callable[[Any, str], Any], path: str) -> Any:
        folder = StagingFolder.of(path, "location of the tables")
        try:
            return call(folder.filesystem, folder.root)
        except SqlQueueError:
            raise
        except Exception as error:
            raise_staging_error(f"The files of the table {self.table} cannot be reached", error)
