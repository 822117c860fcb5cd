"""A sealed batch as a DataFrame.

Source: docs/design.md, "Files that Spark reads" and "Counting before a batch is consumed"; docs/transport/messages.md,
"Header names".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError
from airflow_sqlqueue.extras import from_extra
from airflow_sqlqueue.message import HeaderNames
from airflow_sqlqueue.row import spark_schema
from airflow_sqlqueue.spark.errors import translate_read_errors
from airflow_sqlqueue.spark.headers import (
    TEXT_HEADERS,
    TIME_HEADERS,
    all_headers,
    first_type,
    known_headers,
    last_wins,
    readable,
    wire_time,
)
from airflow_sqlqueue.spark.manifests import AnyBatch, load_batch
from airflow_sqlqueue.spark.secrets import broadcast

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from airflow_sqlqueue.server.settings import ConnectionSettings

_KNOWN = (HeaderNames.MESSAGE_ID, HeaderNames.ENCLOSED_MESSAGE_TYPES, *TEXT_HEADERS.values(), *TIME_HEADERS.values())


def raw_schema() -> StructType:
    """``row.drained_row_schema()`` in Spark's types, so that reading needs neither pyarrow nor a look at a file."""
    with from_extra("spark", "Spark"):
        from pyspark.sql.types import StructType

    return StructType.fromJson(spark_schema())


def read_batch(
    spark: SparkSession,
    batch: AnyBatch,
    connection: ConnectionSettings | None = None,
    *,
    ledger_schema: str = "sqlqueue",
) -> DataFrame:
    """The messages of a batch: the columns of the queue table, the headers as a map, and the headers people ask for.

    ``batch`` is a manifest, or what :func:`load_batch` takes: what XCom has, a batch id with a ``connection``, or the
    path of a manifest.

    - The row: ``Id``, ``CorrelationId``, ``ReplyToAddress``, ``Recoverable``, ``Expires``, ``Body``, ``RowVersion`` and
      ``Expired`` under the table's names; its ``Headers`` are ``headers_raw``, because to Spark ``Headers`` and
      ``headers`` are one name. ``BodyFile`` names the file of a body that is too large for its row; ``Body`` is null
      there, unless :func:`read_bodies` fetches it.
    - ``headers``: ``map<string,string>``, null where ``headers_malformed``: no JSON object of texts, one that Spark
      cannot hold (a name of more than 50,000 characters), more than 1,048,576 characters, or more than 10,000 headers.
    - Texts: ``message_id`` (the row's ``Id`` where the header is missing, as the transport does), ``correlation_id``,
      ``conversation_id``, ``related_to`` (the id of the message that caused it), ``message_type`` (the full name of the
      first enclosed type), ``intent``, ``content_type``, ``originating_endpoint``, ``processing_endpoint``,
      ``failed_queue``, ``exception_type``.
    - Instants: ``time_sent``, ``processing_started``, ``processing_ended``, ``time_of_failure``; null where the header
      is missing or in another form. They do not depend on the session's time zone. ``processing_ms``: milliseconds.

    Of a batch in files it reads exactly those that the manifest names, whatever the session's settings, and works with
    Spark Connect. Of a batch in a table (stage ``table``) Spark's tasks read from the server, part by part, and each
    checks that it has as many messages as the ledger says: that needs ``connection``, the ledger's schema where it is
    another, this package and an ODBC driver on the executors, and a session with a master. The login is in no plan, no
    web UI and no event log. Every action reads from the server again, all columns, and large bodies stand in their
    rows: ``persist`` the DataFrame where it is used twice. Either way reading twice gives the same rows.

    Raises :class:`BatchError` for a batch that is open (it is not final) or requeued (its messages are in the queue
    again), :class:`BatchMismatchError` where a file is missing or is not one that a drain of this batch wrote, by its
    folder and name; with Spark Connect, or where a file or rows go missing
    later, the latter comes from :func:`verify_count`. For a batch in a table :class:`ConfigurationError` without a
    ``connection`` and with Spark Connect, and what a session raises.
    """
    batch = load_batch(spark, batch, connection, ledger_schema=ledger_schema)
    batch.check_readable()
    in_table = batch.stage == "table"
    rows = _table_rows(spark, batch, connection, ledger_schema) if in_table else _file_rows(spark, batch)
    return typed_columns(rows)


def typed_columns(rows: DataFrame) -> DataFrame:
    """Rows as the format ``sqlqueue`` reads them, with the columns that :func:`read_batch` gives; of streams as well.

    Raises :class:`ConfigurationError` where ``Id`` or ``Headers`` is not among the columns.
    """
    from pyspark.sql import functions as sf

    if missing := {"id", "headers"} - {name.lower() for name in rows.columns}:
        raise ConfigurationError(f"The rows have no column {sorted(missing)[0].title()}: read it as well.")
    raw = rows.withColumnRenamed("Headers", "headers_raw")
    # Each step is a projection of its own, of which Spark computes once what is used, and nothing else.
    checked = raw.withColumn("_readable", readable(sf.col("headers_raw")))
    parsed = checked.withColumns(
        {
            "headers_malformed": sf.col("_readable").isNull(),
            "_all": all_headers(sf.col("_readable")),
            "_known": known_headers(sf.col("_readable"), _KNOWN),
        }
    )
    header = sf.col("_known").getField
    typed = parsed.withColumns(
        {
            "headers": last_wins(sf.col("_all")),
            "message_id": sf.coalesce(header(HeaderNames.MESSAGE_ID), sf.col("Id")),
            "message_type": first_type(header(HeaderNames.ENCLOSED_MESSAGE_TYPES)),
            **{column: header(name) for column, name in TEXT_HEADERS.items()},
            **{column: wire_time(header(name)) for column, name in TIME_HEADERS.items()},
        }
    ).drop("_readable", "_all", "_known")
    elapsed = sf.unix_micros("processing_ended") - sf.unix_micros("processing_started")
    return typed.withColumn("processing_ms", elapsed.cast("double") / 1000)


def verify_count(df: DataFrame, batch: Batch) -> int:
    """The number of rows that Spark reads, which is the ledger's: the check before a batch is marked consumed.

    Cheap on what :func:`read_batch` returned of files, as Parquet keeps its counts in the footers; of a batch in a
    table it reads everything, unless that is persisted. Raises :class:`BatchMismatchError` where the counts differ, or
    a file or rows are missing.
    """
    with translate_read_errors(batch):
        rows = df.count()
    if rows != batch.messages:
        raise BatchMismatchError(
            f"Spark reads {rows} messages of batch {batch.batch_id}, the ledger has {batch.messages}: "
            "do not mark it consumed before the files are found."
        )
    return rows


def read_bodies(df: DataFrame, batch: Batch) -> DataFrame:
    """What :func:`read_batch` returned, with every ``Body`` in its row.

    A drain writes bodies over ``DrainOptions.inline_body_bytes`` to files of their own, which ``BodyFile`` names, so
    that neither it nor a reader who does not need them has to hold them. Spark takes a body up to 2 GiB less one byte,
    and executors need several times the memory of the largest. The names of the files are collected on the driver.

    Raises :class:`BatchMismatchError` where a file is missing, at once or when it is read, and
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
    contents = files.select(_file_name("path").alias("_name"), sf.col("content").alias("_content"))
    joined = df.withColumn("_name", _file_name("BodyFile")).join(contents, "_name", "left")
    return joined.withColumn("Body", sf.coalesce("Body", "_content")).select(*df.columns)


def _table_rows(
    spark: SparkSession, batch: Batch, connection: ConnectionSettings | None, ledger_schema: str
) -> DataFrame:
    if connection is None:
        raise ConfigurationError(
            f"Batch {batch.batch_id} is in a table of the server: give read_batch the connection to it."
        )
    from airflow_sqlqueue.spark.source.columns import SelectedColumns
    from airflow_sqlqueue.spark.source.options import BatchOptions, ServerAccess
    from airflow_sqlqueue.spark.source.staged import plan_shares, read_share

    access = ServerAccess(settings=connection, ledger_schema=ledger_schema)
    # What the function closes over goes into the plan: numbers, ids and the handle of the login.
    login = broadcast(spark, access)
    options = BatchOptions(uuid.UUID(batch.batch_id), batch.queue, spark.sparkContext.defaultParallelism)
    shares, schema = plan_shares(access, options, known=batch), raw_schema()
    columns = SelectedColumns.of(schema)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbers in batches:
            for number in numbers.column(0).to_pylist():
                yield from read_share(login.value, columns, shares[number])

    return spark.range(0, len(shares), 1, len(shares)).mapInArrow(read, schema)


def _file_rows(spark: SparkSession, batch: Batch) -> DataFrame:
    schema = raw_schema()
    batch.check_files()
    if not batch.paths:
        return spark.createDataFrame([], schema)
    # A folder called key=value on the way must not become a column, hence the recursive lookup.
    options = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false", "recursiveFileLookup": "true"}
    with translate_read_errors(batch):
        return spark.read.schema(schema).options(**options).parquet(*batch.paths)


def _file_name(column: str) -> Column:
    from pyspark.sql import functions as sf

    return sf.substring_index(column, "/", -1)
