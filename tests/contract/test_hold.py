"""Messages that a transaction holds before it is known what becomes of them, in tables of every version."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from unittest.mock import Mock

import pytest

from airflow_sqlqueue.errors import DeadlockError, QueueNotFoundError, StatementError
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable, browsing
from airflow_sqlqueue.queue.browsing import delete, hold
from airflow_sqlqueue.queue.locked_messages import LockedMessages
from airflow_sqlqueue.queue.quarantine import Quarantine
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.server.sql import query
from tests.contract.conftest import Connect, run_sql


def test_held_messages_are_hidden_and_come_back_unless_deleted(any_queue: QueueTable, connect: Connect) -> None:
    headers = {HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.T"}
    any_queue.send([Message(headers, b"secret"), Message({}, b"x", timedelta(seconds=-1)), Message(), Message()])
    session = any_queue.session
    session.begin()
    first, expired, third = heads = hold(any_queue, 3)
    assert [head.expired for head in heads] == [False, True, False]
    assert first.decoded.values[HeaderNames.ENCLOSED_MESSAGE_TYPES] == "Shop.T"
    assert first.body_bytes == len(b"secret")
    with connect() as other:
        other.begin()
        (beside,) = hold(QueueTable(other, any_queue.address), 4)
        other.roll_back()
        (free,) = QueueTable(other, any_queue.address).receive(4)
        assert beside.row_version == free.row_version
        assert free.row_version > third.row_version
        assert any_queue.count_left(third.row_version) == 3
        delete(any_queue, [first.row_version, expired.row_version])
        session.run(query("session.commit"))
        session.committed()
        (again,) = QueueTable(other, any_queue.address).receive(4)
    assert again.row_version == third.row_version


def test_held_messages_come_back_when_the_connection_breaks(queue: QueueTable, connect: Connect) -> None:
    queue.send([Message(), Message()])
    holder = connect()
    held = QueueTable(holder, queue.address)
    holder.begin()
    delete(held, [head.row_version for head in hold(held, 2)])
    assert queue.receive(2) == []
    holder.close()
    assert queue.count_left(2**63 - 1, wait=60) == 2
    assert len(queue.receive(2)) == 2


@pytest.mark.parametrize("number", [1, 3])
def test_messages_that_the_error_queue_refuses_go_into_quarantine(
    queue: QueueTable, connect: Connect, address_of: AddressResolver, number: int
) -> None:
    queue.send([Message()] * number)
    error = replace(queue.address, table=f"{queue.address.table}.error")
    create_queue(queue.session, error)
    run_sql(queue.session, f"ALTER TABLE {error.qualified_name} ADD CHECK (1 = 0)")
    held = LockedMessages(connect, address_of, queue.address.table, error.table)
    held.settle([], [head.row_version for head in held.lock(number)], ValueError("not accepted"))
    held.close()
    assert len(Quarantine(queue.session, queue.address.catalog).messages(queue.address)) == number
    assert queue.receive(1) == []
    run_sql(queue.session, f"DROP TABLE {error.qualified_name}")


@pytest.mark.parametrize("step", ["hold", "delete"])
def test_a_step_that_fails_leaves_no_transaction(
    queue: QueueTable, connect: Connect, address_of: AddressResolver, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    queue.send([Message()])
    error = replace(queue.address, table=f"{queue.address.table}.error")
    create_queue(queue.session, error)
    held = LockedMessages(connect, address_of, queue.address.table, error.table)
    with monkeypatch.context() as patched:
        patched.setattr(browsing, step, Mock(side_effect=DeadlockError("one of two")))
        with pytest.raises(DeadlockError):
            held.settle([head.row_version for head in held.lock(1)], [], ValueError("not accepted"))
    assert len(held.lock(1)) == 1
    held.settle([], [], ValueError("not accepted"))
    queue.receive(1)
    assert (held.lock(1), held.lock(1)) == ([], []), "an empty queue leaves none either"
    held.close()
    run_sql(queue.session, f"DROP TABLE {error.qualified_name}")


def test_a_queue_that_cannot_be_opened_leaves_no_connection(
    queue: QueueTable, connect: Connect, address_of: AddressResolver
) -> None:
    session = connect()
    with pytest.raises(QueueNotFoundError):
        LockedMessages(lambda: session, address_of, queue.address.table, f"{queue.address.table}.none").lock(1)
    with pytest.raises(StatementError, match="connection has been closed"):
        run_sql(session, "SELECT 1")
