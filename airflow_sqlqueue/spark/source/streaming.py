"""Streams as PySpark wants them: reading by claims, and writing one send for each micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue.send_ledger import send_id_for
from airflow_sqlqueue.spark.source.claims import Claims, Offset, StreamOptions
from airflow_sqlqueue.spark.source.columns import SelectedColumns
from airflow_sqlqueue.spark.source.options import ServerAccess
from airflow_sqlqueue.spark.source.sending import Destination, StagedMessage
from airflow_sqlqueue.spark.source.staged import read_share

if TYPE_CHECKING:
    import pyarrow as pa


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Consumes a queue, claim by claim. All but :meth:`read` run in one process for each query, on the driver."""

    def __init__(self, access: ServerAccess, options: StreamOptions, columns: SelectedColumns) -> None:
        self._access, self._options, self._columns = access, options, columns
        self._claims = Claims(access, options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Behind what the consumer has done."""
        return cast("dict[str, Any]", self._claims.begin())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """So many messages as the option says; the bytes, for which Spark has no limit beside it, count as well."""
        return ReadMaxRows(self._options.max_messages)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Claim what is there, up to the limit; where Spark wants all that is available, all."""
        limits = (limit.max_rows, self._options.max_bytes) if isinstance(limit, ReadMaxRows) else (None, None)
        return cast("dict[str, Any]", self._claims.claim(cast(Offset, start), *limits))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Claim nothing that is sent from now on."""
        self._claims.stop_at_the_end()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Parts of the claims in between."""
        return [InputPartition(share) for share in self._claims.shares(cast(Offset, start), cast(Offset, end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of some parts: the same for every attempt."""
        return read_share(self._access, self._columns, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Note what Spark has committed."""
        self._claims.commit(cast(Offset, end))

    def stop(self) -> None:
        """Let the next query read as this consumer."""
        self._claims.close()


@dataclass(frozen=True)
class StagedByQuery(StagedMessage):
    """What a task of a stream reports: the query as well, which a driver does not know when it commits."""

    query_id: str = ""


class QueueStreamWriter(DataSourceStreamArrowWriter):
    """Sends each micro-batch, all of it at once and once, under an id that is made of the query's and its number."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedByQuery:
        """Stage the rows of one task's attempt."""
        context = TaskContext.get()
        query_id = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        if query_id is None:
            raise ConfigurationError("Spark does not tell the query that this task is of: is it a stream?")
        return StagedByQuery(self._destination.stage(iterator).attempt, query_id)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Send what the attempts have staged, unless an earlier try of this micro-batch has done so."""
        for query_id in {message.query_id for message in messages if isinstance(message, StagedByQuery)}:
            self._destination.send(send_id_for("spark stream", query_id, batchId), messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what the attempts have staged."""
        self._destination.remove(messages)
