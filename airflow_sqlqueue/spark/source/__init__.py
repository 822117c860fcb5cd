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
    from pyspark.sql import SparkSession

    from airflow_sqlqueue.server.settings import ConnectionSettings


def register(spark: SparkSession, connection: ConnectionSettings | None = None) -> None:
    """Register the format ``sqlqueue`` with a session, of a master or of Spark Connect; a second call replaces it.

    ``spark.read.format("sqlqueue")`` browses a queue and takes nothing, or with the option ``batch`` reads a sealed
    batch; ``df.write`` sends, ``spark.readStream`` consumes, and ``df.writeStream`` sends each micro-batch. Driver and
    executors need this package and an ODBC driver.

    :param connection: the server and the login of each read and write without an option ``url``. It is pickled with the
        format's code: no plan, web UI or event log shows it, with Spark Connect as well. Without it the environment
        variable ``SQLQUEUE_URL`` of Spark's driver and executors names the server.

    Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for a Spark below 4.0.
    """
    from airflow_sqlqueue.versions.spark import SPARK

    SPARK.require()
    from airflow_sqlqueue.spark.source.data_source import data_source_for

    spark.dataSource.register(data_source_for(connection))


def finish_stream(query: Any, connection: ConnectionSettings | None = None) -> int:
    """Commit the last claim of a query that has ended without an error; Spark does not do this by itself.

    Call it after ``awaitTermination()``, above all with ``trigger(availableNow=True)``: Spark commits a micro-batch to
    its source only when the next one begins, so the messages of the last one stay claimed, in a sealed batch, until the
    query runs again. Without this call no message is lost or duplicated. Returns the number of claims that the streams
    of the query have done so far, in sum; 0 for a query without progress.

    Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for a query that is running or has failed, because its
    last claim may not be processed.

    :param query: the ``StreamingQuery``.
    :param connection: as for :func:`register`.
    """
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
