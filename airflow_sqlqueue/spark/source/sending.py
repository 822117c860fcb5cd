"""Send of a DataFrame: tasks stage their rows, and the driver sends those of the successful attempts, once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from airflow_sqlqueue.messages.envelope.times import format_time
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
    """A task's report to the driver: its attempt."""

    attempt: StagedAttempt


@dataclass(frozen=True)
class Destination:
    """The queue that messages are sent to, and the columns that make a message."""

    access: ServerAccess
    queue_name: str
    columns: MessageColumns

    @contextmanager
    def open(self) -> Iterator[tuple[QueueTable, OutgoingTable]]:
        """Provide the queue and its database's table of staged messages, through one session."""
        with self.access.queue(self.queue_name) as queue:
            yield queue, OutgoingTable(queue.session, queue.address.catalog)

    def stage(self, batches: Iterator[pa.RecordBatch]) -> StagedMessage:
        """Stage the rows of a task, with one Arrow batch in memory."""
        with self.open() as (queue, table):
            # A missing queue is an error before any row is staged.
            queue.require()
            table.create()
            now = format_time(datetime.now(timezone.utc))
            return StagedMessage(table.stage(row for batch in batches for row in self.columns.rows(batch, now)))

    def send(self, send_id: uuid.UUID, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Send the staged messages; the driver calls it when all tasks have ended."""
        with self.open() as (queue, table):
            table.create()
            table.send(queue, send_id, attempts(messages), "Spark")

    def remove(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the reported attempts; the driver calls it after a final failure. A sweep removes other attempts."""
        with self.open() as (_, table):
            table.remove(attempts(messages))


def attempts(messages: Sequence[WriterCommitMessage | None]) -> list[StagedAttempt]:
    """Return the attempts that tasks report; a failed task reports no attempt."""
    return [message.attempt for message in messages if isinstance(message, StagedMessage)]


def send_id_of(options: SourceOptions) -> uuid.UUID:
    """Return the id of a send: the option ``sendId``, a UUID or a text from which one is made, else a new UUID."""
    text = options.text("sendId")
    if text is None:
        return uuid.uuid4()
    try:
        return uuid.UUID(text)
    except ValueError:
        return send_id_for("spark", text)


class QueueWriter(DataSourceArrowWriter):
    """Writer that sends the rows of a DataFrame in one transaction."""

    def __init__(self, destination: Destination, send_id: uuid.UUID) -> None:
        self._destination, self._send_id = destination, send_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        """Stage the rows of one attempt of a task."""
        return self._destination.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Send the staged messages, unless a write with the same id has sent its own."""
        self._destination.send(self._send_id, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the staged messages of the attempts."""
        self._destination.remove(messages)
