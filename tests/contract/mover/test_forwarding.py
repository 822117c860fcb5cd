"""The mover: due messages for another queue are forwarded, or go to the error queue, on any server."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from airflow_sqlqueue.errors import ConfigurationError, NotAQueueError
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue.tables.create import create_queue
from tests.contract.conftest import run_sql
from tests.contract.mover.conftest import HEADERS, NOW, Endpoint


def test_messages_are_forwarded_without_the_header(endpoint: Endpoint) -> None:
    other = endpoint.other("other")
    endpoint.delayed.store([Message(HEADERS, b"there")], delay=NOW, forward_to=other.address)
    endpoint.delayed.store([Message(HEADERS, b"here")], delay=NOW)
    endpoint.delayed.store([Message(HEADERS, b"here too")], delay=NOW, forward_to=endpoint.queue.address)
    moved = endpoint.move()
    assert (moved.moved, moved.forwarded, moved.failed, moved.left, moved.problems) == (2, 1, 0, 0, {})
    (there,) = other.receive(5)
    assert (there.body, there.correlation_id) == (b"there", "c-1")
    assert decode_headers(there.headers).values == HEADERS
    received = endpoint.queue.receive(5)
    assert [message.body for message in received] == [b"here", b"here too"]
    assert all(decode_headers(message.headers).values == HEADERS for message in received)


def test_a_limit_counts_messages_that_are_forwarded(endpoint: Endpoint) -> None:
    other = endpoint.other("other")
    endpoint.delayed.store([Message(HEADERS)] * 10, delay=NOW, forward_to=other.address)
    assert endpoint.move(chunk=3, max_messages=7).forwarded == 7
    assert endpoint.delayed.count().messages == 3


def test_a_destination_goes_through_the_routing_settings(endpoint: Endpoint) -> None:
    other = endpoint.other("other")
    name = other.address.table
    endpoint.resolver = replace(endpoint.resolver, queue_schemas={name: other.address.schema})
    for text in (f"{name}@[elsewhere]@[{other.address.catalog}]", name, f"{name}@WEB01"):
        endpoint.delayed.store([Message({HeaderNames.FORWARD_DESTINATION: text}, text.encode())], delay=NOW)
    assert endpoint.move().forwarded == 3
    # The destination was the only header of these.
    assert [decode_headers(message.headers).values for message in other.receive(5)] == [{}] * 3


MISSING = {"missing": "does not exist", "": "is blank|no table name", "q@[s]@[no such database]": "outside of"}


@pytest.mark.parametrize("destination", MISSING)
def test_messages_that_cannot_be_forwarded_go_to_the_error_queue(endpoint: Endpoint, destination: str) -> None:
    errors = endpoint.other("error")
    endpoint.delayed.store([Message({**HEADERS, HeaderNames.FORWARD_DESTINATION: destination}, b"lost")] * 3, delay=NOW)
    endpoint.delayed.store([Message(body=b"here")], delay=NOW)
    with pytest.raises(ConfigurationError, match="is its own error queue"):
        endpoint.move(error_queue=endpoint.queue)
    moved = endpoint.move(error_queue=errors, chunk=2)
    assert (moved.moved, moved.forwarded, moved.failed, moved.left) == (1, 0, 3, 0)
    assert list(moved.problems) == [destination]
    failed = errors.receive(5)
    assert [message.body for message in failed] == [b"lost"] * 3
    values = decode_headers(failed[0].headers).values
    assert values.items() >= HEADERS.items()
    assert HeaderNames.FORWARD_DESTINATION not in values
    assert values[HeaderNames.FAILED_Q] == destination
    assert values[HeaderNames.EXCEPTION_MESSAGE] == moved.problems[destination]
    assert endpoint.bodies() == [b"here"]


@pytest.mark.parametrize("destination", MISSING)
def test_without_an_error_queue_a_failed_message_stays_and_delays_no_other(
    endpoint: Endpoint, destination: str
) -> None:
    lost = Message({HeaderNames.FORWARD_DESTINATION: destination}, b"lost")
    here = Message(body=b"here")
    for _ in range(3):
        endpoint.delayed.store([lost, here, lost, here, lost], delay=NOW)
    moved = endpoint.move(chunk=2)
    assert (moved.moved, moved.forwarded, moved.failed, moved.left, moved.complete) == (6, 0, 0, 9, True)
    assert list(moved.problems) == [destination]
    assert endpoint.bodies() == [b"here"] * 6
    assert endpoint.delayed.count().due == 9


def test_a_failing_destination_does_not_delay_other_messages(endpoint: Endpoint) -> None:
    """A trigger that throws: the transaction is gone, and what was to be moved with it is moved without it."""
    other, errors = endpoint.other("other"), endpoint.other("error")
    trigger = f"CREATE TRIGGER [{other.address.table}.trigger] ON [{other.address.table}] AFTER INSERT AS"
    run_sql(endpoint.session, f"{trigger} THROW 50001, N'closed', 1;")
    endpoint.delayed.store([Message(body=b"here")], delay=NOW)
    endpoint.delayed.store([Message(body=b"there")], delay=NOW, forward_to=other.address)
    moved = endpoint.move(error_queue=errors)
    assert (moved.moved, moved.forwarded, moved.failed) == (1, 0, 1)
    assert "50001" in moved.problems[other.address.canonical]
    assert [message.body for message in errors.receive(5)] == [b"there"]
    assert endpoint.bodies() == [b"here"]


def test_a_queue_that_refuses_inserts_is_an_error(endpoint: Endpoint) -> None:
    run_sql(endpoint.session, f"ALTER TABLE {endpoint.queue.address.qualified_name} ADD [Tenant] int NOT NULL")
    endpoint.delayed.store([Message()], delay=NOW)
    with pytest.raises(NotAQueueError, match="'Tenant' takes no NULL"):
        endpoint.move()
    assert endpoint.delayed.count().messages == 1


def test_a_destination_that_refuses_inserts_is_named_with_its_column(endpoint: Endpoint) -> None:
    other, errors = endpoint.other("other"), endpoint.other("error")
    run_sql(endpoint.session, f"ALTER TABLE {other.address.qualified_name} ADD [Tenant] int NOT NULL")
    endpoint.delayed.store([Message(body=b"there")] * 2, delay=NOW, forward_to=other.address)
    moved = endpoint.move(error_queue=errors)
    assert (moved.forwarded, moved.failed, moved.left) == (0, 2, 0)
    assert "its column 'Tenant' takes no NULL" in moved.problems[other.address.canonical]
    assert len(errors.receive(5)) == 2


@pytest.mark.parametrize(("with_errors", "place"), [(True, "goes to the error queue"), (False, "stays")])
def test_the_log_says_where_a_refused_message_is(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture, with_errors: bool, place: str
) -> None:
    other, errors = endpoint.other("other"), endpoint.other("error")
    run_sql(endpoint.session, f"ALTER TABLE {other.address.qualified_name} ADD CHECK (DATALENGTH([Body]) < 100)")
    endpoint.delayed.store([Message(body=b"long" * 100)], delay=NOW, forward_to=other.address)
    moved = endpoint.move(error_queue=errors if with_errors else None)
    assert (moved.failed, moved.left) == (int(with_errors), int(not with_errors))
    (logged,) = (text for text in caplog.messages if text.startswith("Message "))
    assert f" {place}: " in logged


def test_a_result_has_a_hundred_problems_at_most(endpoint: Endpoint) -> None:
    """The sender of a message chooses its destination."""
    destinations = [f"missing.{number}" for number in range(101)]
    endpoint.delayed.store((Message({HeaderNames.FORWARD_DESTINATION: name}) for name in destinations), delay=NOW)
    moved = endpoint.move()
    assert (moved.left, len(moved.problems)) == (101, 100)


@pytest.mark.parametrize(
    ("good", "bad", "forwarded"), [(0, 2, 1), (0, 3, 0), pytest.param(1, 4, 2, id="it accepts others")]
)
def test_a_destination_that_refuses_many_messages_and_accepts_none_gets_no_more(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, good: int, bad: int, forwarded: int
) -> None:
    """A constraint of its table may refuse some messages alone; each is tried by itself, which takes its time."""
    monkeypatch.setattr("airflow_sqlqueue.queue.forwarding.REFUSALS", 3)
    other, errors = endpoint.other("other"), endpoint.other("error")
    run_sql(endpoint.session, f"ALTER TABLE {other.address.qualified_name} ADD CHECK (DATALENGTH([Body]) < 100)")
    bodies = [b"short"] * good + [b"long" * 100] * bad + [b"short"]
    for year, body in enumerate(bodies, 2000):
        due = datetime(year, 1, 1, tzinfo=timezone.utc)
        endpoint.delayed.store([Message(body=body)], due=due, forward_to=other.address)
    moved = endpoint.move(error_queue=errors)
    assert (moved.forwarded, moved.failed, moved.left) == (forwarded, len(bodies) - forwarded, 0)
    assert [message.body for message in other.receive(5)] == [b"short"] * forwarded


@pytest.mark.parametrize("through_a_synonym", [False, True])
def test_headers_choose_no_destination_in_another_database_unless_it_is_allowed(
    endpoint: Endpoint, other_catalog: str, through_a_synonym: bool
) -> None:
    payments = ResolvedAddress("payments", "dbo", other_catalog)
    create_queue(endpoint.session, payments)
    destination, synonym = payments.canonical, replace(endpoint.queue.address, table=f"s{uuid.uuid4().hex}")
    name = f"[{synonym.schema}].[{synonym.table}]"
    if through_a_synonym:
        run_sql(endpoint.session, f"CREATE SYNONYM {name} FOR {payments.qualified_name}")
        destination = synonym.table
    try:
        endpoint.delayed.store([Message({HeaderNames.FORWARD_DESTINATION: destination}, b"pay")], delay=NOW)
        moved = endpoint.move()
        assert (moved.forwarded, moved.left) == (0, 1)
        assert "outside of the allowed databases and schemas" in moved.problems[destination]
        catalogs = [other_catalog, endpoint.queue.address.catalog]
        endpoint.resolver = replace(endpoint.resolver, allowed_catalogs=catalogs)
        assert endpoint.move().forwarded == 1
    finally:
        if through_a_synonym:
            run_sql(endpoint.session, f"DROP SYNONYM {name}")
