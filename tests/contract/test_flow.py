"""Conversations of messages in batches, on any server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain import batch_reader
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.options.budget import Budget
from airflow_sqlqueue.server.settings import ConnectionSettings

AT = datetime(2026, 3, 2, 23, 59, 59, tzinfo=timezone.utc)
CONVERSATION = "3f0a5f0e-0001-4b1e-9a53-b2c4012f7d11"


@pytest.fixture
def client(settings: ConnectionSettings, resolver: AddressResolver, schema: str) -> QueueClient:
    """A client whose queues and ledger are in the schema of the test."""
    client = QueueClient(replace(settings, ledger_schema=schema), resolver)
    client.tables.create("audit")
    return client


def audited(
    number: int,
    related_to: int | None = None,
    *,
    endpoint: str = "Sales",
    conversation: str = CONVERSATION,
    after: int | None = None,
) -> Message:
    sent = AT + timedelta(seconds=number if after is None else after)
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


def test_steps_of_one_moment_are_in_the_order_of_their_ids(client: QueueClient, drained: Callable[..., Batch]) -> None:
    drained(*(audited(number, after=0) for number in (3, 1, 4, 2)))
    found = client.batches.conversation(CONVERSATION)
    assert [step.message_id for step in found.steps] == ["m-1", "m-2", "m-3", "m-4"]


def test_a_search_ends_at_its_limits(
    client: QueueClient, drained: Callable[..., Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    drained(*(audited(n) for n in range(5)))
    assert client.batches.conversation(CONVERSATION, max_seconds=0).complete is False
    monkeypatch.setattr("airflow_sqlqueue.client.conversation.MAX_STEPS", 3)
    found = client.batches.conversation(CONVERSATION)
    assert (len(found.steps), found.complete) == (3, False)


@pytest.mark.parametrize("text", ["nothing of it", f"{CONVERSATION}, but not as its id"])
def test_a_search_ends_within_a_batch(
    client: QueueClient, drained: Callable[..., Batch], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Headers that repeat are small in a file, and large when they are read."""
    monkeypatch.setattr("airflow_sqlqueue.drain.batch_reader._ROWS", 10)
    drained(*(Message({"a": text}) for _ in range(100)))
    read = []
    monkeypatch.setattr("airflow_sqlqueue.client.batch_manager.Budget", partial(Budget, clock=lambda: len(read)))
    pages = batch_reader.batch_headers

    def noting(*arguments: Any) -> Iterator[list[str]]:
        for page in pages(*arguments):
            read.append(page)
            yield page

    monkeypatch.setattr(batch_reader, "batch_headers", noting)
    found = client.batches.conversation(CONVERSATION, max_seconds=1)
    assert (found.steps, found.complete, len(read)) == ((), False, 1)


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
