"""Returns from an error queue, on any server: messages that stay, and the reasons."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.errors.editing import edit
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.server.session import Session
from tests.contract.conftest import Connect, run_sql
from tests.contract.return_to_source.conftest import Make, failed, returned
from tests.drains import bodies


def test_messages_that_cannot_go_back_stay_with_the_reason(
    session: Session, error: QueueTable, sales: QueueTable, give_back: Any, schema: str
) -> None:
    run_sql(session, f"CREATE TABLE [{schema}].[Table] ([Id] int NOT NULL)")
    run_sql(session, f"CREATE VIEW [{schema}].[View] AS SELECT * FROM [{schema}].[Sales]")
    stays = {
        "malformed headers": [Message("{broken"), Message('{"NServiceBus.FailedQ": "Sales", "x": 1}')],
        "no failed queue": [failed(None), Message()],
        "the failed queue's address cannot be used": [failed("@[dbo]"), failed("x" * 129), failed("#Sales")],
        "the failed queue does not exist": [failed("Gone"), failed("Sales@[nowhere]")],
        "outside of the allowed databases and schemas": [
            failed("Sales@[dbo]@[nowhere]"),
            failed("Sales@[dbo]@[master]"),
        ],
        "the failed queue cannot be sent to": [failed("Table"), failed("View")],
        "the failed queue is the error queue": [failed("error"), failed(f"error@[{schema}]")],
        "the failed queue is a .Retries satellite": [failed("Sales.Retries")],
    }
    for messages in stays.values():
        error.send([*messages, failed("Sales", b"goes")])
    before = depth(error).messages
    try:
        done = give_back(error)
    finally:
        run_sql(session, f"DROP VIEW [{schema}].[View]")
    assert done.left == {reason: len(messages) for reason, messages in stays.items()}
    assert (done.messages, done.unseen, done.complete) == (len(stays), 0, True)
    assert bodies(sales) == [b"goes"] * len(stays)
    assert depth(error).messages == before - len(stays)


@pytest.fixture
def payments(session: Session, other_catalog: str) -> QueueTable:
    """A queue of another database, which the login reaches."""
    address = ResolvedAddress("payments", "dbo", other_catalog)
    create_queue(session, address)
    return QueueTable(session, address)


def test_headers_choose_no_queue_of_another_database_unless_it_is_allowed(
    error: QueueTable, payments: QueueTable, resolver: AddressResolver
) -> None:
    name = payments.address
    error.send([failed(name.canonical)])
    for allowed in (
        resolver,
        replace(resolver, allowed_catalogs=["x"]),
        replace(resolver, allowed_catalogs=[name.catalog], allowed_schemas=["nsb"]),
    ):
        done = returned(error, allowed)
        assert (done.messages, done.left) == (0, {"outside of the allowed databases and schemas": 1})
        with pytest.raises(MessageError, match="outside of the allowed databases and schemas"):
            edit(error, allowed, error.peek()[0].row_version, body=b"edited")
    assert depth(payments).messages == 0
    allowed = replace(resolver, allowed_catalogs=[f"[{name.catalog.upper()}]"], allowed_schemas=["dbo"])
    assert returned(error, allowed).messages == 1
    assert depth(payments).messages == 1


def test_headers_choose_no_queue_of_another_database_through_a_synonym(
    session: Session, error: QueueTable, payments: QueueTable, resolver: AddressResolver, schema: str
) -> None:
    synonym = f"[{schema}].[Invoices]"
    run_sql(session, f"CREATE SYNONYM {synonym} FOR {payments.address.qualified_name}")
    try:
        error.send([failed("Invoices")])
        done = returned(error, resolver)
        assert (done.messages, done.left) == (0, {"outside of the allowed databases and schemas": 1})
        assert depth(payments).messages == 0
        # The user himself may name it.
        assert returned(error, resolver, to_queue="Invoices").messages == 1
    finally:
        run_sql(session, f"DROP SYNONYM {synonym}")


def test_an_endpoint_may_be_called_retries(make: Make, error: QueueTable, give_back: Any) -> None:
    make("Card.Retries")
    error.send([failed("Card.Retries", **{HeaderNames.PROCESSING_ENDPOINT: "Card.Retries"})])
    assert give_back(error).messages == 1


def test_messages_that_others_hold_stay(connect: Connect, error: QueueTable, sales: QueueTable, give_back: Any) -> None:
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


def test_a_message_that_the_server_refuses_stops_no_other(
    session: Session, error: QueueTable, sales: QueueTable, give_back: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(session, f"ALTER TABLE {sales.address.qualified_name} ADD CHECK (DATALENGTH([Body]) < 3)")
    error.send(failed("Sales", b"long" if n == 5 else b"%d" % n) for n in range(10))
    lone = json.dumps({HeaderNames.FAILED_Q: "Sales", "half": "\ud800"})
    error.send([Message(lone, b"h"), failed("Sales", b"z")])
    done = give_back(error, rows_per_transaction=4)
    assert (done.messages, done.left) == (10, {"the server refused the message": 1, "malformed headers": 1})
    assert "1 message left in error@" in caplog.text
    assert "SQL Server answered with error 547 (a foreign key or a CHECK constraint does not allow it)." in caplog.text
    assert not {"long", "half", "Åsa"} & set(caplog.text.split())
    assert bodies(error) == [b"long", b"h"]
    assert bodies(sales) == [b"%d" % n for n in range(10) if n != 5] + [b"z"]


def test_refused_messages_close_their_queue_only_where_it_accepts_none(
    session: Session,
    error: QueueTable,
    sales: QueueTable,
    give_back: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("airflow_sqlqueue.queue.forwarding.REFUSALS", 6)
    run_sql(session, f"ALTER TABLE {sales.address.qualified_name} ADD CHECK (DATALENGTH([Body]) < 3)")
    error.send(failed("Sales", body) for body in [b"long"] * 4 + [b"ok"] + [b"long"] * 8 + [b"z"])
    done = give_back(error, rows_per_transaction=2)
    assert (done.messages, done.left) == (2, {"the server refused the message": 12})
    assert bodies(sales) == [b"ok", b"z"]
    assert caplog.text.count("1 message left in error@") == 6, "the log names no more"
    caplog.clear()
    assert give_back(error, rows_per_transaction=2).left == done.left
    assert caplog.text.count("1 message left in error@") == 6, "the others are not tried"


def test_malformed_messages_alone_do_not_close_their_queue(
    error: QueueTable, sales: QueueTable, give_back: Any
) -> None:
    lone = json.dumps({HeaderNames.FAILED_Q: "Sales", "half": "\ud800"})
    error.send([Message(lone, b"h")] * 2 + [failed("Sales", b"z")])
    done = give_back(error, rows_per_transaction=2)
    assert (done.messages, done.left) == (1, {"malformed headers": 2})
    assert bodies(sales) == [b"z"]


def test_a_queue_that_refuses_inserts_does_not_stop_the_others(
    session: Session, make: Make, error: QueueTable, sales: QueueTable, give_back: Any
) -> None:
    closed, odd = make("Closed"), make("Odd")
    run_sql(session, f"ALTER TABLE {closed.address.qualified_name} ADD CHECK (1 = 0)")
    run_sql(session, f"ALTER TABLE {odd.address.qualified_name} ADD [Note] int NOT NULL")
    error.send(failed(name, name.encode()) for name in ("Closed", "Odd", "Sales") * 3)
    done = give_back(error, rows_per_transaction=2)
    assert done.destinations == {sales.address.canonical: 3}
    assert done.left == {"the server refused the message": 3, "the failed queue cannot be sent to": 3}
    assert sorted(bodies(error)) == [b"Closed"] * 3 + [b"Odd"] * 3


def test_a_queue_whose_trigger_fails_does_not_stop_the_others(
    session: Session, make: Make, error: QueueTable, sales: QueueTable, give_back: Any, schema: str
) -> None:
    """Its error is one that an alteration of the table may cause too, so the layout is read once more."""
    closed = make("Closed").address.qualified_name
    body = "BEGIN SET NOCOUNT ON; DECLARE @notes TABLE ([Note] int NOT NULL); INSERT INTO @notes SELECT NULL; END"
    run_sql(session, f"CREATE TRIGGER [{schema}].[note] ON {closed} AFTER INSERT AS {body}")
    error.send(failed(name, name.encode()) for name in ("Closed", "Sales") * 3)
    done = give_back(error, rows_per_transaction=2)
    assert done.destinations == {sales.address.canonical: 3}
    assert done.left == {"the server refused the message": 3}
    assert bodies(error) == [b"Closed"] * 3


def test_messages_that_stay_use_up_no_limit(
    session: Session, make: Make, error: QueueTable, sales: QueueTable, give_back: Any
) -> None:
    run_sql(session, f"ALTER TABLE {make('Closed').address.qualified_name} ADD CHECK (1 = 0)")
    error.send(failed(name, name.encode()) for name in ("Closed",) * 6 + ("Sales",) * 3)
    done = give_back(error, rows_per_transaction=2, max_messages=3)
    assert (done.destinations, len(bodies(sales))) == ({sales.address.canonical: 3}, 3)


def test_a_locked_queue_does_not_stop_the_others(
    connect: Connect, make: Make, resolver: AddressResolver, settings: Any, error: QueueTable, sales: QueueTable
) -> None:
    billing = make("Billing")
    error.send(failed(name) for name in ("Billing", "Sales") * 2)
    with connect() as other, other.transaction(), Session(settings, lock_timeout=0.2) as impatient:
        run_sql(other, f"SELECT COUNT(*) FROM {billing.address.qualified_name} WITH (TABLOCKX, HOLDLOCK)")
        queue = QueueTable(impatient, error.address)
        done = returned(queue, resolver, rows_per_transaction=1)
        assert (done.destinations, done.left) == ({sales.address.canonical: 2}, {"the failed queue is locked": 2})
    assert depth(error).messages == 2
