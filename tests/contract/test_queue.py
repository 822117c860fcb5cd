"""The queue operations, over a real connection, on any server."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone

import pytest

from airflow_sqlqueue.errors import (
    ConfigurationError,
    LoginFailedError,
    NotAQueueError,
    QueueNotFoundError,
    ServerUnreachableError,
)
from airflow_sqlqueue.messages.message import Message, decode_headers
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.messages.row import ROW_VERSION
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import browse
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.purge import PurgeOptions, purge
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from tests.contract.conftest import Connect
from tests.contract.test_layouts import add_trigger


def receive_bodies(queue: QueueTable, count: int = 2000) -> list[bytes]:
    return [message.body for message in queue.receive(count)]


def test_send_then_receive_in_order(queue: QueueTable) -> None:
    headers = {"NServiceBus.CorrelationId": "c-1", "Grüße": "☃ 😀", "none": None}
    assert queue.send(Message(headers, f"{n}".encode()) for n in range(300)) == 300
    first = queue.receive(1)[0]
    assert first.body == b"0"
    assert decode_headers(first.headers).values == headers
    assert first.correlation_id == headers["NServiceBus.CorrelationId"]
    assert first.recoverable is True
    assert receive_bodies(queue) == [f"{n}".encode() for n in range(1, 300)]
    assert queue.receive(1) == []


def test_peek_removes_nothing(queue: QueueTable) -> None:
    queue.send([Message(body=b"a"), Message(body=b"b"), Message(body=b"c")])
    assert [message.body for message in queue.peek(2)] == [b"a", b"b"]
    assert depth(queue).messages == 3


def test_bodies_of_all_sizes_come_back(queue: QueueTable) -> None:
    sent = [b"", b"\0", bytes(range(256)), b"x" * 8001, b"y" * 5_000_000]
    queue.send(Message(body=body) for body in sent)
    assert receive_bodies(queue) == sent


def test_ids_are_kept(queue: QueueTable) -> None:
    identity = uuid.uuid4()
    queue.send([Message(id=identity)])
    assert queue.receive()[0].id == identity


def test_headers_text_is_kept_as_it_is(queue: QueueTable) -> None:
    queue.send([Message(headers='{"broken": '), Message(headers="")])
    assert [message.headers for message in queue.receive(2)] == ['{"broken": ', ""]


def test_expiry_is_by_the_servers_clock(queue: QueueTable) -> None:
    lifetimes = [None, timedelta(days=40), timedelta(seconds=-1), timedelta(0)]
    queue.send(Message(body=b"%d" % n, time_to_be_received=lifetime) for n, lifetime in enumerate(lifetimes))
    received = queue.receive(10, keep_expired=True)
    assert [message.expired for message in received] == [False, False, True, True]
    assert received[0].expires is None
    assert received[1].expires is not None
    away = received[1].expires - datetime.now(timezone.utc)
    assert timedelta(days=39, hours=23) < away < timedelta(days=40, hours=1)


def test_a_lifetime_beyond_the_calendar_is_never_and_long_ago(any_queue: QueueTable) -> None:
    lifetimes = [timedelta.max, timedelta(days=10_675_199), timedelta(days=2_900_000), timedelta.min]
    any_queue.send(Message(body=b"%d" % n, time_to_be_received=lifetime) for n, lifetime in enumerate(lifetimes))
    received = any_queue.receive(10, keep_expired=True)
    assert [message.expires is None for message in received] == [True, True, False, False]
    assert [message.expired for message in received] == [False, False, False, True]


def test_depth_counts_expired_apart(queue: QueueTable) -> None:
    queue.send([Message(), Message(), Message(time_to_be_received=timedelta(seconds=-5))])
    counted = depth(queue)
    assert (counted.messages, counted.expired) == (2, 1)
    assert depth(queue, limit=1).messages == 1


def test_a_locked_message_is_passed_over(connect: Connect, queue: QueueTable) -> None:
    queue.send([Message(body=b"first"), Message(body=b"second")])
    with connect() as other_session:
        other = QueueTable(other_session, queue.address)
        with other_session.transaction():
            assert receive_bodies(other, 1) == [b"first"]
            assert depth(queue).messages == 1
            assert [message.body for message in queue.peek()] == [b"second"]
            assert receive_bodies(queue, 1) == [b"second"]
            assert queue.receive() == []
            assert queue.count_left(2**62) >= 1
    assert queue.count_left(2**62) == 0


@pytest.mark.parametrize("count", [1, 2, 17, 300, 1_100])
def test_messages_are_taken_by_their_row_versions(queue: QueueTable, count: int) -> None:
    queue.send(Message(body=b"%d" % n) for n in range(count + 1))
    wanted = [message.row_version for message in queue.peek(2000)][1:]
    taken = queue.take([*reversed(wanted), 2**62, wanted[0]])
    assert [message.row_version for message in taken] == wanted
    assert queue.take(wanted) == []
    assert queue.take([]) == []
    with pytest.raises(ConfigurationError, match="row_versions is '123': give a list of whole numbers"):
        queue.take("123")  # type: ignore[arg-type]
    assert receive_bodies(queue) == [b"0"]


def test_a_locked_message_is_not_taken(connect: Connect, queue: QueueTable) -> None:
    queue.send([Message(body=b"first"), Message(body=b"second")])
    wanted = [message.row_version for message in queue.peek()]
    with connect() as other_session, other_session.transaction():
        assert receive_bodies(QueueTable(other_session, queue.address), 1) == [b"first"]
        assert [message.body for message in queue.take(wanted)] == [b"second"]


def test_messages_are_taken_by_their_ids(any_queue: QueueTable) -> None:
    one, twice, gone = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
    sent = [Message(body=b"1", id=one), Message(body=b"2", id=twice), Message(body=b"3"), Message(body=b"4", id=twice)]
    any_queue.send(sent)
    assert [message.body for message in any_queue.take(ids=[twice, gone])] == [b"2", b"4"]
    assert any_queue.take(ids=[twice]) == []
    (head,) = browse(any_queue, 1)
    assert [message.body for message in any_queue.take([head.row_version], ids=[one])] == [b"1"]
    assert receive_bodies(any_queue) == [b"3"]


def test_row_versions_come_back_in_the_order_of_the_messages(any_queue: QueueTable) -> None:
    numbers = any_queue.send_numbered(Message({"n": f"{n}"}, b"%d" % n) for n in range(700))
    assert numbers == sorted(set(numbers))
    assert any_queue.send_numbered([]) == []
    assert [message.body for message in any_queue.take(numbers[500:503])] == [b"500", b"501", b"502"]
    left = any_queue.receive(2000)
    assert [message.row_version for message in left] == numbers[:500] + numbers[503:]
    assert [message.body for message in left] == [b"%d" % n for n in range(700) if n not in (500, 501, 502)]


def test_row_versions_of_a_table_with_a_trigger(queue: QueueTable) -> None:
    add_trigger(queue.session, queue.address, "AFTER INSERT", body="SELECT [Id] FROM inserted")
    numbers = queue.send_numbered([Message(body=b"a"), Message(body=b"b")])
    assert [message.row_version for message in queue.receive(5)] == numbers


def test_empty_columns_take_no_parameters(queue: QueueTable) -> None:
    lives = timedelta(hours=1)
    identity = uuid.uuid4()
    for sent in (
        [Message(body=b"1"), Message(body=b"2")],
        [Message(body=b"1", id=identity), Message(body=b"2")],
        [Message(body=b"1", time_to_be_received=lives), Message(body=b"2")],
        [Message({"NServiceBus.CorrelationId": "c"}, b"1", lives, identity), Message(body=b"2")],
        [Message({"NServiceBus.ReplyToAddress": "Sales"}, b"1"), Message(body=b"2")],
    ):
        assert queue.send(sent) == 2
        first, second = queue.receive(2)
        assert (first.body, second.body) == (b"1", b"2")
        assert sent[0].id is None or first.id == sent[0].id
        assert first.id != second.id
        assert (first.expires is None, second.expires) == (sent[0].time_to_be_received is None, None)
        assert (first.correlation_id, first.reply_to_address) == (
            sent[0].header("NServiceBus.CorrelationId"),
            sent[0].header("NServiceBus.ReplyToAddress"),
        )
        assert (second.correlation_id, second.reply_to_address) == (None, None)


def test_expired_messages_on_the_way_are_dropped(any_queue: QueueTable) -> None:
    late = [Message(body=b"late", time_to_be_received=timedelta(seconds=-1))] * 40
    any_queue.send([*late, Message(body=b"1"), *late, Message(body=b"2"), Message(body=b"3")])
    assert receive_bodies(any_queue, 1) == [b"1"]
    assert receive_bodies(any_queue, 5) == [b"2", b"3"]
    assert depth(any_queue).total == 0


def test_a_receive_drops_fewer_expired_messages_at_once_than_would_lock_the_table(
    queue: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row may cost two locks or more, and 5,000 of one statement escalate."""
    value, limits = queue.value, list[int]()

    def limited(name: str, limit: int) -> object:
        assert name == "queue.purge_expired"
        limits.append(limit)
        return value(name, limit)

    monkeypatch.setattr(queue, "value", limited)
    late = [Message(time_to_be_received=timedelta(seconds=-1))] * 20
    queue.send([*late, Message(body=b"1")])
    assert receive_bodies(queue, 1) == [b"1"]
    assert limits
    assert 4 * max(limits) < 5_000


def test_dropped_messages_come_back_with_a_rollback(queue: QueueTable) -> None:
    queue.send([Message(body=b"late", time_to_be_received=timedelta(seconds=-1)), Message(body=b"1")])

    def receive_and_fail() -> None:
        with queue.session.transaction():
            assert receive_bodies(queue, 2) == [b"1"]
            raise InterruptedError

    with pytest.raises(InterruptedError):
        receive_and_fail()
    assert (depth(queue).messages, depth(queue).expired) == (1, 1)


def test_expired_messages_are_returned_on_request(any_queue: QueueTable) -> None:
    any_queue.send([Message(body=b"late", time_to_be_received=timedelta(seconds=-1)), Message(body=b"1")])
    assert [(m.body, m.expired) for m in any_queue.receive(2, keep_expired=True)] == [(b"late", True), (b"1", False)]


def test_peek_goes_on_page_by_page(any_queue: QueueTable) -> None:
    numbers = any_queue.send_numbered(Message({"n": f"{n}"}, b"x" * n) for n in range(7))
    first = any_queue.peek(3)
    rest = any_queue.peek(10, after=first[-1].row_version)
    assert [message.row_version for message in first + rest] == numbers
    heads = browse(any_queue, 2, after=first[-1].row_version)
    assert [(head.row_version, head.body_bytes) for head in heads] == [(numbers[3], 3), (numbers[4], 4)]
    assert [head.decoded.values for head in heads] == [{"n": "3"}, {"n": "4"}]
    assert [head.id for head in heads] == [message.id for message in rest[:2]]


@pytest.mark.parametrize("layout", ["modern", "v1"])
def test_a_drains_statement_is_bounded_by_bytes(session: Session, table: ResolvedAddress, layout: str) -> None:
    """The first row always, then each that begins before the limit."""
    create_queue(session, table, layout=layout)
    queue = QueueTable(session, table)
    sizes = [5_000, 10, 10, 4_000, 3_000, 0, 1, 9_000, 9_000]
    queue.send(Message(body=b"x" * size) for size in sizes)
    after, taken = -1, []
    with session.transaction():
        while rows := queue.delete_first_rows(4, Window(after), 4_000):
            rows.sort(key=lambda row: row[ROW_VERSION])
            after = rows[-1][ROW_VERSION]
            taken.append([len(row[6]) for row in rows])
    assert taken == [[5_000], [10, 10, 4_000], [3_000, 0, 1, 9_000], [9_000]]


def test_rolled_back_messages_are_visible_again(queue: QueueTable) -> None:
    queue.send([Message(body=b"kept")])

    def receive_and_fail() -> None:
        with queue.session.transaction():
            assert receive_bodies(queue) == [b"kept"]
            raise InterruptedError

    with pytest.raises(InterruptedError):
        receive_and_fail()
    assert receive_bodies(queue) == [b"kept"]


def test_purge_removes_only_expired_messages(connect: Connect, queue: QueueTable) -> None:
    queue.send(Message(time_to_be_received=timedelta(seconds=-5)) for _ in range(25))
    queue.send([Message(body=b"alive"), Message(body=b"later", time_to_be_received=timedelta(hours=1))])
    assert purge(queue, PurgeOptions(dry_run=True)).remaining == 25
    limited = purge(queue, PurgeOptions(chunk=4, max_messages=10))
    assert (limited.deleted, limited.remaining, limited.complete) == (10, 15, False)
    rest = purge(queue, PurgeOptions(chunk=4))
    assert (rest.deleted, rest.remaining, rest.complete) == (15, 0, True)
    assert receive_bodies(queue) == [b"alive", b"later"]


def test_purge_passes_over_locked_messages(connect: Connect, queue: QueueTable) -> None:
    queue.send(Message(time_to_be_received=timedelta(seconds=-5)) for _ in range(3))
    with connect() as other_session, other_session.transaction():
        assert len(QueueTable(other_session, queue.address).receive(1, keep_expired=True)) == 1
        purged = purge(queue)
        assert (purged.deleted, purged.remaining, purged.complete) == (2, 0, True)
        assert purged.locked >= 1
    assert purge(queue).locked == 0


def test_a_table_that_is_no_queue(connect: Connect, address_of: AddressResolver, queue_name: str) -> None:
    address = address_of.resolve(queue_name)
    with connect() as session:
        session.run(Query("make", "make a table", f"CREATE TABLE {address.qualified_name} (Id int NOT NULL)"))
        with pytest.raises(NotAQueueError, match="is not a queue table"):
            create_queue(session, address)
        with pytest.raises(NotAQueueError):
            QueueTable(session, address).send([Message()])
        with pytest.raises(NotAQueueError):
            depth(QueueTable(session, address))
        with pytest.raises(NotAQueueError):
            QueueTable(session, address).take(ids=[uuid.uuid4()])


@pytest.mark.parametrize("text", ['"public"."orders"', 'public."orders"'])
def test_an_address_of_the_postgresql_transport_is_named(
    session: Session, address_of: AddressResolver, text: str
) -> None:
    with pytest.raises(QueueNotFoundError, match="the address is one of the PostgreSQL transport"):
        QueueTable(session, address_of.resolve(text)).receive()


def test_a_missing_queue_database_or_schema_is_named(
    connect: Connect, address_of: AddressResolver, queue_name: str
) -> None:
    with connect() as session, pytest.raises(QueueNotFoundError, match="has no permission on it: create it"):
        depth(QueueTable(session, address_of.resolve(queue_name)))
    with connect() as session, pytest.raises(QueueNotFoundError, match="database 'nowhere'"):
        depth(QueueTable(session, address_of.resolve(f"{queue_name}@[dbo]@[nowhere]")))
    with connect() as session, pytest.raises(QueueNotFoundError, match="database 'nowhere' does not exist: check the"):
        create_queue(session, address_of.resolve(f"{queue_name}@[dbo]@[nowhere]"))
    with connect() as session, pytest.raises(QueueNotFoundError, match="schema 'nowhere'"):
        create_queue(session, address_of.resolve(f"{queue_name}@[nowhere]"))


@pytest.mark.parametrize(
    "name", ["a]b", "it's", "x; DROP TABLE y --", "sp ace", "[dbo].[T]", "ünï✓😀", 'q"q', "n" * 128]
)
def test_names_with_quotes_and_brackets_serve(
    connect: Connect, address_of: AddressResolver, queue_name: str, name: str
) -> None:
    address = address_of.resolve((name + queue_name)[-128:])
    with connect() as session:
        assert create_queue(session, address).made is True
        assert create_queue(session, address).made is False
        queue = QueueTable(session, address)
        queue.send([Message(body=b"x")])
        assert receive_bodies(queue) == [b"x"]
        session.run(Query("drop", "drop a table", f"DROP TABLE {address.qualified_name}"))


@pytest.mark.parametrize("count", [0, -1, 2001])
def test_statements_stay_below_lock_escalation(queue: QueueTable, count: int) -> None:
    with pytest.raises(ConfigurationError, match="locks never escalate"):
        queue.receive(count)


def test_a_wrong_password_is_a_refused_login_that_does_not_show_it(settings: ConnectionSettings) -> None:
    from dataclasses import replace

    wrong = replace(settings, password="not it")
    with pytest.raises(LoginFailedError, match="refused the login") as caught:
        Session(wrong)
    assert "not it" not in str(caught.value) + str(caught.value.__cause__)


def test_an_unknown_database_is_a_refused_login_that_names_it(settings: ConnectionSettings) -> None:
    from dataclasses import replace

    with pytest.raises(LoginFailedError, match="'nowhere'"):
        Session(replace(settings, database="nowhere"))


def test_a_closed_port_is_an_unreachable_server() -> None:
    import socket

    with socket.socket() as silent:
        # Held, so that nobody else gets the port, and nobody listens there.
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        with pytest.raises(ServerUnreachableError, match=f"127.0.0.1:{port}"):
            Session(ConnectionSettings("127.0.0.1", "db", port, "sa", "x", login_timeout=2))
