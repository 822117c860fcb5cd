"""Groups of failures over time.

``python -m airflow_sqlqueue.spark.jobs.failures --table LAKE --out FOLDER``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.spark.jobs.program import Program, need_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS = ("exception_type", "message_type", "processing_endpoint", "failed_queue")
"""Columns that make a group, as in a triage of an error queue."""

LONGEST = 366 * 86_400
"""The longest interval, in seconds."""


def failure_groups(messages: DataFrame, interval: int = 3_600) -> DataFrame:
    """A row for each group of failures (:data:`KEYS`) and each interval with failures of the group.

    A message has failed if it names the queue in which it failed. Besides the keys a row has ``begin``, the start of
    the interval (a timestamp; null if the time of the failure is missing or unreadable), ``messages``, ``first`` and
    ``last``, times of failure, and ``new``: true if the group has no failure in an earlier interval. Messages with
    malformed headers are in no group, because none of their headers can be trusted.

    :param messages: the rows of :func:`~airflow_sqlqueue.spark.read_batch`, or the table of :mod:`.audit`.
    :param interval: seconds, counted from 1970 in UTC, whatever the session's time zone is.

    Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for an invalid interval, and for rows without the
    columns that it needs.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    if isinstance(interval, bool) or not isinstance(interval, int) or not 1 <= interval <= LONGEST:
        raise ConfigurationError(f"An interval is a whole number of seconds, 1 to {LONGEST}.")
    need_columns(messages, *KEYS, "time_of_failure")
    begin = sf.timestamp_seconds(sf.floor(sf.unix_seconds("time_of_failure") / interval) * interval)
    groups = (
        messages.where("failed_queue IS NOT NULL")
        .groupBy(*KEYS, begin.alias("begin"))
        .agg(
            sf.count(sf.lit(1)).alias("messages"),
            sf.min("time_of_failure").alias("first"),
            sf.max("time_of_failure").alias("last"),
        )
    )
    earliest = sf.min("begin").over(Window.partitionBy(*KEYS))
    return groups.withColumn("new", sf.col("begin").eqNullSafe(earliest))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program, which prints the number of rows that it wrote."""
    program = Program(__doc__ or "")
    program.add_source()
    program.add_out()
    program.add("--interval", type=int, default=3_600, help="seconds of an interval (%(default)s)")
    with program.start(arguments) as (spark, options):
        program.answer(rows=program.write(failure_groups(program.read(spark), options.interval)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
