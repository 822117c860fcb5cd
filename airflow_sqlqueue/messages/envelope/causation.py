"""Headers that every sent message gets: its time, and the links from a handled message to those of its handler.

Source: docs/transport/messages.md, "Causation".
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property

from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.messages.envelope import tracing
from airflow_sqlqueue.messages.envelope.reading import Envelope
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import HeaderNames, Headers, Message
from airflow_sqlqueue.untrusted import header_value

_TRACE = (HeaderNames.TRACE_PARENT, HeaderNames.TRACE_STATE, HeaderNames.BAGGAGE)


@dataclass(frozen=True)
class _Cause:
    """Message that is being handled, and the name of the endpoint that handles it."""

    envelope: Envelope
    endpoint: str

    @cached_property
    def links(self) -> dict[str, str]:
        """Causation headers. Values that another message cannot have are left out: the sender chose them."""
        incoming = self.envelope.identity
        linked = {
            HeaderNames.CORRELATION_ID: header_value(incoming.correlation_id) or header_value(incoming.message_id),
            HeaderNames.CONVERSATION_ID: header_value(incoming.conversation_id) or header_value(incoming.message_id),
            HeaderNames.RELATED_TO: header_value(incoming.message_id),
        }
        named = {name: value for name, value in linked.items() if value is not None}
        return named | tracing.incoming_trace(self.envelope.headers)


_cause: ContextVar[_Cause | None] = ContextVar("sqlqueue_cause", default=None)


@contextmanager
def handling(envelope: Envelope, endpoint: str) -> Iterator[None]:
    """Make a message the cause of what is sent in the block, in this thread or task."""
    token = _cause.set(_Cause(envelope, endpoint))
    try:
        yield
    finally:
        _cause.reset(token)


def causation_headers() -> Mapping[str, str]:
    """Return the causation headers of the message that is being handled; none outside of a handler."""
    cause = _cause.get()
    return {} if cause is None else cause.links


@contextmanager
def outgoing(
    messages: Iterable[Message], destination: str, *, span: str = tracing.SEND, new_trace: bool = False
) -> Iterator[Iterable[Message]]:
    """Give messages to the block that sends them, with a span around it, their time, trace and causation headers.

    The time sent is that of the call, the same for all its messages. Outside of a handler messages get this time and
    the trace, if there is one. A message's own headers come first, even a null: its own conversation is a new one,
    which names the handled message's conversation as the previous one. A message with the id of the handled message is
    that message, on its way to another queue, and stays as it is. So does a message whose headers are text.

    :param destination: the address that the span names.
    :param span: the name of the span.
    :param new_trace: whether receivers begin a trace of their own, linked to this one: NServiceBus does so for events
        and delayed messages.
    """
    with tracing.send_span(span, destination) as recorded:
        cause = _cause.get()
        links = ({} if cause is None else cause.links) | tracing.trace_headers()
        links[HeaderNames.TIME_SENT] = format_time(datetime.now(timezone.utc))
        linked = (_linked(message, links, cause, new_trace) for message in _checked(messages))
        if recorded is None:
            yield linked
        else:
            sent = _Sent(linked)
            yield sent
            tracing.add_sent(recorded, sent.count, sent.first)


def _checked(messages: Iterable[Message]) -> Iterator[Message]:
    """Iterate over messages to send. Raises :class:`MessageError` for other values."""
    if not isinstance(messages, Iterable):
        raise MessageError(f"Messages are sent as a list, [Message(...)], not as a {type(messages).__name__}.")
    for message in messages:
        if not isinstance(message, Message):
            raise MessageError(f"A {type(message).__name__} cannot be sent as a message: send a Message.")
        yield message


class _Sent:
    """Messages, with the number of those that were sent, and the headers of the first one."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._messages = messages
        self.count = 0
        self.first: Headers | None = None

    def __iter__(self) -> Iterator[Message]:
        for message in self._messages:
            if self.count == 0 and not isinstance(message.headers, str):
                self.first = message.headers
            self.count += 1
            yield message


def _linked(message: Message, links: Mapping[str, str], cause: _Cause | None, new_trace: bool) -> Message:
    own = message.headers
    if isinstance(own, str):
        return message
    headers = dict(links)
    if cause is not None:
        if own.get(HeaderNames.MESSAGE_ID, "") == cause.envelope.identity.message_id:
            return message
        headers[HeaderNames.ORIGINATING_ENDPOINT] = cause.endpoint
        headers[HeaderNames.ORIGINATING_MACHINE] = socket.gethostname()
        conversation = links.get(HeaderNames.CONVERSATION_ID)
        if conversation and own.get(HeaderNames.CONVERSATION_ID) not in (None, conversation):
            headers[HeaderNames.PREVIOUS_CONVERSATION_ID] = conversation
    if own.get(HeaderNames.TRACE_PARENT) not in (None, links.get(HeaderNames.TRACE_PARENT)):
        # State and baggage belong to the current trace, which this message is not part of.
        headers = {name: value for name, value in headers.items() if name not in _TRACE}
    elif HeaderNames.TRACE_PARENT in headers:
        headers[HeaderNames.START_NEW_TRACE] = str(new_trace)
    return replace(message, headers={**own, **headers, **own})
