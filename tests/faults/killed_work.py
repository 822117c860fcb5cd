"""Work that is killed at its statements, as functions that a process of its own can run."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path

from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.queue.delayed.mover import MoveOptions
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.faults.killed_failures import client_of
from tests.faults.processes import SMALL_PARTS

OPTIONS = replace(SMALL_PARTS, workers=1)


def drain(url: str, schema: str, folder: str | None, batch_id: uuid.UUID) -> None:
    """Drain ``orders`` into a batch, of files or of a table."""
    request = DrainRequest(batch_id=batch_id, options=OPTIONS)
    client_of(url, schema).queue("orders").drain(folder, request, stage="files" if folder else "table")


def requeue(url: str, schema: str, batch_id: uuid.UUID) -> None:
    client_of(url, schema).batches.requeue(batch_id, f"orders@[{schema}]")


def move(url: str, schema: str) -> None:
    client_of(url, schema).delayed("orders").move(MoveOptions(chunk=4))


def create(url: str, schema: str) -> None:
    client_of(url, schema).tables.create("orders", delayed=True, subscriptions=True, ledger=True)


def stream(url: str, schema: str, name: str, folder: str) -> None:
    """Read all that is available as a stream."""
    from airflow_sqlqueue.spark.source.claims import Claims, StreamOptions
    from airflow_sqlqueue.spark.source.columns import SelectedColumns
    from airflow_sqlqueue.spark.source.options import ServerAccess
    from tests.faults.test_claims import MicroBatches

    access = ServerAccess(settings=ConnectionSettings.from_url(url), ledger_schema=schema)
    claims = Claims(access, StreamOptions(f"orders@[{schema}]", name, 4, 2, False))
    try:
        MicroBatches(Path(folder), claims, SelectedColumns(("Body",), ("Body",), (True,))).run()
    finally:
        claims.close()


def write(url: str, schema: str, send_id: uuid.UUID, first: int, count: int) -> None:
    """Send numbers as a job of Spark does: two tasks stage theirs, and the driver sends both."""
    import pyarrow as pa

    from airflow_sqlqueue.spark.source.messages import MessageColumns
    from airflow_sqlqueue.spark.source.options import ServerAccess
    from airflow_sqlqueue.spark.source.sending import Destination, QueueWriter

    access = ServerAccess(settings=ConnectionSettings.from_url(url), ledger_schema=schema)
    writer = QueueWriter(Destination(access, f"orders@[{schema}]", MessageColumns({"Body": 0})), send_id)

    def task(start: int, end: int) -> pa.RecordBatch:
        return pa.record_batch({"Body": [str(number) for number in range(start, end)]})

    middle, end = first + count // 2, first + count
    staged = [writer.write(iter([task(*span)])) for span in ((first, middle), (middle, end))]
    writer.commit(list(staged))


def read_sink(folder: Path) -> list[int]:
    """Numbers in the sink of :func:`stream`."""
    return [int(number) for path in folder.glob("sink-*") for number in json.loads(path.read_text())]
