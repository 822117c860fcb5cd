"""Replies as endpoints send them.

Source: docs/transport/messages.md, "Replies".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_sqlqueue.envelope.outgoing import Sender, check_address
from airflow_sqlqueue.envelope.reading import Envelope
from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.message import HeaderNames, Message, ReceivedMessage


def reply(
    received: ReceivedMessage | Envelope,
    body: Any = None,
    *,
    endpoint: str,
    message_type: str | None = None,
    content_type: str = "application/json",
    headers: Mapping[str, Any] | None = None,
    error_code: int | None = None,
    key: str | int | None = None,
) -> tuple[str, Message]:
    """Return the reply to a message and the address that waits for it; the caller sends the reply.

    ``endpoint`` is the name of the replying endpoint. ``body`` and ``headers`` are those of :meth:`Sender.messages`.
    The result of a callback is only an ``error_code``, the number for the callback. For several replies to one message,
    give each reply a ``key``: the id of a reply is derived from the message's id, the endpoint and the key, so that a
    repeated handling replies with the same ids.

    The address is the callback queue, which requesters of version 2 name, else the reply address. Raises
    :class:`MessageError` if the message names no address or cannot be read.
    """
    envelope = received if isinstance(received, Envelope) else Envelope.of(received)
    # Versions 1 and 2 keep ids and addresses in the row's columns; the envelope of a handler has them as headers.
    columns = received if isinstance(received, ReceivedMessage) else None
    address = _address(envelope, columns.reply_to_address if columns else None)
    request = envelope.identity
    linked = {
        HeaderNames.MESSAGE_INTENT: "Reply",
        HeaderNames.CORRELATION_ID: request.correlation_id
        or (columns.correlation_id if columns else None)
        or request.message_id,
        HeaderNames.RELATED_TO: request.message_id,
        HeaderNames.CONVERSATION_ID: request.conversation_id,
        HeaderNames.SAGA_ID: envelope.saga.originating_saga_id,
        HeaderNames.SAGA_TYPE: envelope.saga.originating_saga_type,
    }
    sender = Sender(f"reply\0{request.message_id}\0{endpoint}", endpoint, content_type, message_type)
    if error_code is not None:
        if body is not None or message_type is not None:
            raise MessageError("A callback's result has neither body nor message type: leave out error_code or these.")
        linked |= {HeaderNames.CONTROL_MESSAGE: "True", HeaderNames.ERROR_CODE: str(int(error_code))}
        sender = replace(sender, content_type=None)
    known = {name: value for name, value in linked.items() if value}
    (message,) = sender.messages([{"headers": {**known, **(headers or {})}, "body": body, "key": key}])
    return address, message


def _address(envelope: Envelope, in_column: str | None) -> str:
    """Return the first reply address of a message. Version 1 kept the reply address in the row's column."""
    message_id = envelope.row_id
    if envelope.problem:
        raise MessageError(f"Message {message_id} cannot be replied to: {envelope.problem}.")
    names = (HeaderNames.CALLBACK_QUEUE, HeaderNames.REPLY_TO_ADDRESS)
    address = next(filter(None, map(envelope.headers.get, names)), in_column)
    if not address:
        raise MessageError(f"Message {message_id} cannot be replied to: it names no reply address.")
    try:
        check_address(address)
    except MessageError as error:
        raise MessageError(f"Message {message_id} cannot be replied to: {error}") from error
    return address
