"""The format ``sqlqueue`` of Spark: a Python data source.

``data_source`` and the modules below it define subclasses of PySpark's classes. Therefore only ``register`` and
executors import them.

Source: docs/design.md, "The format sqlqueue".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from airflow_sqlqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from airflow_sqlqueue.server.settings import ConnectionSettings


def register(spark: SparkSession, connection: ConnectionSettings | None = None) -> None:
    """Register the format ``sqlqueue`` with a session, of a master or of Spark Connect; a second call replaces it.

    ``spark.read.format("sqlqueue")`` browses a queue and takes nothing, or with the option ``batch`` reads a sealed
    batch; ``df.write`` sends, ``spark.readStream`` consumes, and ``df.writeStream`` sends each micro-batch. Driver and
    executors need this package and an ODBC driver.

    :param connection: the server and the login of each read and write without an option ``url``. It is pickled with the
        format's code: no plan, web UI or event log shows it, with Spark Connect as well. Without it the environment
        variable ``SQLQUEUE_URL`` of Spark's driver and executors names the server.

    Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for a Spark below 4.0, and for a URL as ``connection``.
    """
    from airflow_sqlqueue.spark.manifests import check_connection

    check_connection(connection)
    from airflow_sqlqueue.versions.spark import SPARK

    SPARK.require()
    from airflow_sqlqueue.spark.source.data_source import data_source_for

    spark.dataSource.register(data_source_for(connection))


def finish_stream(
    ended: StreamingQuery | DataFrame,
    connection: ConnectionSettings | None = None,
    *,
    stream: str | None = None,
    queue: str | None = None,
) -> int:
    """Commit the last claim of a stream that has ended, which Spark does not do by itself.

    Call it after ``awaitTermination()``, above all with ``trigger(availableNow=True)``: Spark commits a micro-batch to
    its source only when the next one begins, so the messages of the last one stay claimed, in a sealed batch, until the
    query runs again. Without this call no message is lost or duplicated. Where there is no query, as after a pipeline,
    the table that the stream writes tells which claims it has. Returns the number of claims that the streams have done
    so far, in sum; 0 for a query without progress.

    Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for a query that is running or has failed, because its
    last claim may not be processed, for a table without the columns ``Id`` and ``RowVersion``, and for a name of no
    stream; :class:`~airflow_sqlqueue.errors.BatchError` for a table that has some messages of a claim, and not all.

    :param ended: the ``StreamingQuery``; or the stream's table as a ``DataFrame``, with ``stream`` and ``queue``.
    :param connection: as for :func:`register`.
    :param stream: with a table, the name of the stream.
    :param queue: with a table, the address of the stream's queue.
    """
    from pyspark.sql import DataFrame

    from airflow_sqlqueue.spark.source.claims import Claims, StreamOptions
    from airflow_sqlqueue.spark.source.finishing import finish_by_table
    from airflow_sqlqueue.spark.source.options import ServerAccess, SourceOptions

    if not isinstance(ended, DataFrame):
        if stream is not None or queue is not None:
            raise ConfigurationError("A query knows its stream and its queue: leave both out.")
        return _finish_query(ended, connection)
    if stream is None or queue is None:
        raise ConfigurationError("A table does not know its stream: name the stream and its queue.")
    access = ServerAccess.of(SourceOptions({}), connection)
    claims = Claims(access, StreamOptions(queue, stream, 1, 1, keep_expired=False))
    claims.require()
    try:
        return finish_by_table(ended, claims)
    finally:
        claims.close()


def _finish_query(query: Any, connection: ConnectionSettings | None) -> int:
    from airflow_sqlqueue.spark.source.claims import Claims, Offset, StreamOptions
    from airflow_sqlqueue.spark.source.options import ServerAccess, SourceOptions

    if query.isActive or query.exception() is not None:
        raise ConfigurationError("The query is running, or has failed: call this when it has ended without an error.")
    done = 0
    for source in query.lastProgress.sources if query.lastProgress is not None else ():
        end = json.loads(source.endOffset) if source.endOffset else None
        if not isinstance(end, dict) or end.keys() != Offset.__required_keys__:
            continue
        access = ServerAccess.of(SourceOptions({"ledgerSchema": end["schema"]}, "ledgerSchema"), connection)
        claims = Claims(access, StreamOptions(end["queue"], end["stream"], 1, 1, False))
        try:
            claims.commit(cast(Offset, end))
        finally:
            claims.close()
        done += end["number"]
    return done
