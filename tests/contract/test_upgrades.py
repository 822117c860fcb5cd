"""Tables, manifests and staged files of earlier versions: read, drained on, and put back."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import PermissionDeniedError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.drains import bodies, drain
from tests.upgrades import SEND_ID, STREAM, VERSIONS, Remains, bodies_of, database, restored


@pytest.fixture(params=VERSIONS)
def remains(request: pytest.FixtureRequest, settings: ConnectionSettings, tmp_path: Path) -> Iterator[Remains]:
    """What each version left."""
    try:
        with restored(request.param, settings, tmp_path / "remains") as found:
            yield found
    except PermissionDeniedError:
        pytest.skip("the login of the test server may not create databases")


def columns(client: QueueClient) -> dict[tuple[str, str], Any]:
    """Types of the columns of this package's tables, by table and name."""
    text = (
        "SELECT t.name, c.name, y.name, c.max_length, c.is_nullable, c.is_identity FROM sys.tables AS t "
        "JOIN sys.columns AS c ON c.object_id = t.object_id "
        "JOIN sys.types AS y ON y.user_type_id = c.user_type_id "
        "WHERE t.schema_id = SCHEMA_ID(N'sqlqueue')"
    )
    return {(table, name): tuple(kind) for table, name, *kind in client.run_sql(text)}


def test_its_tables_have_the_columns_of_new_ones(remains: Remains, settings: ConnectionSettings) -> None:
    """A new column takes a migration, which creates it in existing tables as well."""
    with database(f"new_{uuid.uuid4().hex[:8]}", settings) as fresh:
        client = QueueClient(fresh)
        client.tables.create("audit", ledger=True)
        expected = columns(client)
    assert {table for table, _ in expected} >= {"Batch", "Part", "BatchMessage", "Quarantine", "Send", "Outgoing"}
    assert columns(remains.client) == expected


def test_its_manifests_and_its_stream_are_those_of_the_ledger(remains: Remains) -> None:
    """Of the stream one claim is done; the messages of another wait for the query."""
    (info,) = remains.client.streams.list()
    assert (info.name, info.done, info.claims, info.messages) == (STREAM, 1, 1, 5)
    batches = remains.client.batches
    assert {name for name, values in remains.state["references"].items() if "manifest" in values} == {"many"}
    for name, reference in remains.state["references"].items():
        batch = batches.load(reference)
        assert batch.to_reference() == reference
        assert Batch.from_dict({**remains.state["batches"].get(name, batch.to_dict())}) == batch
        assert batches.get(uuid.UUID(batch.batch_id)) == batch
    listed = {str(info.batch_id): info.state for info in batches.list()}
    assert listed.pop(remains.state["interrupted"]) == "open"
    known = {values["batch_id"] for values in remains.state["references"].values()}
    assert {batch_id: listed[batch_id] for batch_id in known} == dict.fromkeys(known, "sealed")


def test_its_interrupted_drain_goes_on(remains: Remains) -> None:
    """In the same batch, from the part that the earlier version committed on."""
    client, interrupted = remains.client, uuid.UUID(remains.state["interrupted"])
    sent = bodies_of("open", 12)
    with client.queue("audit").open() as queue:
        assert bodies(queue) == sent[5:]
        batch = drain(client.session, queue, remains.staging, batch_id=interrupted).batch
    assert (batch.messages, batch.parts) == (12, 2)
    read = list(client.batches.messages(batch))
    assert [message.body for message in read] == sent
    assert [message.headers for message in read] == [f'{{"n":"{n}"}}' for n in range(12)]


def test_its_batches_are_consumed_and_the_next_ids_are_known(remains: Remains) -> None:
    batches = remains.client.batches
    for name in ("audit", "events"):
        batch = remains.batch(name)
        assert [message.body for message in batches.messages(batch)] == bodies_of(name, 10)
        first = uuid.UUID(batch.batch_id)
        assert batches.current(first) == first
        batches.mark_consumed(batch)
        assert str(batches.current(first)) == remains.state["after"][name]


def test_its_batches_are_put_back(remains: Remains) -> None:
    """From files on a disk, from a table, and from files that a manifest file lists."""
    client = remains.client
    for name, count in {"audit": 10, "events": 10, "many": 50}.items():
        before = bodies(client.queue(name))
        batch_id = uuid.UUID(remains.state["references"][name]["batch_id"])
        for _ in range(2):
            assert client.batches.requeue(batch_id).batch.state == "requeued"
        assert bodies(client.queue(name)) == [*before, *bodies_of(name, count)], name


def test_its_sends_are_not_repeated(remains: Remains) -> None:
    events = remains.client.queue("events")
    before = bodies(events)
    assert before == [b"once"]
    events.send_once(SEND_ID, [Message({}, b"once")])
    assert bodies(events) == before
    events.send_once(uuid.uuid4(), [Message({}, b"again")])
    assert bodies(events) == [b"once", b"again"]
