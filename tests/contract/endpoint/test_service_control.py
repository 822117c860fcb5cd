"""Audit copies of handled messages, and acknowledgements of ServiceControl's retries."""

from __future__ import annotations

import logging
import socket
import threading
from datetime import datetime, timedelta, timezone

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.endpoint import service_control
from airflow_sqlqueue.endpoint.recoverability import RecoverabilityOptions
from airflow_sqlqueue.endpoint.service_control import host_id
from airflow_sqlqueue.errors import ConfigurationError, QueueNotFoundError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.server.transactions import MODES, NONE
from tests.contract.conftest import LoginIn
from tests.contract.endpoint.conftest import AT_ONCE, ONCE, Consume, Seen, failing, headers, numbered, options
from tests.drains import bodies

RETRIED = {
    HeaderNames.MESSAGE_ID: "id-0",
    HeaderNames.RETRY_UNIQUE_MESSAGE_ID: "3b1e4c5e-4a5a-3c4b-8f0e-000000000001",
    HeaderNames.RETRY_ACKNOWLEDGEMENT_QUEUE: "acknowledged",
}


@pytest.fixture
def audit(client: QueueClient) -> Queue:
    client.tables.create("audit")
    return client.queue("audit")


@pytest.fixture
def acknowledged(client: QueueClient) -> Queue:
    client.tables.create("acknowledged")
    return client.queue("acknowledged")


def fail(message: Envelope) -> None:
    raise ValueError("never")


@pytest.mark.parametrize("mode", MODES)
def test_a_handled_message_is_copied_with_its_processing(
    client: QueueClient, orders: Queue, audit: Queue, consume: Consume, mode: str
) -> None:
    sent = {HeaderNames.MESSAGE_ID: "id-0", HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder", "tenant": None}
    orders.send([Message(sent, b"an order", time_to_be_received=timedelta(hours=1))])
    envelopes: list[Envelope] = []
    before = datetime.now(timezone.utc)
    done = consume(envelopes.append, transaction_mode=mode, audit_queue="audit", endpoint="Shop.Orders")
    assert (done.handled, done.failed) == (1, 0)
    (copy,) = audit.receive(10)
    assert (copy.id, copy.body, copy.expires) == (envelopes[0].row_id, b"an order", None)
    found = Envelope.of(copy)
    assert found.headers.items() >= sent.items()
    assert found.audit.processing_endpoint == "Shop.Orders"
    assert found.audit.processing_machine == found.audit.host_display_name == socket.gethostname()
    assert found.audit.host_id == host_id("Shop.Orders").hex != host_id("Shop.Billing").hex
    assert found.audit.processing_started is not None
    assert found.audit.processing_ended is not None
    assert before <= found.audit.processing_started <= found.audit.processing_ended <= datetime.now(timezone.utc)
    assert HeaderNames.RETRY_ACKNOWLEDGEMENT_SENT not in found.headers


def test_without_an_audit_queue_no_message_is_copied(orders: Queue, audit: Queue, consume: Consume) -> None:
    orders.send(numbered(1))
    consume(Seen())
    assert bodies(audit) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_message_that_fails_is_neither_copied_nor_acknowledged(
    orders: Queue, error: Queue, audit: Queue, acknowledged: Queue, consume: Consume, mode: str
) -> None:
    orders.send([Message(RETRIED, b"0")])
    done = consume(fail, transaction_mode=mode, audit_queue="audit")
    assert done.failed == 1
    assert bodies(audit) == bodies(acknowledged) == []
    # The ids go with the message: ServiceControl counts this failure as one more of the same message.
    assert headers(error.receive()[0]).items() >= RETRIED.items()


def test_an_attempt_that_fails_leaves_no_copy(orders: Queue, audit: Queue, consume: Consume) -> None:
    orders.send(numbered(1))
    consume(failing(lambda number: number == 1), AT_ONCE, audit_queue="audit")
    assert bodies(audit) == [b"0"]


def test_a_message_that_the_handler_gives_up_is_neither_copied_nor_acknowledged(
    client: QueueClient, orders: Queue, error: Queue, audit: Queue, acknowledged: Queue, consume: Consume
) -> None:
    """An acknowledgement after the failure would hide the message in ServicePulse."""
    orders.send([Message(RETRIED, b"0")])
    done = consume(lambda message: client.errors.fail(message, ValueError("no")), audit_queue="audit")
    assert (done.handled, done.failed) == (0, 1)
    assert (bodies(error), bodies(audit), bodies(acknowledged)) == ([b"0"], [], [])


def test_the_failure_of_another_message_is_no_failure_of_this_one(
    client: QueueClient, orders: Queue, billing: Queue, audit: Queue, consume: Consume
) -> None:
    orders.send(numbered(1))
    billing.send([Message({HeaderNames.MESSAGE_ID: "bill"}, b"bill")])

    def fail_the_bill(message: Envelope) -> None:
        client.errors.fail(billing.receive()[0], ValueError("no"), failed_queue="billing")

    assert consume(fail_the_bill, audit_queue="audit").handled == 1
    assert bodies(audit) == [b"0"]


@pytest.mark.parametrize(("mode", "audited"), [*((mode, True) for mode in MODES), (MODES[0], False)])
def test_a_retry_of_service_control_is_acknowledged(
    orders: Queue, audit: Queue, acknowledged: Queue, consume: Consume, mode: str, audited: bool
) -> None:
    orders.send([Message(RETRIED, b"0"), *numbered(2)[1:]])
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    done = consume(Seen(), transaction_mode=mode, audit_queue="audit" if audited else None)
    assert done.handled == 2
    (message,) = acknowledged.receive(10)
    assert message.body == b""
    found = headers(message)
    when = str(found.pop(HeaderNames.RETRY_SUCCESSFUL))
    assert format_time(before) < when < format_time(datetime.now(timezone.utc))
    assert found == {
        HeaderNames.RETRY_UNIQUE_MESSAGE_ID: RETRIED[HeaderNames.RETRY_UNIQUE_MESSAGE_ID],
        HeaderNames.CONTROL_MESSAGE: "True",
    }
    marks = [headers(copy).get(HeaderNames.RETRY_ACKNOWLEDGEMENT_SENT) for copy in audit.receive(10)]
    assert marks == (["true", None] if audited else [])


def test_a_retry_that_fails_at_first_is_acknowledged_after_its_delay(
    client: QueueClient, orders: Queue, acknowledged: Queue, consume: Consume
) -> None:
    orders.send([Message(RETRIED, b"0")])
    seen = failing(lambda number: number == 1)
    assert consume(seen, RecoverabilityOptions(0, 1, 0.0)).delayed == 1
    assert bodies(acknowledged) == []
    client.delayed("orders").move()
    assert consume(seen).handled == 1
    assert len(bodies(acknowledged)) == 1


def test_addresses_that_cannot_be_used_are_not_acknowledged(
    orders: Queue, audit: Queue, acknowledged: Queue, consume: Consume, caplog: pytest.LogCaptureFixture
) -> None:
    """ServiceControl's audit instance acknowledges a copy without the mark."""
    marked = {**RETRIED, HeaderNames.RETRY_ACKNOWLEDGEMENT_SENT: "true"}
    addresses = ["missing", "acknowledged@[elsewhere]@[master]", "acknowledged@[other]", "[", "orders.Delayed"]
    orders.send(Message({**marked, HeaderNames.RETRY_ACKNOWLEDGEMENT_QUEUE: address}) for address in addresses)
    with caplog.at_level(logging.WARNING):
        done = consume(Seen(), audit_queue="audit")
    assert (done.handled, done.rolled_back) == (5, 0)
    assert bodies(acknowledged) == []
    assert caplog.text.count("is not acknowledged") == 5
    copies = audit.receive(9)
    assert len(copies) == 5
    assert not any(HeaderNames.RETRY_ACKNOWLEDGEMENT_SENT in headers(copy) for copy in copies)


def test_a_queue_that_goes_away_meanwhile_is_not_acknowledged_again(
    client: QueueClient, orders: Queue, acknowledged: Queue, consume: Consume
) -> None:
    orders.send([Message(RETRIED, b"0"), Message({**RETRIED, HeaderNames.MESSAGE_ID: "id-1"}, b"1")])

    def drop(message: Envelope) -> None:
        if seen.bodies == [b"0", b"1"]:
            client.tables.drop("acknowledged", force=True)

    seen = Seen(drop)
    done = consume(seen, AT_ONCE)
    assert (done.handled, done.failed, done.rolled_back) == (2, 0, 1)


def test_a_handler_remembers_few_of_the_addresses_that_senders_choose(
    client: QueueClient, orders: Queue, acknowledged: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_control, "MAX_USABLE", 2)
    usable: dict[str, ResolvedAddress] = {}
    orders.send(
        Message({**RETRIED, HeaderNames.RETRY_ACKNOWLEDGEMENT_QUEUE: "acknowledged" + " " * n}) for n in range(5)
    )
    with orders.open() as queue, queue.session.transaction():
        for _ in range(5):
            (message,) = queue.receive()
            assert service_control.acknowledge(queue.session, client.resolver, Envelope.of(message), usable)
            assert len(usable) <= 2
    assert len(bodies(acknowledged)) == 5


def test_a_queue_that_the_login_may_not_use_is_not_acknowledged(
    orders: Queue, acknowledged: Queue, client: QueueClient, login_in: LoginIn
) -> None:
    """The error would end the transaction of the message, which would fail again and again."""
    table = acknowledged.address
    with login_in("db_datareader", "db_datawriter")() as low:
        user = low.settings.user
        client.run_sql(f"DENY INSERT ON [{table.schema}].[{table.table}] TO [{user}]")
        orders.send([Message(RETRIED, b"0")])
        own = QueueClient(low.settings, client.resolver)
        done = own.queue("orders").consume(Seen(), options())
    assert (done.handled, done.failed, done.rolled_back) == (1, 0, 0)
    assert bodies(acknowledged) == []
    assert bodies(orders) == []


def test_headers_that_name_no_retry_are_ignored(orders: Queue, acknowledged: Queue, consume: Consume) -> None:
    for name in (HeaderNames.RETRY_UNIQUE_MESSAGE_ID, HeaderNames.RETRY_ACKNOWLEDGEMENT_QUEUE):
        orders.send(Message({**RETRIED, name: value}) for value in (None, "", "x" * 10_000))
    assert consume(Seen()).handled == 6
    assert bodies(acknowledged) == []


@pytest.mark.parametrize("mode", MODES)
def test_headers_that_cannot_be_written_again_are_copied_as_they_are(
    orders: Queue, audit: Queue, consume: Consume, mode: str
) -> None:
    texts = ['{"half":"\\ud800"}', '{"a":"' + "x" * 1_048_500 + '"}']
    orders.send(Message(text, b"0") for text in texts)
    done = consume(Seen(), transaction_mode=mode, audit_queue="audit")
    assert (done.handled, done.failed, done.rolled_back) == (2, 0, 0)
    assert [(copy.headers, copy.body) for copy in audit.receive(9)] == [(text, b"0") for text in texts]


def test_a_copy_goes_nowhere_from_the_audit_queue(
    client: QueueClient, orders: Queue, audit: Queue, consume: Consume
) -> None:
    """A receiver of the transport forwards what names a destination, as messages do that were delayed."""
    own = client.resolve("orders").canonical
    orders.send([Message({HeaderNames.FORWARD_DESTINATION: own}, b"0")])
    assert consume(Seen(), audit_queue="audit").handled == 1
    assert HeaderNames.FORWARD_DESTINATION not in headers(audit.receive()[0])


@pytest.mark.parametrize("mode", MODES)
def test_a_copy_that_the_audit_queue_refuses_fails_its_message_alone(
    client: QueueClient, orders: Queue, error: Queue, audit: Queue, consume: Consume, mode: str
) -> None:
    table = audit.address.qualified_name
    client.run_sql(f"ALTER TABLE {table} ADD CONSTRAINT [Short] CHECK (DATALENGTH([Body]) < 3)")
    orders.send([Message({}, b"0"), Message({}, b"long"), Message({}, b"2")])
    done = consume(Seen(), transaction_mode=mode, audit_queue="audit")
    assert (done.handled, done.failed) == (2, 1)
    assert (bodies(audit), bodies(error), bodies(orders)) == ([b"0", b"2"], [b"long"], [])


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != NONE])
def test_no_message_is_to_blame_for_an_audit_queue_that_is_gone(
    client: QueueClient, orders: Queue, error: Queue, audit: Queue, consume: Consume, mode: str
) -> None:
    orders.send(numbered(3))

    def drop(message: Envelope) -> None:
        if message.body == b"1" and len(seen.bodies) == 2:
            dropped = threading.Thread(target=client.tables.drop, args=("audit",), kwargs={"force": True})
            dropped.start()
            dropped.join()

    seen = Seen(drop)
    with pytest.raises(QueueNotFoundError, match="audit"):
        consume(seen, AT_ONCE, transaction_mode=mode, audit_queue="audit")
    assert (bodies(orders), bodies(error)) == ([b"1", b"2"], [])


def test_an_audit_queue_that_cannot_be_used_is_refused_before_anything_is_received(
    orders: Queue, consume: Consume
) -> None:
    orders.send(numbered(1))
    for name, error in (("missing", QueueNotFoundError), ("orders", ConfigurationError), (" ", ConfigurationError)):
        with pytest.raises(error, match=name.strip() or "blank"):
            consume(Seen(), ONCE, audit_queue=name)
    assert bodies(orders) == [b"0"]


def test_a_swallowed_error_of_a_statement_leaves_no_copy(
    client: QueueClient, orders: Queue, error: Queue, audit: Queue, consume: Consume
) -> None:
    orders.send(numbered(2))

    def swallow(message: Envelope) -> None:
        if message.body == b"0":
            with pytest.raises(Exception, match="Could not"):
                client.run_sql("SELECT 1/0")

    done = consume(swallow, audit_queue="audit")
    assert (done.handled, done.failed) == (1, 1)
    assert (bodies(audit), bodies(error)) == ([b"1"], [b"0"])
