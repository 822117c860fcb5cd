"""A failed message's headers on the way back: those of the failure go, those of the message stay."""

from __future__ import annotations

from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.message import HeaderNames, Message, ReceivedMessage, decode_headers

EDIT_OF = "ServiceControl.EditOf"
"""The message id of the message that an edited one stands for."""

FAILURE_HEADERS = (
    HeaderNames.DELAYED_RETRIES,
    HeaderNames.IMMEDIATE_RETRIES,
    HeaderNames.FAILED_Q,
    HeaderNames.TIME_OF_FAILURE,
    "NServiceBus.ExceptionInfo.",
    EDIT_OF,
)
"""Beginnings of header names: what ServiceControl removes before a retry, and ``FLRetries`` of old versions, so that
retries start over (docs/transport/messages.md, "Returning failed messages"). Like ServiceControl this leaves the
processing endpoint and machine, which the endpoint that processes the message overwrites, and
``NServiceBus.Timeout.Expire``, which a timeout manager needs.
"""


def headers_without_failure(message: ReceivedMessage) -> dict[str, str | None]:
    """The headers without the failure's, as far as they can be read.

    Endpoints of versions 1 and 2 keep the correlation id and the reply address in columns: where the headers do not
    have them, they come from there, so that a row of any layout can take them (docs/transport/queue-tables.md,
    "Sending").
    """
    values = decode_headers(message.headers).values
    kept = {name: value for name, value in values.items() if not name.startswith(FAILURE_HEADERS)}
    columns = {
        HeaderNames.CORRELATION_ID: message.correlation_id,
        HeaderNames.REPLY_TO_ADDRESS: message.reply_to_address,
    }
    for name, value in columns.items():
        if value and not kept.get(name):
            kept[name] = value
    return kept


def without_failure(message: ReceivedMessage) -> Message:
    """The message as it is sent back: row Id, message id and body are the same, it does not expire.

    Raises :class:`MessageError` where the headers are malformed.
    """
    if problem := decode_headers(message.headers).problem:
        raise MessageError(f"The message with RowVersion {message.row_version} is malformed: {problem}.")
    return Message(headers_without_failure(message), message.body, id=message.id)


def unchanged(message: ReceivedMessage) -> Message:
    """The message with the exact text of its headers, readable or not; it does not expire."""
    return Message(message.headers, message.body, id=message.id)
