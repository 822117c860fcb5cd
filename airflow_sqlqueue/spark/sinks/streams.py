"""Each micro-batch of a stream in a sink once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.spark.sinks.keys import MicroBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def foreach_batch(
    sink: Callable[..., object], target: str, *, stream: str | None = None, **options: Any
) -> Callable[[DataFrame, int], None]:
    """What ``writeStream.foreachBatch`` takes to write each micro-batch once, over restarts as well.

    Spark gives a micro-batch again, with the same rows, where it was not noted in the checkpoint that it was written:
    the sink knows it by the query's id, which is in the checkpoint, and its number.

    :param sink: :func:`write_delta` or :func:`write_partitions`, or another function that takes rows, a target and a
        :class:`MicroBatch`.
    :param target: the table or path, which is the sink's second argument.
    :param stream: a name in place of the query's id, where that cannot be asked for: with Spark Connect. It belongs
        to one checkpoint: give a new one another.
    :param options: what else the sink takes, for example ``merge_on``.

    The function raises what the sink raises, which ends the query, and :class:`ConfigurationError` with Spark Connect
    where no ``stream`` is given.
    """

    def write(rows: DataFrame, number: int) -> None:
        sink(rows, target, MicroBatch(stream or _query_id(rows), number), **options)

    return write


def _query_id(rows: DataFrame) -> str:
    try:
        found = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    except Exception as error:  # of Spark Connect, which has no context
        raise _no_id() from error
    if not found:
        raise _no_id()
    return str(found)


def _no_id() -> ConfigurationError:
    return ConfigurationError(
        "The query's id cannot be asked for here: name the stream, foreach_batch(..., stream=...), and rename it with "
        "each new checkpoint."
    )
