"""Processing times of messages, as percentiles.

``python -m airflow_sqlqueue.spark.jobs.processing --table LAKE --out FOLDER``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.spark.jobs.program import Program, need_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ACCURACY = 10_000
KEYS = ("processing_endpoint", "originating_endpoint", "message_type", "intent", "content_type")
"""Columns that times can be grouped by."""


def processing_times(messages: DataFrame, by: Sequence[str] = ("processing_endpoint",)) -> DataFrame:
    """A row with percentiles for each value of the columns ``by``; their ranks are exact to a ten-thousandth.

    Besides ``by`` it has ``messages`` (the number of messages with both a start and an end of processing; failed
    messages have neither), ``p50_ms``, ``p90_ms``, ``p99_ms``, ``max_ms``, and ``backwards``, the number of messages
    whose end is before the start, because the clocks of two machines differ. The percentiles leave these out; a group
    that has only such messages has null times.

    :param messages: the rows of :func:`~airflow_sqlqueue.spark.read_batch`, or the table of :mod:`.audit`.
    :param by: one or more of :data:`KEYS`.

    Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for other columns, and for rows without those it needs.
    """
    from pyspark.sql import functions as sf

    if not by:
        raise ConfigurationError(f"Name a column to group by: {', '.join(KEYS)}.")
    if other := [name for name in by if name not in KEYS]:
        raise ConfigurationError(f"Messages cannot be grouped by {other[0]!r}: choose from {', '.join(KEYS)}.")
    if len(set(by)) < len(by):
        raise ConfigurationError("A column to group by is named twice: name it once.")
    need_columns(messages, *by, "processing_ms")
    forward = sf.when(sf.col("processing_ms") >= 0, sf.col("processing_ms"))
    percentiles = sf.percentile_approx(forward, [0.5, 0.9, 0.99], _ACCURACY)
    grouped = messages.where("processing_ms IS NOT NULL").groupBy(*by)
    times = grouped.agg(
        sf.count(sf.lit(1)).alias("messages"),
        percentiles.alias("percentiles"),
        sf.max(forward).alias("max_ms"),
        sf.count_if(sf.col("processing_ms") < 0).alias("backwards"),
    )
    named = [sf.get("percentiles", sf.lit(i)).alias(name) for i, name in enumerate(("p50_ms", "p90_ms", "p99_ms"))]
    return times.select(*by, "messages", *named, "max_ms", "backwards")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program, which prints the number of rows that it wrote."""
    program = Program(__doc__ or "")
    program.add_source()
    program.add_out()
    program.add("--by", nargs="+", choices=KEYS, default=["processing_endpoint"], help="the columns to group by")
    with program.start(arguments) as (spark, options):
        times = processing_times(program.read(spark), options.by)
        program.answer(rows=program.write(times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
