"""The format ``sqlqueue`` of Spark: a Python data source.

``data_source`` and what it is made of define subclasses of PySpark's, so they are imported by ``register`` and on
executors, and by nothing else here.

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
    """Make the format ``sqlqueue`` known to a session, of a master or of Spark Connect; again, it is replaced.

    ``spark.read.format("sqlqueue")`` looks at a queue and takes nothing, or with the option ``batch`` reads a sealed
    batch; ``df.write`` sends, ``spark.readStream`` consumes, and ``df.writeStream`` sends each micro-batch. Driver and
    executors need this package and an ODBC driver.

    :param connection: the server and the login of every read and write that names none itself by the option ``url``.
        It is pickled with the format's code: no plan, web UI or event log shows it, with Spark Connect as well. Without
        it the environment variable ``SQLQUEUE_URL`` of Spark's driver and executors counts.
    """
    from airflow_sqlqueue.spark.source.data_source import bound_to

    spark.dataSource.register(bound_to(connection))


def finish_stream(query: Any, connection: ConnectionSettings | None = None) -> int:
    """Commit the last claim of a query that has ended well, which Spark does not do by itself.

    To be called after ``awaitTermination()``, above all with ``trigger(availableNow=True)``: Spark tells a source what
    it has committed when the next micro-batch begins, so the messages of the last one stay claimed, in a batch that is
    sealed, until the query runs again. Nothing is lost or doubled without it. Returns how many claims the consumers of
    the query have done by now, added up; 0 where it has made no progress.

    Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for a query that is running or has failed, whose last
    claim may not be processed.

    :param query: the ``StreamingQuery``.
    :param connection: as for :func:`register`.
    """
    from airflow_sqlqueue.spark.source.claims import Claims, Offset, StreamOptions
    from airflow_sqlqueue.spark.source.options import ServerAccess, SourceOptions

    if query.isActive or query.exception() is not None:
        raise ConfigurationError("The query is running, or has failed: call this when it has come to its end.")
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
