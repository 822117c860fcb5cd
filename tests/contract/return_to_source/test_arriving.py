"""Returns from an error queue, on any server: arriving messages and their queues."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from airflow_sqlqueue.errors import ConfigurationError, QueueNotFoundError
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.server.session import Session
from tests.contract.conftest import run_sql
from tests.contract.return_to_source.conftest import HOUR, KEPT, Make, failed, headers_of, returned
from tests.drains import bodies


@pytest.mark.parametrize(
    ("of_errors", "of_source"),
    [*((name, name) for name in ("v1", "v3.0", "v4", "modern")), ("v1", "modern"), ("modern", "v1")],
)
def test_failed_messages_arrive_as_they_were_sent(make: Make, give_back: Any, of_errors: str, of_source: str) -> None:
    error, source = make("error", of_errors), make("Sales", of_source)
    sent = [failed(source.address.canonical, b"%d" % n) for n in range(150)]
    error.send(sent)
    done = give_back(error)
    assert done.to_dict() | {"seconds": 0} == {
        "messages": 150,
        "destinations": {source.address.canonical: 150},
        "left": {},
        "unseen": 0,
        "complete": True,
        "dry_run": False,
        "seconds": 0,
        "warnings": [],
    }
    assert depth(error).messages == 0
    arrived = source.receive(200)
    assert [(message.id, message.body) for message in arrived] == [(message.id, message.body) for message in sent]
    for message in arrived:
        assert headers_of(message) == KEPT
        assert (message.expires, message.recoverable) == (None, True)
        assert (message.correlation_id, message.reply_to_address) == ("c-1", "Storefront@[dbo]@[shop]")


@pytest.mark.parametrize("of_errors", ["v1", "v3.0"])
def test_values_in_columns_of_an_old_endpoint_arrive(make: Make, give_back: Any, of_errors: str) -> None:
    error, source = make("error", of_errors), make("Sales")
    run_sql(
        error.session,
        f"INSERT INTO {error.address.qualified_name} ([Id], [CorrelationId], [ReplyToAddress], Recoverable, [Headers]) "
        "VALUES (NEWID(), 'c-9', 'Billing@B-01', 0, '{\"NServiceBus.FailedQ\":\"Sales@S-01\"}')",
    )
    assert give_back(error).messages == 1
    (message,) = source.receive()
    assert headers_of(message) == {HeaderNames.CORRELATION_ID: "c-9", HeaderNames.REPLY_TO_ADDRESS: "Billing@B-01"}
    assert (message.correlation_id, message.reply_to_address, message.body) == ("c-9", "Billing@B-01", b"")


def test_tables_without_legacy_columns_and_with_a_trigger_serve(make: Make, give_back: Any, schema: str) -> None:
    error, source = make("error", legacy_columns=False), make("Sales", legacy_columns=False, body_string=True)
    run_sql(error.session, f"CREATE TRIGGER [{schema}].[watch] ON [{schema}].[error] AFTER DELETE AS SELECT 1;")
    error.send([failed("Sales"), failed("Sales")])
    assert give_back(error).messages == 2
    assert [headers_of(message) for message in source.receive(5)] == [KEPT, KEPT]


def test_every_form_of_the_failed_queues_address_is_understood(
    make: Make, give_back: Any, error: QueueTable, schema: str
) -> None:
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
    assert give_back(error).destinations == {sales.address.canonical: len(forms)}
    assert bodies(sales) == [form.encode() for form in forms]


def test_a_failed_queue_in_another_database_is_reached(
    session: Session, error: QueueTable, resolver: AddressResolver, address_of: AddressResolver, other_catalog: str
) -> None:
    there = replace(address_of.resolve("Sales"), catalog=other_catalog)
    create_queue(session, there, layout="v4")
    error.send([failed(f"Sales@[dbo]@[{other_catalog}]")])
    allowed = replace(resolver, allowed_catalogs=[other_catalog])
    assert returned(error, allowed).destinations == {there.canonical: 1}
    (message,) = QueueTable(session, there).receive()
    assert headers_of(message) == KEPT


def test_only_matching_messages_are_returned(error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    error.send(failed("Sales", b"%d" % n, **{HeaderNames.MESSAGE_ID: f"m-{n % 4}"}) for n in range(8))
    rows = [message.row_version for message in error.peek(10)]
    assert give_back(error, ErrorFilter(row_versions=frozenset([rows[6]]))).messages == 1
    assert give_back(error, ErrorFilter(message_ids=frozenset(["m-1"]))).messages == 2
    assert give_back(error, ErrorFilter(exception_type="None.Such")).messages == 0
    assert bodies(sales) == [b"6", b"1", b"5"]
    assert bodies(error) == [b"0", b"2", b"3", b"4", b"7"]
    where = ErrorFilter(failed_queue="Sales", exception_type="System.InvalidOperationException")
    assert give_back(error, where).messages == 5


@pytest.mark.parametrize(
    ("sizes", "expected"), [([300_000] * 5, [2, 4, 5]), ([100_000, 300_000, 350_000, 900_000, 1], [2, 3, 4, 5])]
)
def test_large_bodies_go_in_transactions_of_their_own(
    error: QueueTable, sales: QueueTable, give_back: Any, sizes: list[int], expected: list[int]
) -> None:
    error.send(failed("Sales", bytes([n]) * size) for n, size in enumerate(sizes))
    steps: list[int] = []
    done = give_back(error, bytes_per_transaction=700_000, on_progress=lambda so_far: steps.append(so_far.messages))
    assert (steps, done.messages) == (expected, 5)
    assert [body[:1] for body in bodies(sales)] == [bytes([n]) for n in range(5)]


def test_a_redirect_takes_them_all(make: Make, error: QueueTable, sales: QueueTable, give_back: Any) -> None:
    parked = make("parked", "v1")
    poison = Message('{"größe": ', b"poison", HOUR, uuid.uuid4())
    error.send([failed("Sales"), failed("Gone"), failed(None), poison])
    done = give_back(error, to_queue="parked")
    assert (done.destinations, done.left) == ({parked.address.canonical: 3}, {"malformed headers": 1})
    assert [headers_of(message) for message in parked.receive(5)] == [KEPT] * 3
    raw = make("raw")
    assert give_back(error, to_queue="raw", malformed=True).destinations == {raw.address.canonical: 1}
    (message,) = raw.receive()
    assert (message.headers, message.body, message.id, message.expires) == (poison.headers, b"poison", poison.id, None)
    assert (depth(error).messages, depth(sales).messages) == (0, 0)


def test_headers_that_cannot_be_written_again_are_redirected_as_they_are(
    make: Make, error: QueueTable, sales: QueueTable, give_back: Any
) -> None:
    """Endpoints before version 9.1 take half a surrogate pair; no command but this one gets such a message back."""
    half = Message('{"NServiceBus.FailedQ": "Sales", "x": "\\ud83d"}', b"half", id=uuid.uuid4())
    error.send([half, failed("Sales")])
    for arguments in ({}, {"to_queue": "Sales"}):
        planned = give_back(error, dry_run=True, **arguments)
        assert (planned.messages, planned.left) == (1, {"malformed headers": 1})
    assert give_back(error).left == {"malformed headers": 1}
    sales.receive()
    assert give_back(error, to_queue="Sales", malformed=True).left == {}
    (message,) = sales.receive(5)
    assert (message.headers, message.body, message.id) == (half.headers, b"half", half.id)


def test_a_redirect_to_a_missing_queue_or_to_itself_is_refused(error: QueueTable, give_back: Any, schema: str) -> None:
    error.send([failed("Sales")])
    with pytest.raises(QueueNotFoundError, match="Gone"):
        give_back(error, to_queue="Gone")
    with pytest.raises(ConfigurationError, match="already: name another queue"):
        give_back(error, to_queue=f"error@[{schema}]")
    assert depth(error).messages == 1
