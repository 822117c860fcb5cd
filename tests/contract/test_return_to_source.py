"""The way back from an error queue, on any server: what arrives, what stays and why, and that nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest

from airflow_sqlqueue.errorqueue.editing import edit
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.options import ReturnOptions, ReturnResult
from airflow_sqlqueue.errorqueue.rate_limit import Clock
from airflow_sqlqueue.errorqueue.returning import ReturnToSource
from airflow_sqlqueue.errors import (
    ConfigurationError,
    DeadlockError,
    MessageError,
    MessageNotFoundError,
    QueueNotFoundError,
    SqlQueueError,
    TransactionError,
)
from airflow_sqlqueue.message import HeaderNames, Message, ReceivedMessage, decode_headers
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.tables.create import create_queue
from airflow_sqlqueue.traffic.failures import FAILURES
from airflow_sqlqueue.traffic.shop import SALES
from tests.contract.conftest import Connect, run_sql

KEPT = {
    HeaderNames.MESSAGE_ID: "7e5ba2a3-0a5f-4a54-b3de-4d5a3c1f0a11",
    HeaderNames.CORRELATION_ID: "c-1",
    HeaderNames.CONVERSATION_ID: "v-1",
    HeaderNames.REPLY_TO_ADDRESS: "Storefront@[dbo]@[shop]",
    HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder, Shop",
    HeaderNames.ORIGINATING_MACHINE: "WEB-01",
    HeaderNames.PROCESSING_ENDPOINT: "Sales",
    HeaderNames.PROCESSING_MACHINE: "SALES-01",
    "Shop.Customer": "Åsa ☃ 😀",
    "Shop.Nothing": None,
}
HOUR = timedelta(hours=1)

Make = Callable[..., QueueTable]


def failed(failed_queue: str | None, body: bytes = b"\x00\xff", **changes: str | None) -> Message:
    """As an endpoint forwards it, with an expiry that an old version left."""
    failure = FAILURES[SALES][1].headers(SALES, "PlaceOrderHandler")
    headers = {
        **KEPT,
        **failure,
        HeaderNames.TIME_OF_FAILURE: "2026-03-05 14:30:00:000001 Z",
        "NServiceBus.Retries": "2",
        "NServiceBus.Retries.Timestamp": "2026-03-05 14:29:00:000001 Z",
        "NServiceBus.FLRetries": "4",
        **changes,
        HeaderNames.FAILED_Q: failed_queue,
    }
    return Message(headers, body, HOUR, uuid.uuid4())


@pytest.fixture
def make(session: Session, resolver: AddressResolver) -> Make:
    """Creates a queue."""

    def create(name: str, layout: str = "modern", **options: Any) -> QueueTable:
        create_queue(session, resolver.resolve(name), layout=layout, **options)
        return QueueTable(session, resolver.resolve(name))

    return create


@pytest.fixture
def error(make: Make) -> QueueTable:
    return make("error")


@pytest.fixture
def sales(make: Make) -> QueueTable:
    return make("Sales")


@pytest.fixture
def give_back(resolver: AddressResolver) -> Callable[..., ReturnResult]:
    """Returns messages: all of them unless a filter is given."""

    def run(
        queue: QueueTable, where: ErrorFilter | None = None, clock: Clock | None = None, **options: Any
    ) -> ReturnResult:
        wanted, progress = where or ErrorFilter(), options.pop("on_progress", None)
        given = ReturnOptions(**options)
        return ReturnToSource(queue, resolver, wanted, given, on_progress=progress, clock=clock).run()

    return run


def headers_of(message: ReceivedMessage) -> dict[str, str | None]:
    decoded = decode_headers(message.headers)
    assert decoded.problem is None
    return decoded.values


def bodies(queue: QueueTable) -> list[bytes]:
    return [message.body for message in queue.peek(2_000)]


# What arrives


@pytest.mark.parametrize(
    ("of_errors", "of_source"),
    [*((name, name) for name in ("v1", "v3.0", "v4", "modern")), ("v1", "modern"), ("modern", "v1")],
)
def test_a_round_trip(make: Make, give_back: Any, of_errors: str, of_source: str) -> None:
    error, source = make("error", of_errors), make("Sales", of_source)
    sent = [failed(source.address.canonical, b"%d" % n) for n in range(150)]
    error.send(sent)
    done = give_back(error)
    assert done.to_dict() | {"seconds": 0} == {
        "messages": 150,
        "returned": {source.address.canonical: 150},
        "left": {},
        "unseen": 0,
        "complete": True,
        "dry_run": False,
        "seconds": 0,
    }
    assert error.depth().messages == 0
    arrived = source.receive(200)
    assert [(message.id, message.body) for message in arrived] == [(message.id, message.body) for message in sent]
    for message in arrived:
        assert headers_of(message) == KEPT
        assert (message.expires, message.recoverable) == (None, True)
        assert (message.correlation_id, message.reply_to_address) == ("c-1", "Storefront@[dbo]@[shop]")


@pytest.mark.parametrize("of_errors", ["v1", "v3.0"])
def test_what_an_old_endpoint_kept_in_columns_arrives(make: Make, give_back: Any, of_errors: str) -> None:
    error, source = make("error", of_errors), make("Sales")
    run_sql(
        error.session,
        f"INSERT INTO {error.address.qualified_name} ([Id], [CorrelationId], [ReplyToAddress], Recoverable, [Headers]) "
        "VALUES (NEWID(), 'c-9', 'Billing@B-01', 0, '{\"NServiceBus.FailedQ\":\"Sales@S-01\"}')",
    )
    assert give_back(error).messages == 1
    (message,) = source.receive()
    assert headers_of(message) == {
        HeaderNames.CORRELATION_ID: "c-9",
        HeaderNames.REPLY_TO_ADDRESS: "Billing@B-01",
    }
    assert (message.correlation_id, message.reply_to_address, message.body) == ("c-9", "Billing@B-01", b"")


def test_without_legacy_columns_and_with_a_trigger(make: Make, give_back: Any, schema: str) -> None:
    error, source = make("error", legacy_columns=False), make("Sales", legacy_columns=False, body_string=True)
    run_sql(error.session, f"CREATE TRIGGER [{schema}].[watch] ON [{schema}].[error] AFTER DELETE AS SELECT 1;")
    error.send([failed("Sales"), failed("Sales")])
    assert give_back(error).messages == 2
    assert [headers_of(message) for message in source.receive(5)] == [KEPT, KEPT]


def test_every_form_of_the_failed_queue(make: Make, give_back: Any, error: QueueTable, schema: str) -> None:
    sales = make("Sales")
    catalog = sales.address.catalog
    forms = [
        "Sales",
        f"Sales@{schema}",
        f"Sales@[{schema}]",
        f"Sales@[{schema}]@[{catalog}]",
        "Sales@SALES-01",
        "Sales@WEB-01",
        "Sales@GONE-07",
    ]
    error.send(failed(form, form.encode()) for form in forms)
    assert give_back(error).returned == {sales.address.canonical: len(forms)}
    assert bodies(sales) == [form.encode() for form in forms]


def test_another_database_of_the_server(
    session: Session, error: QueueTable, give_back: Any, address_of: AddressResolver, other_catalog: str
) -> None:
    there = replace(address_of.resolve("Sales"), catalog=other_catalog)
    create_queue(session, there, layout="v4")
    error.send([failed(f"Sales@[dbo]@[{other_catalog}]")])
    assert give_back(error).returned == {there.canonical: 1}
    (message,) = QueueTable(session, there).receive()
    assert headers_of(message) == KEPT


def test_only_what_matches_is_returned(error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    error.send(failed("Sales", b"%d" % n, **{HeaderNames.MESSAGE_ID: f"m-{n % 4}"}) for n in range(8))
    rows = [message.row_version for message in error.peek(10)]
    assert give_back(error, ErrorFilter(row_versions=frozenset([rows[6]]))).messages == 1
    assert give_back(error, ErrorFilter(message_ids=frozenset(["m-1"]))).messages == 2
    assert give_back(error, ErrorFilter(exception_type="None.Such")).messages == 0
    assert bodies(sales) == [b"6", b"1", b"5"]
    assert bodies(error) == [b"0", b"2", b"3", b"4", b"7"]
    where = ErrorFilter(failed_queue="Sales", exception_type="System.InvalidOperationException")
    assert give_back(error, where).messages == 5


def test_large_bodies_go_in_transactions_of_their_own(error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    error.send(failed("Sales", bytes([n]) * 300_000) for n in range(5))
    steps: list[int] = []
    done = give_back(error, bytes_per_transaction=700_000, on_progress=lambda so_far: steps.append(so_far.messages))
    assert (steps, done.messages) == ([2, 4, 5], 5)
    assert [body[:1] for body in bodies(sales)] == [bytes([n]) for n in range(5)]


# What stays


def test_what_cannot_go_back_stays_and_says_why(
    session: Session, error: QueueTable, sales: QueueTable, give_back: Any, schema: str
) -> None:
    run_sql(session, f"CREATE TABLE [{schema}].[Table] ([Id] int NOT NULL)")
    run_sql(session, f"CREATE VIEW [{schema}].[View] AS SELECT * FROM [{schema}].[Sales]")
    stays = {
        "malformed headers": [Message("{broken"), Message('{"NServiceBus.FailedQ": "Sales", "x": 1}')],
        "no failed queue": [failed(None), Message()],
        "the failed queue's address cannot be used": [failed("@[dbo]"), failed("x" * 129), failed("#Sales")],
        "the failed queue does not exist": [failed("Gone"), failed("Sales@[nowhere]"), failed("Sales@[dbo]@[nowhere]")],
        "the failed queue cannot be sent to": [failed("Table"), failed("View")],
        "the failed queue is the error queue": [failed("error"), failed(f"error@[{schema}]")],
        "the failed queue is a .Retries satellite": [failed("Sales.Retries")],
    }
    for messages in stays.values():
        error.send([*messages, failed("Sales", b"goes")])
    before = error.depth().messages
    try:
        done = give_back(error)
    finally:
        run_sql(session, f"DROP VIEW [{schema}].[View]")
    assert done.left == {reason: len(messages) for reason, messages in stays.items()}
    assert (done.messages, done.unseen, done.complete) == (len(stays), 0, True)
    assert bodies(sales) == [b"goes"] * len(stays)
    assert error.depth().messages == before - len(stays)


def test_an_endpoint_may_be_called_retries(make: Make, error: QueueTable, give_back: Any) -> None:
    make("Card.Retries")
    error.send([failed("Card.Retries", **{HeaderNames.PROCESSING_ENDPOINT: "Card.Retries"})])
    assert give_back(error).messages == 1


def test_what_others_hold_stays(connect: Connect, error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    error.send(failed("Sales", b"%d" % n) for n in range(4))
    rows = [message.row_version for message in error.peek()]
    with connect() as other, other.transaction():
        held = QueueTable(other, error.address).take([rows[0], rows[3]])
        assert len(held) == 2
        one = give_back(error, ErrorFilter(row_versions=frozenset([rows[0], rows[1], 2**40])))
        assert (one.messages, one.left) == (1, {"not there, or locked by others": 2})
        both = ErrorFilter(row_versions=frozenset([rows[2]]), exception_type="None.Such")
        assert give_back(error, both).left == {}
        done = give_back(error)
        assert (done.messages, done.left) == (1, {})
        assert done.unseen >= 1
    assert bodies(sales) == [b"1", b"2"]
    assert give_back(error, ErrorFilter(row_versions=frozenset([rows[0]]))).left == {
        "not there, or locked by others": 1
    }


def test_what_is_taken_meanwhile_is_not_returned(
    connect: Connect, make: Make, error: QueueTable, sales: QueueTable, give_back: Any
) -> None:
    make("Billing")
    error.send([failed("Sales", b"first"), failed("Billing", b"second")])
    with connect() as other:

        def take_the_second(done: ReturnResult) -> None:
            if not done.left:
                assert [message.body for message in QueueTable(other, error.address).receive()] == [b"second"]

        done = give_back(error, on_progress=take_the_second)
    assert (done.messages, done.left) == (1, {"not there, or locked by others": 1})


def test_messages_that_fail_again_are_not_returned_twice(error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    error.send(failed("Sales", b"%d" % n) for n in range(3))

    def fail_again(done: ReturnResult) -> None:
        error.send(failed("Sales", message.body) for message in sales.receive())

    assert give_back(error, rows_per_transaction=1, on_progress=fail_again).messages == 3
    assert (bodies(error), bodies(sales)) == ([b"0", b"1", b"2"], [])


def test_one_message_that_the_server_refuses_stops_no_other(
    session: Session, error: QueueTable, sales: QueueTable, give_back: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(session, f"ALTER TABLE {sales.address.qualified_name} ADD CHECK (DATALENGTH([Body]) < 3)")
    error.send(failed("Sales", b"long" if n == 5 else b"%d" % n) for n in range(10))
    lone = json.dumps({HeaderNames.FAILED_Q: "Sales", "half": "\ud800"})
    error.send([Message(lone, b"h"), failed("Sales", b"z")])
    done = give_back(error)
    assert (done.messages, done.left) == (10, {"the server refused the message": 1, "malformed headers": 1})
    assert "1 messages stay in error@" in caplog.text
    assert "SQL Server answered with error 547." in caplog.text
    assert not {"long", "half", "Åsa"} & set(caplog.text.split())
    assert bodies(error) == [b"long", b"h"]
    assert bodies(sales) == [b"%d" % n for n in range(10) if n != 5] + [b"z"]


def test_a_queue_that_takes_nothing_does_not_stop_the_others(
    session: Session, make: Make, error: QueueTable, sales: QueueTable, give_back: Any
) -> None:
    closed, odd = make("Closed"), make("Odd")
    run_sql(session, f"ALTER TABLE {closed.address.qualified_name} ADD CHECK (1 = 0)")
    run_sql(session, f"ALTER TABLE {odd.address.qualified_name} ADD [Note] int NOT NULL")
    error.send(failed(name, name.encode()) for name in ("Closed", "Odd", "Sales") * 3)
    done = give_back(error, rows_per_transaction=2)
    assert done.returned == {sales.address.canonical: 3}
    assert done.left == {"the server refused the message": 3, "the failed queue cannot be sent to": 3}
    assert sorted(bodies(error)) == [b"Closed"] * 3 + [b"Odd"] * 3


def test_a_locked_queue_does_not_stop_the_others(
    connect: Connect, make: Make, resolver: AddressResolver, settings: Any, error: QueueTable, sales: QueueTable
) -> None:
    billing = make("Billing")
    error.send(failed(name) for name in ("Billing", "Sales") * 2)
    with connect() as other, other.transaction(), Session(settings, lock_timeout=0.2) as impatient:
        run_sql(other, f"SELECT COUNT(*) FROM {billing.address.qualified_name} WITH (TABLOCKX, HOLDLOCK)")
        queue = QueueTable(impatient, error.address)
        done = ReturnToSource(queue, resolver, ErrorFilter(), ReturnOptions(rows_per_transaction=1)).run()
        assert (done.returned, done.left) == ({sales.address.canonical: 2}, {"the failed queue is locked": 2})
    assert error.depth().messages == 2


def test_a_queue_that_is_altered_meanwhile(error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    error.send(failed("Sales", b"%d" % n) for n in range(4))

    def alter(done: ReturnResult) -> None:
        if done.messages == 1:
            name = sales.address.qualified_name
            run_sql(error.session, f"ALTER TABLE {name} DROP COLUMN [ReplyToAddress]")

    assert give_back(error, rows_per_transaction=1, on_progress=alter).messages == 4
    assert bodies(QueueTable(sales.session, sales.address)) == [b"0", b"1", b"2", b"3"]


def test_a_deadlock_is_tried_again(
    error: QueueTable, sales: QueueTable, give_back: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    error.send(failed("Sales", b"%d" % n) for n in range(3))
    send, victims = QueueTable.send, [True, True]

    def chosen_twice(queue: QueueTable, messages: Any) -> int:
        sent = send(queue, messages)
        if victims:
            victims.pop()
            raise DeadlockError("chosen")
        return sent

    monkeypatch.setattr(QueueTable, "send", chosen_twice)
    assert give_back(error).messages == 3
    assert (bodies(sales), bodies(error), victims) == ([b"0", b"1", b"2"], [], [])


def test_a_broken_connection_loses_nothing(
    connect: Connect, error: QueueTable, sales: QueueTable, resolver: AddressResolver
) -> None:
    error.send(failed("Sales", b"%d" % n) for n in range(6))
    with connect() as session:

        def cut(done: ReturnResult) -> None:
            session.close()

        options = ReturnOptions(rows_per_transaction=2)
        queue = QueueTable(session, error.address)
        with pytest.raises(SqlQueueError):
            ReturnToSource(queue, resolver, ErrorFilter(), options, on_progress=cut).run()
    assert (bodies(sales), bodies(error)) == ([b"0", b"1"], [b"2", b"3", b"4", b"5"])


# Redirect


def test_a_redirect_takes_them_all(make: Make, error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    parked = make("parked", "v1")
    poison = Message('{"größe": ', b"poison", HOUR, uuid.uuid4())
    error.send([failed("Sales"), failed("Gone"), failed(None), poison])
    done = give_back(error, redirect_to="parked")
    assert (done.returned, done.left) == ({parked.address.canonical: 3}, {"malformed headers": 1})
    assert [headers_of(message) for message in parked.receive(5)] == [KEPT] * 3
    raw = make("raw")
    assert give_back(error, redirect_to="raw", malformed=True).returned == {raw.address.canonical: 1}
    (message,) = raw.receive()
    assert (message.headers, message.body, message.id, message.expires) == (poison.headers, b"poison", poison.id, None)
    assert (error.depth().messages, sales.depth().messages) == (0, 0)


def test_a_redirect_that_cannot_be(error: QueueTable, give_back: Any, schema: str) -> None:
    error.send([failed("Sales")])
    with pytest.raises(QueueNotFoundError, match="Gone"):
        give_back(error, redirect_to="Gone")
    with pytest.raises(ConfigurationError, match="the queue they are in"):
        give_back(error, redirect_to=f"error@[{schema}]")
    assert error.depth().messages == 1


# Limits


class FakeClock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.clock = Clock(lambda: self.now, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_the_rate_is_kept(error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    error.send(failed("Sales") for _ in range(10))
    time = FakeClock()
    assert give_back(error, clock=time.clock, rate=4).seconds == 2.0
    assert time.slept == [1.0, 1.0]
    assert sales.depth().messages == 10


def test_a_budget_ends_it(error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    error.send(failed("Sales") for _ in range(20))
    some = give_back(error, max_messages=7)
    assert (some.messages, some.complete, some.unseen) == (7, False, 0)
    time = FakeClock()
    more = give_back(error, clock=time.clock, rate=2, max_seconds=2.5)
    assert (more.messages, more.complete, more.seconds) == (6, False, 2.0)
    rest = give_back(error, max_messages=7)
    assert (rest.messages, rest.complete) == (7, True)
    assert (error.depth().messages, sales.depth().messages) == (0, 20)


def test_a_dry_run_moves_nothing(error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    error.send([*(failed("Sales") for _ in range(150)), failed("Gone")])
    done = give_back(error, dry_run=True, rate=1)
    assert (done.returned, done.left) == (
        {sales.address.canonical: 150},
        {"the failed queue does not exist": 1},
    )
    assert (done.dry_run, done.complete, done.unseen) == (True, True, 0)
    assert (error.depth().messages, sales.depth().messages) == (151, 0)


def test_a_return_is_no_part_of_a_transaction(error: QueueTable, give_back: Any) -> None:
    with pytest.raises(TransactionError, match="outside of a transaction"), error.session.transaction():
        give_back(error)


# Edit


def test_an_edited_message_takes_the_place_of_the_old(
    error: QueueTable, sales: QueueTable, resolver: AddressResolver
) -> None:
    error.send([failed("Sales", b"old"), failed("Sales", b"other")])
    (old, _) = error.peek()
    edited = edit(
        error, resolver, old.row_version, body=b"new", headers={"Shop.Customer": "Bo", "Shop.Nothing": None, "x": "y"}
    )
    assert (edited.edit_of, edited.queue) == (KEPT[HeaderNames.MESSAGE_ID], sales.address.canonical)
    (message,) = sales.receive()
    headers = headers_of(message)
    new_id = headers.pop(HeaderNames.MESSAGE_ID)
    assert new_id == edited.message_id
    assert uuid.UUID(new_id) != uuid.UUID(edited.edit_of)
    expected = {name: value for name, value in KEPT.items() if name not in (HeaderNames.MESSAGE_ID, "Shop.Nothing")}
    assert headers == {**expected, "Shop.Customer": "Bo", "x": "y", "ServiceControl.EditOf": edited.edit_of}
    assert (message.body, message.expires) == (b"new", None)
    assert message.id != old.id
    assert bodies(error) == [b"other"]


def test_an_edit_can_leave_the_original(error: QueueTable, sales: QueueTable, resolver: AddressResolver) -> None:
    error.send([failed("Sales", b"old")])
    (old,) = error.peek()
    edit(error, resolver, old.row_version, headers={"x": "y"}, keep_original=True)
    assert (bodies(error), bodies(sales)) == ([b"old"], [b"old"])
    assert error.peek()[0].row_version == old.row_version


def test_poison_can_be_mended_by_an_edit(make: Make, error: QueueTable, resolver: AddressResolver) -> None:
    mended = make("mended")
    error.send([Message('{"NServiceBus.MessageId": "m-1", "tags": []}', b"x")])
    (poison,) = error.peek()
    with pytest.raises(MessageError, match=r"nowhere to go \(malformed headers\)"):
        edit(error, resolver, poison.row_version, headers={"tags": "none"})
    edit(error, resolver, poison.row_version, headers={"tags": "none"}, redirect_to="mended")
    (message,) = mended.receive()
    headers = headers_of(message)
    assert (headers["ServiceControl.EditOf"], headers["tags"], message.body) == ("m-1", "none", b"x")


def test_edits_that_cannot_be(error: QueueTable, sales: QueueTable, resolver: AddressResolver) -> None:
    error.send([failed("Sales"), failed("Gone")])
    first, second = (message.row_version for message in error.peek())
    with pytest.raises(ConfigurationError, match="Nothing is edited"):
        edit(error, resolver, first)
    with pytest.raises(ConfigurationError, match=r"NServiceBus\.MessageId of an edited message"):
        edit(error, resolver, first, headers={HeaderNames.MESSAGE_ID: "m"})
    with pytest.raises(MessageNotFoundError, match=f"RowVersion {2**40}"):
        edit(error, resolver, 2**40, body=b"")
    with pytest.raises(MessageNotFoundError, match=f"RowVersion {2**40}"):
        edit(error, resolver, 2**40, body=b"", keep_original=True)
    with pytest.raises(MessageError, match="does not exist"):
        edit(error, resolver, second, body=b"")
    with pytest.raises(MessageError, match="half a surrogate"):
        edit(error, resolver, first, headers={"x": "\ud800"})
    assert (error.depth().messages, sales.depth().messages) == (2, 0)


def test_an_edit_is_part_of_a_transaction(error: QueueTable, sales: QueueTable, resolver: AddressResolver) -> None:
    error.send([failed("Sales", b"old")])
    (old,) = error.peek()

    def edit_and_fail() -> None:
        with error.session.transaction():
            edit(error, resolver, old.row_version, body=b"new")
            raise InterruptedError

    with pytest.raises(InterruptedError):
        edit_and_fail()
    assert (bodies(error), bodies(sales)) == ([b"old"], [])


# Nothing lost, nothing doubled


def test_two_returns_at_once(connect: Connect, error: QueueTable, sales: QueueTable, resolver: AddressResolver) -> None:
    error.send(failed("Sales", b"%d" % n) for n in range(400))
    start = Barrier(2)

    def run() -> ReturnResult:
        with connect() as session:
            start.wait(30)
            options = ReturnOptions(rows_per_transaction=5)
            return ReturnToSource(QueueTable(session, error.address), resolver, ErrorFilter(), options).run()

    with ThreadPoolExecutor(2) as pool:
        first, second = (future.result(120) for future in [pool.submit(run), pool.submit(run)])
    assert first.messages + second.messages == 400
    assert Counter(bodies(sales)) == Counter(b"%d" % n for n in range(400))
    assert bodies(error) == []


CHILD = """
import sys
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.options import ReturnOptions
from airflow_sqlqueue.errorqueue.returning import ReturnToSource
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.session import Session

url, schema, where = sys.argv[1:]
settings = ConnectionSettings.from_url(url)
resolver = AddressResolver(schema, settings.database)

def stop(*_):
    print("here", flush=True)
    sys.stdin.read()

if where == "before the commit":
    send = QueueTable.send
    QueueTable.send = lambda self, messages: (send(self, messages), stop() if done else None)
done = []
with Session(settings) as session:
    queue = QueueTable(session, resolver.resolve("error"))
    tell = lambda returned: (done.append(returned), stop() if where == "between two transactions" else None)
    ReturnToSource(queue, resolver, ErrorFilter(), ReturnOptions(rows_per_transaction=7), on_progress=tell).run()
"""


@pytest.mark.parametrize("where", ["before the commit", "between two transactions"])
def test_sigkill_loses_and_doubles_nothing(
    server_url: str, error: QueueTable, sales: QueueTable, give_back: Any, schema: str, where: str
) -> None:
    expected = Counter(b"%d" % n for n in range(50))
    error.send(failed("Sales", b"%d" % n) for n in range(50))
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, server_url, schema, where],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "here\n"
        os.kill(child.pid, signal.SIGKILL)
    # A locking read waits until the server has rolled back what the dead process held.
    count = "SELECT COUNT(*) FROM {} WITH (UPDLOCK)"
    (left,), (arrived,) = (run_sql(error.session, count.format(q.address.qualified_name))[0] for q in (error, sales))
    assert (left, arrived) == (43, 7)
    assert Counter(bodies(error)) + Counter(bodies(sales)) == expected
    assert give_back(error).messages == 43
    assert Counter(bodies(sales)) == expected
