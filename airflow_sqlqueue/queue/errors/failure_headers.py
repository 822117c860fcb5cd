"""Headers of a failure: added to a message that goes to the error queue, removed from one that is returned.

Sources: docs/transport/messages.md, "Failed messages", "Poison messages" and "Returning failed messages".
"""

from __future__ import annotations

import re
import socket
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import (
    HeaderNames,
    Headers,
    Message,
    ReceivedMessage,
    can_be_written,
    decode_headers,
)

EDIT_OF = "ServiceControl.EditOf"
"""The header of an edited message that holds the message id of the original."""

_EXCEPTION = "NServiceBus.ExceptionInfo."
"""The beginning of the exception's headers. Those of an earlier failure go: they would look like a part of this one."""

FAILURE_HEADERS = (
    HeaderNames.DELAYED_RETRIES,
    HeaderNames.IMMEDIATE_RETRIES,
    HeaderNames.FAILED_Q,
    HeaderNames.TIME_OF_FAILURE,
    _EXCEPTION,
    EDIT_OF,
)
"""Beginnings of the names of headers that a return removes: those that ServiceControl removes before a retry, and
``FLRetries`` of old versions, so that retries start over. As with ServiceControl the processing endpoint and machine
stay, which the endpoint that processes the message overwrites, and ``NServiceBus.Timeout.Expire``, which a timeout
manager needs.
"""

_RETRY_HEADERS = {HeaderNames.IMMEDIATE_RETRIES, HeaderNames.DELAYED_RETRIES, HeaderNames.FORWARD_DESTINATION}

_LONGEST = 16_384
"""Characters of an exception's text: NServiceBus cuts it there, so that headers do not get too large."""

_DAG_FILE = re.compile(r"^unusual_prefix_[0-9a-f]{40}_")
"""``MODIFIED_DAG_MODULE_NAME`` of ``airflow.utils.file``."""


@dataclass(frozen=True)
class Failure:
    """Exception as headers, made when it was raised: the exception itself would keep alive every object it refers to.

    ``headers`` quote the exception and with it, perhaps, the message: they are for the error queue and not for logs.
    """

    exception_type: str
    headers: Mapping[str, str | None] = field(repr=False)

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Read an exception's text, its traceback, and the type of the exception that it was raised from."""
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        headers = {
            HeaderNames.EXCEPTION_TYPE: type_name(error),
            HeaderNames.EXCEPTION_HELP_LINK: None,
            HeaderNames.EXCEPTION_MESSAGE: _clean(_text_of(error))[:_LONGEST],
            HeaderNames.EXCEPTION_SOURCE: _source_of(error),
            # The most important lines are at the end of Python's traceback, and at the beginning of .NET's.
            HeaderNames.EXCEPTION_STACK_TRACE: _clean(_traceback_of(error))[-_LONGEST:],
        }
        if cause is not None:
            headers[HeaderNames.INNER_EXCEPTION_TYPE] = type_name(cause)
        return cls(type_name(error), headers)


def type_name(error: BaseException) -> str:
    """Full name of an exception's type, without a module for Python's own exceptions."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{_module(kind.__module__)}.{kind.__qualname__}"


def _module(name: str) -> str:
    """Return the name of a module; of a DAG file without the hash of its path, by which failures would group apart."""
    return _DAG_FILE.sub("", name)


def complete_headers(message: ReceivedMessage | Envelope | Message, envelope: Envelope) -> dict[str, str | None]:
    """Return the headers, completed from the row: its Id as the message id, and the columns of old versions.

    Every row that is made of the message gets another Id, and a table of delayed messages has no such columns.
    ``envelope`` is the message's.
    """
    values = dict(envelope.headers)
    if not values.get(HeaderNames.MESSAGE_ID) and envelope.row_id is not None:
        values[HeaderNames.MESSAGE_ID] = str(envelope.row_id)
    return _with_columns(values, message) if isinstance(message, ReceivedMessage) else values


def _with_columns(headers: dict[str, str | None], message: ReceivedMessage) -> dict[str, str | None]:
    """Add the correlation id and the reply address where the headers miss them.

    Endpoints of versions 1 and 2 keep both in columns. With the headers a row of any layout can take them
    (docs/transport/queue-tables.md, "Sending").
    """
    columns = {
        HeaderNames.CORRELATION_ID: message.correlation_id,
        HeaderNames.REPLY_TO_ADDRESS: message.reply_to_address,
    }
    return {**headers, **{name: value for name, value in columns.items() if value and not headers.get(name)}}


def failed_message(
    message: ReceivedMessage | Envelope | Message, failure: Failure, failed_queue: str, endpoint: str
) -> Message:
    """Make the message for the error queue. Its row Id, message id and body are the same, and it does not expire.

    ``failed_queue`` is where a retry sends it, ``endpoint`` is the endpoint that could not handle it. If the headers
    cannot be read, or cannot be written again, the message stays as it is, as endpoints leave it: nothing can be added
    to it.
    """
    envelope = message if isinstance(message, Envelope) else Envelope.of(message)
    identity = message.row_id if isinstance(message, Envelope) else message.id
    headers = {
        name: value
        for name, value in complete_headers(message, envelope).items()
        if name not in _RETRY_HEADERS and not name.startswith(_EXCEPTION)
    }
    headers |= {
        **failure.headers,
        HeaderNames.FAILED_Q: failed_queue,
        HeaderNames.TIME_OF_FAILURE: format_time(datetime.now(timezone.utc)),
        HeaderNames.PROCESSING_ENDPOINT: endpoint,
        HeaderNames.PROCESSING_MACHINE: socket.gethostname(),
    }
    if envelope.problem is None and can_be_written(headers):
        return Message(headers, envelope.body, id=identity)
    if isinstance(message, Envelope):
        raise MessageError("The headers of this message cannot be read: give the message as it was received.")
    return Message(message.headers, message.body, id=identity)


def kept_headers(headers: Headers) -> dict[str, str | None]:
    """Return the headers that a return keeps."""
    return {name: value for name, value in headers.items() if not name.startswith(FAILURE_HEADERS)}


def headers_without_failure(message: ReceivedMessage) -> dict[str, str | None]:
    """Return the headers without those of the failure, as far as they can be read, completed from old columns."""
    return _with_columns(kept_headers(decode_headers(message.headers).values), message)


def without_failure(message: ReceivedMessage) -> Message:
    """Make the message that a return sends: row Id, message id and body are the same, it does not expire."""
    if problem := decode_headers(message.headers).problem:
        raise MessageError(f"The message with RowVersion {message.row_version} is malformed: {problem}.")
    return Message(headers_without_failure(message), message.body, id=message.id)


def unchanged(message: ReceivedMessage) -> Message:
    """Make a message with the exact text of the headers, readable or not; it does not expire."""
    return Message(message.headers, message.body, id=message.id)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # The exception's own code may raise: the message has to go to the error queue anyway.
        return ""


def _traceback_of(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:
        return type_name(error)


def _source_of(error: BaseException) -> str:
    """Return the module that raised the exception; .NET names the assembly."""
    module, here = "", error.__traceback__
    while here is not None:
        module, here = str(here.tb_frame.f_globals.get("__name__", "")), here.tb_next
    return _clean(_module(module))


def _clean(text: str) -> str:
    """Replace halves of surrogate pairs, which no header may hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
