"""Maintenance of message tables: small files become large ones, and rows older than their type allows are deleted.

Source: docs/guides/bodies.md, "Merge small files" and "Delete old rows".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from airflow_sqlqueue.bodies.extension import EMPTY
from airflow_sqlqueue.bodies.names import name_key
from airflow_sqlqueue.bodies.schemas import fields_of
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.drain.storage.object_stores import error_text
from airflow_sqlqueue.errors import ConfigurationError, SparkJobError
from airflow_sqlqueue.messages.envelope.times import time_before
from airflow_sqlqueue.spark.message_tables.parquet import ParquetFormat
from airflow_sqlqueue.spark.message_tables.reports import first_fitting
from airflow_sqlqueue.spark.message_tables.table_formats import Format, TableFormat, table_format
from airflow_sqlqueue.spark.message_tables.writer import TableWriter
from airflow_sqlqueue.spark.sinks.keys import partition_of
from airflow_sqlqueue.spark.sinks.partitions import COLUMN
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class CompactedTable:
    """Result of a compaction for one table.

    :param table: the folder of the table, or its name in the catalog.
    :param merged_files: the files whose rows were put together.
    :param new_files: the files that took their place.
    """

    table: str
    merged_files: int
    new_files: int


@dataclass(frozen=True)
class ExpiredTable:
    """Result of a retention for one table.

    :param message_type: the type; None for the messages without a type or table.
    :param table: the folder of the table, or its name in the catalog.
    :param messages: the rows that were deleted, or would be.
    :param before: the time before which they were sent.
    """

    message_type: str | None
    table: str
    messages: int
    before: datetime


def compact_message_tables(
    spark: SparkSession,
    location: str,
    *,
    format: Format = "delta",  # noqa: A002 - Spark's own word
    target_bytes: int = 128 * 1024 * 1024,
) -> list[CompactedTable]:
    """Merge the small files of all tables that :func:`write_message_tables` wrote; return what was done to each.

    It runs ``OPTIMIZE`` of Delta Lake and ``rewrite_data_files`` of Iceberg, with one commit or none for each table,
    which still knows its batches. ``VACUUM`` and ``expire_snapshots`` delete the files that were replaced. Beside a
    writer that only appends it does no harm; beside :func:`reparse` one of the two may fail, and is run again.

    :param location: the location of the tables.
    :param format: ``delta`` or ``iceberg``.
    :param target_bytes: the size of the new files, at least 1 MiB. Files of about that size stay as they are.

    Raises :class:`ConfigurationError` for Parquet, for an unknown format, a missing folder and a smaller
    ``target_bytes``, and :class:`SparkJobError` at the end if Spark cannot compact a table, which others may have put
    there.
    """
    if not isinstance(target_bytes, int) or target_bytes < 1024 * 1024:
        raise ConfigurationError("target_bytes is a whole number of bytes, at least 1048576.")
    lake = table_format(spark, format, location)
    if isinstance(lake, ParquetFormat):
        raise ConfigurationError(
            "Tables of Parquet cannot be compacted: a reader would see messages twice or not at all while files "
            "change, and a repeated batch could not find its rows. Write the tables as delta or iceberg."
        )
    lake.check_exists()
    done: list[CompactedTable] = []
    failed: list[tuple[str, Exception]] = []
    for table in lake.tables():
        try:
            done.append(CompactedTable(table, *lake.compact(table, target_bytes)))
        except Exception as error:
            failed.append((table, error))
    if failed:
        table, cause = failed[0]
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        raise SparkJobError(
            f"Spark could not compact the table {quoted(table)}{more}; the other {len(done)} tables are compacted. "
            f"Its error for this table: {error_text(cause)}."
        ) from cause
    return done


def expire_message_tables(
    spark: SparkSession,
    location: str,
    *,
    retention: Mapping[str, timedelta | str],
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    schemas: SchemaFolder | str | os.PathLike[str] | None = None,
    work_folder: str | None = None,
    dry_run: bool = False,
) -> list[ExpiredTable]:
    """Delete the rows of message tables that are older than their type allows; return the tables that have such rows.

    The age is that of ``time_sent``, which the sender's clock gives, in tables of unparsed messages as well. Delta Lake
    and Iceberg delete rows, in one commit for each table; a row without a time goes with the last one of its batch that
    has one. Parquet deletes whole batches of a table, once their latest row is old enough.

    :param retention: the longest age by patterns of types, ``{"Shop.Clicks": "30d", "*": "365d"}``, in days or hours,
        or as timedelta; the first that fits decides, and types that no pattern fits are kept. Only ``*`` names the
        messages without a type or table.
    :param dry_run: whether nothing is deleted, only counted.

    The other parameters are those of :func:`write_message_tables`. Files of Delta Lake and Iceberg hold deleted rows
    until ``VACUUM`` and ``expire_snapshots``. Raises :class:`ConfigurationError` for what is no age, and for a missing
    folder.
    """
    from pyspark.sql.types import StructType

    if not isinstance(retention, Mapping):
        raise _no_age()
    ages = {pattern: _age(value) for pattern, value in retention.items()}
    tables = TableWriter(spark, location, format, schemas, work_folder=work_folder)
    lake, now = tables.lake, datetime.now(timezone.utc)
    lake.check_exists()
    existing = {name_key(table): table for table in lake.tables()}
    found: list[ExpiredTable] = []
    for name in (*_types(lake, existing, tables.files.all({})), None):
        age = first_fitting(ages, name)
        for table in map(existing.get, _tables_of(lake, name)):
            if age is None or table is None:
                continue
            before = time_before(now, age)
            rows = lake.read(table, StructType().add("time_sent", "timestamp").add(COLUMN, "string"))
            count, where, batches = _old(rows, before, whole_batches=isinstance(lake, ParquetFormat))
            if count:
                found.append(ExpiredTable(name, table, count, before))
                if not dry_run:
                    lake.delete(table, where, batches)
    return found


def _types(lake: TableFormat, existing: Mapping[str, str], known: Iterable[str]) -> list[str]:
    """Return the types that have a schema, and those of tables whose schema is missing or cannot be used."""
    from pyspark.sql.types import StructType

    types, others = list(known), dict(existing)
    for name in (*types, None):
        for table in _tables_of(lake, name):
            others.pop(table, None)
    for key, table in others.items():
        columns = lake.columns(table) or EMPTY
        if "message_type" in fields_of(columns):
            rows = lake.read(table, StructType().add("message_type", "string")).select("message_type")
            found = [name for (name,) in rows.where("message_type IS NOT NULL").limit(1).collect()]
            # Other tables in the location have messages of many types.
            types += [name for name in found if name not in types and key in _tables_of(lake, name)]
    return types


def _tables_of(lake: TableFormat, name: str | None) -> list[str]:
    return [name_key(lake.table(name, is_unparsed=is_unparsed)) for is_unparsed in (False, True)]


def _old(rows: DataFrame, before: datetime, *, whole_batches: bool) -> tuple[int, str, list[str]]:
    """Return the number of old rows, the condition that they meet, and the batches without a young row with a time."""
    from pyspark.sql import functions as sf

    old = f"time_sent < timestamp_seconds({before.timestamp():.0f})"
    sums = ["count(*) AS messages", f"count_if({old}) AS old", "count_if(time_sent IS NULL) AS timeless"]
    per_batch = rows.groupBy(COLUMN).agg(*map(sf.expr, sums)).collect()
    whole = [each for each in per_batch if each["old"] and each["old"] + each["timeless"] == each["messages"]]
    batches = [partition_of(each[COLUMN]) for each in whole]
    if whole_batches:
        return sum(each["messages"] for each in whole), old, batches
    count = sum(each["old"] for each in per_batch) + sum(each["timeless"] for each in whole)
    names = ", ".join(f"'{each}'" for each in batches)
    return count, f"{old} OR (time_sent IS NULL AND {COLUMN} IN ({names}))" if batches else old, batches


def _age(value: timedelta | str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6}) ?([dh])", value) if isinstance(value, str) else None
    age = timedelta(hours=int(found[1]) * (24 if found[2] == "d" else 1)) if found else value
    if not isinstance(age, timedelta) or age <= timedelta(0):
        raise _no_age()
    return age


def _no_age() -> ConfigurationError:
    return ConfigurationError('The retention is an age in days or hours by patterns of types: {"Shop.Clicks": "30d"}.')
