"""Retention of message tables: rows are deleted once they are older than their type allows.

Source: docs/guides/bodies.md, "Delete old rows".
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from airflow_sqlqueue.bodies.names import column_key
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.schemas.files import SchemaFolder
from airflow_sqlqueue.spark.message_tables.lakes import Format, lake_of
from airflow_sqlqueue.spark.message_tables.reports import first_fitting
from airflow_sqlqueue.spark.message_tables.tables import schema_folder
from airflow_sqlqueue.spark.sinks.keys import partition_of
from airflow_sqlqueue.spark.sinks.partitions import COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_UNITS = {"d": "days", "h": "hours"}


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

    The age is that of ``time_sent``, which the sender's clock gives. Delta Lake and Iceberg delete rows, in one commit
    for each table; a row without a time goes with the last one of its batch that has one. Parquet deletes whole batches
    of a table, once their latest row is old enough. Batches without any time stay. The tables of messages of the type
    that are not parsed are treated alike.

    :param retention: the longest age by patterns of types, ``{"Shop.Clicks": "30d", "*": "365d"}``, in days or hours,
        or as timedelta; the first that fits decides, and types that no pattern fits are kept. Only ``*`` names the
        messages without a type or table.
    :param dry_run: whether nothing is deleted, only counted.

    The other parameters are those of :func:`write_message_tables`. Files of Delta Lake and Iceberg hold deleted rows
    until ``VACUUM`` and ``expire_snapshots``. Raises :class:`ConfigurationError` for what is no age.
    """
    from pyspark.sql.types import StructType

    ages = {pattern: _age(value) for pattern, value in retention.items()}
    lake, now = lake_of(spark, format, location), datetime.now(timezone.utc)
    files = schema_folder(schemas, location, format, work_folder)
    existing = {column_key(table): table for table in lake.tables()}
    found: list[ExpiredTable] = []
    for name in (*files.all(), None):
        age = first_fitting(ages, name)
        for is_unparsed in (False, True):
            table = existing.get(column_key(lake.table(name, is_unparsed=is_unparsed)))
            if age is None or table is None or (name is None and not is_unparsed):
                continue
            rows = lake.read(table, StructType().add("time_sent", "timestamp").add(COLUMN, "string"))
            count, where, batches = _old(rows, now - age, whole_batches=format == "parquet")
            if count:
                found.append(ExpiredTable(name, table, count, now - age))
                if not dry_run:
                    lake.delete(table, where, batches)
    return found


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
    age = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else value
    if not isinstance(age, timedelta) or age <= timedelta(0):
        raise ConfigurationError(
            'The retention is an age in days or hours by patterns of types: {"Shop.Clicks": "30d"}.'
        )
    return age
