"""Helpers of the tests: fill a queue, drain it, and read the bodies of a queue or of a batch."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.drain.batch_reader import batch_rows
from airflow_sqlqueue.drain.drain import Drain, DrainResult, Engine
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.progress import Progress
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.row import drained_row_schema
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.session import Session

SMALL_PARTS = DrainOptions(rows_per_statement=7, rows_per_part=20, locked_wait_seconds=0)


def numbered_bodies(count: int, start: int = 0) -> list[bytes]:
    """Bodies of the messages that :func:`fill` sends."""
    return [b"body %d" % n for n in range(start, start + count)]


def fill(queue: QueueTable | Queue, count: int, start: int = 0) -> list[bytes]:
    """Send ``count`` messages, numbered from ``start`` on, and return their bodies."""
    sent = numbered_bodies(count, start)
    queue.send(Message({"n": f"{n}"}, body) for n, body in enumerate(sent, start))
    return sent


def drain(
    connect: Callable[[], Session],
    queue: QueueTable,
    stage: StagingFolder | Stage,
    options: DrainOptions = SMALL_PARTS,
    *,
    engine: Engine | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **request: Any,
) -> DrainResult:
    """Drain a queue; further arguments are fields of :class:`DrainRequest`."""
    wanted = DrainRequest(options=options, **{"origin": "test", **request})
    return Drain(connect, queue.address, stage, wanted, engine=engine, on_progress=on_progress).run()


def bodies(queue: QueueTable | Queue, limit: int = 2_000) -> list[bytes]:
    """Bodies of the first messages of a queue, in its order; the messages stay."""
    return [message.body for message in queue.peek(limit)]


def batch_bodies(connect: Callable[[], Session], queue: QueueTable, batch: Batch) -> list[bytes]:
    """Bodies of a batch of this queue, in the queue's order, as the client reads them."""
    with connect() as session:
        rows = batch_rows(Ledger(session, queue.address.catalog), uuid.UUID(batch.batch_id), batch.stage)
        return [bytes(row.body or b"") for row in rows]


def read_files(batch: Batch) -> pa.Table:
    """Rows of a batch, read from its part files without the package."""
    tables = [pq.read_table(path.removeprefix("file://")) for path in batch.paths]
    return pa.concat_tables(tables) if tables else drained_row_schema().empty_table()


def file_bodies(batch: Batch) -> Counter[bytes]:
    """Bodies of a batch with their numbers, read from its part files without the package."""
    return Counter(read_files(batch)["Body"].to_pylist())
