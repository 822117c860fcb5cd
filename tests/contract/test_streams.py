"""Streams are listed, and released if no query resumes them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import BatchError, ConfigurationError, TransactionError, WrongBatchError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.copies import QueueCopy
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark.source import claims as claims_module
from airflow_sqlqueue.spark.source.claims import Claims, Offset, StreamOptions
from airflow_sqlqueue.spark.source.options import ServerAccess, SourceOptions
from tests.contract.conftest import Connect, ignores_case

Reader = Callable[[], Claims]


@pytest.fixture
def name() -> str:
    return f"lake {uuid.uuid4()}"


@pytest.fixture
def reader(settings: ConnectionSettings, queue: QueueTable, name: str) -> Reader:
    def make() -> Claims:
        return Claims(
            ServerAccess.of(SourceOptions({}), settings), StreamOptions(queue.address.canonical, name, 4, 2, False)
        )

    return make


@pytest.fixture
def client(settings: ConnectionSettings) -> QueueClient:
    return QueueClient(settings)


def test_an_abandoned_stream_that_keeps(
    client: QueueClient, settings: ConnectionSettings, queue: QueueTable, name: str
) -> None:
    """Its claims do not go back, as the messages never left; a new stream of that name begins at the head."""
    queue.send(Message({}, b"%d" % n) for n in range(6))
    options = StreamOptions(queue.address.canonical, name, 4, 2, False, copy=True)
    for _ in range(2):
        claims = Claims(ServerAccess.of(SourceOptions({}), settings), options)
        claims.claim(claims.begin(), 4)
        claims.close()
        (copy,) = client.copies.list(queue.address.canonical)
        assert (copy.name, copy.messages) == (f"Spark stream {name}", 4)
        assert client.streams.release(name).messages == 0
        assert client.copies.list(queue.address.canonical) == []
        assert {info.state for info in client.batches.list(queue.address.canonical)} == {"consumed"}
    assert sorted(int(message.body) for message in queue.peek(20)) == list(range(6))


def test_an_idle_stream_seldom_looks_for_late_messages(
    connect: Connect,
    settings: ConnectionSettings,
    client: QueueClient,
    queue: QueueTable,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each look reads all gaps. A stream that is to end looks always, because it does not come again."""
    monkeypatch.setattr(claims_module, "_IDLE_SECONDS", 0)
    now, asked, count = [1000.0], list[bool](), QueueCopy.count

    def asking(self: QueueCopy, *given: Any, late: bool) -> Any:
        asked.append(late)
        return count(self, *given, late=late)

    monkeypatch.setattr(QueueCopy, "count", asking)
    monkeypatch.setattr(claims_module, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: None))
    options = StreamOptions(queue.address.canonical, name, 100, 2, False, copy=True)
    claims = Claims(ServerAccess.of(SourceOptions({}), settings), options)
    with connect() as other:
        with other.transaction():
            QueueTable(other, queue.address).send([Message(body=b"late")])
            queue.send([Message(body=b"1")])
            first = claims.claim(claims.begin(), 100)
        assert first["number"] == 1
        now[0] += 29
        assert claims.claim(first, 100) == first
        queue.send([Message(body=b"2")])
        second = claims.claim(first, 100)
        assert second["number"] == 2, "what is above the watermark comes at once, with the late one"
        with other.transaction():
            QueueTable(other, queue.address).send([Message(body=b"late 2")])
            queue.send([Message(body=b"3")])
            third = claims.claim(second, 100)
        assert claims.claim(third, 100) == third
        now[0] += 31
        assert claims.claim(third, 100)["number"] == 4
        assert asked == [True, False, False, False, False, True]
        claims.stop_at_the_end()
        for _ in range(2):
            assert claims.claim(third, 100)["number"] == 4
    claims.close()
    client.streams.release(name)


def test_an_abandoned_consumer(client: QueueClient, reader: Reader, queue: QueueTable, name: str) -> None:
    """Its claims are listed, and go back once; finished ones do not."""
    queue.send(Message({}, b"%d" % n) for n in range(10))
    claims = reader()
    first = claims.claim(claims.begin(), 4)
    claims.commit(first)
    second = claims.claim(first, 4)
    (info,) = client.streams.list(queue.address.canonical)
    assert (info.name, info.done, info.claims, info.messages, info.reading) == (name, 1, 1, 4, True)
    with pytest.raises(BatchError, match="A query reads the stream"):
        client.streams.release(name)
    with client.transaction(), pytest.raises(TransactionError, match="outside a transaction"):
        client.streams.release(name)
    claims.close()
    assert not client.streams.list(queue.address.canonical)[0].reading

    with pytest.raises(BatchError, match="may have the last 4 messages: run its query once more"):
        client.streams.release(name)
    released = client.streams.release(name, accept_duplicates=True)
    assert (released.queue, released.claims, released.messages) == (queue.address.canonical, 1, 4)
    assert sorted(int(message.body) for message in queue.peek(20)) == list(range(4, 10))
    assert client.streams.list(queue.address.canonical) == []
    with pytest.raises(ConfigurationError, match="There is no stream"):
        client.streams.release(name)
    again = reader()
    with pytest.raises(WrongBatchError, match="that of another stream"):
        again.claim(second, 4)
    again.close()
    assert client.streams.release(name).messages == 0


def test_a_name_that_the_server_takes_for_another(
    client: QueueClient, settings: ConnectionSettings, reader: Reader, queue: QueueTable, name: str
) -> None:
    """Under another spelling no query reads the claims of a running one, and none is left behind by a release."""
    spelling = name.upper() if ignores_case(queue.session) else f"{name} "
    queue.send(Message({}, b"%d" % n) for n in range(4))
    claims = reader()
    claims.claim(claims.begin(), 4)
    options = StreamOptions(queue.address.canonical, spelling, 4, 2, False)
    other = Claims(ServerAccess.of(SourceOptions({}), settings), options)
    with pytest.raises(WrongBatchError, match=f"'{spelling}' would be '{name}' to the server"):
        other.begin()
    other.close()
    with pytest.raises(BatchError, match=f"A query reads the stream '{name}'"):
        client.streams.release(spelling, accept_duplicates=True)
    claims.close()
    released = client.streams.release(spelling, accept_duplicates=True)
    assert (released.name, released.claims, released.messages) == (name, 1, 4)
    assert sorted(int(message.body) for message in queue.peek(20)) == list(range(4))


def test_a_stream_that_has_copied_does_not_consume(
    client: QueueClient, settings: ConnectionSettings, queue: QueueTable, name: str
) -> None:
    """It would take the messages that its sink has, once more."""
    queue.send(Message({}, b"%d" % n) for n in range(4))
    options = StreamOptions(queue.address.canonical, name, 4, 2, False, copy=True)

    def claim(start: Offset, **change: Any) -> Offset:
        claims = Claims(ServerAccess.of(SourceOptions({}), settings), replace(options, **change))
        try:
            return claims.claim(start, 4)
        finally:
            claims.close()

    claims = Claims(ServerAccess.of(SourceOptions({}), settings), options)
    first = claims.claim(claims.begin(), 4)
    claims.commit(first)
    claims.close()
    with pytest.raises(WrongBatchError, match="has copied messages, which are in the queue still"):
        claim(first, copy=False)
    assert len(queue.peek(20)) == 4
    queue.send([Message({}, b"4")])
    assert claim(first)["number"] == 2
    client.streams.release(name)


@pytest.mark.parametrize("offset", [5, None, "5", {"offset": 5}, {"number": "5"}])
def test_a_checkpoint_of_another_source(reader: Reader, offset: Any) -> None:
    claims = reader()
    claims.begin()
    with pytest.raises(WrongBatchError, match="the checkpoint is that of another stream"):
        claims.claim(offset, 4)
    claims.close()


def test_a_ledger_without_streams(client: QueueClient, settings: ConnectionSettings) -> None:
    other = QueueClient(replace(settings, ledger_schema=f"none_{uuid.uuid4().hex[:8]}"))
    assert other.streams.list() == []
    with pytest.raises(ConfigurationError, match="There is no stream"):
        other.streams.release("lake")


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("512m", 512 << 20), ("2 GB", None), ("2GB", 2 << 30), ("0", None)]
)
def test_sizes_are_written_as_sparks_are(text: str, size: int | None) -> None:
    options = SourceOptions({"queue": "q", "stream": "c", "max_bytes_per_trigger": text}, *StreamOptions.OPTIONS)
    if size is None:
        with pytest.raises(ConfigurationError, match="must be a number of bytes above 0"):
            StreamOptions.of(options)
    else:
        assert StreamOptions.of(options).max_bytes == size
