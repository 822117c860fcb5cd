"""Causation headers: the links from a handled message to the messages that its handler sends.

Source: docs/transport/messages.md, "Causation".
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property

from airflow_sqlqueue.envelope.reading import Envelope
from airflow_sqlqueue.message import HeaderNames, Message
from airflow_sqlqueue.untrusted import header_value

_TRACE_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
"""W3C Trace Context, version 00: version, trace id, parent id, flags."""

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
        if _TRACE_PARENT.fullmatch(self.envelope.tracing.traceparent or ""):
            linked |= {name: header_value(self.envelope.headers.get(name)) for name in _TRACE}
        return {name: value for name, value in linked.items() if value is not None}


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


def caused(messages: Iterable[Message], *, new_trace: bool = False) -> Iterable[Message]:
    """Add the causation headers to messages; outside of a handler the messages stay as they are.

    A message's own headers come first: its own conversation is a new one, which names the handled message's
    conversation as the previous one. A message with the id of the handled message is that message, on its way to
    another queue, and stays as it is. So does a message whose headers are text.

    :param new_trace: whether receivers begin a trace of their own, linked to this one: NServiceBus does so for events
        and delayed messages.
    """
    cause = _cause.get()
    return messages if cause is None else (_caused(message, cause, new_trace) for message in messages)


def _caused(message: Message, cause: _Cause, new_trace: bool) -> Message:
    own = message.headers
    if isinstance(own, str) or own.get(HeaderNames.MESSAGE_ID, "") == cause.envelope.identity.message_id:
        return message
    headers = {
        HeaderNames.ORIGINATING_ENDPOINT: cause.endpoint,
        HeaderNames.ORIGINATING_MACHINE: socket.gethostname(),
        **cause.links,
    }
    conversation = cause.links.get(HeaderNames.CONVERSATION_ID)
    if conversation and own.get(HeaderNames.CONVERSATION_ID) not in (None, conversation):
        headers[HeaderNames.PREVIOUS_CONVERSATION_ID] = conversation
    if own.get(HeaderNames.TRACE_PARENT) not in (None, headers.get(HeaderNames.TRACE_PARENT)):
        # State and baggage belong to the trace of the handled message, which this message is not part of.
        headers = {name: value for name, value in headers.items() if name not in _TRACE}
    elif HeaderNames.TRACE_PARENT in headers:
        headers[HeaderNames.START_NEW_TRACE] = str(new_trace)
    return replace(message, headers={**headers, **own})
