"""Replay of messages from a batch or the lake to a queue, each once.

``python -m airflow_sqlqueue.spark.jobs.replay --table LAKE --where CONDITION --queue sales --send-id "orders of May"``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue.errors.failure_headers import FAILURE_HEADERS
from airflow_sqlqueue.spark.headers import all_headers, last_wins, readable
from airflow_sqlqueue.spark.jobs.program import Program, connection_of_environment, need_columns
from airflow_sqlqueue.versions.spark import SPARK

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from airflow_sqlqueue.server.settings import ConnectionSettings

_FORMAT = "sqlqueue_replay"
"""A format of its own: reads and writes of the session by the format sqlqueue keep their server."""

_ROW = ("Id", "CorrelationId", "ReplyToAddress", "Body")


def replay_messages(messages: DataFrame, queue: str, send_id: str, connection: ConnectionSettings | None = None) -> int:
    """Send messages to a queue unchanged, in one transaction and once; return the number of rows of ``messages``.

    A second replay with the same ``send_id`` sends nothing, whatever its messages are, so a repeated task sends each
    message once. Row, message id, body and headers stay the same; headers that a failure has added are left out, as
    :meth:`.QueueClient.errors` does before a retry, and no message expires. An endpoint that remembers message ids (an
    outbox) skips those that it has handled. Messages with malformed headers are sent unchanged, and the endpoint cannot
    read them either: leave them out with ``NOT headers_malformed``.

    :param messages: the rows of :func:`~airflow_sqlqueue.spark.read_batch`, or of the table of :mod:`.audit`, that are
        to be sent. Fetch bodies in files of their own by :func:`~airflow_sqlqueue.spark.read_bodies` before; otherwise
        they are refused.
    :param queue: the queue's address.
    :param send_id: a UUID or a text of your own.
    :param connection: the server and the login, as for :func:`~airflow_sqlqueue.spark.register`; by default those of
        the variable ``SQLQUEUE_URL`` of the driver's environment.

    Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for rows without the columns that it needs, without a
    send id or a server. A failure during the send is an error of Spark's, and then no message was sent.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    if not send_id.strip():
        raise ConfigurationError("A replay needs a send id, so that it sends each message once: name it.")
    need_columns(messages, *_ROW, "headers_raw", "BodyFile")
    SPARK.require()
    from airflow_sqlqueue.spark.source.data_source import data_source_for

    # Read here, because executors of a cluster have another environment.
    source = data_source_for(connection or connection_of_environment(), _FORMAT)
    messages.sparkSession.dataSource.register(source)

    # Each step is a column of its own, so that Spark parses each text once.
    parsed = messages.withColumn("_readable", readable(sf.col("headers_raw")))
    parsed = parsed.withColumn("_all", all_headers(sf.col("_readable")))
    parsed = parsed.withColumn("_last", last_wins(sf.col("_all")))
    headers = sf.map_filter("_last", lambda name, _: ~_starts_with_any(name, FAILURE_HEADERS)).alias("headers")
    rows = parsed.select(*_ROW, headers, "headers_raw", "BodyFile")
    seen = Observation()
    writer = rows.observe(seen, sf.count(sf.lit(1)).alias("rows")).write.format(_FORMAT).mode("append")
    writer.options(queue=queue, sendId=send_id).save()
    return int(seen.get["rows"])


def _starts_with_any(name: Column, beginnings: Sequence[str]) -> Column:
    return reduce(or_, (name.startswith(beginning) for beginning in beginnings))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program, with the server of ``SQLQUEUE_URL``; it prints the number of messages."""
    program = Program(__doc__ or "")
    program.add_source()
    program.add("--queue", required=True, help="the address of the queue")
    program.add("--send-id", required=True, help="a name for this replay; the same one sends nothing again")
    with program.start(arguments) as (spark, options):
        program.answer(messages=replay_messages(program.read(spark), options.queue, options.send_id))
    return 0


if __name__ == "__main__":
    sys.exit(main())
