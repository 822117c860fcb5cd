"""Keys of sinks: the batch or the micro-batch of the rows, by which a sink knows rows that it has already."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAME = re.compile("[0-9A-Za-z][0-9A-Za-z._-]{0,127}")
"""Names that are valid as a folder's name in any store."""


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch of a stream, as the key of its rows in a sink.

    :param stream: the id of the query, which is in its checkpoint. A new checkpoint needs a new id: its numbers start
        again, and a sink would skip the numbers that it knows.
    :param number: the micro-batch's number within the checkpoint, which ``foreachBatch`` gives.

    Raises :class:`ConfigurationError` for values that cannot be a sink's key.
    """

    stream: str
    number: int

    def __post_init__(self) -> None:
        _check("A stream's id", self.stream)
        if not isinstance(self.number, int) or isinstance(self.number, bool) or self.number < 0:
            raise ConfigurationError("A micro-batch's number is a whole number of zero or more.")


AnyKey: TypeAlias = "Batch | uuid.UUID | str | MicroBatch"
"""The key of rows: a batch, by its manifest or its id, or a micro-batch."""


def partition_of(batch: AnyKey) -> str:
    """Return the value of the partition ``batch_id`` that has the rows."""
    return f"{batch.stream}-{batch.number:09d}" if isinstance(batch, MicroBatch) else _batch_id(batch)


def transaction_of(batch: AnyKey) -> tuple[str, int]:
    """Return Delta's ``txnAppId`` and ``txnVersion`` for rows. A table remembers an id's highest version.

    Micro-batches have an order, so a stream is one id with versions. Batches have no order, so each batch is an id.
    """
    if isinstance(batch, MicroBatch):
        return f"sqlqueue stream {batch.stream}", batch.number
    return f"sqlqueue batch {_batch_id(batch)}", 0


def foreach_batch(
    sink: Callable[..., object], target: str, *, stream: str | None = None, **options: Any
) -> Callable[[DataFrame, int], None]:
    """Return the function for ``writeStream.foreachBatch`` that writes each micro-batch once, over restarts as well.

    If the checkpoint does not note that a micro-batch was written, Spark gives it again, with the same rows: the sink
    recognizes it by the query's id, which is in the checkpoint, and its number.

    :param sink: :func:`write_delta`, :func:`write_iceberg`, :func:`write_partitions`, or another function that takes
        rows, a target and a :class:`MicroBatch`.
    :param target: the table or path, which is the sink's second argument.
    :param stream: a name in place of the query's id, which Spark Connect does not give. It belongs to one checkpoint:
        use a new name for a new checkpoint.
    :param options: further arguments of the sink, for example ``merge_on``.

    The function raises the errors of the sink, which end the query, and :class:`ConfigurationError` with Spark Connect
    if no ``stream`` is given.
    """

    def write(rows: DataFrame, number: int) -> None:
        sink(rows, target, MicroBatch(stream or _query_id(rows), number), **options)

    return write


def _query_id(rows: DataFrame) -> str:
    try:
        found = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    except Exception:  # with Spark Connect, which has no context
        found = None
    if not found:
        raise ConfigurationError(
            "Spark does not give the query's id here: name the stream, foreach_batch(..., stream=...), and give each "
            "new checkpoint a new name."
        )
    return str(found)


def _batch_id(batch: Batch | uuid.UUID | str) -> str:
    if isinstance(batch, Batch):
        batch.check_readable()
        batch = batch.batch_id
    elif not isinstance(batch, (uuid.UUID, str)):
        raise ConfigurationError(
            f"Rows belong to a batch, its id or a micro-batch, not to {type(batch).__name__}: name one of these."
        )
    return _check("A batch's id", str(batch))


def _check(what: str, name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{what} that keys a sink has up to 128 letters, digits, dots, hyphens and underscores, and begins with a "
            "letter or a digit."
        )
    return name
