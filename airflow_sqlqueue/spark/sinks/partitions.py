"""A folder of Parquet files that has each batch once.

Source: docs/design.md, "Exactly-once sinks".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError
from airflow_sqlqueue.spark.errors import is_read_error
from airflow_sqlqueue.spark.sinks.keys import AnyKey, partition_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMN = "batch_id"


def write_partitions(
    df: DataFrame,
    path: str,
    batch: AnyKey,
    *,
    partition_by: Sequence[str] = (),
    sort_by: Sequence[str] = (),
    without_dictionary: Sequence[str] = (),
) -> int:
    """Write the rows of a batch as its own partition, ``batch_id=...``, of a folder of Parquet files; how many it has.

    A second call for the same batch replaces what the first one wrote, whole or in part, and touches no other batch.
    While it moves its files to their place readers see the partition empty or in part: read batches that were marked
    consumed. Run one attempt of a batch at a time.

    :param path: the folder's path or URI. It is made where there is none.
    :param batch: what the rows are of: a batch, its id, or a :class:`MicroBatch`.
    :param partition_by: columns that make partitions within the batch's.
    :param sort_by: columns that the rows of a file are sorted by, so that a reader of some values passes over others.
    :param without_dictionary: columns whose values hardly repeat, as ids and bodies: Parquet would try a dictionary for
        each, which takes time and is thrown away when it is full.

    Nothing is shuffled: a task writes what it reads, so a file is about as large as what its task has read.

    Raises :class:`ConfigurationError` for a path or columns that cannot be used, :class:`BatchError` for a batch that
    is open or requeued, :class:`BatchMismatchError` where the partition has other rows at the end than were written,
    which is so where something else writes it at the same time.
    """
    from pyspark.sql import functions as sf

    if re.search(r"[][{}*?\\]", path):
        raise ConfigurationError("The path of a sink has none of the characters [ ] { } * ? and no backslash.")
    named = (*partition_by, *sort_by, *without_dictionary)
    if missing := [name for name in named if name not in df.columns or name == COLUMN]:
        raise ConfigurationError(
            f"The rows have no column {missing[0]} that partition_by, sort_by or without_dictionary could name."
        )
    plain = {f"parquet.enable.dictionary#{name}": "false" for name in without_dictionary}
    path, name = path.rstrip("/"), partition_of(batch)
    own = f"{path}/{COLUMN}={name}"
    written = _write(df.withColumn(COLUMN, sf.lit(name)), path, (COLUMN, *partition_by), sort_by, plain)
    if _count(df.sparkSession, own) == written:
        return written
    # Spark leaves the partitions alone for which there are no rows now, as an earlier version of the job had.
    written = _write(df.drop(COLUMN), own, partition_by, sort_by, plain)
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
        # The order that the writer needs comes first: it sorts no second time.
        rows = rows.sortWithinPartitions(*partition_by, *sort_by)
    mode = "dynamic" if COLUMN in partition_by else "static"
    options = {"partitionOverwriteMode": mode, "compression": "zstd", **settings}
    rows.write.mode("overwrite").options(**options).partitionBy(*partition_by).parquet(path)
    return int(seen.get["rows"])


def _count(spark: SparkSession, path: str) -> int:
    """The rows in the files, from their footers."""
    options = {"recursiveFileLookup": "true", "ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
    try:
        return spark.read.schema("none INT").options(**options).parquet(path).count()
    except Exception as error:
        if not is_read_error(error):
            raise
        return 0
