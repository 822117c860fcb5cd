"""What tells a sink that it has rows already: the batch, or the micro-batch of a stream, that they are of."""

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
"""What can be a folder's name in any store, as it is."""


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch of a stream.

    :param stream: the id of the query, which lives in its checkpoint. Another checkpoint needs another: its numbers
        begin again, and a sink would pass over those that it knows.
    :param number: the micro-batch's number within the checkpoint, which ``foreachBatch`` gives.

    Raises :class:`ConfigurationError` for what a sink cannot be keyed by.
    """

    stream: str
    number: int

    def __post_init__(self) -> None:
        _check("A stream's id", self.stream)
        if not isinstance(self.number, int) or isinstance(self.number, bool) or self.number < 0:
            raise ConfigurationError("A micro-batch's number is a whole number of zero or more.")


AnyKey: TypeAlias = "Batch | uuid.UUID | str | MicroBatch"
"""What rows can be of: a batch, by its manifest or its id, or a micro-batch."""


def partition_of(batch: AnyKey) -> str:
    """The value of the partition ``batch_id`` that has the rows."""
    return f"{batch.stream}-{batch.number:09d}" if isinstance(batch, MicroBatch) else _batch_id(batch)


def transaction_of(batch: AnyKey) -> tuple[str, int]:
    """Delta's ``txnAppId`` and ``txnVersion``, of which a table remembers the highest version of each id.

    Micro-batches come one after the other, so a stream is one id with versions. Batches do not: each is an id.
    """
    if isinstance(batch, MicroBatch):
        return f"sqlqueue stream {batch.stream}", batch.number
    return f"sqlqueue batch {_batch_id(batch)}", 0


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
            f"Rows are of a batch, its id or a micro-batch, not of {type(batch).__name__}: name what they are of."
        )
    return _check("A batch's id", str(batch))


def _check(what: str, name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{what} that keys a sink has up to 128 letters, digits, dots, hyphens and underscores, and begins with a "
            "letter or a digit."
        )
    return name
