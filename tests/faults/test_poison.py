"""A row in the middle of the queue that no file can keep: its headers end in one half of a surrogate pair."""

from __future__ import annotations

import re
import uuid

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.staging import StagingFolder
from airflow_sqlqueue.errors import StagingError
from airflow_sqlqueue.queue import QueueTable
from tests.contract.conftest import Connect, run_sql
from tests.faults.account import Account, Row

SMALL_PARTS = DrainOptions(rows_per_statement=7, rows_per_part=20, settle_seconds=10)


def send_poison(queue: QueueTable) -> tuple[Row, int]:
    """The row and its RowVersion. The driver would refuse such a text as a parameter."""
    row = Row(uuid.uuid4(), "secret \ud83d", b"poison")
    table = queue.address.qualified_name
    run_sql(
        queue.session,
        f"INSERT INTO {table} ([Id], [Recoverable], [Headers], [Body]) "
        f"VALUES ('{row.id}', 1, N'secret ' + NCHAR(0xD83D), 0x{row.body.hex()})",
    )
    return row, run_sql(queue.session, f"SELECT [RowVersion] FROM {table} WHERE [Id] = '{row.id}'")[0][0]


def test_a_poison_row_in_the_middle(
    connect: Connect, queue: QueueTable, staging: StagingFolder, account: Account, batch_id: uuid.UUID
) -> None:
    """It stops the drain with an error that says where it is; what is not in the batch by then is in the queue."""
    account.send(50)
    row, row_version = send_poison(queue)
    account.add(row)
    account.send(50, seed=1)
    for _ in range(2):
        with pytest.raises(StagingError, match="half a surrogate pair") as caught:
            Drain(connect, queue.address, staging, batch_id=batch_id, options=SMALL_PARTS).run()
        first, last = map(int, re.findall(r"\d+", str(caught.value))[:2])
        assert first <= row_version <= last
        assert "secret" not in str(caught.value)
        account.check(batch_id)
        assert account.queued() > 0
    account.received(queue.take([row_version]))
    assert Drain(connect, queue.address, staging, batch_id=batch_id, options=SMALL_PARTS).run().batch.state == "sealed"
    account.check(batch_id)
    assert account.queued() == 0


def test_a_poison_row_is_received_whole(queue: QueueTable) -> None:
    """Outside a transaction it would be lost if it could not be read."""
    row, row_version = send_poison(queue)
    (peeked,) = queue.peek()
    (received,) = queue.receive()
    assert peeked == received
    assert (received.id, received.headers, received.body) == (row.id, row.headers, row.body)
    assert received.row_version == row_version
