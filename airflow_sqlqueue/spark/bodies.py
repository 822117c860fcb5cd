"""Bodies that a drain wrote to files of their own, back in their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.spark.errors import translate_read_errors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def read_bodies(df: DataFrame, batch: Batch) -> DataFrame:
    """What :func:`~airflow_sqlqueue.spark.batch.read_batch` returned, with every ``Body`` in its row.

    A drain writes bodies over ``DrainOptions.inline_body_bytes`` to files of their own, which ``BodyFile`` names, so
    that neither it nor a reader who does not need them has to hold them. Spark takes a body up to 2 GiB less one byte,
    and executors need several times the memory of the largest. The names of the files are collected on the driver.

    Raises :class:`~airflow_sqlqueue.errors.BatchMismatchError` where a file is missing, at once or when it is read, and
    at once for a name in ``BodyFile`` that is not that of a file which the drain wrote beside a part of the batch.
    """
    from pyspark.sql import functions as sf

    named = df.where(sf.col("BodyFile").isNotNull()).select("BodyFile").distinct()
    with translate_read_errors(batch):
        paths = [row[0] for row in named.collect()]
        if not paths:
            return df
        batch.check_files(paths)
        files = df.sparkSession.read.format("binaryFile").load(paths)
    # By the name: Spark writes the scheme of a path in other ways than it is given.
    contents = files.select(_name("path").alias("_name"), sf.col("content").alias("_content"))
    joined = df.withColumn("_name", _name("BodyFile")).join(contents, "_name", "left")
    return joined.withColumn("Body", sf.coalesce("Body", "_content")).select(*df.columns)


def _name(column: str) -> Column:
    from pyspark.sql import functions as sf

    return sf.substring_index(column, "/", -1)
