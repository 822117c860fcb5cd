"""Compaction of message tables: many small files become few large ones, and no row is lost or doubled.

Source: docs/guides/bodies.md, "Merge small files".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.storage.object_stores import error_text
from airflow_sqlqueue.errors import ConfigurationError, SparkJobError
from airflow_sqlqueue.spark.message_tables.lakes import Format, lake_of
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_BYTES = 128 * 1024 * 1024
"""Bytes of a file of a table."""


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


def compact_message_tables(
    spark: SparkSession,
    location: str,
    *,
    format: Format = "delta",  # noqa: A002 - Spark's own word
    target_bytes: int = TARGET_BYTES,
) -> list[CompactedTable]:
    """Merge the small files of all tables that :func:`write_message_tables` wrote; return what was done to each.

    It runs ``OPTIMIZE`` of Delta Lake and ``rewrite_data_files`` of Iceberg, with one commit or none for each table,
    which still knows its batches. ``VACUUM`` and ``expire_snapshots`` delete the files that were replaced.

    :param location: the location of the tables.
    :param format: ``delta`` or ``iceberg``. Tables of Parquet have no commits, so that their files cannot be replaced
        in one step.
    :param target_bytes: the size of the new files, at least 1 MiB. Files of about that size stay as they are.

    A compaction beside a writer that only appends does it no harm; beside :func:`reparse` one of the two may fail, and
    is run again.

    Raises :class:`ConfigurationError` for Parquet, for an unknown format and for a smaller ``target_bytes``, and
    :class:`SparkJobError` at the end if Spark cannot compact a table, which others may have put there.
    """
    if isinstance(target_bytes, bool) or not isinstance(target_bytes, int) or target_bytes < 1024 * 1024:
        raise ConfigurationError("target_bytes is a whole number of bytes, at least 1048576.")
    lake = lake_of(spark, format, location)
    if format == "parquet":
        lake.compact(location, target_bytes)
    done: list[CompactedTable] = []
    failed: dict[str, Exception] = {}
    for table in lake.tables():
        try:
            done.append(CompactedTable(table, *lake.compact(table, target_bytes)))
        except Exception as error:
            failed[table] = error
    for table, cause in failed.items():
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        raise SparkJobError(
            f"Spark could not compact the table {quoted(table)}{more}; the other {len(done)} tables are compacted. "
            f"Its error for this table: {error_text(cause)}."
        ) from cause
    return done
