"""Headers that link the messages that a handler sends to the message that it handles."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.messages.envelope import Envelope, Sender
from airflow_sqlqueue.messages.envelope.causation import causation_headers, handling
from airflow_sqlqueue.messages.message import HeaderNames, Message, ReceivedMessage
from tests.contract.endpoint.conftest import Consume, headers

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
INCOMING = {
    HeaderNames.MESSAGE_ID: "question",
    HeaderNames.CORRELATION_ID: "correlation",
    HeaderNames.CONVERSATION_ID: "conversation",
    HeaderNames.RELATED_TO: "something earlier",
    HeaderNames.TRACE_PARENT: TRACE,
    HeaderNames.TRACE_STATE: "rojo=00f067aa0ba902b7",
    HeaderNames.BAGGAGE: "tenant=7",
}
LINKS = {
    HeaderNames.CORRELATION_ID: "correlation",
    HeaderNames.CONVERSATION_ID: "conversation",
    HeaderNames.RELATED_TO: "question",
    HeaderNames.TRACE_PARENT: TRACE,
    HeaderNames.TRACE_STATE: "rojo=00f067aa0ba902b7",
    HeaderNames.BAGGAGE: "tenant=7",
}
ORIGIN = {HeaderNames.ORIGINATING_ENDPOINT: "Shop.Orders", HeaderNames.ORIGINATING_MACHINE: socket.gethostname()}
CONTINUED = {HeaderNames.START_NEW_TRACE: "False"}
NEW = {HeaderNames.START_NEW_TRACE: "True"}

Sent = Callable[..., ReceivedMessage]


@pytest.fixture
def sent(orders: Queue, billing: Queue, consume: Consume) -> Sent:
    """Handles one message and returns the message that its handler has sent to ``billing``."""

    def run(handle: Any, incoming: dict[str, Any] | None = None, **settings: Any) -> ReceivedMessage:
        orders.send([Message(INCOMING if incoming is None else incoming, b"?")])
        assert consume(handle, endpoint="Shop.Orders", **settings).handled == 1
        (received,) = billing.receive(10)
        return received

    return run


PUBLISHED = {HeaderNames.MESSAGE_INTENT: "Publish", HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.Placed"}
AT_ONCE = timedelta(0)
SENDS: dict[str, tuple[Callable[[QueueClient, Message], Any], dict[str, str]]] = {
    "send": (lambda client, message: client.queue("billing").send([message]), CONTINUED),
    "send_numbered": (lambda client, message: client.queue("billing").send_numbered([message]), CONTINUED),
    "send_once": (lambda client, message: client.queue("billing").send_once(uuid4(), [message]), CONTINUED),
    "delayed": (lambda client, message: client.delayed("billing").send([message], delay=AT_ONCE), NEW),
    "delayed, once": (
        lambda client, message: client.delayed("billing").send_once(uuid4(), [message], delay=AT_ONCE),
        NEW,
    ),
    "publish": (lambda client, message: client.subscriptions.publish(["Shop.Placed"], [message]), {**NEW, **PUBLISHED}),
}


def test_sends_of_a_handler_are_linked_to_its_message(
    client: QueueClient, orders: Queue, billing: Queue, consume: Consume
) -> None:
    client.tables.create("billing", delayed=True, subscriptions=True)
    client.subscriptions.subscribe("billing", ["Shop.Placed"])
    orders.send([Message(INCOMING, b"?")])

    def handle(message: Envelope) -> None:
        for way, (send, _) in SENDS.items():
            send(client, Message({"own": way}, way.encode()))

    assert consume(handle, endpoint="Shop.Orders").handled == 1
    client.delayed("billing").move()
    found = {received.body.decode(): headers(received) for received in billing.receive(10)}
    for sent in found.values():
        sent.pop(HeaderNames.FORWARD_DESTINATION, None)
        sent.pop(HeaderNames.MESSAGE_ID, None)
    assert found == {way: {"own": way, **LINKS, **ORIGIN, **more} for way, (_, more) in SENDS.items()}


def test_outside_of_a_handler_a_message_gets_no_header(client: QueueClient, sent: Sent) -> None:
    sent(lambda message: client.queue("billing").send([Message()]))
    client.queue("billing").send([Message({"own": "1"})])
    assert headers(client.queue("billing").receive()[0]) == {"own": "1"}


def test_after_a_handler_nothing_is_linked_to_its_message() -> None:
    with handling(Envelope(INCOMING, b"?"), "Shop.Orders"):
        assert causation_headers() == LINKS
    assert causation_headers() == {}


def test_a_reply_carries_the_trace(client: QueueClient, sent: Sent) -> None:
    incoming = {**INCOMING, HeaderNames.REPLY_TO_ADDRESS: client.resolve("billing").canonical}
    found = headers(sent(lambda message: client.reply(message, {}, endpoint="Shop.Orders"), incoming))
    assert found.items() >= {**LINKS, **ORIGIN, HeaderNames.MESSAGE_INTENT: "Reply"}.items()


def test_messages_of_a_sender_are_linked(client: QueueClient, sent: Sent) -> None:
    """Its own defaults are those of a send that nothing has caused."""
    sender = Sender("run 1", "Shop.Airflow")
    found = headers(sent(lambda message: client.queue("billing").send(sender.messages([{"body": 1}]))))
    assert found.items() >= {**LINKS, HeaderNames.ORIGINATING_ENDPOINT: "Shop.Airflow"}.items()
    given = {"correlation_id": "c", "related_to": "r"}
    found = headers(sent(lambda message: client.queue("billing").send(sender.messages([given]))))
    assert (found[HeaderNames.CORRELATION_ID], found[HeaderNames.RELATED_TO]) == ("c", "r")


def test_headers_of_the_message_come_first(client: QueueClient, sent: Sent) -> None:
    """A conversation of its own is a new one, which names the one before."""
    own = {
        HeaderNames.CORRELATION_ID: "c",
        HeaderNames.CONVERSATION_ID: "a new one",
        HeaderNames.RELATED_TO: "r",
        HeaderNames.TRACE_PARENT: TRACE.replace("0af7", "1111"),
    }
    found = headers(sent(lambda message: client.queue("billing").send([Message(own)])))
    assert found == {**own, **ORIGIN, HeaderNames.PREVIOUS_CONVERSATION_ID: "conversation"}


def test_without_their_headers_the_message_id_is_correlation_and_conversation(client: QueueClient, sent: Sent) -> None:
    envelopes: list[Envelope] = []

    def send(message: Envelope) -> None:
        envelopes.append(message)
        client.queue("billing").send([Message()])

    found = headers(sent(send, {}))
    row_id = str(envelopes[0].row_id)
    names = (HeaderNames.CORRELATION_ID, HeaderNames.CONVERSATION_ID, HeaderNames.RELATED_TO)
    assert found == {**dict.fromkeys(names, row_id), **ORIGIN}


def test_the_message_itself_on_its_way_to_another_queue_stays_as_it_is(client: QueueClient, sent: Sent) -> None:
    received = sent(lambda message: client.queue("billing").send([Message(dict(message.headers), message.body)]))
    assert headers(received) == INCOMING
    text = '{"a": "1"}'
    assert sent(lambda message: client.queue("billing").send([Message(text)])).headers == text


@pytest.mark.parametrize("mode", ["none", "receive_only"])
def test_a_request_keeps_a_correlation_of_its_own(client: QueueClient, sent: Sent, mode: str) -> None:
    """The reply is found by it, and two requests of one handling must not get each other's."""

    def ask(message: Envelope) -> None:
        with pytest.raises(TimeoutError):
            client.queue("billing").request(Message(), timeout=0.01, reply_queue="error")

    found = headers(sent(ask, transaction_mode=mode))
    assert found[HeaderNames.CORRELATION_ID] == found[HeaderNames.MESSAGE_ID] != "correlation"
    assert (found[HeaderNames.RELATED_TO], found[HeaderNames.CONVERSATION_ID]) == ("question", "conversation")


HOSTILE = ['{"%s": "x\\ud800"}', '{"%s": "' + "x" * 500_000 + '"}', '{"%s": ""}', '{"%s": null}']


def test_values_that_cannot_be_copied_are_left_out(orders: Queue, billing: Queue, consume: Consume) -> None:
    """Else every send of the handler would fail, of a message that another sender has made."""
    names = (LINKS.keys() - {HeaderNames.RELATED_TO}) | {HeaderNames.MESSAGE_ID}
    texts = [text % name for text in HOSTILE for name in names]
    orders.send(Message(text) for text in texts)
    assert consume(lambda message: billing.send([Message()])).handled == len(texts)
    received = billing.receive(100)
    assert len(received) == len(texts)
    for message in received:
        assert len(message.headers) < 1_000
        assert HeaderNames.TRACE_PARENT not in headers(message)


def test_malformed_traces_are_not_continued(orders: Queue, billing: Queue, consume: Consume) -> None:
    nobody = "00-" + "0" * 32 + "-b7ad6b7169203331-01"
    traces = ["", nobody, TRACE.upper(), TRACE + "\n", "ff" + TRACE[2:], "x"]
    orders.send(Message({**INCOMING, "traceparent": trace}) for trace in traces)
    assert consume(lambda _: billing.send([Message()])).handled == len(traces)
    received = billing.receive(9)
    assert len(received) == len(traces)
    for message in received:
        assert not headers(message).keys() & {"traceparent", "tracestate", "baggage", HeaderNames.START_NEW_TRACE}
