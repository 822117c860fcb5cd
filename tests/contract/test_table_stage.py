"""Staging in a table beside the queue, on any server: nothing lost, nothing doubled, nothing changed."""

from __future__ import annotations

import uuid
from typing import Any

from airflow_sqlqueue.drain.batch_table import BatchTable
from airflow_sqlqueue.drain.drain import Drain, DrainResult
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.to_table import TableStage
from airflow_sqlqueue.message import Message
from airflow_sqlqueue.queue import QueueTable
from tests.contract.conftest import Connect

SMALL_PARTS = DrainOptions(rows_per_statement=7, rows_per_part=20, settle_seconds=0)


def drain(
    connect: Connect,
    queue: QueueTable,
    batch_id: uuid.UUID | None = None,
    options: DrainOptions = SMALL_PARTS,
) -> DrainResult:
    return Drain(connect, queue.address, TableStage(), batch_id=batch_id, origin="test", options=options).run()


def rows_of(connect: Connect, queue: QueueTable, batch_id: str | uuid.UUID, **limits: Any) -> list[Any]:
    """The rows of a batch, part by part."""
    batch_id = uuid.UUID(str(batch_id))
    with connect() as session:
        table = BatchTable(session, queue.address.catalog)
        parts = Ledger(session, queue.address.catalog).parts(batch_id)
        return [row for part in parts for page in table.pages(batch_id, part.id, **limits) for row in page]


def fill(queue: QueueTable, count: int, start: int = 0) -> None:
    queue.send(Message({"n": f"{n}"}, b"body %d" % n) for n in range(start, start + count))


def test_every_row_is_in_the_table_once(connect: Connect, queue: QueueTable) -> None:
    fill(queue, 105)
    result = drain(connect, queue)
    batch = result.batch
    assert (batch.state, batch.stage, batch.paths) == ("sealed", "table", ())
    assert (batch.messages, batch.expired, batch.parts, result.held) == (105, 0, 6, 0)
    rows = rows_of(connect, queue, batch.batch_id)
    assert [row[6] for row in rows] == [b"body %d" % n for n in range(105)]
    assert batch.bytes == sum(2 * len(row[5]) + len(row[6]) for row in rows)
    assert queue.held(2**62) == 0
