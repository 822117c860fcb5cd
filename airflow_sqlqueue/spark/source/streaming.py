"""PySpark's stream reader, which reads by claims, and stream writer, which sends each micro-batch once."""

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
    """Reader that consumes a queue, claim by claim. :meth:`read` runs in tasks, the rest in a process of the driver."""

    def __init__(self, access: ServerAccess, options: StreamOptions, columns: SelectedColumns) -> None:
        self._access, self._options, self._columns = access, options, columns
        self._claims = Claims(access, options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset after the claims that are done."""
        return cast("dict[str, Any]", self._claims.begin())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of messages; the limit of bytes, which Spark cannot hold beside it, applies as well."""
        return ReadMaxRows(self._options.max_messages)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Claim the messages of the queue, up to the limit; all of them if Spark asks for all that are available."""
        limits = (limit.max_rows, self._options.max_bytes) if isinstance(limit, ReadMaxRows) else (None, None)
        return cast("dict[str, Any]", self._claims.claim(cast(Offset, start), *limits))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Claim no message that is sent from now on."""
        self._claims.stop_at_the_end()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the shares of the claims between the offsets."""
        return [InputPartition(share) for share in self._claims.shares(cast(Offset, start), cast(Offset, end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the messages of one share: the same for every attempt."""
        return read_share(self._access, self._columns, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the claims that Spark has committed."""
        self._claims.commit(cast(Offset, end))

    def stop(self) -> None:
        """Release the stream for the next query."""
        self._claims.close()


@dataclass(frozen=True)
class StagedByQuery(StagedMessage):
    """A task's report, with the id of the query, which the driver does not know when it commits."""

    query_id: str = ""


class QueueStreamWriter(DataSourceStreamArrowWriter):
    """Writer that sends each micro-batch once, in one transaction, under an id made of query and number."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedByQuery:
        """Stage the rows of one attempt of a task."""
        context = TaskContext.get()
        query_id = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        if query_id is None:
            raise ConfigurationError("Spark does not give the id of this task's query: is it a stream?")
        return StagedByQuery(self._destination.stage(iterator).attempt, query_id)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Send the staged messages, unless an earlier try of this micro-batch has sent them."""
        for query_id in {message.query_id for message in messages if isinstance(message, StagedByQuery)}:
            self._destination.send(send_id_for("spark stream", query_id, batchId), messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the staged messages of the attempts."""
        self._destination.remove(messages)
