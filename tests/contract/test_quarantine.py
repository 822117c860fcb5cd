"""Messages in quarantine and their way back, on any server."""

from __future__ import annotations

import uuid

import pytest

from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.errors import MessageNotFoundError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.quarantine import Quarantine
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.server.session import Session
from tests.contract.conftest import run_sql


@pytest.fixture
def quarantine(session: Session, table: ResolvedAddress) -> Quarantine:
    Ledger(session, table.catalog).create()
    return Quarantine(session, table.catalog)


@pytest.mark.parametrize("legacy", [True, False])
def test_a_message_goes_back_into_a_table_that_has_got_the_legacy_columns_since(
    session: Session, table: ResolvedAddress, quarantine: Quarantine, legacy: bool
) -> None:
    """``Recoverable`` takes no NULL (error 515): it gets the 1 that every sender writes. A value is restored."""
    create_queue(session, table, legacy_columns=legacy)
    queue = QueueTable(session, table)
    queue.send([Message({"NServiceBus.CorrelationId": "c"}, b"a")])
    if legacy:
        run_sql(session, f"UPDATE {table.qualified_name} SET [Recoverable] = 0")
    (message,) = queue.peek()
    batch_id = uuid.uuid4()
    assert quarantine.move(queue, batch_id, {message.row_version: "a test"}) == 1
    if not legacy:
        added = "[CorrelationId] varchar(255) NULL, [ReplyToAddress] varchar(255) NULL, [Recoverable] bit NOT NULL"
        run_sql(session, f"ALTER TABLE {table.qualified_name} ADD {added}")
    queue = QueueTable(session, table)
    (kept,) = quarantine.messages(table)
    assert (kept.batch_id, kept.reason) == (batch_id, "a test")
    assert (kept.header_bytes, kept.body_bytes) == (2 * len('{"NServiceBus.CorrelationId":"c"}'), 1)
    quarantine.requeue(queue, [kept.number])
    found = run_sql(session, f"SELECT [Body], [Recoverable], [CorrelationId] FROM {table.qualified_name}")
    assert [tuple(row) for row in found] == [(b"a", not legacy, "c" if legacy else None)]
    assert quarantine.messages(table) == []
    with pytest.raises(MessageNotFoundError):
        quarantine.requeue(queue, [kept.number])
