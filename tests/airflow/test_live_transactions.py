"""``hook.transaction()``: calls of a hook and of a caller's own SQL in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_sqlqueue.errors import TransactionError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from tests.drains import bodies


class Interrupted(Exception):
    """A handler that fails."""


@pytest.fixture
def orders(hook: SqlQueueHook) -> Iterator[str]:
    """A table of one's own."""
    name = f"orders_{uuid.uuid4().hex[:10]}"
    hook.run(f"CREATE TABLE {name} (body varbinary(max) NOT NULL)", autocommit=True)
    yield name
    hook.run(f"DROP TABLE {name}", autocommit=True)


def handle(hook: SqlQueueHook, queue_name: str, orders: str, *, fail: bool) -> None:
    """Receive, write with SQL of one's own in three ways, send to another queue, fail or not."""
    with hook.transaction():
        (message,) = hook.receive(queue_name)
        hook.client.run_sql(f"INSERT INTO {orders} VALUES (CONVERT(varbinary(max), ?))", message.body)
        hook.run(f"INSERT INTO {orders} VALUES (CONVERT(varbinary(max), ?))", parameters=(message.body + b"2",))
        assert len(hook.get_records(f"SELECT body FROM {orders}")) == 2
        # Another hook of the same connection takes part as well.
        SqlQueueHook(hook.get_conn_id()).send(f"{queue_name}.out", [Message(body=b"done")])
        if fail:
            raise Interrupted


def test_all_statements_commit_together_or_not_at_all(hook: SqlQueueHook, queue_name: str, orders: str) -> None:
    hook.create_queue(f"{queue_name}.out")
    hook.send(queue_name, [Message(body=b"order")])
    with pytest.raises(Interrupted):
        handle(hook, queue_name, orders, fail=True)
    assert bodies(hook.client.queue(queue_name)) == [b"order"]
    assert (bodies(hook.client.queue(f"{queue_name}.out")), hook.get_records(f"SELECT * FROM {orders}")) == ([], [])
    handle(hook, queue_name, orders, fail=False)
    assert (bodies(hook.client.queue(queue_name)), bodies(hook.client.queue(f"{queue_name}.out"))) == ([], [b"done"])
    assert sorted(hook.get_records(f"SELECT body FROM {orders}")) == [(b"order",), (b"order2",)]


def test_an_error_of_plain_sql_dooms_it(hook: SqlQueueHook, queue_name: str) -> None:
    def go_on() -> None:
        with hook.transaction():
            hook.send(queue_name, [Message(body=b"a")])
            with pytest.raises(Exception, match="zero"):
                hook.run("SELECT 1/0", handler=lambda cursor: cursor.fetchall())
            hook.send(queue_name, [Message(body=b"b")])

    with pytest.raises(TransactionError, match="failed before"):
        go_on()
    assert bodies(hook.client.queue(queue_name)) == []


def test_calls_that_cannot_join_a_transaction_are_refused_inside_it(
    hook: SqlQueueHook, queue_name: str, connection: Any, tmp_path: Any
) -> None:
    elsewhere = SqlQueueHook(connection(conn_id="elsewhere", host="other.example.com"))
    another = SqlQueueHook(hook.get_conn_id(), database="another")
    with hook.transaction():
        with pytest.raises(TransactionError, match="cannot commit together"):
            elsewhere.send(queue_name, [Message()])
        with pytest.raises(TransactionError, match="'another' would run there"):
            another.get_records("SELECT 1")
        with pytest.raises(TransactionError, match="call it outside"):
            hook.drain(queue_name, tmp_path)
        with pytest.raises(TransactionError, match="nothing is committed on its own"):
            hook.run("SELECT 1", autocommit=True)


def test_sent_messages_stay_when_a_receive_only_transaction_fails(hook: SqlQueueHook, queue_name: str) -> None:
    hook.send(queue_name, [Message(body=b"order")])

    def handle() -> None:
        with hook.transaction("receive_only"):
            assert [message.body for message in hook.receive(queue_name)] == [b"order"]
            hook.send(queue_name, [Message(body=b"ghost")])
            raise Interrupted

    with pytest.raises(Interrupted):
        handle()
    assert bodies(hook.client.queue(queue_name)) == [b"order", b"ghost"]


def test_tables_are_made_in_it_as_well(hook: SqlQueueHook, queue_name: str) -> None:
    def make_and_fail() -> None:
        with hook.transaction():
            assert hook.create_queue(f"{queue_name}.new")[0].made
            hook.send(f"{queue_name}.new", [Message()])
            raise Interrupted

    with pytest.raises(Interrupted):
        make_and_fail()
    assert hook.create_queue(f"{queue_name}.new")[0].made
