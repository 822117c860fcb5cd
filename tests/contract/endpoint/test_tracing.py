"""Spans of OpenTelemetry for sends and handlings, and the trace that they give to messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.messages.envelope import Envelope, tracing
from airflow_sqlqueue.messages.envelope.tracing import TRACE_PARENT
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.server.transactions import MODES
from tests.contract.endpoint.conftest import Consume, headers

SENDER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
INCOMING = {
    HeaderNames.MESSAGE_ID: "question",
    HeaderNames.CONVERSATION_ID: "conversation",
    HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.Orders.PlaceOrder",
    HeaderNames.TRACE_PARENT: SENDER,
    HeaderNames.TRACE_STATE: "rojo=00f067aa0ba902b7",
    HeaderNames.BAGGAGE: "tenant=7",
    "Secret": "of the header",
}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The finished spans of a tracer provider that is the application's for the time of a test."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


def by_name(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    found = spans.get_finished_spans()
    assert len({span.name for span in found}) == len(found)
    return {span.name: span for span in found}


def parent_in(found: dict[str, Any]) -> tuple[int, int]:
    _, trace_id, span_id, _ = found[HeaderNames.TRACE_PARENT].split("-")
    return int(trace_id, 16), int(span_id, 16)


def place(span: ReadableSpan) -> tuple[int, int]:
    context = span.context
    assert context is not None
    return context.trace_id, context.span_id


@pytest.mark.parametrize("mode", MODES)
def test_a_handled_message_continues_the_trace_of_its_sender(
    client: QueueClient, orders: Queue, billing: Queue, consume: Consume, spans: InMemorySpanExporter, mode: str
) -> None:
    orders.send([Message(INCOMING, b"secret body")])
    spans.clear()

    def bill(envelope: Any) -> None:
        client.queue("billing").send([Message({HeaderNames.MESSAGE_ID: "answer"}, b"!")])

    assert consume(bill, endpoint="Shop.Orders", transaction_mode=mode).handled == 1
    found = by_name(spans)
    process, handler, send = found["process message"], found[bill.__qualname__], found["send message"]
    assert place(process)[0] == place(handler)[0] == place(send)[0] == int(SENDER.split("-")[1], 16)
    assert [span.parent and span.parent.span_id for span in (process, handler, send)] == [
        int(SENDER.split("-")[2], 16),
        place(process)[1],
        place(handler)[1],
    ]
    assert (process.kind, handler.kind, send.kind) == (SpanKind.CONSUMER, SpanKind.INTERNAL, SpanKind.PRODUCER)
    (answer,) = billing.receive(10)
    assert parent_in(headers(answer)) == place(send)
    assert headers(answer)[HeaderNames.TRACE_STATE] == "rojo=00f067aa0ba902b7"
    assert headers(answer)[HeaderNames.BAGGAGE] == "tenant=7"
    attributes = dict(process.attributes or {})
    assert UUID(str(attributes.pop("nservicebus.native_message_id")))
    assert attributes == {
        "messaging.system": "sqlserver",
        "messaging.destination.name": orders.address.canonical,
        "nservicebus.message_id": "question",
        "nservicebus.conversation_id": "conversation",
        "nservicebus.enclosed_message_types": "Shop.Orders.PlaceOrder",
        "nservicebus.processing_endpoint": "Shop.Orders",
    }
    assert dict(send.attributes or {})["nservicebus.message_id"] == "answer"
    assert not any("secret" in str(span.to_json()).lower() for span in found.values())


def test_a_new_trace_is_linked_to_that_of_the_sender(
    orders: Queue, consume: Consume, spans: InMemorySpanExporter
) -> None:
    orders.send([Message({**INCOMING, HeaderNames.START_NEW_TRACE: "True"})])
    spans.clear()
    with trace.get_tracer("task").start_as_current_span("the task"):
        consume(lambda _: None)
    found = by_name(spans)
    process = found["process message"]
    assert process.parent is None
    assert place(process)[0] not in (int(SENDER.split("-")[1], 16), place(found["the task"])[0])
    assert [(link.context.trace_id, link.context.span_id) for link in process.links] == [
        place(found["the task"]),
        (int(SENDER.split("-")[1], 16), int(SENDER.split("-")[2], 16)),
    ]


@pytest.mark.parametrize("wrong", [None, "00-1-2-01", SENDER.upper(), f"{SENDER}\n", "00-" + "0" * 32 + SENDER[35:]])
def test_a_message_without_a_valid_trace_is_handled_in_that_of_the_task(
    orders: Queue, consume: Consume, spans: InMemorySpanExporter, wrong: str | None
) -> None:
    orders.send([Message({**INCOMING, HeaderNames.TRACE_PARENT: wrong})])
    spans.clear()
    with trace.get_tracer("task").start_as_current_span("the task"):
        consume(lambda _: None)
    found = by_name(spans)
    process, task = found["process message"], found["the task"]
    assert process.parent is not None
    assert (process.parent.trace_id, process.parent.span_id) == place(task)
    assert not process.links


def test_a_failure_has_the_type_of_its_exception_and_not_its_text(
    orders: Queue, consume: Consume, spans: InMemorySpanExporter
) -> None:
    orders.send([Message(INCOMING, b"body")])
    spans.clear()

    def fail(envelope: Any) -> None:
        raise ValueError("the text has the body")

    assert consume(fail).failed == 1
    found = [span for span in spans.get_finished_spans() if span.name in ("process message", fail.__qualname__)]
    assert {span.status.status_code for span in found} == {StatusCode.ERROR}
    assert {(span.attributes or {})["error.type"] for span in found} == {"builtins.ValueError"}
    assert not any("has the body" in str(span.to_json()) for span in spans.get_finished_spans())


def _publish(client: QueueClient, messages: list[Message]) -> None:
    client.tables.create("billing", subscriptions=True)
    client.subscriptions.subscribe("billing", ["Shop.Placed"])
    client.subscriptions.publish(["Shop.Placed"], messages)


SENDS: dict[str, Callable[[QueueClient, list[Message]], Any]] = {
    "send message": lambda client, messages: client.queue("billing").send(messages),
    "publish event": _publish,
}


@pytest.mark.parametrize("name", SENDS)
def test_a_call_that_sends_is_a_span_of_the_task(
    client: QueueClient, billing: Queue, spans: InMemorySpanExporter, name: str
) -> None:
    with trace.get_tracer("task").start_as_current_span("the task"):
        first = Message({HeaderNames.MESSAGE_ID: "first"}, b"1")
        SENDS[name](client, [first, Message({}, b"2"), Message({HeaderNames.TRACE_PARENT: SENDER}, b"3")])
    found = by_name(spans)
    send, task = found[name], found["the task"]
    assert send.parent is not None
    assert (send.parent.trace_id, send.parent.span_id) == place(task)
    assert (send.attributes or {})["messaging.batch.message_count"] == 3
    assert "nservicebus.message_id" not in (send.attributes or {}), "that of one of several messages"
    received = [headers(message) for message in billing.receive(10)]
    assert [parent_in(each) for each in received[:2]] == [place(send)] * 2
    assert [each[HeaderNames.START_NEW_TRACE] for each in received[:2]] == [str(name == "publish event")] * 2
    assert received[2][HeaderNames.TRACE_PARENT] == SENDER
    assert HeaderNames.START_NEW_TRACE not in received[2]


def test_without_a_span_messages_get_no_trace(client: QueueClient, billing: Queue) -> None:
    client.queue("billing").send([Message({})])
    assert not headers(billing.receive()[0]).keys() & {HeaderNames.TRACE_PARENT, HeaderNames.START_NEW_TRACE}


def test_without_opentelemetry_the_trace_of_a_handled_message_goes_on(
    client: QueueClient,
    orders: Queue,
    billing: Queue,
    consume: Consume,
    spans: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracing, "_is_installed", lambda: False)
    orders.send([Message(INCOMING)])
    consume(lambda _: client.queue("billing").send([Message({})]))
    assert not spans.get_finished_spans()
    (answer,) = billing.receive(10)
    assert TRACE_PARENT.fullmatch(headers(answer)[HeaderNames.TRACE_PARENT])
    assert headers(answer)[HeaderNames.TRACE_PARENT] == SENDER


def test_a_reply_is_a_span(client: QueueClient, orders: Queue, billing: Queue, spans: InMemorySpanExporter) -> None:
    orders.send([Message({**INCOMING, HeaderNames.REPLY_TO_ADDRESS: "billing"}, b"?")])
    spans.clear()
    (question,) = orders.receive()
    client.reply(question, {"ok": True}, endpoint="Shop.Orders")
    assert [span.name for span in spans.get_finished_spans()] == ["reply"]


def test_a_batch_has_the_span_of_its_function_alone(
    orders: Queue, consume: Consume, spans: InMemorySpanExporter
) -> None:
    handlers = MessageHandlers()

    @handlers.batch()
    def handle_all(messages: list[Envelope]) -> None:
        assert len(messages) == 2

    orders.send([Message(INCOMING, b"0"), Message(INCOMING, b"1")])
    spans.clear()
    assert consume(handlers).handled == 2
    (span,) = spans.get_finished_spans()
    assert span.name.endswith("handle_all")
    assert span.parent is None


def test_a_type_without_a_function_is_an_error_in_the_span_of_its_message(
    orders: Queue, consume: Consume, spans: InMemorySpanExporter
) -> None:
    handlers = MessageHandlers()
    handlers.handles("Shop.Other")(print)
    orders.send([Message(INCOMING, b"0")])
    spans.clear()
    assert consume(handlers).failed == 1
    (span,) = [span for span in spans.get_finished_spans() if span.name == tracing.PROCESS]
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "airflow_sqlqueue.errors.NoHandlerError"
