"""The sent-ledger: sends exactly once, on any server."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from airflow_sqlqueue.errors import ConfigurationError, MessageError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.outgoing import OutgoingTable
from airflow_sqlqueue.queue.send_ledger import SendLedger, SendResult
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import Connect, run_sql
from tests.forks import kill_where_it_halts

MESSAGES = [Message(body=b"%d" % n) for n in range(300)]


@pytest.fixture
def ledger(queue: QueueTable) -> SendLedger:
    ledger = SendLedger(queue.session, queue.address.catalog)
    ledger.create()
    return ledger


def test_a_repeated_sending_sends_nothing(queue: QueueTable, ledger: SendLedger) -> None:
    send_id = uuid.uuid4()
    assert ledger.send(queue, send_id, MESSAGES, "a task") == SendResult(300, repeated=False)
    assert ledger.send(queue, send_id, MESSAGES, "a task") == SendResult(300, repeated=True)
    assert ledger.send(queue, uuid.uuid4(), MESSAGES[:5]) == SendResult(5, repeated=False)
    assert depth(queue).messages == 305


def test_a_sending_that_failed_is_made_again(queue: QueueTable, ledger: SendLedger) -> None:
    send_id = uuid.uuid4()
    broken = [*MESSAGES, Message({"a": 1})]  # type: ignore[dict-item]
    with pytest.raises(MessageError):
        ledger.send(queue, send_id, broken)
    assert depth(queue).messages == 0
    assert ledger.send(queue, send_id, MESSAGES) == SendResult(300, repeated=False)


def test_a_sweep_passes_over_a_send_under_way(queue: QueueTable, ledger: SendLedger) -> None:
    """No index has SentAt, so a sweep meets every row; that of a send is locked until all is sent."""
    old = timedelta(days=3_650)
    early, locked = uuid.uuid4(), uuid.uuid4()
    for send_id in (early, locked, uuid.uuid4()):
        ledger.send(queue, send_id, MESSAGES[:1])
    table = ledger.query("send_ledger.find").text.partition("FROM ")[2].partition(" WITH")[0]
    run_sql(queue.session, f"UPDATE {table} SET [SentAt] = '2001-01-01' WHERE [SendId] IN ('{early}', '{locked}')")
    with Session(queue.session.settings, lock_timeout=0.5) as session:
        sweeping = SendLedger(session, queue.address.catalog)

        def send() -> int:
            queue.session.run(ledger.query("send_ledger.count"), 1, str(locked))
            assert sweeping.count_older(old) >= 1
            assert sweeping.forget(old) >= 1
            assert sweeping.count_older(old) == 0
            return queue.send(MESSAGES[:1])

        assert ledger.once(queue.address, uuid.uuid4(), send).messages == 1
        assert sweeping.count_older(old) == 1, "of the locked one"
        assert sweeping.forget(old) == 1


@pytest.mark.parametrize("age", [timedelta(days=366 * 69), timedelta.max])
def test_ages_beyond_dateadds_range_match_no_row(queue: QueueTable, ledger: SendLedger, age: timedelta) -> None:
    """It takes an int of seconds before SQL Server 2025, some 68 years (error 8115)."""
    ledger.send(queue, uuid.uuid4(), MESSAGES[:1])
    outgoing = OutgoingTable(queue.session, queue.address.catalog)
    outgoing.create()
    assert (ledger.count_older(age), ledger.forget(age)) == (0, 0)
    assert (outgoing.count_older(age), outgoing.remove_older(age)) == (0, 0)


def test_an_id_belongs_to_one_queue(queue: QueueTable, ledger: SendLedger, address_of: AddressResolver) -> None:
    send_id = uuid.uuid4()
    ledger.send(queue, send_id, MESSAGES[:1])
    other = address_of.resolve(f"{queue.address.table}.other")
    create_queue(queue.session, other)
    try:
        with pytest.raises(ConfigurationError, match="take another id"):
            ledger.send(QueueTable(queue.session, other), send_id, MESSAGES)
    finally:
        run_sql(queue.session, f"DROP TABLE {other.qualified_name}")


def test_of_several_at_once_with_the_same_id_one_sends(queue: QueueTable, ledger: SendLedger, connect: Connect) -> None:
    """The second waits for the first, whichever that is, and sends nothing."""
    send_id = uuid.uuid4()
    results: list[SendResult] = []

    def send() -> None:
        with connect() as session:
            own = SendLedger(session, queue.address.catalog)
            results.append(own.send(QueueTable(session, queue.address), send_id, MESSAGES))

    threads = [threading.Thread(target=send) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(result.repeated for result in results) == [False] + [True] * 5
    assert {result.messages for result in results} == {300}
    assert depth(queue).messages == 300


def send_and_halt(halt: Callable[[], None], url: str, address: str, send_id: uuid.UUID) -> None:
    settings = ConnectionSettings.from_url(url)
    table = AddressResolver(default_catalog=settings.database).resolve(address)

    def messages() -> Iterator[Message]:
        yield from MESSAGES
        halt()

    with Session(settings) as session:
        SendLedger(session, table.catalog).send(QueueTable(session, table), send_id, messages())


def test_a_sender_killed_in_the_middle_has_sent_nothing(server_url: str, queue: QueueTable, ledger: SendLedger) -> None:
    send_id = uuid.uuid4()
    kill_where_it_halts(send_and_halt, server_url, str(queue.address), send_id)
    assert ledger.send(queue, send_id, MESSAGES) == SendResult(300, repeated=False)
    assert depth(queue).messages == 300


def test_old_sends_are_forgotten(queue: QueueTable, ledger: SendLedger) -> None:
    send_id = uuid.uuid4()
    ledger.send(queue, send_id, MESSAGES[:1])
    ledger.forget(timedelta(hours=1))
    assert ledger.send(queue, send_id, MESSAGES[:1]).repeated
    assert ledger.forget(timedelta(seconds=-1)) >= 1
    assert not ledger.send(queue, send_id, MESSAGES[:1]).repeated


def test_the_id_of_a_message_is_kept_with_its_send(queue: QueueTable, ledger: SendLedger) -> None:
    send_id, first, second = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
    assert ledger.send(queue, send_id, [Message(id=first)], message_id=first) == SendResult(1, False, first)
    assert ledger.send(queue, send_id, [Message(id=second)], message_id=second) == SendResult(1, True, first)
    assert ledger.send(queue, send_id, [Message(id=second)]).message_id == first
