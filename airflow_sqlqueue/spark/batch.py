"""Sealed batch as a DataFrame.

Source: docs/design.md, "Files that Spark reads" and "Counting before a batch is consumed"; docs/transport/messages.md,
"Header names".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError
from airflow_sqlqueue.extras import from_extra
from airflow_sqlqueue.messages.message import HeaderNames
from airflow_sqlqueue.messages.row import spark_schema
from airflow_sqlqueue.options import check_type
from airflow_sqlqueue.spark import headers
from airflow_sqlqueue.spark.errors import translate_read_errors
from airflow_sqlqueue.spark.manifests import AnyBatch, load_batch
from airflow_sqlqueue.spark.secrets import broadcast

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from airflow_sqlqueue.server.settings import ConnectionSettings

_KNOWN = (
    HeaderNames.MESSAGE_ID,
    HeaderNames.ENCLOSED_MESSAGE_TYPES,
    *headers.TEXT_HEADERS.values(),
    *headers.TIME_HEADERS.values(),
)


def raw_schema() -> StructType:
    """``row.drained_row_schema()`` in Spark's types, so that a read needs neither pyarrow nor a file's schema."""
    with from_extra("spark", "Spark"):
        from pyspark.sql.types import StructType

    return StructType.fromJson(spark_schema())


def read_batch(
    spark: SparkSession,
    batch: AnyBatch,
    connection: ConnectionSettings | None = None,
    *,
    headers_map: bool = False,
) -> DataFrame:
    """Return the messages of a batch: the columns of the queue table, and the usual headers as columns.

    ``batch`` is a manifest, or another argument of :func:`load_batch`: a value from XCom, a batch id with a
    ``connection``, or the path of a manifest.

    - The row: ``Id``, ``CorrelationId``, ``ReplyToAddress``, ``Recoverable``, ``Expires``, ``Body``, ``RowVersion`` and
      ``Expired`` under the table's names; its ``Headers`` are ``headers_raw``, because Spark ignores the case of names.
      ``BodyFile`` names the file of a body that is too large for its row; ``Body`` is null
      in that row, unless :func:`read_bodies` fetches it.
    - ``headers``, only with ``headers_map``, as it says the same as ``headers_raw`` again: ``map<string,string>``, null
      if ``headers_malformed``: not a JSON object of texts, one that Spark
      cannot hold (a name of more than 50,000 characters), more than 1,048,576 characters, or more than 10,000 headers.
    - Texts: ``message_id`` (the row's ``Id`` if the header is missing, as in the transport), ``correlation_id``,
      ``conversation_id``, ``related_to`` (the id of the message that caused it), ``message_type`` (the full name of the
      first enclosed type), ``intent``, ``content_type``, ``originating_endpoint``, ``processing_endpoint``,
      ``failed_queue``, ``exception_type``, ``traceparent`` (the trace and the span of its sender). ``enclosed_types``
      is an array with the full names of all enclosed types.
    - Instants: ``time_sent``, ``processing_started``, ``processing_ended``, ``time_of_failure``; null if the header is
      missing or in another form. They do not depend on the session's time zone. ``processing_ms``: milliseconds.

    A batch in files: Spark reads exactly the files that the manifest names, whatever the session's settings are; Spark
    Connect works as well. A batch in a table (stage ``table``): Spark's tasks read from the server, part by part, and
    each checks that a part has as many messages as the ledger says. This needs ``connection``, this package
    and an ODBC driver on the executors, and a session with a master. The login is in no plan, no web UI and no event
    log. Every action reads all columns from the server again, and large bodies are in their rows: ``persist`` a
    DataFrame that is used twice. In both cases a second read gives the same rows.

    Raises :class:`BatchError` for a batch that is open (it is not final) or requeued (its messages are in the queue
    again), :class:`BatchMismatchError` for a file that is missing or that, by its folder and name, a drain of this
    batch did not write. With Spark Connect, or if files or rows are lost later, :func:`verify_count` raises the error.
    For a batch in a table :class:`ConfigurationError` without a ``connection`` and with Spark Connect, and the errors
    of a session.
    """
    batch = load_batch(spark, batch, connection)
    batch.check_readable()
    in_table = batch.stage == "table"
    rows = _table_rows(spark, batch, connection) if in_table else _file_rows(spark, batch)
    return typed_columns(rows, headers_map=headers_map)


def typed_columns(rows: DataFrame, *, headers_map: bool = False) -> DataFrame:
    """Add the columns of :func:`read_batch` to rows of the format ``sqlqueue``; of streams as well.

    Raises :class:`ConfigurationError` for rows without ``Id`` or ``Headers``, and for a Spark below 4.0.
    """
    from pyspark.sql import functions as sf

    from airflow_sqlqueue.versions.spark import SPARK

    SPARK.require()
    if missing := {"id", "headers"} - {name.lower() for name in rows.columns}:
        raise ConfigurationError(f"The rows have no column {sorted(missing)[0].title()}: read it as well.")
    raw = rows.withColumnRenamed("Headers", "headers_raw")
    # Each step is a projection of its own: Spark computes each used column once, and no unused column.
    checked = raw.withColumn("_readable", headers.readable(sf.col("headers_raw")))
    parsed = checked.withColumns(
        {
            "headers_malformed": sf.col("_readable").isNull(),
            "_all": headers.all_headers(sf.col("_readable")),
            "_known": headers.known_headers(sf.col("_readable"), _KNOWN),
        }
    )
    header = sf.col("_known").getField
    typed = parsed.withColumns(
        {
            **({"headers": headers.last_wins(sf.col("_all"))} if headers_map else {}),
            "message_id": sf.coalesce(header(HeaderNames.MESSAGE_ID), sf.col("Id")),
            "message_type": headers.first_type(header(HeaderNames.ENCLOSED_MESSAGE_TYPES)),
            "enclosed_types": headers.all_types(header(HeaderNames.ENCLOSED_MESSAGE_TYPES)),
            **{column: header(name) for column, name in headers.TEXT_HEADERS.items()},
            **{column: headers.wire_time(header(name)) for column, name in headers.TIME_HEADERS.items()},
        }
    ).drop("_readable", "_all", "_known")
    elapsed = sf.unix_micros("processing_ended") - sf.unix_micros("processing_started")
    return typed.withColumn("processing_ms", elapsed.cast("double") / 1000)


def verify_count(df: DataFrame, batch: Batch) -> int:
    """Check that Spark reads as many rows as the ledger has, before the batch is marked consumed; return the number.

    This is cheap for a batch in files, because Parquet keeps counts in the footers; for a batch in a table it reads
    everything, unless the rows are persisted. Raises :class:`BatchMismatchError` if the counts differ, or a file or
    rows are missing.
    """
    check_type("df", "DataFrame", df)
    check_type("batch", Batch.__name__, batch)
    with translate_read_errors(batch):
        rows = df.count()
    if rows != batch.messages:
        raise BatchMismatchError(
            f"Spark reads {rows} messages of batch {batch.batch_id}, the ledger has {batch.messages}: "
            "do not mark it consumed before the files are found."
        )
    return rows


def read_bodies(df: DataFrame, batch: Batch) -> DataFrame:
    """Fetch large bodies: the rows of :func:`read_batch`, with every ``Body`` in its row and no ``BodyFile``.

    A drain writes bodies over ``DrainOptions.inline_body_bytes`` to files of their own, which ``BodyFile`` names, so
    that neither the drain nor a reader without a need for bodies holds them in memory. Spark takes a body up to 2 GiB
    less one byte, and executors need several times the memory of the largest. The driver collects the names of the
    files.

    Raises :class:`BatchMismatchError` for a missing file, at once or when it is read, and at once for a name in
    ``BodyFile`` that is not the name of a file that the drain wrote beside a part of the batch.
    """
    from pyspark.sql import functions as sf

    named = df.where(sf.col("BodyFile").isNotNull()).select("BodyFile").distinct()
    with translate_read_errors(batch):
        paths = [row[0] for row in named.collect()]
        if not paths:
            return df
        batch.check_files(paths)
        files = df.sparkSession.read.format("binaryFile").load(paths)
    # Joined by the file's name, because Spark changes how the scheme of a path is written.
    contents = files.select(sf.substring_index("path", "/", -1).alias("_name"), sf.col("content").alias("_content"))
    joined = df.withColumn("_name", sf.substring_index("BodyFile", "/", -1)).join(contents, "_name", "left")
    # With the name of a file a row says that its body is elsewhere, so it would be neither parsed nor sent.
    name = sf.when(sf.col("_content").isNull(), sf.col("BodyFile"))
    return joined.withColumns({"Body": sf.coalesce("Body", "_content"), "BodyFile": name}).select(*df.columns)


def _table_rows(spark: SparkSession, batch: Batch, connection: ConnectionSettings | None) -> DataFrame:
    if connection is None:
        raise ConfigurationError(
            f"Batch {batch.batch_id} is in a table of the server: give read_batch the connection to it."
        )
    from airflow_sqlqueue.spark.source.columns import SelectedColumns
    from airflow_sqlqueue.spark.source.options import BatchOptions, ServerAccess
    from airflow_sqlqueue.spark.source.staged import plan_shares, read_share

    access = ServerAccess(settings=connection)
    # Values that the function refers to go into the plan: numbers, ids and the handle of the login.
    login = broadcast(spark, access)
    options = BatchOptions(batch.uuid, batch.queue, spark.sparkContext.defaultParallelism)
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
    # With the recursive lookup a folder of the path that is called key=value does not become a column.
    options = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false", "recursiveFileLookup": "true"}
    with translate_read_errors(batch):
        return spark.read.schema(schema).options(**options).parquet(*batch.paths)
