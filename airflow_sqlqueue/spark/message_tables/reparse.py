"""Second parse: messages of the tables of unparsed messages move to the table of their type.

Source: docs/guides/bodies.md, "Parse again".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

from airflow_sqlqueue.bodies.decoding import MAX_BYTES
from airflow_sqlqueue.errors import ConfigurationError, SqlQueueError
from airflow_sqlqueue.schemas.files import SchemaFolder
from airflow_sqlqueue.spark.batch import raw_schema, typed_columns
from airflow_sqlqueue.spark.message_tables.lakes import Format
from airflow_sqlqueue.spark.message_tables.packing import PARSED
from airflow_sqlqueue.spark.message_tables.replacement import ATTEMPT
from airflow_sqlqueue.spark.message_tables.reports import MessageTypeTable
from airflow_sqlqueue.spark.message_tables.tables import (
    BodyForm,
    TableWriter,
    unparsed_schema,
)
from airflow_sqlqueue.spark.sinks.keys import partition_of
from airflow_sqlqueue.spark.sinks.partitions import COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


def reparse(
    spark: SparkSession,
    location: str,
    *,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    schemas: SchemaFolder | str | os.PathLike[str] | None = None,
    decoders: Mapping[str, Callable[[Column], Column]] | None = None,
    max_bytes: int = MAX_BYTES,
    work_folder: str | None = None,
    body: BodyForm | None = None,
) -> list[MessageTypeTable]:
    """Parse the messages of all ``~unparsed`` tables again, and move those that are parsed now to their tables.

    Use it for messages without a row in the table of their type: once their type has a schema, with decoders for
    another format, or with a larger ``max_bytes``. The schemas are used as they are. Rows that were moved have the
    number of the run in ``parse_attempt``. For rows with values in ``_rescued``, or in columns of a wrong
    type, there is :func:`rewrite_message_table`.

    A run may be killed at any point and run again: a message is then in one table, or still in both until the next
    run. Run it alone: neither two at once, nor beside a writer of the same tables.

    The parameters are those of :func:`write_message_tables`. Returns what each table got; a message that stays where it
    is does not count. A body in a file of its own (reason ``file``) stays.

    Raises :class:`ConfigurationError` at the end for a type whose table has other types than its schema: its messages
    stay until the table is rewritten.
    """
    from pyspark.sql import functions as sf

    writer = TableWriter(spark, location, format, work_folder, schemas, decoders, max_bytes, body)
    lake = writer.lake
    found: list[MessageTypeTable] = []
    refused: list[SqlQueueError] = []
    for table in lake.unparsed_tables():
        rows = lake.read(table, _columns(spark, writer))
        attempts = rows.select(COLUMN, ATTEMPT).distinct().orderBy(COLUMN, ATTEMPT)
        # Of a run that was killed two attempts may be there: the older one first, it has all of its messages.
        for batch_id, attempt in attempts.collect():
            key = partition_of(batch_id)
            own = lake.read(table, rows.schema).where((sf.col(COLUMN) == key) & (sf.col(ATTEMPT) == attempt))
            try:
                found += _moved(writer, table, own, key, attempt)
            except ConfigurationError as error:
                refused.append(error)
    if refused:
        raise refused[0]
    return found


def _moved(writer: TableWriter, table: str, rows: DataFrame, batch_id: str, attempt: int) -> list[MessageTypeTable]:
    lake, packed = writer.lake, writer.reparse(rows, f"{batch_id}-{attempt}")
    try:
        parsed = [key for key in packed.ordered() if key[1] == PARSED]
        if not parsed:
            return []
        for error in writer.refused(packed).values():
            raise error
        for name, kind in parsed:
            lake.replace(packed.rows(name, kind), lake.table(name), batch_id, attempt + 1)
        rest = [packed.rows(*key) for key in packed.ordered() if key[1] != PARSED]
        if rest:
            lake.replace(reduce(lambda one, other: one.union(other), rest), table, batch_id, attempt + 1)
        else:
            # Of a run that was killed there may be some.
            lake.remove(table, batch_id, attempt + 1)
        lake.remove(table, batch_id, attempt)
        return [packed.table(lake, name, kind) for name, kind in parsed]
    finally:
        packed.work.remove()


def _columns(spark: SparkSession, writer: TableWriter) -> StructType:
    """The columns of a table of unparsed messages."""
    empty = writer.given(typed_columns(spark.createDataFrame([], raw_schema())))
    return unparsed_schema(empty.schema).add(COLUMN, "string").add(ATTEMPT, "integer")
