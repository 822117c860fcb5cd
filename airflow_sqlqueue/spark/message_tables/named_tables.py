"""Message tables that are names in a catalog: those of Iceberg.

Source: docs/guides/bodies.md, "One table for each message type".
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_sqlqueue.bodies.names import RESCUED
from airflow_sqlqueue.bodies.schemas import Struct
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.spark.message_tables.columns import is_wider
from airflow_sqlqueue.spark.message_tables.replacement import ATTEMPT, Make, no_table, replace_iceberg, with_attempt
from airflow_sqlqueue.spark.sinks import write_iceberg
from airflow_sqlqueue.spark.sinks.checks import is_table_name, quoted, quoted_table
from airflow_sqlqueue.spark.sinks.keys import AnyKey, partition_of
from airflow_sqlqueue.spark.sinks.partitions import COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LONGEST = 80


class Names:
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


class IcebergLake(Names):
    """Tables in a namespace of an Iceberg catalog."""

    def append(self, rows: DataFrame, table: str, key: AnyKey) -> None:
        write_iceberg(with_attempt(rows, partition_of(key), 0), table, key, merge_schema=True)

    def columns(self, message_type: str) -> Struct | None:
        table = self.table(message_type)
        if not self._spark.catalog.tableExists(quoted_table(table)):
            return None
        found: Struct = self._spark.table(self._refreshed(table)).schema.jsonValue()
        return found

    def claim(self, message_type: str, columns: Struct) -> Struct:
        return columns

    def takes(self, table: str, old: str, new: str) -> bool:
        # The smaller integers are integers in Iceberg.
        return (old == "integer" and new in ("byte", "short")) or (old != "byte" and is_wider(old, new))

    def check(self, key: AnyKey, messages: Mapping[str, int], untouched: Collection[str] = ()) -> None:
        """Check no number: a snapshot of Iceberg has all rows of its job."""

    def replace(self, rows: DataFrame, table: str, batch_id: str, attempt: int) -> None:
        if self._spark.catalog.tableExists(quoted_table(table)):
            self.remove(table, batch_id, attempt)
        # The rows are gone, so the table must not take the write for a repetition.
        write_iceberg(
            with_attempt(rows, batch_id, attempt), table, batch_id, step=f"reparse {uuid.uuid4()}", merge_schema=True
        )

    def remove(self, table: str, batch_id: str, attempt: int) -> None:
        where = f"{COLUMN} = :batch_id AND {ATTEMPT} = :attempt"
        values = {"batch_id": batch_id, "attempt": attempt}
        self._spark.sql(f"DELETE FROM {self._refreshed(table)} WHERE {where}", args=values)  # noqa: S608

    def rewrite(self, message_type: str, make: Make, columns: Struct) -> None:
        if self.columns(message_type) is None:
            raise no_table(self.table(message_type))
        replace_iceberg(self._spark, self.table(message_type), make)

    def sums(self, table: str) -> tuple[int, int]:
        return summed(self._spark.table(self._refreshed(table)))

    def delete(self, table: str, where: str, batches: Sequence[str]) -> None:
        self._spark.sql(f"DELETE FROM {self._refreshed(table)} WHERE {where}")  # noqa: S608

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


def summed(rows: DataFrame) -> tuple[int, int]:
    """The number of rows, and of those with rescued values."""
    (found,) = rows.selectExpr("count(*)", f"count({RESCUED})").collect()
    return int(found[0]), int(found[1])


def _word(message_type: str) -> str:
    """The name of a type as one word: its dots as underscores; other names get a hash, so that no two are the same."""
    hashed = hashlib.sha256(message_type.encode()).hexdigest()[:16]
    plain = re.fullmatch(r"[A-Za-z0-9]+(\.[A-Za-z0-9]+)*", message_type)
    if plain and len(message_type) <= _LONGEST and not re.search(r"[0-9a-f]{16}\Z", message_type):
        return message_type.replace(".", "_")
    return f"{re.sub('[^A-Za-z0-9]+', '_', message_type)[:_LONGEST]}_{hashed}"
