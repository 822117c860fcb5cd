"""Reading the messages of a batch without Spark."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.errors import BatchError, BatchMismatchError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from tests.contract.batches.conftest import SCHEMA, DrainIt
from tests.contract.conftest import HEADERS


@pytest.fixture
def client(server_url: str) -> QueueClient:
    return QueueClient.from_url(server_url, ledger_schema=SCHEMA)


def test_a_batch_is_read_in_the_order_of_the_queue(
    client: QueueClient, queue: QueueTable, drain: DrainIt, stage: Stage
) -> None:
    queue.send([Message(HEADERS, b"%d" % n, timedelta(days=1)) for n in range(50)])
    before = queue.peek(50)
    batch = drain(staging=stage)
    found = list(client.batches.messages(batch))
    # By way of a table a datetime comes out a fraction of a millisecond later.
    late = [new.expires - old.expires for new, old in zip(found, before, strict=True) if new.expires and old.expires]
    assert max(late) < timedelta(milliseconds=5)
    assert [replace(message, expires=None) for message in found] == [replace(old, expires=None) for old in before]
    edited = replace(batch, stage="table", paths=type(batch.paths)())
    assert list(client.batches.messages(edited)) == found, "the ledger says where they are"
    client.batches.mark_consumed(batch)
    assert [message.body for message in client.batches.messages(batch)] == [message.body for message in before]


def test_a_batch_that_was_put_back_is_not_read(
    client: QueueClient, queue: QueueTable, drain: DrainIt, stage: Stage
) -> None:
    queue.send([Message({}, b"x")])
    batch = drain(staging=stage)
    client.batches.requeue(uuid.UUID(batch.batch_id))
    with pytest.raises(BatchError, match="is requeued: only a sealed or a consumed one can be read"):
        next(client.batches.messages(batch))


def test_a_batch_whose_ledger_was_changed_is_not_read_to_the_end(
    client: QueueClient, queue: QueueTable, ledger: Ledger, drain: DrainIt, stage: Stage
) -> None:
    queue.send([Message({}, b"%d" % n) for n in range(5)])
    batch = drain(staging=stage)
    client.run_sql(f"UPDATE [{SCHEMA}].[Part] SET [Messages] = 4 WHERE [BatchId] = ?", batch.batch_id)
    with pytest.raises(BatchMismatchError):
        list(client.batches.messages(batch))
