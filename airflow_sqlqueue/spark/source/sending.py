"""Writing a DataFrame: tasks stage, and the driver sends what the winning attempts have staged, once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.outgoing import OutgoingTable, StagedAttempt
from airflow_sqlqueue.queue.send_ledger import send_id_for
from airflow_sqlqueue.spark.source.messages import MessageColumns
from airflow_sqlqueue.spark.source.options import ServerAccess, SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

SEND_OPTIONS = (*ServerAccess.OPTIONS, "queue")


@dataclass(frozen=True)
class StagedMessage(WriterCommitMessage):
    """What a task reports: its attempt."""

    attempt: StagedAttempt


@dataclass(frozen=True)
class Destination:
    """Where messages go, and the columns that they are made of."""

    access: ServerAccess
    queue_name: str
    columns: MessageColumns

    @contextmanager
    def open(self) -> Iterator[tuple[QueueTable, OutgoingTable]]:
        """The queue and the table of its database where messages are staged, through one session."""
        with self.access.queue(self.queue_name) as queue:
            table = OutgoingTable(queue.session, queue.address.catalog, self.access.ledger_schema)
            yield queue, table

    def stage(self, batches: Iterator[pa.RecordBatch]) -> StagedMessage:
        """What a task does: stage its rows, one batch of them in memory."""
        with self.open() as (queue, table):
            # A queue that is not there is an error before anything is staged.
            queue.require()
            table.create()
            return StagedMessage(table.stage(row for batch in batches for row in self.columns.rows(batch)))

    def send(self, send_id: uuid.UUID, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What the driver does when all tasks have come to their end."""
        with self.open() as (queue, table):
            table.create()
            table.send(queue, send_id, attempts(messages), "Spark")

    def remove(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What the driver does when a task failed for good: what other attempts have staged, a sweep removes."""
        with self.open() as (_, table):
            table.remove(attempts(messages))


def attempts(messages: Sequence[WriterCommitMessage | None]) -> list[StagedAttempt]:
    """The attempts that tasks report; a task that failed reports none."""
    return [message.attempt for message in messages if isinstance(message, StagedMessage)]


def send_id_of(options: SourceOptions) -> uuid.UUID:
    """The id of a send: a UUID, or one made of a text; a new one where none is given."""
    text = options.text("sendId")
    if text is None:
        return uuid.uuid4()
    try:
        return uuid.UUID(text)
    except ValueError:
        return send_id_for("spark", text)


class QueueWriter(DataSourceArrowWriter):
    """Sends the rows of a DataFrame, all of them at once."""

    def __init__(self, destination: Destination, send_id: uuid.UUID) -> None:
        self._destination, self._send_id = destination, send_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        """Stage the rows of one task's attempt."""
        return self._destination.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Send what the attempts have staged, unless a write with the same id has done so."""
        self._destination.send(self._send_id, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the attempts have staged."""
        self._destination.remove(messages)
