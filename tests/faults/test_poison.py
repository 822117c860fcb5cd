"""Rows in the middle of the queue that no file can keep: their headers end in one half of a surrogate pair."""

from __future__ import annotations

import uuid

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import MessageNotFoundError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.quarantine import Quarantine
from tests.contract.conftest import Connect, run_sql
from tests.faults.account import Account, Row

SMALL_PARTS = DrainOptions(rows_per_statement=7, inline_body_bytes=8000, rows_per_part=20, locked_wait_seconds=10)


def send_poison(queue: QueueTable, body: bytes = b"poison") -> tuple[Row, int]:
    """The row and its RowVersion. The driver would refuse such a text as a parameter."""
    row = Row(uuid.uuid4(), "secret \ud83d", body)
    table = queue.address.qualified_name
    run_sql(
        queue.session,
        f"INSERT INTO {table} ([Id], [Recoverable], [Headers], [Body]) "
        f"VALUES ('{row.id}', 1, N'secret ' + NCHAR(0xD83D), 0x{row.body.hex()})",
    )
    return row, run_sql(queue.session, f"SELECT [RowVersion] FROM {table} WHERE [Id] = '{row.id}'")[0][0]


@pytest.mark.parametrize("options", [SMALL_PARTS, DrainOptions(rows_per_part=20, workers=4, inline_body_bytes=50)])
def test_poison_rows_in_the_middle(
    connect: Connect,
    queue: QueueTable,
    staging: StagingFolder,
    account: Account,
    batch_id: uuid.UUID,
    options: DrainOptions,
) -> None:
    """They go into quarantine, server-side and byte for byte, and everything else into the batch."""
    poison = []
    for seed, body in enumerate([b"first", b"second", b"large" * 100]):
        account.send(40, seed=seed)
        poison.append(send_poison(queue, body))
        account.add(poison[-1][0])
    result = Drain(connect, queue.address, staging, DrainRequest(batch_id=batch_id, options=options)).run()
    account.check(batch_id)
    assert account.queued() == 0
    assert (result.batch.state, result.batch.quarantined) == ("sealed", 3)
    with connect() as session:
        aside = Quarantine(session, queue.address.catalog).messages(queue.address)
    assert [(one.id, one.row_version, one.body_bytes) for one in sorted(aside, key=lambda one: one.row_version)] == [
        (row.id, row_version, len(row.body)) for row, row_version in poison
    ]
    assert {one.reason for one in aside} == {"a text holds half a surrogate pair"}
    assert {one.batch_id for one in aside} == {batch_id}


def test_a_poison_row_counts_against_the_limit(
    connect: Connect, queue: QueueTable, staging: StagingFolder, account: Account, batch_id: uuid.UUID
) -> None:
    account.add(send_poison(queue)[0])
    account.send(5)
    batch = (
        Drain(connect, queue.address, staging, DrainRequest(batch_id=batch_id, options=DrainOptions(max_messages=3)))
        .run()
        .batch
    )
    assert (batch.quarantined, batch.messages + batch.expired) == (1, 2)
    account.check(batch_id)


def test_a_message_goes_back_from_quarantine(
    connect: Connect, queue: QueueTable, staging: StagingFolder, account: Account, batch_id: uuid.UUID
) -> None:
    """As it was and once; the next drain meets it again."""
    row, _ = send_poison(queue)
    account.add(row)
    Drain(connect, queue.address, staging, DrainRequest(batch_id=batch_id)).run()
    with connect() as session:
        quarantine, table = Quarantine(session, queue.address.catalog), QueueTable(session, queue.address)
        (aside,) = quarantine.messages(queue.address)
        quarantine.requeue(table, [aside.number])
        assert quarantine.messages(queue.address) == []
        with pytest.raises(MessageNotFoundError, match="is in quarantine"):
            quarantine.requeue(table, [aside.number])
    assert account.queued() == 1
    account.check(batch_id)
    assert Drain(connect, queue.address, staging).run().batch.quarantined == 1
    account.check(batch_id)


def test_a_poison_row_is_received_whole(queue: QueueTable) -> None:
    """Outside a transaction it would be lost if it could not be read."""
    row, row_version = send_poison(queue)
    (peeked,) = queue.peek()
    (received,) = queue.receive()
    assert peeked == received
    assert (received.id, received.headers, received.body) == (row.id, row.headers, row.body)
    assert received.row_version == row_version
