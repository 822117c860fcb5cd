"""The account itself: a fault test is worth as much as the losses that would make it fail."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.queue import QueueTable
from tests.contract.conftest import Connect, run_sql
from tests.faults.account import Account


@pytest.fixture
def half_drained(
    connect: Connect, queue: QueueTable, staging: StagingFolder, account: Account, batch_id: uuid.UUID
) -> uuid.UUID:
    """A batch of one half of what was sent; the account of it is right."""
    account.send(60)
    options = DrainOptions(max_messages=30)
    Drain(connect, queue.address, staging, DrainRequest(batch_id=batch_id, options=options)).run()
    account.check(batch_id)
    assert 0 < account.queued() < 60
    return batch_id


CHANGES = {
    "lost": "DELETE TOP (1) FROM {table}",
    "doubled": "INSERT INTO {table} ([Id], [Recoverable], [Headers], [Body]) "
    "SELECT TOP (1) [Id], 1, [Headers], [Body] FROM {table}",
    "headers": "UPDATE TOP (1) {table} SET [Headers] = [Headers] + N' '",
    "body": "UPDATE TOP (1) {table} SET [Body] = [Body] + 0x00",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_the_queue_shows(queue: QueueTable, account: Account, half_drained: uuid.UUID, change: str) -> None:
    run_sql(queue.session, CHANGES[change].format(table=queue.address.qualified_name))
    with pytest.raises(AssertionError):
        account.check(half_drained)


def test_a_batch_that_is_left_out_or_counted_twice_shows(account: Account, half_drained: uuid.UUID) -> None:
    with pytest.raises(AssertionError, match="lost"):
        account.check()
    with pytest.raises(AssertionError, match="doubled"):
        account.check(half_drained, half_drained)


def _shorter(table: pa.Table) -> pa.Table:
    return table.slice(1)


def _other_bodies(table: pa.Table) -> pa.Table:
    position = table.schema.get_field_index("Body")
    return table.set_column(position, table.schema.field("Body"), pc.binary_join_element_wise(table["Body"], b"x", b""))


@pytest.mark.parametrize("change", [_shorter, _other_bodies])
def test_a_change_in_a_file_shows(
    staging: StagingFolder, account: Account, half_drained: uuid.UUID, change: Callable[[pa.Table], pa.Table]
) -> None:
    path = next(Path(staging.root).rglob("*.parquet"))
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(AssertionError):
        account.check(half_drained)


@pytest.mark.parametrize(
    "change",
    ["DELETE TOP (1) FROM {0}", "UPDATE TOP (1) {0} SET [Body] = 0x01", "UPDATE TOP (1) {0} SET [Id] = NEWID()"],
)
def test_a_change_in_the_table_shows(
    connect: Connect, queue: QueueTable, account: Account, batch_id: uuid.UUID, change: str
) -> None:
    account.send(60)
    options = DrainOptions(max_messages=30)
    Drain(connect, queue.address, TableStage(), DrainRequest(batch_id=batch_id, options=options)).run()
    account.check(batch_id)
    assert 0 < account.queued() < 60
    run_sql(queue.session, change.format("[sqlqueue].[BatchMessage]") + f" WHERE [BatchId] = '{batch_id}'")
    with pytest.raises(AssertionError):
        account.check(batch_id)
