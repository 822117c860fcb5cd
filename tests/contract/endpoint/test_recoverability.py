"""Recoverability: messages that cannot be handled, on the server."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.endpoint.recoverability import FailureLog, RecoverabilityOptions
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue.inspection.overview import DatabaseOverview
from airflow_sqlqueue.queue.tables.create import delayed_address
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.transactions import MODES
from tests.contract.endpoint.conftest import AT_ONCE, ONCE, Consume, Seen, headers, numbered, options
from tests.drains import bodies

SECRET = "the customer's card 4711"


class Declined(Exception):
    """A handler's own."""


def decline(message: Envelope) -> None:
    try:
        raise KeyError(SECRET)
    except KeyError as error:
        raise Declined(f"declined: {SECRET} \ud800") from error


def delayed(client: QueueClient) -> list[dict[str, str | None]]:
    return [decode_headers(message.headers).values for message in client.delayed("orders").list()]


def test_failures_of_one_kind_are_one_line_and_their_number(
    orders: Queue, error: Queue, consume: Consume, caplog: pytest.LogCaptureFixture
) -> None:
    """Every other line is for debugging, and none has the text of an exception."""
    orders.send(numbered(40))
    orders.send([Message("no JSON")])

    def fail(message: Envelope) -> None:
        raise (KeyError if int(message.body) % 2 else ValueError)(SECRET)

    with caplog.at_level(logging.DEBUG, "airflow_sqlqueue"):
        done = consume(fail, AT_ONCE)
    assert (done.rolled_back, done.failed) == (120, 41)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert sorted(line.rpartition("' ")[2].split(",")[0] for line in lines[:-1] if "as it is" not in line) == [
        "failed with KeyError",
        "failed with ValueError",
        "goes to the error queue after KeyError",
        "goes to the error queue after ValueError",
    ]
    assert len(lines) == 6
    assert sorted(lines[-1].removeprefix("Failures: ").split("; ")) == [
        "1 malformed messages",
        "20 messages to the error queue after KeyError",
        "20 messages to the error queue after ValueError",
        "60 attempts failed with KeyError",
        "60 attempts failed with ValueError",
    ]
    assert SECRET not in caplog.text


def test_failures_that_go_on_have_a_line_in_each_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    failures = FailureLog()
    for now in (0.0, 1.0, 59.0, 60.0, 61.0, 121.0):
        failures.note(logging.WARNING, "attempts", "at %s", now)
    assert [record.args for record in caplog.records] == [(0.0,), (60.0,), (121.0,)]


def test_a_message_is_tried_at_once_and_then_given_up(
    client: QueueClient, orders: Queue, error: Queue, consume: Consume, caplog: pytest.LogCaptureFixture
) -> None:
    sent = {HeaderNames.MESSAGE_ID: "id-0", HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder", "Own": "Grüße"}
    orders.send(
        [Message({**sent, "NServiceBus.FLRetries": "2", "NServiceBus.Retries": "9"}, b"\x00\xff"), *numbered(1)]
    )
    seen = Seen(lambda message: decline(message) if message.body == b"\x00\xff" else None)
    with caplog.at_level(logging.DEBUG, "airflow_sqlqueue"):
        done = consume(seen, AT_ONCE)
    assert seen.bodies == [b"\x00\xff"] * 3 + [b"0"]
    assert (done.rolled_back, done.failed, done.handled) == (3, 1, 1)
    assert SECRET not in caplog.text
    assert "Declined" in caplog.text
    (failed,) = error.receive()
    found = headers(failed)
    assert failed.body == b"\x00\xff"
    kept = {name: value for name, value in found.items() if name in sent}
    assert kept == sent
    assert found.keys().isdisjoint({HeaderNames.IMMEDIATE_RETRIES, HeaderNames.DELAYED_RETRIES})
    failure = Envelope.of(failed).failure
    assert failure.exception_type == f"{__name__}.Declined"
    assert failure.inner_exception_type == "KeyError"
    assert failure.exception_message == f"declined: {SECRET} ?"
    assert "in decline" in str(failure.stack_trace)
    assert failure.exception_source == __name__
    assert found[HeaderNames.EXCEPTION_HELP_LINK] is None
    assert failure.failed_queue == client.resolve("orders").canonical
    assert failure.time_of_failure is not None
    assert abs(failure.time_of_failure - datetime.now(timezone.utc)) < timedelta(minutes=10)
    audit = Envelope.of(failed).audit
    assert (audit.processing_endpoint, audit.processing_machine) == ("orders", socket.gethostname())


def test_error_commands_understand_its_messages(
    client: QueueClient, orders: Queue, error: Queue, consume: Consume
) -> None:
    orders.send(numbered(3))
    consume(decline, endpoint="Shop.Orders")
    (group,) = client.errors.triage().groups
    assert (group.messages, group.values["exception_type"]) == (3, f"{__name__}.Declined")
    assert client.errors.return_to_source(all_messages=True).messages == 3
    assert bodies(orders) == [b"0", b"1", b"2"]
    (again, *_) = orders.receive()
    assert headers(again) == {
        HeaderNames.MESSAGE_ID: "id-0",
        HeaderNames.PROCESSING_ENDPOINT: "Shop.Orders",
        HeaderNames.PROCESSING_MACHINE: socket.gethostname(),
    }


def test_rounds_wait_in_the_table_of_delayed_messages(
    client: QueueClient, orders: Queue, error: Queue, consume: Consume
) -> None:
    """By the server's clock, and each longer than the last; the message says how many there were."""
    orders.send(numbered(1))
    slowly = RecoverabilityOptions(immediate_retries=1, delayed_retries=2, delayed_retry_seconds=3600)
    for rounds in (1, 2):
        seen = Seen(decline)
        done = consume(seen, slowly)
        assert (len(seen.bodies), done.delayed, done.failed) == (2, 1, 0)
        (message,) = client.delayed("orders").list()
        (waiting,) = delayed(client)
        assert waiting[HeaderNames.MESSAGE_ID] == "id-0"
        assert waiting[HeaderNames.DELAYED_RETRIES] == str(rounds)
        now = client.run_sql("SELECT SYSUTCDATETIME()")[0][0].replace(tzinfo=timezone.utc)
        assert timedelta(minutes=50) < message.due - now - timedelta(hours=rounds - 1) <= timedelta(minutes=60)
        due_now(client)
    assert consume(decline, slowly).failed == 1
    (failed,) = error.receive()
    assert headers(failed)[HeaderNames.MESSAGE_ID] == "id-0"
    assert HeaderNames.DELAYED_RETRIES not in headers(failed)


def due_now(client: QueueClient) -> None:
    table = delayed_address(client.resolver, "orders").qualified_name
    client.run_sql(f"UPDATE {table} SET [Due] = DATEADD(hour, -1, GETUTCDATE())")


def test_a_round_begins_while_messages_are_waited_for(orders: Queue, consume: Consume) -> None:
    orders.send(numbered(1))
    quickly = RecoverabilityOptions(immediate_retries=0, delayed_retries=1, delayed_retry_seconds=0.1)

    def fail_once(message: Envelope) -> None:
        if message.recoverability.delayed_retries is None:
            raise Declined

    done = consume(fail_once, quickly, until_empty=False, max_messages=2, max_seconds=60)
    assert (done.delayed, done.handled) == (1, 1)


def test_after_a_day_there_is_no_other_round(orders: Queue, error: Queue, consume: Consume) -> None:
    long_ago = format_time(datetime.now(timezone.utc) - timedelta(hours=25))
    orders.send([Message({"NServiceBus.Retries": "1", "NServiceBus.Retries.Timestamp": long_ago}, b"0")])
    done = consume(decline, RecoverabilityOptions(immediate_retries=0))
    assert (done.delayed, done.failed) == (0, 1)


def test_without_a_table_for_them_there_are_no_rounds_and_the_log_says_so_once(
    client: QueueClient, billing: Queue, error: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    billing.send(numbered(2))
    done = billing.consume(decline, options(RecoverabilityOptions(immediate_retries=0)))
    assert (done.delayed, done.failed) == (0, 2)
    assert caplog.text.count("There is no table billing.Delayed@") == 1


class Panic(BaseException):
    """What packages that are written in Rust raise, such as Polars: its base is no Exception."""


def panic(message: object = None) -> None:
    raise Panic


@pytest.mark.parametrize("refuse", [decline, panic])
def test_some_exceptions_are_not_tried_again(
    orders: Queue, error: Queue, consume: Consume, refuse: Callable[[object], None]
) -> None:
    orders.send(numbered(1))
    seen = Seen(refuse)
    done = consume(seen, RecoverabilityOptions(unrecoverable=(Declined, Panic)))
    assert (len(seen.bodies), done.failed, done.delayed) == (1, 1, 0)


async def cancel_a_task() -> None:
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    await task


ENDS: dict[bytes, tuple[Callable[[], object], str]] = {
    **{b"%d" % n: (partial(sys.exit, code), "SystemExit") for n, code in enumerate((None, 0, 3, "why"))},
    # It is no Exception either, and comes out of asyncio.run as it is.
    b"4": (lambda: asyncio.run(cancel_a_task()), "CancelledError"),
    b"5": (panic, "Panic"),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_function_that_ends_the_program_fails_for_its_message(
    orders: Queue, error: Queue, consume: Consume, mode: str
) -> None:
    def handle(message: Envelope) -> None:
        if message.body in ENDS:
            ENDS[message.body][0]()

    orders.send(numbered(8))
    done = consume(handle, transaction_mode=mode)
    assert (done.handled, done.failed) == (2, 6)
    failed = error.receive(9)
    assert [message.body for message in failed] == list(ENDS)
    for message, (_, named) in zip(failed, ENDS.values(), strict=True):
        assert named in str(headers(message)[HeaderNames.EXCEPTION_MESSAGE])


@pytest.mark.parametrize("mode", MODES)
def test_headers_that_cannot_be_read_go_to_the_error_queue_as_they_are(
    orders: Queue, error: Queue, consume: Consume, mode: str
) -> None:
    texts = ["not json", '{"a": 1}', "[]"]
    orders.send([*(Message(text, b"poison") for text in texts), *numbered(1)])
    before = orders.peek(3)
    seen = Seen()
    done = consume(seen, transaction_mode=mode)
    assert (done.failed, done.handled, seen.bodies) == (3, 1, [b"0"])
    after = error.receive(9)
    assert [(each.id, each.body) for each in after] == [(each.id, b"poison") for each in before]
    assert [each.headers for each in after] == texts


def test_headers_that_cannot_be_written_again_stay_as_they_are(orders: Queue, error: Queue, consume: Consume) -> None:
    """Half a surrogate pair, which the handler may see and which nothing can be added to."""
    text = '{"half":"\\ud800"}'
    orders.send([Message(text, b"0")])
    done = consume(decline, RecoverabilityOptions(immediate_retries=1))
    assert (done.failed, done.delayed, done.rolled_back) == (1, 0, 2)
    assert error.receive()[0].headers == text


def test_a_broken_exception_is_one_all_the_same(orders: Queue, error: Queue, consume: Consume) -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def fail(message: Envelope) -> None:
        raise Broken

    orders.send(numbered(1))
    assert consume(fail).failed == 1
    assert str(headers(error.receive()[0])[HeaderNames.EXCEPTION_TYPE]).endswith("Broken")


def test_long_texts_are_cut(orders: Queue, error: Queue, consume: Consume) -> None:
    def fail(message: Envelope) -> None:
        raise Declined("x" * 100_000)

    orders.send(numbered(1))
    consume(fail)
    found = headers(error.receive()[0])
    assert found[HeaderNames.EXCEPTION_MESSAGE] == "x" * 16_384
    assert len(str(found[HeaderNames.EXCEPTION_STACK_TRACE])) == 16_384


def test_delayed_messages_for_others_are_forwarded(
    client: QueueClient, orders: Queue, billing: Queue, error: Queue, consume: Consume
) -> None:
    """An endpoint's mover leaves them in the input queue, with their destination; this one has no such queue."""
    to = HeaderNames.FORWARD_DESTINATION
    own, there, nowhere = (client.resolve(name).canonical for name in ("orders", "billing", "missing"))
    orders.send([Message({to: there}, b"there"), Message({to: own}, b"own"), Message({to: nowhere}, b"nowhere")])
    seen = Seen()
    done = consume(seen, RecoverabilityOptions())
    assert (done.forwarded, done.handled, done.failed, done.rolled_back) == (1, 1, 1, 1)
    assert seen.bodies == [b"own"]
    (forwarded,) = billing.receive()
    assert forwarded.body == b"there"
    assert to not in headers(forwarded)
    (failed,) = error.receive()
    assert headers(failed)[HeaderNames.FAILED_Q] == nowhere
    assert to not in headers(failed)


def test_a_copy_of_a_delayed_message_does_not_come_back(client: QueueClient, orders: Queue, consume: Consume) -> None:
    """Another queue's endpoint forwards what names a destination; the mover of .NET leaves it in the headers."""
    to, found = HeaderNames.FORWARD_DESTINATION, list[Envelope]()
    alone, together = MessageHandlers(), MessageHandlers()
    alone.default(found.append)
    together.batch()(found.extend)
    for handlers in (alone, together):
        orders.send([Message({to: client.resolve("orders").canonical, "kept": ""})] * 2)
        consume(handlers)
    assert [(to in envelope.headers, "kept" in envelope.headers) for envelope in found] == [(False, True)] * 4


def test_a_message_is_failed_by_hand(client: QueueClient, orders: Queue, error: Queue) -> None:
    orders.send(numbered(2))
    reason = Declined("no such order")
    with client.transaction():
        (message,) = orders.receive()
        client.errors.fail(message, reason, failed_queue="orders", endpoint="Shop.Orders")
    assert bodies(orders) == [b"1"]
    (failed,) = client.errors.triage().groups
    assert failed.values["exception_type"] == f"{__name__}.Declined"
    (received,) = error.receive()
    assert headers(received)[HeaderNames.PROCESSING_ENDPOINT] == "Shop.Orders"
    with pytest.raises(ValueError, match="give failed_queue"):
        client.errors.fail(received, reason)


def test_a_handler_fails_a_message_without_retries(
    client: QueueClient, orders: Queue, error: Queue, consume: Consume
) -> None:
    orders.send(numbered(1))

    def fail(message: Envelope) -> None:
        client.errors.fail(message, Declined("no such order"))

    done = consume(fail, RecoverabilityOptions())
    assert (done.handled, done.failed, done.rolled_back) == (0, 1, 0)
    assert headers(error.receive()[0])[HeaderNames.FAILED_Q] == client.resolve("orders").canonical


@pytest.mark.parametrize("mode", MODES)
def test_a_handler_that_raises_after_it_failed_a_message_fails_it_once(
    client: QueueClient, orders: Queue, error: Queue, consume: Consume, mode: str
) -> None:
    orders.send(numbered(1))

    def fail_and_raise(message: Envelope) -> None:
        client.errors.fail(message, Declined("no such order"))
        raise KeyError(SECRET)

    done = consume(fail_and_raise, ONCE, transaction_mode=mode)
    assert (done.handled, done.failed) == (0, 1)
    assert len(error.receive(10)) == 1


def test_a_handler_fails_a_message_of_another_queue_into_its_own_error_queue(
    client: QueueClient, orders: Queue, billing: Queue, error: Queue, consume: Consume
) -> None:
    orders.send(numbered(1))

    def fail(message: Envelope) -> None:
        client.errors.fail(message, Declined("no such order"), failed_queue="orders")

    consume(fail, replace(ONCE, error_queue="billing"))
    assert error.receive() == []
    assert headers(billing.receive()[0])[HeaderNames.FAILED_Q] == client.resolve("orders").canonical


@pytest.mark.parametrize("mode", MODES)
def test_a_message_stays_when_the_error_queue_is_gone(
    client: QueueClient, orders: Queue, consume: Consume, mode: str
) -> None:
    orders.send(numbered(1))

    def drop(message: Envelope) -> None:
        dropped = threading.Thread(target=client.tables.drop, args=("error",))
        dropped.start()
        dropped.join()
        raise Declined

    with pytest.raises(Exception, match="error"):
        consume(drop, ONCE, transaction_mode=mode)
    assert bodies(orders) == [b"0"]


def test_old_layouts_keep_the_values_of_columns(client: QueueClient, error: Queue) -> None:
    """Versions 1 and 2 read the correlation id from its column; a table of delayed messages has none."""
    client.tables.create("old", layout="v1")
    client.tables.create("old", delayed=True)
    table = client.resolve("old").qualified_name
    client.run_sql(
        f"INSERT INTO {table} ([Id], [CorrelationId], [ReplyToAddress], [Recoverable], [Headers], [Body]) "
        "VALUES (NEWID(), 'c-1', 'Sales', 1, '', 0x30)"
    )
    envelopes: list[Any] = []

    def see(message: Envelope) -> None:
        envelopes.append(message)
        raise Declined

    later = RecoverabilityOptions(immediate_retries=0, delayed_retries=1, delayed_retry_seconds=3600)
    assert client.queue("old").consume(see, options(later)).delayed == 1
    assert envelopes[0].routing.reply_to_address == "Sales"
    (waiting,) = client.delayed("old").list()
    found = Envelope.of(waiting.headers)
    assert (found.identity.correlation_id, found.identity.message_id) == ("c-1", str(envelopes[0].row_id))


def test_delayed_messages_wait_in_the_table_with_the_suffix_of_the_settings(
    settings: ConnectionSettings, resolver: AddressResolver
) -> None:
    client = QueueClient(settings, replace(resolver, delayed_suffix="Later"), lock_timeout=10)
    client.tables.create("sales", delayed=True)
    client.tables.create("error")
    sales, waiting = client.queue("sales"), client.delayed("sales")
    sales.send([Message({}, b"1")])
    retries = RecoverabilityOptions(immediate_retries=0, delayed_retries=1, delayed_retry_seconds=3_600)
    assert sales.consume(decline, options(retries)).delayed == 1
    assert waiting.address.table == "sales.Later"
    assert (len(waiting.list()), sales.backlog().delayed) == (1, 1)
    catalog, schema = waiting.address.catalog, waiting.address.schema
    overview = DatabaseOverview(catalog, delayed_suffix="Later")
    with client.session() as session:
        found = {(each.table.table, each.table.schema): each.delayed for each in overview.read(session)}
    assert found["sales", schema] == 1
