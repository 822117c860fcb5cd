"""A sealed batch as a DataFrame.

Source: reference/spark.md 0 (points 6 to 8) and 1.4; reference/envelope.md 3.3 for the headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchError, BatchMismatchError
from airflow_sqlqueue.message import HeaderNames
from airflow_sqlqueue.spark.files import missing_files_told
from airflow_sqlqueue.spark.headers import first_type, headers_malformed, last_wins, parse_headers, wire_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_TEXTS = {
    "correlation_id": HeaderNames.CORRELATION_ID,
    "conversation_id": HeaderNames.CONVERSATION_ID,
    "intent": HeaderNames.MESSAGE_INTENT,
    "content_type": HeaderNames.CONTENT_TYPE,
    "originating_endpoint": HeaderNames.ORIGINATING_ENDPOINT,
    "processing_endpoint": HeaderNames.PROCESSING_ENDPOINT,
    "failed_queue": HeaderNames.FAILED_Q,
    "exception_type": HeaderNames.EXCEPTION_TYPE,
}
_TIMES = {
    "time_sent": HeaderNames.TIME_SENT,
    "processing_started": HeaderNames.PROCESSING_STARTED,
    "processing_ended": HeaderNames.PROCESSING_ENDED,
    "time_of_failure": HeaderNames.TIME_OF_FAILURE,
}


def raw_schema() -> StructType:
    """``message.drained_row_schema()`` in Spark's types, so that reading needs neither pyarrow nor a look at a file."""
    from pyspark.sql.types import BinaryType, BooleanType, LongType, StringType, StructField, StructType, TimestampType

    return StructType(
        [
            StructField("Id", StringType(), False),
            StructField("CorrelationId", StringType()),
            StructField("ReplyToAddress", StringType()),
            StructField("Recoverable", BooleanType()),
            StructField("Expires", TimestampType()),
            StructField("Headers", StringType(), False),
            StructField("Body", BinaryType()),
            StructField("RowVersion", LongType(), False),
            StructField("Expired", BooleanType(), False),
            StructField("BodyFile", StringType()),
        ]
    )


def read_batch(spark: SparkSession, batch: Batch) -> DataFrame:
    """The messages of a batch: the columns of the queue table, the headers as a map, and the headers people ask for.

    - The row: ``Id``, ``CorrelationId``, ``ReplyToAddress``, ``Recoverable``, ``Expires``, ``Body``, ``RowVersion`` and
      ``Expired`` under the table's names; its ``Headers`` are ``headers_raw``, because to Spark ``Headers`` and
      ``headers`` are one name. ``BodyFile`` names the file of a body that is too large for its row; ``Body`` is null
      there, unless :func:`~airflow_sqlqueue.spark.bodies.read_bodies` fetches it.
    - ``headers``: ``map<string,string>``, null where ``headers_malformed``.
    - Texts: ``message_id`` (the row's ``Id`` where the header is missing, as the transport does), ``correlation_id``,
      ``conversation_id``, ``message_type`` (the full name of the first enclosed type), ``intent``, ``content_type``,
      ``originating_endpoint``, ``processing_endpoint``, ``failed_queue``, ``exception_type``.
    - Instants: ``time_sent``, ``processing_started``, ``processing_ended``, ``time_of_failure``; null where the header
      is missing or in another form. They do not depend on the session's time zone. ``processing_ms``: milliseconds.

    Reads exactly the files that the manifest names, whatever the session's settings; reading twice gives the same rows.
    Works with Spark Connect. Raises :class:`BatchError` for a batch that is open (its files are not final) or requeued
    (its messages are in the queue again), :class:`BatchMismatchError` where a file is missing; with Spark Connect, or
    where a file goes missing later, the latter comes from :func:`verify_count`.
    """
    from pyspark.sql import functions as sf

    if batch.state not in ("sealed", "consumed"):
        raise BatchError(f"Batch {batch.batch_id} is {batch.state}: only a sealed or consumed batch can be read.")
    raw = _rows(spark, batch).withColumnRenamed("Headers", "headers_raw")
    text = sf.col("headers_raw")
    flagged = raw.withColumn("headers_malformed", headers_malformed(text))
    parsed = flagged.withColumn("headers", parse_headers(text, sf.col("headers_malformed")))
    header = sf.col("headers").getItem
    typed = parsed.withColumn("headers", last_wins(sf.col("headers"))).withColumns(
        {
            "message_id": sf.coalesce(header(HeaderNames.MESSAGE_ID), sf.col("Id")),
            "message_type": first_type(header(HeaderNames.ENCLOSED_MESSAGE_TYPES)),
            **{column: header(name) for column, name in _TEXTS.items()},
            **{column: wire_time(header(name)) for column, name in _TIMES.items()},
        }
    )
    elapsed = sf.unix_micros("processing_ended") - sf.unix_micros("processing_started")
    return typed.withColumn("processing_ms", elapsed.cast("double") / 1000)


def verify_count(df: DataFrame, batch: Batch) -> int:
    """The number of rows that Spark reads, which is the ledger's: the check before a batch is marked consumed.

    Cheap on what :func:`read_batch` returned: Parquet keeps its counts in the footers. Raises
    :class:`BatchMismatchError` where the counts differ or a file is missing.
    """
    with missing_files_told(batch):
        rows = df.count()
    if rows != batch.messages:
        raise BatchMismatchError(
            f"Spark reads {rows} messages of batch {batch.batch_id}, the ledger has {batch.messages}: "
            "do not mark it consumed before the files are found."
        )
    return rows


def _rows(spark: SparkSession, batch: Batch) -> DataFrame:
    schema = raw_schema()
    if not batch.paths:
        return spark.createDataFrame([], schema)
    # A folder called key=value on the way must not become a column, hence the recursive lookup.
    options = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false", "recursiveFileLookup": "true"}
    with missing_files_told(batch):
        return spark.read.schema(schema).options(**options).parquet(*batch.paths)
