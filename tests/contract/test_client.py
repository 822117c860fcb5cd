"""The client by itself: operations of the hook and the command line, without Airflow, on any server."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from airflow_sqlqueue import ConnectionSettings, ConsumeOptions, Message, PurgeOptions, QueueClient
from airflow_sqlqueue.drain.erase import EraseRequest
from airflow_sqlqueue.errors import AddressError, BatchError, ConfigurationError, QueueNotFoundError, TransactionError
from airflow_sqlqueue.messages.envelope import Envelope


@pytest.fixture
def client(server_url: str) -> QueueClient:
    return QueueClient.from_url(server_url, lock_timeout=10)


@pytest.fixture
def name(client: QueueClient) -> Iterator[str]:
    name = f"client.{uuid.uuid4().hex[:12]}"
    client.tables.create(name, delayed=True)
    yield name
    client.tables.drop(f"{name}.Delayed", force=True)
    client.tables.drop(name, force=True)


def test_a_queues_life(client: QueueClient, name: str) -> None:
    queue = client.queue(name)
    assert queue.address == client.resolve(name) == client.find(name)
    assert queue.send(Message({"n": str(n)}, b"%d" % n) for n in range(4)) == 4
    assert [message.body for message in queue.peek(2)] == [b"0", b"1"]
    assert [message.body for message in queue.receive()] == [b"0"]
    assert (queue.depth().messages, queue.backlog().delayed) == (3, 0)
    assert queue.purge(PurgeOptions(all_messages=True, confirm=True)).deleted == 3
    assert client.tables.inspect(name).findings == ()


def test_a_mistyped_schema_costs_no_message_of_the_default_schema(
    client: QueueClient, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As ``queue@MACHINE`` of versions 1 and 2, which other calls take for the queue."""
    client.queue(name).send([Message()])
    assert client.queue(f"{name}@stagign").depth().messages == 1
    caplog.clear()
    with pytest.raises(QueueNotFoundError, match=r"@\[stagign\].*nothing to drop"):
        client.tables.drop(f"{name}@stagign", force=True)
    with pytest.raises(ConfigurationError, match=r"There is no schema for the queue .*stagign'"):
        client.queue(f"{name}@stagign").purge(PurgeOptions(all_messages=True, confirm=True))
    with pytest.raises(ConfigurationError, match=r"There is no schema for the queue .*stagign'"):
        client.errors.delete(f"{name}@stagign", all_messages=True, confirm=True)
    assert "a machine's name" not in caplog.text
    assert client.queue(f"{name}@stagign").purge().deleted == 0
    assert client.queue(name).depth().messages == 1


def test_a_mistyped_database_has_no_batches_to_work_on(client: QueueClient) -> None:
    queue = "audit@[dbo]@[no such database]"
    calls: list[Callable[[], object]] = [
        lambda: client.batches.list(queue),
        lambda: client.batches.erase(EraseRequest(message_ids=["m"]), queue),
        lambda: client.batches.sweep(queue_name=queue),
        lambda: client.batches.conversation("c", catalogs=["no such database"]),
        lambda: client.copies.list(queue),
        lambda: client.streams.list(queue),
    ]
    for call in calls:
        with pytest.raises(QueueNotFoundError, match="The database 'no such database' does not exist"):
            call()


@pytest.mark.parametrize("long", ["n" * 128, "n" * 121, "n" * 61 + "😀" * 30], ids=["full", "over", "pairs"])
def test_a_queue_whose_name_leaves_no_room_for_delayed_messages_has_none(
    client: QueueClient, name: str, long: str
) -> None:
    error_queue, name = name, f"{uuid.uuid4().hex[:8]}{long[8:]}"
    client.tables.create(name)
    try:
        queue = client.queue(name)
        queue.send([Message()])
        assert (queue.depth().messages, queue.backlog().delayed) == (1, None)
        assert [each.delayed for each in client.tables.overview() if each.table.table == name] == [None]
        assert [each.rows for each in client.tables.inspect_all() if each.layout.table.table == name] == [1]
        handled: list[Envelope] = []
        assert queue.consume(handled.append, ConsumeOptions(until_empty=True, error_queue=error_queue)).handled == 1
    finally:
        client.tables.drop(name, force=True)


def test_the_age_of_what_was_sent_is_known(client: QueueClient, name: str) -> None:
    """Whichever call has sent it. A repetition under an id sends nothing, so the first time stays."""
    queue, send_id = client.queue(name), uuid.uuid4()
    queue.send([Message()])
    queue.send_numbered([Message()])
    queue.send_once(send_id, [Message()])
    first = times_sent(client, name)
    assert len(first) == 3
    assert queue.send_once(send_id, [Message()]).repeated
    assert times_sent(client, name) == first
    assert 0 <= (queue.backlog().oldest_seconds or -1) < 600
    client.delayed(name).send([Message()], delay=timedelta(0))
    client.delayed(name).move()
    assert len(times_sent(client, name)) == 4


def times_sent(client: QueueClient, name: str) -> list[datetime]:
    sent = [Envelope.of(message).time.time_sent for message in client.queue(name).peek()]
    return [time for time in sent if time is not None]


def test_options_may_be_left_out(client: QueueClient, name: str, tmp_path: Path) -> None:
    queue, bodies = client.queue(name), []
    queue.send([Message(body=b"1")])
    made = [table.table for table in client.tables.create("error") if table.made]
    try:
        assert queue.consume(lambda message: bodies.append(message.body)).handled == 1
    finally:
        for table in made:
            client.tables.drop(table.canonical, force=True)
    assert bodies == [b"1"]
    assert queue.purge().deleted == 0
    assert queue.drain(tmp_path).batch.messages == 0


def test_a_send_with_an_id_is_sent_once(client: QueueClient, name: str) -> None:
    send_id = uuid.uuid4()
    assert not client.queue(name).send_once(send_id, [Message()]).repeated
    assert client.queue(name).send_once(send_id, [Message()]).repeated
    assert client.queue(name).depth().messages == 1


def test_a_batch_from_the_queue_and_back(client: QueueClient, name: str, tmp_path: Path) -> None:
    client.queue(name).send([Message(body=b"1"), Message(body=b"2")])
    batch = client.queue(name).drain(tmp_path).batch
    batch_id = uuid.UUID(batch.batch_id)
    assert (client.queue(name).depth().messages, client.batches.get(batch_id)) == (0, batch)
    assert [info.batch_id for info in client.batches.list(name, states=["sealed"])] == [batch_id]
    assert client.batches.requeue(batch_id, staging=tmp_path).batch.state == "requeued"
    assert [message.body for message in client.queue(name).receive(5)] == [b"1", b"2"]
    with pytest.raises(BatchError, match="put back"):
        client.batches.mark_consumed(batch)


def test_a_batch_is_named_by_itself_or_its_id(client: QueueClient, name: str, tmp_path: Path) -> None:
    client.queue(name).send([Message(body=b"1")])
    batch = client.queue(name).drain(tmp_path).batch
    (info,) = client.batches.list(name)
    batches = client.batches
    for given in (batch, info, uuid.UUID(batch.batch_id), batch.batch_id):
        assert (batches.get(given), batches.seal(given)) == (batch, batch)
        assert batches.info(given).queue == info.queue  # type: ignore[union-attr]
        assert (batches.current(given), batches.forget_empty(given)) == (info.batch_id, False)
        with pytest.raises(BatchError, match="is sealed"):
            batches.abandon(given)
    elsewhere = QueueClient(replace(client.settings, database="master")).batches
    assert elsewhere.get(batch) == batch, "a batch names its queue, and so its database"
    assert batches.requeue(batch, staging=tmp_path).batch.state == "requeued"
    assert batches.requeue(info).repeated is True
    with pytest.raises(ConfigurationError, match="A batch is named by its id"):
        batches.get("orders")


def test_calls_of_two_clients_enlist_in_one_transaction(client: QueueClient, name: str) -> None:
    other = QueueClient(client.settings, client.resolver)
    elsewhere = QueueClient(replace(client.settings, database="another"), client.resolver)
    client.queue(name).send([Message(body=b"1")])

    def handle() -> None:
        with client.transaction():
            other.queue(name).send(Message(body=message.body + b"!") for message in client.queue(name).receive())
            assert client.run_sql("SELECT ?", 1)[0][0] == 1
            assert elsewhere.queue(name).depth().messages == 1
            with pytest.raises(TransactionError, match="'another' would run there"):
                elsewhere.run_sql("SELECT 1")
            with pytest.raises(TransactionError, match="outside the transaction"):
                client.queue(name).drain(stage="table")
            raise LookupError

    with pytest.raises(LookupError):
        handle()
    assert [message.body for message in client.queue(name).peek()] == [b"1"]


def test_managers_of_an_address_that_cannot_be_are_refused_at_once() -> None:
    """Before a connection is made: there is no server here."""
    client = QueueClient(ConnectionSettings("127.0.0.1", "shop", port=1))
    for refused in (client.queue, client.delayed, client.subscriptions_in):
        with pytest.raises(AddressError, match="#"):
            refused("#temporary")
    with pytest.raises(ConfigurationError, match="mssql://"):
        QueueClient.from_url("postgres://somewhere/shop")


def test_a_missing_queue_is_named(client: QueueClient) -> None:
    with pytest.raises(QueueNotFoundError, match="no-such-queue"):
        client.queue("no-such-queue").depth()


@pytest.mark.parametrize("keyword", ["ApplicationIntent", "MultiSubnetFailover", "ConnectRetryCount"])
def test_a_value_that_the_driver_does_not_take_is_no_server_that_is_away(
    settings: ConnectionSettings, keyword: str
) -> None:
    """A task or a trigger would wait for such a server."""
    keywords = {**settings.keywords, keyword: "maybe"}
    with pytest.raises(ConfigurationError, match=f"does not take the value of the ODBC keyword '{keyword}'"):
        QueueClient(replace(settings, keywords=keywords)).ping()


def test_it_needs_no_airflow(server_url: str, name: str) -> None:
    program = (
        "import sys; sys.modules['airflow'] = None\n"
        "from airflow_sqlqueue import Message, QueueClient\n"
        "client = QueueClient.from_url(sys.argv[1])\n"
        "client.queue(sys.argv[2]).send([Message(body=b'here')])\n"
        "client.batches.list(), client.tables.inspect_all(), client.errors.triage(sys.argv[2])\n"
        "print(client.queue(sys.argv[2]).receive()[0].body)"
    )
    ran = subprocess.run([sys.executable, "-c", program, server_url, name], capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == ("b'here'", "")
