"""Checks of conditions: their results, and the rows that they read, on any server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.errors import ConfigurationError, NotAQueueError, QueueNotFoundError
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import ConditionResult, QueueCondition, QueueTable, condition
from airflow_sqlqueue.queue.condition import check_condition
from airflow_sqlqueue.queue.copies import QueueCopy
from airflow_sqlqueue.queue.depth import Depth
from airflow_sqlqueue.queue.tables.create import create, create_queue, delayed_address, delayed_definition
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import Connect, run_sql
from tests.drains import drain, fill

LATE = timedelta(seconds=-5)


def is_met(table: QueueTable, **options: Any) -> bool:
    return check_condition(table, QueueCondition(**options)).met


def test_each_condition_is_met_at_its_bound_and_not_before(any_queue: QueueTable) -> None:
    assert is_met(any_queue, max_messages=0)
    assert not is_met(any_queue)
    assert not is_met(any_queue, min_expired=1)
    assert not is_met(any_queue, oldest_seconds=1)
    sent = format_time(datetime.now(timezone.utc) - timedelta(hours=1))
    any_queue.send([Message({"NServiceBus.TimeSent": sent})] * 3 + [Message(time_to_be_received=LATE)] * 2)
    assert [is_met(any_queue, min_messages=count) for count in (1, 3, 4)] == [True, True, False]
    assert [is_met(any_queue, max_messages=count) for count in (0, 2, 3)] == [False, False, True]
    assert [is_met(any_queue, min_expired=count) for count in (1, 2, 3)] == [True, True, False]
    assert [is_met(any_queue, oldest_seconds=age) for age in (600, 7200)] == [True, False]


def test_messages_that_match_are_counted_up_to_the_bound(queue: QueueTable) -> None:
    sales = {"NServiceBus.OriginatingEndpoint": "Sales"}
    queue.send([Message(sales)] * 3 + [Message()] * 2 + [Message(sales, time_to_be_received=LATE)] * 2)
    filters = {"endpoint": "Sales"}
    for bound, met, counted in ((3, True, (3, 0)), (4, False, (3, 2))):
        found = check_condition(queue, QueueCondition(min_messages=bound, filters=filters))
        assert (found.met, (found.messages, found.expired)) == (met, counted)
    assert is_met(queue, max_messages=3, filters=filters)
    assert not is_met(queue, max_messages=2, filters=filters)


@pytest.mark.parametrize(("age", "problem"), [("soon", "is 'soon': give a number"), (0, "must be more than 0")])
def test_an_age_is_a_number_of_seconds(age: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        QueueCondition.of({"oldest_seconds": age})


def test_no_expired_message_is_reported_where_none_is(queue: QueueTable) -> None:
    queue.send([Message()])
    condition = QueueCondition(min_expired=1)
    found = check_condition(queue, condition)
    assert found.expired == 0
    assert found.to_dict(condition) == {"expired": 0}
    assert found.to_dict(QueueCondition(min_delayed=1)) == {"delayed": None}


@pytest.mark.parametrize("kind", ["quick", "catalog"])
def test_a_quick_condition_reads_no_rows(queue: QueueTable, kind: str) -> None:
    queue.send([Message(), Message(time_to_be_received=LATE)])
    assert check_condition(queue, QueueCondition(min_messages=2, kind=kind)) == ConditionResult(True, 2)
    assert not is_met(queue, max_messages=1, kind=kind)


def test_the_first_of_several_conditions_ends_the_wait(queue: QueueTable) -> None:
    queue.send([Message(time_to_be_received=LATE)])
    found = check_condition(queue, QueueCondition(min_messages=5, min_expired=1, oldest_seconds=60))
    assert found.met
    assert (found.messages, found.expired, found.oldest_seconds) == (0, 1, None)


def test_messages_that_others_have_locked_do_not_count(queue: QueueTable, connect: Connect) -> None:
    queue.send([Message()] * 3)
    with connect() as other, other.transaction():
        assert len(QueueTable(other, queue.address).receive(2)) == 2
        assert is_met(queue, max_messages=1)
        assert not is_met(queue, min_messages=2)


def test_expired_messages_that_others_have_locked_do_not_count(queue: QueueTable, connect: Connect) -> None:
    queue.send([Message(time_to_be_received=LATE)] * 3)
    with connect() as other, other.transaction():
        run_sql(other, f"DELETE TOP (2) FROM {queue.address.qualified_name}")
        assert is_met(queue, min_expired=1)
        assert not is_met(queue, min_expired=2)


def test_a_condition_reads_the_head_alone_and_reports_it(queue: QueueTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condition, "EXPIRED_ALLOWANCE", 2)
    queue.send([Message()] * 10)
    found = check_condition(queue, QueueCondition(min_messages=2))
    assert (found.messages, found.counted_all, str(found)) == (4, False, "at least 4 messages, 0 expired")
    found = check_condition(queue, QueueCondition(max_messages=2))
    assert (found.met, found.messages, found.counted_all) == (False, 5, False)
    assert str(check_condition(queue, QueueCondition(min_messages=11))) == "10 messages, 0 expired"


def test_expired_messages_in_front_do_not_hide_what_comes_behind(
    queue: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condition, "EXPIRED_ALLOWANCE", 2)
    queue.send([*[Message(time_to_be_received=LATE)] * 5, *[Message()] * 2])
    assert is_met(queue, min_messages=2)
    assert not is_met(queue, max_messages=1)
    found = check_condition(queue, QueueCondition(min_messages=3))
    assert (found.met, found.messages, found.expired, found.counted_all) == (False, 2, 5, True)


@pytest.fixture
def delayed(session: Session, table: ResolvedAddress) -> Iterator[ResolvedAddress]:
    address = replace(table, table=f"{table.table}.Delayed")
    create(session, delayed_definition(address))
    yield address
    run_sql(session, f"DROP TABLE IF EXISTS {address.qualified_name}")


def test_delayed_messages_are_counted_in_their_table(
    queue: QueueTable,
    delayed: ResolvedAddress,
    settings: ConnectionSettings,
    address_of: AddressResolver,
    connect: Connect,
) -> None:
    client = QueueClient(settings, address_of)
    name = queue.address.table
    client.delayed(name).send([Message()] * 2, delay=timedelta(hours=1))
    assert delayed_address(address_of, name) == delayed
    assert client.queue(name).check(QueueCondition(min_delayed=2)) == ConditionResult(True, delayed=2)
    assert not client.queue(name).check(QueueCondition(min_delayed=3)).met
    with connect() as other, other.transaction():
        run_sql(other, f"DELETE TOP (1) FROM {delayed.qualified_name}")
        assert client.queue(name).check(QueueCondition(min_delayed=1)).delayed == 1, "locked ones do not count"


def test_a_queue_without_a_table_of_delayed_messages_cannot_be_waited_for(queue: QueueTable) -> None:
    missing = replace(queue.address, table=f"{queue.address.table}.Delayed")
    with pytest.raises(QueueNotFoundError, match="Delayed"):
        check_condition(queue, QueueCondition(min_delayed=1), delayed=missing)
    with pytest.raises(NotAQueueError):
        check_condition(queue, QueueCondition(min_delayed=1), delayed=queue.address)


def test_a_queue_that_does_not_exist_is_an_error(session: Session, table: ResolvedAddress) -> None:
    with pytest.raises(QueueNotFoundError):
        is_met(QueueTable(session, table))
    create_queue(session, table)
    assert not is_met(QueueTable(session, table))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"min_messages": "many"}, "is 'many': give a whole number"),
        ({"min_messages": 0}, "min_messages must be 1 or more"),
        ({"max_messages": -1}, "max_messages must be 0 or more"),
        ({"oldest_seconds": 0}, "oldest_seconds must be more than 0"),
        ({"oldest_seconds": "nan"}, "oldest_seconds must be more than 0"),
        ({"max_messages": 3, "min_expired": 1}, "without other conditions"),
        ({"kind": "guess"}, "kind is 'guess': choose one of exact"),
        ({"messages": 3}, "wait_for has no option 'messages': did you mean"),
    ],
)
def test_a_condition_that_cannot_be_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        QueueCondition.of(options)


@pytest.mark.parametrize("nothing", [None, "", "None"])
def test_a_wait_for_an_empty_queue_is_not_one_for_a_message(nothing: Any) -> None:
    """A template may render to nothing."""
    with pytest.raises(ConfigurationError, match="wait_for has no value for max_messages"):
        QueueCondition.of({"max_messages": nothing, "kind": "quick"})


def test_numbers_may_be_text_and_a_condition_survives_its_dictionary() -> None:
    read = QueueCondition.of({"min_messages": "5", "oldest_seconds": "60"})
    assert read == QueueCondition(min_messages=5, oldest_seconds=60.0)
    assert QueueCondition.of(read.to_dict()) == read
    assert QueueCondition().to_dict() == {"min_messages": 1, "kind": "exact"}


def test_new_messages_are_counted(connect: Connect, queue: QueueTable) -> None:
    """Those above the watermark of a copy, and late ones; before the first run, all messages."""
    condition = QueueCondition(min_messages=3, incremental="daily")
    fill(queue, 2)
    assert check_condition(queue, condition).messages == 2
    with connect() as late:
        with late.transaction():
            QueueTable(late, queue.address).send([Message(body=b"late")])
            fill(queue, 5)
            assert check_condition(queue, condition).met
            drain(connect, queue, TableStage(), copy=True, incremental="daily")
            assert check_condition(queue, condition).messages == 0
            queue.send([Message(body=b"old", time_to_be_received=timedelta(seconds=-5))])
            fill(queue, 2)
            found = check_condition(queue, condition)
            assert (found.met, found.messages, found.expired) == (False, 2, 1)
        found = check_condition(queue, condition)
    assert (found.met, found.messages, found.expired) == (True, 3, 1)
    assert check_condition(queue, QueueCondition(max_messages=3, incremental="daily")).met
    assert not check_condition(queue, QueueCondition(max_messages=2, incremental="daily")).met


def test_new_messages_are_counted_by_their_numbers(connect: Connect, any_queue: QueueTable) -> None:
    """Without a look-up of their rows: expired ones count apart where an index has them, up to the limit."""
    queue = any_queue
    fill(queue, 2)
    drain(connect, queue, TableStage(), copy=True, incremental="daily")
    copy = QueueCopy(queue, "daily")
    queue.send([Message(body=b"old", time_to_be_received=timedelta(seconds=-5))] * 3)
    fill(queue, 4)
    has_index = queue.layout.index_on("Expires") is not None
    assert copy.count(100) == (Depth(4, 3) if has_index else Depth(7, 0))
    assert copy.count(7) == Depth(7, 0), "a limit that was reached hides which of them have expired"
    assert copy.count(100, 5) == (Depth(0, 3) if has_index else Depth(3, 0)), "up to a number"
    assert check_condition(queue, QueueCondition(min_messages=4, incremental="daily")).met
    assert check_condition(queue, QueueCondition(max_messages=4, incremental="daily")).met is has_index


def test_many_expired_messages_do_not_make_a_wait_for_new_ones_endless(
    connect: Connect, queue: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run of the copy passes them, so the wait ends: they would hide each new message for good."""
    monkeypatch.setattr(condition, "EXPIRED_ALLOWANCE", 2)
    fill(queue, 1)
    drain(connect, queue, TableStage(), copy=True, incremental="daily")
    queue.send([Message(body=b"old", time_to_be_received=timedelta(seconds=-5))] * 4)
    fill(queue, 1)
    found = check_condition(queue, QueueCondition(min_messages=1, incremental="daily"))
    assert (found.met, found.counted_all) == (True, False)
    assert not check_condition(queue, QueueCondition(max_messages=1, incremental="daily")).met
    drain(connect, queue, TableStage(), copy=True, incremental="daily")
    assert check_condition(queue, QueueCondition(max_messages=0, incremental="daily")).met


def test_late_messages_are_found_up_to_a_number(connect: Connect, queue: QueueTable) -> None:
    """Each gap is read to its end or to the mark, whichever is lower."""
    with connect() as late:
        with late.transaction():
            QueueTable(late, queue.address).send(Message(body=b"%d" % n) for n in range(4))
            fill(queue, 1)
            drain(connect, queue, TableStage(), copy=True, incremental="daily")
        copy = QueueCopy(queue, "daily")
        first = queue.peek(1)[0].row_version
        for up_to, expected in ((first - 1, 0), (first, 1), (first + 2, 3), (first + 9, 4)):
            assert len(copy.in_gaps(10, up_to)) == expected
            assert copy.count(10, up_to) == Depth(expected, 0)
        assert list(copy.in_gaps(2, first + 9)) == [first, first + 1]
        assert copy.count(10, late=False) == Depth(0, 0)


def test_new_messages_go_with_few_conditions() -> None:
    assert str(QueueCondition(incremental="daily")) == "min_messages=1, incremental=daily"
    for others in ({"oldest_seconds": 5}, {"kind": "quick"}, {"filters": {"endpoint": "Sales"}}):
        with pytest.raises(ConfigurationError, match="with incremental give only min_messages or max_messages"):
            QueueCondition(incremental="daily", **others)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="The name of a copy has"):
        QueueCondition(incremental="")
