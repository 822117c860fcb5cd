"""Messages that tasks stage and one transaction sends."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.options import SweepOptions
from airflow_sqlqueue.drain.sweep import sweep
from airflow_sqlqueue.errors import QueueNotFoundError, TransactionError
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.messages.row import Row
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue import outgoing as module
from airflow_sqlqueue.queue.outgoing import OutgoingTable, StagedAttempt
from airflow_sqlqueue.queue.send_ledger import SendResult
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import drop_schema, run_sql
from tests.drains import bodies

SCHEMA = f"outgoing_{uuid.uuid4().hex[:10]}"
"""A ledger of this module's own: a sweep takes whatever is old enough."""


@pytest.fixture(scope="session")
def settings(settings: ConnectionSettings) -> ConnectionSettings:
    return replace(settings, ledger_schema=SCHEMA)


@pytest.fixture(scope="module", autouse=True)
def ledger_schema(settings: ConnectionSettings) -> Iterator[None]:
    """Drop the ledger afterwards."""
    yield
    with Session(settings) as session:
        drop_schema(session, SCHEMA)


@pytest.fixture
def outgoing(queue: QueueTable) -> OutgoingTable:
    table = OutgoingTable(queue.session, queue.address.catalog)
    table.create()
    return table


def row(number: int, **values: Any) -> Row:
    whole = {"id": uuid.UUID(int=number), "headers": f'{{"n":"{number}"}}', "body": b"%d" % number}
    return Row(**{**dict.fromkeys(Row._fields), **whole, **values})  # type: ignore[arg-type]


def staged(queue: QueueTable) -> int:
    return int(run_sql(queue.session, f"SELECT COUNT(*) FROM [{SCHEMA}].[Outgoing]")[0][0])


def test_attempts_are_sent_in_their_order_once(
    queue: QueueTable, outgoing: OutgoingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROWS", 100)
    dead = outgoing.stage(row(number) for number in range(300))
    attempts = [outgoing.stage(row(number) for number in range(start, start + 300)) for start in (600, 0, 300)]
    attempts.append(outgoing.stage([]))
    assert [attempt.messages for attempt in attempts] == [300, 300, 300, 0]
    assert bodies(queue) == []
    send_id = uuid.uuid4()
    assert outgoing.send(queue, send_id, attempts) == SendResult(900, repeated=False)
    expected = [b"%d" % number for number in (*range(600, 900), *range(600))]
    assert bodies(queue) == expected
    assert staged(queue) == dead.messages
    again = [outgoing.stage(row(number) for number in range(900))]
    assert outgoing.send(queue, send_id, again) == SendResult(900, repeated=True)
    assert bodies(queue) == expected
    assert staged(queue) == dead.messages
    outgoing.remove([dead])
    assert staged(queue) == 0


@pytest.mark.parametrize("legacy", [True, False])
def test_a_row_is_sent_as_it_was_staged(
    queue_name: str, address_of: AddressResolver, settings: ConnectionSettings, outgoing: OutgoingTable, legacy: bool
) -> None:
    with Session(settings) as session:
        address = address_of.resolve(f"{queue_name}.l")
        create_queue(session, address, legacy_columns=legacy)
        queue = QueueTable(session, address)
        moment = datetime.fromisoformat("2099-02-03T04:05:06.007")
        rows = [
            row(1, correlation_id="c", reply_to_address="r@[dbo]", expires=moment, body=None),
            row(2, headers="", body=b"", correlation_id=None),
        ]
        outgoing.send(queue, uuid.uuid4(), [outgoing.stage(rows)])
        columns = "[Id], [Expires], [Headers], [Body]"
        columns += ", [CorrelationId], [ReplyToAddress], [Recoverable]" if legacy else ""
        found = run_sql(session, f"SELECT {columns} FROM {address.qualified_name} ORDER BY [RowVersion]")
        run_sql(session, f"DROP TABLE {address.qualified_name}")
    first, second = (list(values) for values in found)
    assert [str(first[0]).lower(), first[2:4]] == [str(uuid.UUID(int=1)), ['{"n":"1"}', None]]
    assert abs(first[1] - moment) < timedelta(milliseconds=5)
    assert second[1:4] == [None, "", b""]
    assert [first[4:], second[4:]] == ([["c", "r@[dbo]", True], [None, None, True]] if legacy else [[], []])


def test_a_swept_attempt_is_not_sent_in_part(queue: QueueTable, outgoing: OutgoingTable) -> None:
    attempts = [outgoing.stage([row(1), row(2)]), outgoing.stage([row(3), row(4)])]
    run_sql(queue.session, f"DELETE FROM [{SCHEMA}].[Outgoing] WHERE [Body] = CAST('4' AS varbinary(max))")
    send_id = uuid.uuid4()
    with pytest.raises(TransactionError, match="A task staged 2 messages, and 1 are left"):
        outgoing.send(queue, send_id, attempts)
    assert bodies(queue) == []
    assert outgoing.send(queue, send_id, [attempts[0]]) == SendResult(2, repeated=False)
    outgoing.remove(attempts)


def test_a_sweep_removes_old_rows(queue: QueueTable, outgoing: OutgoingTable) -> None:
    ledger = Ledger(queue.session, queue.address.catalog)
    ledger.create()
    outgoing.stage(row(number) for number in range(5))
    attempt = outgoing.stage(row(number) for number in range(5, 8))
    old = "UPDATE [{}].[Outgoing] SET [StagedAt] = '2020-01-01' WHERE [AttemptId] <> '{}'"
    run_sql(queue.session, old.format(SCHEMA, attempt.attempt_id))
    assert sweep(ledger, None, SweepOptions(dry_run=True)).unsent == 5
    assert sweep(ledger, None, SweepOptions()).unsent == 5
    assert sweep(ledger, None, SweepOptions()).unsent == 0
    assert outgoing.send(queue, uuid.uuid4(), [attempt]).messages == 3


def test_a_queue_that_is_not_there(queue: QueueTable, outgoing: OutgoingTable, address_of: AddressResolver) -> None:
    nowhere = QueueTable(queue.session, address_of.resolve("nowhere"))
    with pytest.raises(QueueNotFoundError):
        outgoing.send(nowhere, uuid.uuid4(), [StagedAttempt(uuid.uuid4(), 0)])
