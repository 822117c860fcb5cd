"""Requests and their replies, over a real connection, on any server. Time is the tests' own: nothing sleeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import (
    AddressError,
    ConfigurationError,
    MessageError,
    NoReplyError,
    PermissionDeniedError,
    QueueNotFoundError,
    TransactionError,
)
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.publishing.conversation import Polling, Reply, request, wait_for_reply
from airflow_sqlqueue.queue.publishing.private_queue import PRIVATE_PREFIX, private_queue, sweep_private_queues
from airflow_sqlqueue.queue.tables.create import create_queue, drop_queue
from airflow_sqlqueue.queue.tables.reading import exists
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import Connect, run_sql

LAYOUTS = ["v1", "v3.0", "v4", "modern"]


class Time:
    """A clock that goes on only when somebody sleeps, and what happens then."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.happens: dict[int, Callable[[], object]] = {}

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)
        self.happens.pop(len(self.pauses), lambda: None)()

    def polling(self, timeout: float = 30) -> Polling:
        return Polling(timeout, lambda: self.now, self.sleep)


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def replies(session: Session, table: ResolvedAddress) -> Iterator[QueueTable]:
    address = replace(table, table=f"{table.table}.replies")
    create_queue(session, address)
    yield QueueTable(session, address)
    run_sql(session, f"DROP TABLE IF EXISTS {address.qualified_name}")


class Responder:
    """An endpoint that answers what it finds in its queue, through a connection of its own."""

    def __init__(self, session: Session, table: ResolvedAddress, resolver: AddressResolver) -> None:
        self.session, self.resolver = session, resolver
        self.queue = QueueTable(session, table)

    def answer(self, body: bytes = b"pong", **headers: str) -> None:
        with self.session.transaction():
            (asked,) = self.queue.receive(2)
            values = decode_headers(asked.headers).values
            reply_to = values[HeaderNames.REPLY_TO_ADDRESS]
            correlation_id = values[HeaderNames.CORRELATION_ID]
            assert reply_to is not None
            reply = {HeaderNames.CORRELATION_ID: correlation_id, HeaderNames.MESSAGE_INTENT: "Reply", **headers}
            QueueTable(self.session, self.resolver.resolve(reply_to)).send([Message(reply, body)])


@pytest.fixture
def responder(connect: Connect, table: ResolvedAddress, address_of: AddressResolver) -> Iterator[Responder]:
    with connect() as session:
        create_queue(session, table)
        yield Responder(session, table, address_of)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_round_trip_with_a_private_queue(
    connect: Connect, table: ResolvedAddress, address_of: AddressResolver, clock: Time, layout: str
) -> None:
    with connect() as other, connect() as session:
        create_queue(other, table, layout=layout)
        responder = Responder(other, table, address_of)
        clock.happens[3] = responder.answer
        with private_queue(session, address_of) as replies:
            private = replies.address
            reply = request(QueueTable(session, table), Message({"a": "1"}, b"ping"), replies, clock.polling())
            assert private.table.startswith(f"{PRIVATE_PREFIX}.")
            assert exists(session, private)
        assert (reply.body, reply.error_code, len(clock.pauses)) == (b"pong", None, 3)
        assert reply.headers[HeaderNames.MESSAGE_INTENT] == "Reply"
        assert not exists(session, private)


def test_a_request_has_the_headers_that_a_reply_needs(
    session: Session, responder: Responder, replies: QueueTable, clock: Time
) -> None:
    destination = QueueTable(session, responder.queue.address)
    seen: dict[str, str | None] = {}
    clock.happens[1] = lambda: seen.update(decode_headers(responder.queue.peek()[0].headers).values)
    with pytest.raises(NoReplyError):
        request(destination, Message({HeaderNames.MESSAGE_ID: "m-1"}), replies, clock.polling(0.01))
    assert seen.pop(HeaderNames.TIME_SENT) is not None
    assert seen == {
        HeaderNames.MESSAGE_INTENT: "Send",
        HeaderNames.MESSAGE_ID: "m-1",
        HeaderNames.CORRELATION_ID: "m-1",
        HeaderNames.REPLY_TO_ADDRESS: replies.address.canonical,
    }


def test_a_callbacks_result_is_a_number(
    session: Session, responder: Responder, replies: QueueTable, clock: Time
) -> None:
    clock.happens[1] = lambda: responder.answer(
        b"", **{HeaderNames.CONTROL_MESSAGE: "True", HeaderNames.ERROR_CODE: "5"}
    )
    reply = request(QueueTable(session, responder.queue.address), Message(), replies, clock.polling())
    assert (reply.error_code, reply.body) == (5, b"")


@pytest.mark.parametrize("text", ["", "five"])
def test_an_error_code_that_is_not_a_number_is_dropped(replies: QueueTable, clock: Time, text: str) -> None:
    replies.send([Message({HeaderNames.CORRELATION_ID: "c", HeaderNames.ERROR_CODE: text})])
    assert wait_for_reply(replies, "c", clock.polling()).error_code is None


def test_replies_of_others_stay(replies: QueueTable, clock: Time) -> None:
    others = [Message({HeaderNames.CORRELATION_ID: f"other-{n}"}) for n in range(700)]
    poison = Message("not JSON")
    expired = Message({HeaderNames.CORRELATION_ID: "mine"}, b"expired", timedelta(seconds=-1))
    mine = Message({HeaderNames.CORRELATION_ID: "mine"}, b"mine")
    replies.send([*others, poison, expired, mine, Message({HeaderNames.CORRELATION_ID: "MINE"})])
    assert wait_for_reply(replies, "mine", clock.polling()).body == b"mine"
    counted = depth(replies)
    assert (counted.messages, counted.expired) == (702, 1)
    with pytest.raises(NoReplyError):
        wait_for_reply(replies, "mine", clock.polling(0))


def test_the_column_serves_where_the_header_is_missing(replies: QueueTable, clock: Time) -> None:
    table = replies.address.qualified_name
    columns = "[Id], [CorrelationId], [Recoverable], [Headers], [Body]"
    run_sql(replies.session, f"INSERT INTO {table} ({columns}) VALUES (NEWID(), 'c-1', 1, '{{}}', 0x01)")
    assert wait_for_reply(replies, "c-1", clock.polling()).body == b"\1"


def test_a_reply_is_found_by_its_header_where_the_column_is_missing(replies: QueueTable, clock: Time) -> None:
    table = replies.address.qualified_name
    run_sql(replies.session, f"ALTER TABLE {table} DROP COLUMN [CorrelationId], [ReplyToAddress], [Recoverable]")
    replies.send([Message({HeaderNames.CORRELATION_ID: "c-1"})])
    assert wait_for_reply(replies, "c-1", clock.polling()).headers == {HeaderNames.CORRELATION_ID: "c-1"}


def test_a_locked_reply_is_waited_for(connect: Connect, replies: QueueTable, clock: Time) -> None:
    replies.send([Message({HeaderNames.CORRELATION_ID: "c-1"})])
    with connect() as other:
        other.begin()
        assert len(QueueTable(other, replies.address).receive()) == 1
        clock.happens[2] = other.roll_back
        assert isinstance(wait_for_reply(replies, "c-1", clock.polling()), Reply)
    assert len(clock.pauses) == 2


def test_the_pauses_grow_and_end_with_the_timeout(replies: QueueTable, clock: Time) -> None:
    with pytest.raises(NoReplyError, match=r"within 10 seconds") as raised:
        wait_for_reply(replies, "c-1", clock.polling(10))
    assert isinstance(raised.value, TimeoutError)
    assert sum(clock.pauses) == pytest.approx(10)
    *growing, last = clock.pauses
    assert growing == sorted(growing)
    assert clock.pauses[0] == 0.05
    assert max(growing) == 2
    assert last <= 2


def test_a_reply_in_the_last_moment_counts(replies: QueueTable, clock: Time) -> None:
    clock.happens[1] = lambda: replies.send([Message({HeaderNames.CORRELATION_ID: "c-1"}, b"late")])
    assert wait_for_reply(replies, "c-1", clock.polling(0.01)).body == b"late"


@pytest.mark.parametrize("timeout", [-1, float("nan"), 1e10])
def test_a_negative_timeout_is_refused(timeout: float) -> None:
    with pytest.raises(ConfigurationError, match="give a number of seconds, 0 to 1,000,000,000"):
        Polling(timeout)


def test_a_sweep_drops_the_private_queues_that_no_process_waits_at(
    connect: Connect, address_of: AddressResolver
) -> None:
    prefix = f"test{uuid4().hex[:10]}"
    left, other = address_of.resolve(f"{prefix}.{uuid4()}"), address_of.resolve(f"{prefix}.orders")
    with (
        connect() as session,
        connect() as looking,
        connect() as waiting,
        private_queue(waiting, address_of, prefix=prefix) as used,
    ):
        for table in (left, other):
            create_queue(session, table)
        QueueTable(session, left).send([Message(body=b"too late")])
        assert sweep_private_queues(looking, address_of, prefix=prefix, dry_run=True) == [left]
        assert exists(session, left)
        assert sweep_private_queues(session, address_of, prefix=prefix) == [left]
        assert [exists(session, table) for table in (left, used.address, other)] == [False, True, True]
        assert sweep_private_queues(session, address_of, prefix=prefix) == []
        drop_queue(session, other)


def test_a_sweep_passes_over_a_private_queue_that_it_cannot_drop(
    session: Session, address_of: AddressResolver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = f"test{uuid4().hex[:10]}"
    gone, kept, last = made = sorted((address_of.resolve(f"{prefix}.{uuid4()}") for _ in range(3)), key=str)
    for table in made:
        create_queue(session, table)
    failures = {gone: QueueNotFoundError("It is gone."), kept: PermissionDeniedError("It is another's.")}

    def drop(session: Session, table: ResolvedAddress, *, force: bool) -> None:
        if table in failures:
            raise failures[table]
        drop_queue(session, table, force=force)

    with monkeypatch.context() as patch:
        patch.setattr("airflow_sqlqueue.queue.publishing.private_queue.drop_queue", drop)
        assert sweep_private_queues(session, address_of, prefix=prefix) == [last]
    assert f"The private queue {kept.canonical} is not dropped: It is another's." in caplog.text
    assert gone.canonical not in caplog.text
    assert sorted(sweep_private_queues(session, address_of, prefix=prefix), key=str) == [gone, kept]


def test_a_private_queue_goes_with_the_error_that_ends_it(session: Session, address_of: AddressResolver) -> None:
    made: list[ResolvedAddress] = []

    def fail() -> None:
        with private_queue(session, address_of) as replies:
            made.append(replies.address)
            replies.send([Message()])
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    assert not exists(session, made[0])


def test_a_private_queue_that_cannot_be_dropped_is_named(
    session: Session, address_of: AddressResolver, caplog: pytest.LogCaptureFixture
) -> None:
    with private_queue(session, address_of) as replies:
        replies.send([Message()])
        run_sql(session, f"DROP TABLE {replies.address.qualified_name}")
    assert f"The private queue {replies.address.canonical} is left behind for a sweep" in caplog.text


def test_a_request_with_headers_as_text_or_inside_a_transaction_is_refused(
    session: Session, responder: Responder, replies: QueueTable, address_of: AddressResolver, clock: Time
) -> None:
    destination = QueueTable(session, responder.queue.address)
    with pytest.raises(MessageError, match="headers are text"):
        request(destination, Message("{}"), replies, clock.polling())
    with session.transaction():
        with pytest.raises(TransactionError, match="outside the transaction"):
            request(destination, Message(), replies, clock.polling())
        with pytest.raises(TransactionError, match="outside the transaction"), private_queue(session, address_of):
            pass
    assert depth(responder.queue).messages == 0


def test_a_reply_goes_to_allowed_queues_alone(settings: ConnectionSettings, queue_name: str) -> None:
    # Whoever sends a request chooses where the reply goes, and our login may reach more than he does.
    client = QueueClient(settings)
    client.tables.create(queue_name)
    asked = {HeaderNames.MESSAGE_ID: "1", HeaderNames.REPLY_TO_ADDRESS: queue_name}
    assert client.reply(Envelope(asked), {"ok": 1}, endpoint="Us") == client.resolve(queue_name).canonical
    (reply,) = client.queue(queue_name).receive(10)
    assert decode_headers(reply.headers).values[HeaderNames.CORRELATION_ID] == "1"
    elsewhere = Envelope({**asked, HeaderNames.REPLY_TO_ADDRESS: f"{queue_name}@[dbo]@[master]"})
    with pytest.raises(AddressError, match="outside of the allowed databases"):
        client.reply(elsewhere, {"ok": 1}, endpoint="Us")
    strict = QueueClient(settings, AddressResolver(default_catalog=settings.database, allowed_schemas=["nsb"]))
    with pytest.raises(AddressError, match="outside of the allowed databases"):
        strict.reply(Envelope(asked), {"ok": 1}, endpoint="Us")
    assert client.queue(queue_name).depth().messages == 0


def test_a_reply_is_part_of_the_transaction(settings: ConnectionSettings, queue_name: str) -> None:
    client = QueueClient(settings)
    client.tables.create(queue_name)
    asked = Envelope({HeaderNames.MESSAGE_ID: "1", HeaderNames.REPLY_TO_ADDRESS: queue_name})

    def reply_and_fail() -> None:
        with client.transaction():
            client.reply(asked, b"", endpoint="Us")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        reply_and_fail()
    assert client.queue(queue_name).depth().messages == 0
