"""Sink into a folder of Parquet files that contains each batch once.

Source: docs/design.md, "Exactly-once sinks".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError
from airflow_sqlqueue.spark.errors import is_read_error
from airflow_sqlqueue.spark.sinks.checks import TIMES, columns_in, session_settings
from airflow_sqlqueue.spark.sinks.keys import AnyKey, partition_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMN = "batch_id"


def write_partitions(
    df: DataFrame,
    path: str,
    batch: AnyKey,
    *,
    partition_by: str | Sequence[str] = (),
    sort_by: str | Sequence[str] = (),
    without_dictionary: str | Sequence[str] = (),
) -> int:
    """Write the rows of a batch as a partition ``batch_id=...`` of a folder of Parquet files; return their number.

    A second call for the same batch replaces the rows of the first call, which may be incomplete, and changes no other
    batch. While it moves its files, readers see the partition empty or incomplete: read batches that were marked
    consumed. Run one attempt of a batch at a time.

    :param path: the folder's path or URI. A missing folder is created.
    :param batch: the source of the rows: a batch, its id, or a :class:`MicroBatch`.
    :param partition_by: columns that make partitions within the partition of the batch.
    :param sort_by: columns by which the rows of a file are sorted, so that a reader of some values skips the others.
    :param without_dictionary: columns whose values rarely repeat, such as ids and bodies: Parquet would build a
        dictionary for each, which takes time and is discarded when it is full.

    Nothing is shuffled: a task writes the rows that it reads, so a file is about as large as the input of its task.

    Raises :class:`ConfigurationError` for a path or columns that cannot be used, :class:`BatchError` for a batch that
    is open or requeued, :class:`BatchMismatchError` if the partition has other rows at the end than were written,
    because another program writes it at the same time.
    """
    from pyspark.sql import functions as sf

    if re.search(r"[][{}*?\\]", path):
        raise ConfigurationError(
            "The path of a sink must not contain a backslash or one of the characters [ ] { } * ?: choose another path."
        )
    if COLUMN in map(str.lower, df.columns):
        raise ConfigurationError(
            f"The rows have a column {COLUMN}, which is the partition's: give theirs another name, or drop it."
        )
    partition_by, sort_by = columns_in(partition_by), columns_in(sort_by)
    without_dictionary = columns_in(without_dictionary)
    named = (*partition_by, *sort_by, *without_dictionary)
    if missing := [name for name in named if name not in df.columns]:
        raise ConfigurationError(
            f"The rows have no column {missing[0]} that partition_by, sort_by or without_dictionary could name."
        )
    plain = {f"parquet.enable.dictionary#{name}": "false" for name in without_dictionary}
    path, name = path.rstrip("/"), partition_of(batch)
    own = f"{path}/{COLUMN}={name}"
    written = _write(df.withColumn(COLUMN, sf.lit(name)), path, (COLUMN, *partition_by), sort_by, plain)
    if _count(df.sparkSession, own) == written:
        return written
    # In the mode dynamic Spark keeps partitions without new rows, such as those of an earlier version of the job.
    written = _write(df, own, partition_by, sort_by, plain)
    if _count(df.sparkSession, own) != written:
        raise BatchMismatchError(
            f"The partition of batch {name} has other rows than the {written} that were written: let one job write it "
            "at a time, and run that again."
        )
    return written


def _write(
    df: DataFrame, path: str, partition_by: Sequence[str], sort_by: Sequence[str], settings: Mapping[str, str]
) -> int:
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    seen = Observation()
    rows = df.observe(seen, sf.count(sf.lit(1)).alias("rows"))
    if sort_by:
        # The writer needs the order of partition_by: with these columns first it does not sort again.
        rows = rows.sortWithinPartitions(*partition_by, *sort_by)
    mode = "dynamic" if COLUMN in partition_by else "static"
    options = {"partitionOverwriteMode": mode, "compression": "zstd", **settings}
    with session_settings(df.sparkSession, TIMES):
        rows.write.mode("overwrite").options(**options).partitionBy(*partition_by).parquet(path)
    return int(seen.get["rows"])


def _count(spark: SparkSession, path: str) -> int:
    """Return the rows in the files, from their footers."""
    try:
        return footers(spark, path).count()
    except Exception as error:
        if not is_read_error(error):
            raise
        return 0


def footers(spark: SparkSession, *paths: str) -> DataFrame:
    """Return the rows of the files below folders, without a column of theirs: Spark counts them by the footers."""
    options = {"recursiveFileLookup": "true", "ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
    return spark.read.schema("none INT").options(**options).parquet(*paths)
