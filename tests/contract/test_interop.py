"""Endpoints and this package on the same tables: the endpoint's own statements on one side, ours on the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from airflow_sqlqueue.message import Message, decode_headers
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.tables.create import create_queue
from airflow_sqlqueue.tables.inspection import read_layout
from tests.contract.conftest import Connect
from tests.endpoint import Endpoint

VERSIONS = [("v1", "2"), ("v3.0", "3"), ("v4", "4"), ("modern", "7"), ("clustered", "7"), ("v4", "7")]

OpenEndpoint = Callable[..., Endpoint]


@pytest.fixture
def endpoint(settings: ConnectionSettings, table: ResolvedAddress) -> OpenEndpoint:
    text = settings.odbc_connection_string()
    return lambda version="7": Endpoint(text, table.qualified_name, version)


@pytest.mark.parametrize(("layout", "version"), VERSIONS)
def test_what_an_endpoint_sends_we_receive(
    session: Session, table: ResolvedAddress, endpoint: OpenEndpoint, layout: str, version: str
) -> None:
    create_queue(session, table, layout=layout)
    headers: dict[str, str | None] = {"NServiceBus.MessageId": "1", "path": "a/b\\c", "help": None}
    if read_layout(session, table).types["Headers"] == "nvarchar":
        headers["name"] = "Jörg ☃ 😀"
    with endpoint(version) as sender:
        identity = sender.send(b"\x00\xff body", headers)
        sender.send(b"late", lives=-1000)
        sender.send(b"", "")
    first, late, empty = QueueTable(session, table).receive(10, keep_expired=True)
    assert (str(first.id), first.body, first.expired) == (identity, b"\x00\xff body", False)
    assert decode_headers(first.headers).values == headers
    assert (late.body, late.expired) == (b"late", True)
    assert (empty.body, decode_headers(empty.headers).values) == (b"", {})


@pytest.mark.parametrize(("layout", "version"), VERSIONS)
def test_what_we_send_an_endpoint_receives(
    session: Session, table: ResolvedAddress, endpoint: OpenEndpoint, layout: str, version: str
) -> None:
    create_queue(session, table, layout=layout)
    headers: dict[str, str | None] = {"NServiceBus.MessageId": "1", "name": "Jörg ☃ 😀", "help": None}
    lives = [None, timedelta(seconds=-1), timedelta(days=20)]
    QueueTable(session, table).send(Message(headers, b"%d" % n, life) for n, life in enumerate(lives))
    with endpoint(version) as receiver:
        handled = receiver.receive_all()
    assert [message.body for message in handled] == [b"0", b"2"]
    assert [message.headers for message in handled] == [headers] * 2


def test_locks_are_respected_in_both_directions(
    session: Session, table: ResolvedAddress, endpoint: OpenEndpoint
) -> None:
    create_queue(session, table)
    queue = QueueTable(session, table)
    queue.send(Message(body=b"%d" % n) for n in range(4))
    with endpoint() as other:
        other.connection.autocommit = False
        first = other.receive()
        assert first is not None
        assert first.body == b"0"
        with session.transaction():
            assert [message.body for message in queue.receive()] == [b"1"]
            second = other.receive()
            assert second is not None
            assert second.body == b"2"
            assert [message.body for message in queue.peek()] == [b"3"]
            assert queue.depth().messages == 1
        other.connection.rollback()
        assert [message.body for message in queue.peek()] == [b"0", b"2", b"3"]


def test_both_purge_what_expired(session: Session, table: ResolvedAddress, endpoint: OpenEndpoint) -> None:
    create_queue(session, table)
    queue = QueueTable(session, table)
    with endpoint() as other:
        for _ in range(3):
            other.send(b"late", lives=-1000)
        other.send(b"alive", lives=600_000)
        assert queue.purge_expired().deleted == 3
        queue.send([Message(body=b"late", time_to_be_received=timedelta(seconds=-1))])
        other.purge_expired()
        assert [message.body for message in queue.peek()] == [b"alive"]


def test_all_create_one_queue(
    connect: Connect, session: Session, table: ResolvedAddress, endpoint: OpenEndpoint
) -> None:
    """Installers of endpoints and of ours start together, with the same application lock."""
    barrier = threading.Barrier(12)
    made: list[bool] = []
    failed: list[BaseException] = []

    def ours() -> None:
        with connect() as own:
            barrier.wait(60)
            made.append(create_queue(own, table).made)

    def theirs() -> None:
        with endpoint() as installer:
            barrier.wait(60)
            installer.create()

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (ours, theirs) * 6]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == []
    assert len(made) == 6
    assert sum(made) <= 1
    assert read_layout(session, table).names[0] == "modern"
