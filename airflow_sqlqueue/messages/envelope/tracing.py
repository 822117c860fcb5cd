"""Spans of OpenTelemetry for messages that are sent and handled, with NServiceBus's names, and W3C Trace Context.

The package ``opentelemetry-api`` is optional. Without it, or without a tracer provider, there are no spans, and every
function here does nothing. Source: docs/transport/messages.md, "Traces".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.messages.envelope.reading import Envelope
from airflow_sqlqueue.messages.message import HeaderNames, Headers
from airflow_sqlqueue.untrusted import event_value, header_value

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, Tracer

SEND, PUBLISH, REPLY, PROCESS = "send message", "publish event", "reply", "process message"
"""Names of spans."""

TRACE_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
"""W3C Trace Context, version 00: version, trace id, parent id, flags."""

_SCOPE = "airflow_sqlqueue"

_ATTRIBUTES = {
    HeaderNames.MESSAGE_ID: "nservicebus.message_id",
    HeaderNames.CORRELATION_ID: "nservicebus.correlation_id",
    HeaderNames.CONVERSATION_ID: "nservicebus.conversation_id",
    HeaderNames.RELATED_TO: "nservicebus.related_to",
    HeaderNames.ENCLOSED_MESSAGE_TYPES: "nservicebus.enclosed_message_types",
    HeaderNames.CONTENT_TYPE: "nservicebus.content_type",
    HeaderNames.MESSAGE_INTENT: "nservicebus.message_intent",
    HeaderNames.ORIGINATING_ENDPOINT: "nservicebus.originating_endpoint",
    HeaderNames.DELAYED_RETRIES: "nservicebus.delayed_retries",
}
"""The headers that become attributes, a part of those of NServiceBus: no other header reaches a trace."""


@cache
def _is_installed() -> bool:
    try:
        import opentelemetry.trace  # noqa: F401
    except ImportError:
        return False
    return True


def _tracer() -> Tracer:
    from opentelemetry import trace

    # Not kept: an application may set its tracer provider later.
    return trace.get_tracer(_SCOPE)


def trace_headers() -> dict[str, str]:
    """Return the headers ``traceparent`` and ``tracestate`` of the current span; none without one."""
    if not _is_installed():
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers


def incoming_trace(headers: Headers) -> dict[str, str]:
    """Return the valid headers of a handled message's trace: ``traceparent``, ``tracestate``, ``baggage``."""
    parent = headers.get(HeaderNames.TRACE_PARENT)
    if parent is None or not TRACE_PARENT.fullmatch(parent):
        return {}
    others = (HeaderNames.TRACE_STATE, HeaderNames.BAGGAGE)
    found = {name: header_value(headers.get(name)) for name in others}
    return {HeaderNames.TRACE_PARENT: parent} | {name: value for name, value in found.items() if value is not None}


@contextmanager
def send_span(name: str, destination: str) -> Iterator[Span | None]:
    """Make a span the current one for a call that sends; it is None if it is not recorded.

    :param name: :data:`SEND`, :data:`PUBLISH` or :data:`REPLY`.
    :param destination: the address of a queue or of a table of subscriptions.
    """
    if not _is_installed():
        yield None
        return
    from opentelemetry.trace import SpanKind

    with _span(name, kind=SpanKind.PRODUCER, attributes=_messaging(destination)) as span:
        yield span if span.is_recording() else None


def add_sent(span: Span, count: int, first: Headers | None) -> None:
    """Add the number of sent messages to a span, and the headers of a single one."""
    span.set_attribute("messaging.batch.message_count", count)
    if count == 1 and first is not None:
        span.set_attributes(_attributes(first))


@contextmanager
def process_span(envelope: Envelope, endpoint: str, queue: str) -> Iterator[None]:
    """Make a span the current one while a message is handled, as NServiceBus's endpoints do.

    It is a child of the sender's span, or, if the header ``NServiceBus.OpenTelemetry.StartNewTrace`` asks for it, the
    root of a new trace with a link to the sender's. The span that was current, such as a task's, is its parent if
    the message has no trace, and linked otherwise.
    """
    if not _is_installed():
        yield
        return
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    sender: Context | None = None
    links: list[Link] = []
    if carrier := incoming_trace(envelope.headers):
        sender = TraceContextTextMapPropagator().extract(carrier, context=Context())
        around = trace.get_current_span().get_span_context()
        if around.is_valid:
            links.append(trace.Link(around))
        if envelope.headers.get(HeaderNames.START_NEW_TRACE) == str(True):
            links.append(trace.Link(trace.get_current_span(sender).get_span_context()))
            sender = Context()
    attributes = {
        **_messaging(queue),
        **_attributes(envelope.headers),
        "nservicebus.processing_endpoint": endpoint,
        "nservicebus.native_message_id": str(envelope.row_id),
    }
    with _span(PROCESS, kind=trace.SpanKind.CONSUMER, context=sender, links=links, attributes=attributes):
        yield


@contextmanager
def handler_span(handler: Any) -> Iterator[None]:
    """Make a span the current one while a function handles a message; it has the function's name."""
    if not _is_installed():
        yield
        return
    while isinstance(handler, partial):
        handler = handler.func
    function = handler if hasattr(handler, "__qualname__") else type(handler)
    name = function.__qualname__
    with _span(name, attributes={"nservicebus.handler.handler_type": f"{function.__module__}.{name}"}):
        yield


@contextmanager
def _span(name: str, **options: Any) -> Iterator[Span]:
    """Make a span the current one; of an exception it has the type alone, because its text may show a body."""
    from opentelemetry.trace import Status, StatusCode

    with _tracer().start_as_current_span(
        name, record_exception=False, set_status_on_exception=False, **options
    ) as span:
        try:
            yield span
        except Exception as error:
            kind = f"{type(error).__module__}.{type(error).__qualname__}"
            span.set_attribute("error.type", kind)
            span.set_status(Status(StatusCode.ERROR, kind))
            raise


def _messaging(destination: str) -> dict[str, str]:
    return {"messaging.system": "sqlserver", "messaging.destination.name": destination}


def _attributes(headers: Headers) -> dict[str, str]:
    values = {attribute: event_value(headers.get(name)) for name, attribute in _ATTRIBUTES.items()}
    return {attribute: value for attribute, value in values.items() if value}
