"""Failed messages that are parked in another queue or deleted, on any server; and warnings about other owners."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import ConfigurationError, QueueNotFoundError
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.queue.errors.bulk_action import ErrorQueueOptions
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import run_sql
from tests.contract.return_to_source.conftest import failed

ALL = {"all_messages": True}


@pytest.mark.parametrize(("of_errors", "of_parked"), [("v1", "modern"), ("modern", "v1")])
def test_parked_messages_keep_the_headers_of_the_failure(client: QueueClient, of_errors: str, of_parked: str) -> None:
    client.tables.create("errors", layout=of_errors)
    client.tables.create("parked", layout=of_parked)
    poison = Message("{poison", b"\x00")
    client.queue("errors").send([failed("Sales", b"1"), poison, failed("Billing", b"2")])
    before = {message.body: message for message in client.queue("errors").peek()}
    plan = client.errors.park("parked", "errors", **ALL, options=ErrorQueueOptions(dry_run=True))
    assert (plan.messages, client.queue("parked").depth().total) == (3, 0)
    done = client.errors.park("parked", "errors", filters={"failed_queue": "Sales"})
    rest = client.errors.park("parked", "errors", **ALL)
    assert (done.messages, rest.messages, rest.left, rest.complete) == (1, 2, {}, True)
    after = client.queue("parked").peek()
    assert [message.body for message in after] == [b"1", b"\x00", b"2"]
    for message in after:
        assert (message.id, message.headers) == (before[message.body].id, before[message.body].headers)
        assert message.expires is None
    assert decode_headers(after[0].headers).values[HeaderNames.FAILED_Q] == "Sales"
    # They can be returned from there.
    client.tables.create("Sales")
    returned = client.errors.return_to_source("parked", **ALL)
    assert returned.messages == 1


def test_a_queue_is_not_parked_in_itself_or_nowhere(client: QueueClient, session: Session, schema: str) -> None:
    client.queue("error").send([failed("Sales")])
    run_sql(session, f"CREATE SYNONYM [{schema}].[same] FOR [{schema}].[error]")
    try:
        for name in ("error", "ERROR", "same"):
            with pytest.raises(ConfigurationError, match="already"):
                client.errors.park(name, **ALL)
    finally:
        run_sql(session, f"DROP SYNONYM [{schema}].[same]")
    with pytest.raises(QueueNotFoundError):
        client.errors.park("nowhere", **ALL)


def test_a_message_that_the_other_queue_refuses_stays(client: QueueClient, session: Session, schema: str) -> None:
    client.tables.create("parked")
    run_sql(session, f"ALTER TABLE [{schema}].[parked] ADD CONSTRAINT [c{schema}] CHECK ([Body] <> 0x33)")
    client.queue("error").send(failed("Sales", b"%d" % n) for n in range(5))
    done = client.errors.park("parked", **ALL)
    assert (done.messages, done.left, done.complete) == (4, {"the server refused the message": 1}, True)


def test_a_deletion_wants_a_confirmation(client: QueueClient) -> None:
    client.queue("error").send([failed("Sales"), failed("Sales"), failed("Billing")])
    with pytest.raises(ConfigurationError, match="confirm"):
        client.errors.delete(**ALL)
    plan = client.errors.delete(filters={"failed_queue": "Sales"}, options=ErrorQueueOptions(dry_run=True))
    assert (plan.messages, client.queue("error").depth().messages) == (2, 3)
    done = client.errors.delete(filters={"failed_queue": "Sales"}, confirm=True)
    assert (done.messages, done.complete, client.queue("error").depth().messages) == (2, True, 1)


def test_another_receiver_is_warned_of(
    client: QueueClient, settings: ConnectionSettings, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    """ServiceControl is a program like any other: its name says nothing, what it does on the queue does."""
    client.queue("error").send([failed("Sales"), failed("Sales")])
    client.tables.create("Sales")
    quiet = client.errors.return_to_source(**ALL, options=None)
    assert (quiet.messages, quiet.warnings) == (2, [])
    client.queue("error").send([failed("Sales"), failed("Sales")])
    other = replace(settings, keywords={**settings.keywords, "APP": "Particular.ServiceControl\n"})
    with Session(other) as receiving, caplog.at_level(logging.WARNING):
        run_sql(receiving, f"DELETE TOP (1) FROM [{schema}].[error] WITH (UPDLOCK, READPAST, ROWLOCK)")
        done = client.errors.archive(**ALL)
    assert done.messages == 1
    (warning,) = done.warnings
    assert "Particular.ServiceControl" in warning
    assert "ServicePulse" in warning
    assert "\n" not in warning
    assert warning in caplog.text


def test_copies_of_servicecontrol_are_warned_of(client: QueueClient) -> None:
    client.tables.create("error.log")
    client.queue("error.log").send([failed("Sales")])
    plan = client.errors.return_to_source("error.log", **ALL)
    (warning,) = plan.warnings
    assert "looks like ServiceControl's copies" in warning
    client.tables.create("alone.log")
    client.tables.create("error-old")
    for alone in ("alone.log", "error-old", ".log"):
        client.tables.create(alone)
        assert client.errors.delete(alone, **ALL, confirm=True).warnings == []
