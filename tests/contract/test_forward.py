"""Moving messages from one queue to another, on any server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import ConfigurationError, QueueNotFoundError, RowRefusedError, TransactionError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import MessageFilter, QueueTable, forwarding
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.forwarding import ForwardOptions, forward
from airflow_sqlqueue.queue.tables.create import create_queue, drop_queue
from airflow_sqlqueue.server.session import Session
from tests.contract.conftest import HEADERS, Connect, run_sql

LATE = timedelta(seconds=-5)


@pytest.fixture
def target(session: Session, address_of: AddressResolver, queue_name: str) -> Iterator[QueueTable]:
    address = address_of.resolve(f"{queue_name}.target")
    create_queue(session, address)
    yield QueueTable(session, address)
    drop_queue(session, address, force=True)


def test_messages_are_moved_as_they_are(any_queue: QueueTable, connect: Connect, target: QueueTable) -> None:
    """All columns, the order, and the expiry; expired ones too."""
    headers = {**HEADERS, "NServiceBus.CorrelationId": "c", "NServiceBus.ReplyToAddress": "Sales"}
    any_queue.send([Message(headers, b"%d" % n, time_to_be_received=timedelta(days=n)) for n in range(1, 5)])
    any_queue.send([Message({}, b"late", time_to_be_received=LATE), Message({}, b"")])
    before = any_queue.peek()
    target.send([Message({}, b"first")])
    some = forward(any_queue, QueueTable(any_queue.session, target.address), ForwardOptions(chunk=2, max_messages=3))
    assert (some.messages, some.complete) == (3, False)
    rest = forward(any_queue, QueueTable(any_queue.session, target.address), ForwardOptions(chunk=2))
    assert (rest.messages, rest.locked, rest.complete) == (3, 0, True)
    assert depth(any_queue).total == 0
    after = target.peek()
    assert after[0].body == b"first"
    columns = ("id", "headers", "body", "expires", "expired", "correlation_id", "reply_to_address")
    moved = [[getattr(message, name) for name in columns] for message in after[1:]]
    assert moved == [[getattr(message, name) for name in columns] for message in before]
    assert {message.recoverable for message in after} == {True}


def test_only_matching_messages_are_moved(any_queue: QueueTable, target: QueueTable) -> None:
    """In the order of the queue, with their expiry, over several pages and chunks; a budget ends it."""
    wanted, other = {**HEADERS, "Shop.List": "a"}, {**HEADERS, "Shop.List": "b"}
    life = timedelta(days=1)
    any_queue.send([Message(wanted if n % 3 else other, b"%d" % n, time_to_be_received=life) for n in range(1_500)])
    destination = QueueTable(any_queue.session, target.address)
    where = MessageFilter(headers={"Shop.List": "a"})
    some = forward(any_queue, destination, ForwardOptions(where=where, chunk=300, max_messages=700))
    assert (some.messages, some.complete) == (700, False)
    rest = forward(any_queue, destination, ForwardOptions(where=where, chunk=300))
    assert (rest.messages, rest.locked, rest.complete) == (300, 0, True)
    moved = target.peek(1_000)
    assert [message.body for message in moved] == [b"%d" % n for n in range(1_500) if n % 3]
    assert {message.expires is None for message in moved} == {False}
    assert depth(any_queue).total == 500
    assert forward(any_queue, destination, ForwardOptions(where=where)).complete


def test_a_matching_message_that_is_refused_stays(queue: QueueTable, target: QueueTable) -> None:
    refuse = f"ALTER TABLE [{target.address.schema}].[{target.address.table}] ADD CHECK (DATALENGTH([Body]) < 3)"
    run_sql(target.session, refuse)
    queue.send([Message({**HEADERS, "Shop.List": "a"}, body) for body in (b"1", b"long", b"2", b"longer", b"3")])
    queue.send([Message(HEADERS, b"4")])
    where = MessageFilter(headers={"Shop.List": "a"})
    done = forward(queue, QueueTable(queue.session, target.address), ForwardOptions(where=where))
    assert (done.messages, done.refused, done.locked, done.complete) == (3, 2, 0, True)
    assert [message.body for message in target.peek()] == [b"1", b"2", b"3"]
    assert [message.body for message in queue.peek()] == [b"long", b"longer", b"4"]


def test_a_matching_message_that_is_locked_after_it_was_found_stays(
    queue: QueueTable, connect: Connect, target: QueueTable
) -> None:
    queue.send([Message({**HEADERS, "Shop.List": "a"}, b"%d" % n) for n in range(4)])
    where = MessageFilter(headers={"Shop.List": "a"})
    with connect() as other, other.transaction():

        def take_the_third(moved: int) -> None:
            if moved == 1:
                QueueTable(other, queue.address).take([queue.peek()[1].row_version])

        destination = QueueTable(queue.session, target.address)
        done = forward(queue, destination, ForwardOptions(where=where, chunk=1), on_progress=take_the_third)
        assert (done.messages, done.locked) == (3, 1)
        assert [message.body for message in target.peek()] == [b"0", b"1", b"3"]


def test_locked_messages_stay(queue: QueueTable, connect: Connect, target: QueueTable) -> None:
    queue.send([Message({}, b"%d" % n) for n in range(4)])
    with connect() as other, other.transaction():
        locked = QueueTable(other, queue.address).receive(1)
        assert forward(queue, QueueTable(queue.session, target.address)).locked == 1
        assert [message.body for message in target.peek()] == [b"1", b"2", b"3"]
    assert len(locked) == 1


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_a_message_that_the_other_queue_refuses_stays_and_stops_no_other(
    queue: QueueTable, target: QueueTable, chunk: int
) -> None:
    queue.send([Message({}, b"%d" % n) for n in range(8)])
    run_sql(target.session, f"ALTER TABLE {target.address.qualified_name} ADD CHECK ([Body] NOT IN (0x30, 0x33))")
    done = forward(queue, QueueTable(queue.session, target.address), ForwardOptions(chunk=chunk))
    assert (done.messages, done.refused, done.locked, done.complete) == (6, 2, 0, True)
    assert [message.body for message in target.peek()] == [b"1", b"2", b"4", b"5", b"6", b"7"]
    assert [message.body for message in queue.peek()] == [b"0", b"3"]


def test_a_queue_that_refuses_inserts_ends_the_return_soon(
    queue: QueueTable, target: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "REFUSALS", 3)
    queue.send([Message({}, b"%d" % n) for n in range(50)])
    run_sql(target.session, f"ALTER TABLE {target.address.qualified_name} ADD CHECK ([Body] IS NULL)")
    with pytest.raises(RowRefusedError, match="547"):
        forward(queue, QueueTable(queue.session, target.address), ForwardOptions(chunk=10))
    assert depth(queue).messages == 50


def test_a_message_with_a_null_that_the_other_queue_does_not_take_stays(queue: QueueTable, target: QueueTable) -> None:
    run_sql(queue.session, f"ALTER TABLE {target.address.qualified_name} ALTER COLUMN [Body] varbinary(max) NOT NULL")
    queue.send([Message({}, b"%d" % n) for n in range(5)])
    run_sql(queue.session, f"UPDATE {queue.address.qualified_name} SET [Body] = NULL WHERE [Body] = 0x32")
    done = forward(queue, QueueTable(queue.session, target.address))
    assert (done.messages, done.refused, done.complete) == (4, 1, True)
    assert [message.body for message in target.peek()] == [b"0", b"1", b"3", b"4"]
    assert [message.body for message in queue.peek()] == [b""]


def test_a_target_that_is_altered_meanwhile(queue: QueueTable, target: QueueTable) -> None:
    queue.send([Message({}, b"%d" % n) for n in range(4)])
    other = QueueTable(queue.session, target.address)

    def alter(moved: int) -> None:
        if moved == 2:
            run_sql(target.session, f"ALTER TABLE {target.address.qualified_name} DROP COLUMN [ReplyToAddress]")

    assert forward(queue, other, ForwardOptions(chunk=2), on_progress=alter).messages == 4


def test_tables_with_triggers(queue: QueueTable, target: QueueTable) -> None:
    for table, event in ((queue, "DELETE"), (target, "INSERT")):
        schema, name = table.address.schema, table.address.table
        run_sql(
            table.session,
            f"CREATE TRIGGER [{schema}].[{name}.seen] ON [{schema}].[{name}] AFTER {event} AS BEGIN SET NOCOUNT ON END",
        )
    queue.send([Message({}, b"x")])
    assert forward(queue, QueueTable(queue.session, target.address)).messages == 1


def test_refused_destinations(queue: QueueTable, session: Session, address_of: AddressResolver) -> None:
    with pytest.raises(ConfigurationError, match="cannot be forwarded to itself"):
        forward(queue, QueueTable(queue.session, queue.address))
    with queue.session.transaction(), pytest.raises(TransactionError, match="transactions of their own"):
        forward(queue, queue)
    with pytest.raises(QueueNotFoundError):
        forward(queue, QueueTable(queue.session, address_of.resolve("nowhere")))
    old = address_of.resolve(f"{queue.address.table}.old")
    create_queue(session, old, layout="v1")
    with pytest.raises(ConfigurationError, match="would lose characters"):
        forward(queue, QueueTable(queue.session, old))
    drop_queue(session, old)


def test_the_client_forwards(server_url: str, queue: QueueTable, target: QueueTable) -> None:
    queue.send([Message({}, b"x")])
    source = QueueClient.from_url(server_url).queue(queue.address.canonical)
    assert source.forward(target.address.canonical).messages == 1
    assert source.forward(target.address.canonical).messages == 0
