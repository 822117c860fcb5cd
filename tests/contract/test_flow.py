"""Growth of queues, usage of endpoints and conversations, on any server."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.envelope.times import format_time
from airflow_sqlqueue.errors import BatchError, ConfigurationError
from airflow_sqlqueue.flow.queue_usage import RecordResult
from airflow_sqlqueue.message import HeaderNames, Message
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.server.settings import ConnectionSettings

AT = datetime(2026, 3, 2, 23, 59, 59, tzinfo=timezone.utc)
CONVERSATION = "3f0a5f0e-0001-4b1e-9a53-b2c4012f7d11"


@pytest.fixture
def client(settings: ConnectionSettings, resolver: AddressResolver, schema: str) -> QueueClient:
    """A client whose queues and ledger are in the schema of the test."""
    client = QueueClient(settings, resolver, ledger_schema=schema)
    client.tables.create("audit")
    return client


Grown = Callable[[], dict[str, int]]


@pytest.fixture
def grown(client: QueueClient, schema: str) -> Grown:
    """The recorded growth of the test's queues, over all days."""

    def read() -> dict[str, int]:
        found: dict[str, int] = {}
        for day in client.usage.queues():
            name, _, place = day.queue.partition("@")
            if place.startswith(f"[{schema}]"):
                found[name] = found.get(name, 0) + day.messages
        return found

    return read


def test_growth_counts_from_the_first_record(client: QueueClient, grown: Grown) -> None:
    client.queue("audit").send([Message()] * 5)
    client.usage.record()
    assert grown() == {"audit": 0}
    client.queue("audit").send([Message()] * 3)
    client.queue("audit").receive(8)
    assert client.usage.record().messages >= 3
    client.queue("audit").send([Message()] * 2)
    client.usage.record()
    client.usage.record()
    assert grown() == {"audit": 5}


def test_an_identity_that_begins_again_counts_from_its_beginning(client: QueueClient, grown: Grown) -> None:
    client.queue("audit").send([Message()] * 9)
    client.usage.record()
    client.tables.drop("audit", force=True)
    client.tables.create("audit")
    client.queue("audit").send([Message()] * 4)
    client.usage.record()
    assert grown() == {"audit": 4}


def test_records_at_the_same_time_count_each_message_once(client: QueueClient, grown: Grown) -> None:
    client.usage.record()
    client.queue("audit").send([Message()] * 50)
    with ThreadPoolExecutor(4) as pool:
        results = [future.result() for future in [pool.submit(client.usage.record) for _ in range(4)]]
    assert all(isinstance(result, RecordResult) for result in results)
    assert grown() == {"audit": 50}


def test_growth_of_several_days_is_shared_and_of_a_long_time_begins_anew(
    client: QueueClient, schema: str, grown: Grown
) -> None:
    client.usage.record()
    moved = "[Day] = DATEADD(day, -{1}, [Day]), [RecordedAt] = DATEADD(day, -{1}, [RecordedAt])"
    back = f"UPDATE [{{0}}].[QueueUsage] SET {moved}"
    client.run_sql(back.format(schema, 2))
    client.queue("audit").send([Message()] * 100)
    client.usage.record()
    days = [day for day in client.usage.queues() if day.queue.startswith(f"audit@[{schema}]")]
    assert sum(day.messages for day in days) == 100
    assert len(days) == 3
    assert days[1].messages in (49, 50, 51)
    client.run_sql(back.format(schema, 9))
    client.queue("audit").send([Message()] * 7)
    client.usage.record()
    assert grown() == {"audit": 100}


def test_old_days_are_removed(client: QueueClient, schema: str) -> None:
    client.usage.record()
    client.run_sql(f"UPDATE [{schema}].[QueueUsage] SET [Day] = DATEADD(day, -40, [Day])")
    client.usage.record(retain=timedelta(days=30))
    today = datetime.now(timezone.utc).date()
    assert {day.day for day in client.usage.queues(since=today - timedelta(days=400))} == {today}
    with pytest.raises(ConfigurationError, match="one day or more"):
        client.usage.record(retain=timedelta(0))


def test_without_tables_there_is_no_usage(client: QueueClient) -> None:
    assert client.usage.queues() == client.usage.endpoints() == []
    with pytest.raises(ConfigurationError, match="no whole day"):
        client.usage.report("Contoso")
    with pytest.raises(ConfigurationError, match="turn since and until around"):
        client.usage.queues(since=AT.date() + timedelta(days=1), until=AT.date())


def audited(
    number: int, related_to: int | None = None, *, endpoint: str = "Sales", conversation: str = CONVERSATION
) -> Message:
    sent = AT + timedelta(seconds=number)
    headers = {
        HeaderNames.MESSAGE_ID: f"m-{number}",
        HeaderNames.CONVERSATION_ID: conversation,
        HeaderNames.ENCLOSED_MESSAGE_TYPES: f"Shop.Type{number}, Shop",
        HeaderNames.ORIGINATING_ENDPOINT: "Web",
        HeaderNames.PROCESSING_ENDPOINT: endpoint,
        HeaderNames.TIME_SENT: format_time(sent),
        HeaderNames.PROCESSING_STARTED: format_time(sent + timedelta(milliseconds=100)),
        HeaderNames.PROCESSING_ENDED: format_time(sent + timedelta(milliseconds=200)),
    }
    if related_to is not None:
        headers[HeaderNames.RELATED_TO] = f"m-{related_to}"
    return Message(headers, b"x" * 100)


@pytest.fixture(params=["files", "table"])
def drained(request: pytest.FixtureRequest, client: QueueClient, staging: StagingFolder) -> Callable[..., Batch]:
    """Drain messages into a batch of each stage."""

    def drain(*messages: Message) -> Batch:
        client.queue("audit").send(messages)
        place = staging if request.param == "files" else None
        return client.queue("audit").drain(place, stage=request.param).batch

    return drain


def test_a_batch_counts_once_by_endpoint_type_and_day(client: QueueClient, drained: Callable[..., Batch]) -> None:
    batch = drained(audited(0), audited(0), audited(1, endpoint="Billing"))
    counted = client.usage.count_batch(batch)
    assert client.usage.count_batch(batch) == counted
    found = client.usage.endpoints(since=AT.date(), until=AT.date() + timedelta(days=1))
    assert [(day.endpoint, day.message_type, str(day.day), day.messages) for day in found] == [
        ("Billing", "Shop.Type1", "2026-03-03", 1),
        ("Sales", "Shop.Type0", "2026-03-02", 2),
    ]
    report = client.usage.report("Contoso", since=AT.date(), until=AT.date() + timedelta(days=1))
    assert {queue["QueueName"]: queue["Throughput"] for queue in report["ReportData"]["Queues"]} == {
        "Billing": 1,
        "Sales": 2,
    }


def test_a_batch_that_was_put_back_is_not_counted(client: QueueClient, drained: Callable[..., Batch]) -> None:
    batch = drained(audited(0))
    client.batches.requeue(uuid.UUID(batch.batch_id), "audit")
    with pytest.raises(BatchError):
        client.usage.count_batch(batch)


def test_a_conversation_is_found_over_batches(client: QueueClient, drained: Callable[..., Batch]) -> None:
    drained(audited(2, 1, endpoint="Billing"), audited(5, conversation=f"{CONVERSATION}0"))
    drained(audited(1), Message({"a": CONVERSATION}), Message('{"no JSON": ' + CONVERSATION))
    found = client.batches.conversation(CONVERSATION)
    assert [(step.message_id, step.related_to, step.receiver) for step in found.steps] == [
        ("m-1", None, "Sales"),
        ("m-2", "m-1", "Billing"),
    ]
    first = found.steps[0]
    assert first.sent == AT + timedelta(seconds=1)
    assert first.ended is not None
    assert first.to_dict()["started"] == "2026-03-03T00:00:00.100000+00:00"
    assert (found.batches, found.unread, found.complete) == (2, 0, True)
    assert client.batches.conversation("another").steps == ()


def test_a_search_ends_at_its_limits(
    client: QueueClient, drained: Callable[..., Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    drained(*(audited(n) for n in range(5)))
    assert client.batches.conversation(CONVERSATION, max_seconds=0).complete is False
    monkeypatch.setattr("airflow_sqlqueue.flow.conversation.MAX_STEPS", 3)
    found = client.batches.conversation(CONVERSATION)
    assert (len(found.steps), found.complete) == (3, False)


def test_a_batch_whose_files_are_gone_is_counted(client: QueueClient, tmp_path: Path) -> None:
    client.queue("audit").send([audited(1)])
    batch = client.queue("audit").drain(tmp_path).batch
    for path in batch.paths:
        Path(path.removeprefix("file://")).unlink()
    found = client.batches.conversation(CONVERSATION)
    assert (found.steps, found.batches, found.unread) == ((), 0, 1)


def test_a_conversation_with_any_id_is_found(client: QueueClient, drained: Callable[..., Batch]) -> None:
    odd = 'a "b" \\ é'
    drained(audited(1, conversation=odd), audited(2, conversation="é"))
    assert [step.message_id for step in client.batches.conversation(odd).steps] == ["m-1"]
    assert [step.message_id for step in client.batches.conversation("é").steps] == ["m-2"]
