"""A file of Parquet as Spark writes it, written by the driver: a job of Spark for each small table takes more time.

Source: docs/design.md, "Tables of message types".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.storage.durable_file import replace_file
from airflow_sqlqueue.drain.storage.folder import StagingFolder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

COLUMNS_NOTE = "org.apache.spark.sql.parquet.row.metadata"
"""The key of the columns of a file, with their comments, in its metadata."""

_VERSION_NOTE = "org.apache.spark.version"
"""The key of Spark's version, by which it reads days before 1582."""

_MODE = 0o644


def write_file(folder: str, schema: StructType, rows: Iterator[pa.RecordBatch], version: str) -> None:
    """Write a file as Spark of this version writes it; readers find it once it is complete.

    The compressed file and one of the batches are in memory, whatever the rows have compressed to.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    first, sink = next(rows), pa.BufferOutputStream()
    options = {"compression": "zstd", "store_schema": False, "store_decimal_as_integer": True}
    with pq.ParquetWriter(sink, first.schema, **options) as file:
        for each in chain([first], rows):
            file.write_batch(each)
        file.add_key_value_metadata({COLUMNS_NOTE: schema.json(), _VERSION_NOTE: version})
    target = StagingFolder.of(folder, "location of the tables")
    replace_file(target, "part-00000.zstd.parquet", sink.getvalue().to_pybytes(), _MODE)
