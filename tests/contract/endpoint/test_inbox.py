"""Inbox: a message id is handled once, with its effects on this server."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.endpoint.recoverability import RecoverabilityOptions
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue import inbox
from tests.contract.endpoint.conftest import AT_ONCE, Consume, Seen, failing, numbered, options
from tests.drains import bodies

TRANSACTIONAL = ["sends_atomic_with_receive", "receive_only"]
WAIT = 60


def with_id(message_id: str, *texts: bytes) -> list[Message]:
    return [Message({HeaderNames.MESSAGE_ID: message_id}, text) for text in texts]


class Entered:
    """Ids that the inbox has of some queues."""

    def __init__(self, client: QueueClient, *names: str) -> None:
        self._client = client
        self._condition = " OR ".join(f"[Queue] = N'{client.resolve(name).canonical}'" for name in names)

    def age(self, days: int) -> None:
        """Make the ids older."""
        change = f"[HandledAt] = DATEADD(day, -{days}, [HandledAt])"
        self._client.run_sql(f"UPDATE [sqlqueue].[Inbox] SET {change} WHERE {self._condition}")

    def ids(self) -> list[str]:
        ids = f"SELECT [MessageId] FROM [sqlqueue].[Inbox] WHERE {self._condition} ORDER BY [MessageId]"
        return [message_id for (message_id,) in self._client.run_sql(ids)]


@pytest.mark.parametrize("mode", TRANSACTIONAL)
def test_an_id_is_handled_once_in_all_runs(orders: Queue, consume: Consume, mode: str) -> None:
    seen = Seen()
    orders.send([*with_id("a", b"first", b"second"), *with_id("b", b"other"), *with_id("A", b"another id")])
    done = consume(seen, transaction_mode=mode, inbox=True)
    assert (seen.bodies, done.handled, done.duplicates) == ([b"first", b"other", b"another id"], 3, 1)
    orders.send(with_id("a", b"third"))
    again = consume(seen, transaction_mode=mode, inbox=True)
    assert (again.handled, again.duplicates, again.messages, bodies(orders)) == (0, 1, 1, [])
    assert b"third" not in seen.bodies


def test_without_an_inbox_every_copy_is_handled(orders: Queue, consume: Consume) -> None:
    orders.send(with_id("a", b"first", b"second"))
    assert consume(Seen()).handled == 2


def test_another_queue_has_ids_of_its_own(client: QueueClient, orders: Queue, billing: Queue, consume: Consume) -> None:
    orders.send(with_id("a", b"x"))
    billing.send(with_id("a", b"x"))
    assert consume(Seen(), inbox=True).handled == 1
    assert billing.consume(Seen(), options(inbox=True)).handled == 1


@pytest.mark.parametrize("mode", TRANSACTIONAL)
def test_an_attempt_that_fails_enters_nothing(orders: Queue, error: Queue, consume: Consume, mode: str) -> None:
    """So its retries, and the message that comes back from the error queue, are handled."""
    orders.send(numbered(1))
    seen = failing(lambda number: number <= 2)
    assert consume(seen, RecoverabilityOptions(0, 0), transaction_mode=mode, inbox=True).failed == 1
    (message,) = error.receive(1)
    orders.send([Message(message.headers, message.body)])
    done = consume(seen, AT_ONCE, transaction_mode=mode, inbox=True)
    assert (done.handled, done.rolled_back, done.duplicates, len(seen.bodies)) == (1, 1, 0, 3)


def test_a_message_that_was_given_up_can_come_back(
    client: QueueClient, orders: Queue, error: Queue, consume: Consume
) -> None:
    orders.send(with_id("a", b"x"))
    done = consume(lambda message: client.errors.fail(message, ValueError("no")), inbox=True)
    assert (done.handled, done.failed) == (0, 1)
    (message,) = error.receive(1)
    orders.send([Message(message.headers, message.body)])
    assert consume(Seen(), inbox=True).handled == 1


def test_a_delayed_retry_is_handled(client: QueueClient, orders: Queue, consume: Consume) -> None:
    orders.send(with_id("a", b"x"))
    seen = failing(lambda number: number == 1)
    settings = {"until_empty": False, "max_messages": 2, "poll_seconds": 0.1, "inbox": True}
    done = consume(seen, RecoverabilityOptions(0, 1, 0.0), **settings)
    assert (done.handled, done.delayed, done.duplicates) == (1, 1, 0)


def test_messages_without_an_id_are_compared_by_their_rows(orders: Queue, consume: Consume) -> None:
    of_a_row_without_an_id = Message({}, b"2", id=uuid.UUID(int=0))
    orders.send([Message({}, b"0"), Message({}, b"1"), of_a_row_without_an_id, of_a_row_without_an_id])
    done = consume(Seen(), inbox=True)
    assert (done.handled, done.duplicates) == (4, 0)


@pytest.mark.parametrize("long", ["x" * 5_000, "\U0001f600" * 120])
def test_long_ids_are_compared_in_full(orders: Queue, consume: Consume, long: str) -> None:
    """The inbox keeps the beginning of an id, in units of UTF-16, of which an emoji takes two."""
    one, two = (long + end for end in "12")
    orders.send([*with_id(one, b"0"), *with_id(two, b"1"), *with_id(one, b"2")])
    done = consume(Seen(), inbox=True)
    assert (done.handled, done.duplicates) == (2, 1)


def test_ids_with_half_a_character_are_compared(orders: Queue, consume: Consume) -> None:
    """Endpoints before version 9.1 handle them."""
    ids = [r"\ud800", r"\udc00", r"\ud800"]
    orders.send([Message(f'{{"NServiceBus.MessageId": "{each}"}}') for each in ids])
    done = consume(Seen(), inbox=True)
    assert (done.handled, done.duplicates, done.failed) == (2, 1, 0)


def test_the_key_of_an_id_stays_that_of_earlier_versions() -> None:
    queue = ResolvedAddress("orders", "dbo", "shop")
    assert inbox._key(queue, "a") == uuid.uuid5(inbox._NAMESPACE, f"{queue.canonical}\0a")


def test_a_copy_waits_for_the_one_that_is_being_handled(orders: Queue, consume: Consume) -> None:
    """Two handlers have a copy each; whichever is first, the other finds out when it has ended."""
    orders.send(with_id("a", b"0", b"1"))
    handled = []

    def handle(message: Envelope) -> None:
        handled.append(message.body)
        # The other copy has been received before this one's transaction ends.
        while bodies(orders):
            time.sleep(0.01)

    done = orders.consume(handle, options(max_handlers=2, inbox=True))
    assert (len(handled), done.handled, done.duplicates) == (1, 1, 1)


def test_a_copy_that_waits_too_long_is_tried_again(
    client: QueueClient, orders: Queue, consume: Consume, caplog: pytest.LogCaptureFixture
) -> None:
    """It counts as no failure: one would send it to the error queue, and three in a row would end the consumer."""
    impatient = QueueClient(client.settings, client.resolver, lock_timeout=0.05)
    orders.send(with_id("a", b"0", b"1"))
    timed_out = threading.Event()
    handled = []

    def handle(message: Envelope) -> None:
        handled.append(message.body)
        assert timed_out.wait(WAIT)

    def note(done: Any) -> None:
        if done.rolled_back > 3:
            timed_out.set()

    settings = options(max_handlers=2, inbox=True, max_consecutive_failures=3)
    done = impatient.queue("orders").consume(handle, settings, on_progress=note)
    assert (len(handled), done.handled, done.duplicates, done.failed) == (1, 1, 1, 0)
    assert done.rolled_back > 3


def test_duplicates_are_left_out_of_a_batch(orders: Queue, consume: Consume) -> None:
    lists: list[list[bytes]] = []
    handlers = MessageHandlers()
    handlers.batch()(lambda messages: lists.append([message.body for message in messages]))
    orders.send([*with_id("b", b"0"), *with_id("a", b"1", b"2"), *with_id("c", b"3")])
    done = consume(handlers, inbox=True)
    assert (lists, done.handled, done.duplicates) == ([[b"0", b"1", b"3"]], 3, 1)
    orders.send(with_id("a", b"4", b"5"))
    again = consume(handlers, inbox=True)
    assert (len(lists), again.handled, again.duplicates, bodies(orders)) == (1, 0, 2, [])


def test_a_failed_batch_enters_nothing(orders: Queue, consume: Consume) -> None:
    handlers = MessageHandlers()

    @handlers.batch()
    def fail_together(messages: list[Envelope]) -> None:
        if len(messages) > 1:
            raise ValueError("together")

    orders.send([*with_id("a", b"0", b"1"), *with_id("b", b"2")])
    done = consume(handlers, AT_ONCE, inbox=True)
    assert (done.handled, done.duplicates, done.rolled_back) == (2, 1, 1)


def test_a_duplicate_is_acknowledged_to_servicecontrol(client: QueueClient, orders: Queue, consume: Consume) -> None:
    client.tables.create("acknowledged")
    client.tables.create("audit")
    retried = {
        HeaderNames.MESSAGE_ID: "a",
        HeaderNames.RETRY_UNIQUE_MESSAGE_ID: "1",
        HeaderNames.RETRY_ACKNOWLEDGEMENT_QUEUE: "acknowledged",
    }
    orders.send([*with_id("a", b"0"), Message(retried, b"1")])
    done = consume(Seen(), inbox=True, audit_queue="audit")
    assert (done.handled, done.duplicates) == (1, 1)
    assert len(bodies(client.queue("acknowledged"))) == 1
    assert bodies(client.queue("audit")) == [b"0"]


def test_old_ids_are_removed(client: QueueClient, orders: Queue, billing: Queue, consume: Consume) -> None:
    orders.send(with_id("a", b"0"))
    billing.send(with_id("b", b"0"))
    consume(Seen(), inbox=True)
    billing.consume(Seen(), options(inbox=True))
    entered = Entered(client, "orders", "billing")
    entered.age(days=3)
    consume(Seen(), inbox=True, inbox_days=4)
    assert entered.ids() == ["a", "b"]
    consume(Seen(), inbox=True, inbox_days=2)
    assert entered.ids() == ["b"], "those of another queue stay"
    orders.send(with_id("a", b"1"))
    assert consume(Seen(), inbox=True, inbox_days=2).handled == 1


def test_old_ids_are_removed_in_many_statements(
    client: QueueClient, orders: Queue, consume: Consume, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "MAX_ROWS_PER_STATEMENT", 2)
    orders.send(Message({HeaderNames.MESSAGE_ID: letter}) for letter in "abcde")
    assert consume(Seen(), inbox=True).handled == 5
    entered = Entered(client, "orders")
    entered.age(days=3)
    consume(Seen(), inbox=True, inbox_days=2)
    assert entered.ids() == []


@pytest.mark.parametrize(
    ("settings", "text"),
    [({"transaction_mode": "none"}, "An inbox needs a transaction"), ({"inbox_days": 0}, "inbox_days must be")],
)
def test_settings_of_the_inbox(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        options(inbox=True, **settings)
