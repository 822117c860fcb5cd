"""The way into an error queue: a message with the headers that say why it failed, and where.

Sources: docs/transport/messages.md, "Failed messages" and "Poison messages".
"""

from __future__ import annotations

import re
import socket
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.envelope.times import format_time
from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.message import HeaderNames, Message, ReceivedMessage, can_be_written

_LONGEST = 16_384
"""Characters of an exception's text: where NServiceBus cuts it, so that headers do not get too large."""

_GONE = {HeaderNames.IMMEDIATE_RETRIES, HeaderNames.DELAYED_RETRIES, HeaderNames.FORWARD_DESTINATION}
_DAG_FILE = re.compile(r"^unusual_prefix_[0-9a-f]{40}_")
"""``MODIFIED_DAG_MODULE_NAME`` of ``airflow.utils.file``."""

_EXCEPTION = "NServiceBus.ExceptionInfo."
"""What is said of an earlier failure would be taken for a part of this one."""


@dataclass(frozen=True)
class Failure:
    """An exception as headers, made when it was raised: the exception itself keeps everything alive that it met.

    ``headers`` quote the exception and with it, perhaps, the message: they are for the error queue and not for logs.
    """

    exception_type: str
    headers: Mapping[str, str | None] = field(repr=False)

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The exception with its text, its traceback, and the type of the one that it was raised from."""
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        headers = {
            HeaderNames.EXCEPTION_TYPE: type_name(error),
            HeaderNames.EXCEPTION_HELP_LINK: None,
            HeaderNames.EXCEPTION_MESSAGE: _clean(_text_of(error))[:_LONGEST],
            HeaderNames.EXCEPTION_SOURCE: _source_of(error),
            # Python's traceback ends with what matters most, .NET's begins with it.
            HeaderNames.EXCEPTION_STACK_TRACE: _clean(_traceback_of(error))[-_LONGEST:],
        }
        if cause is not None:
            headers[HeaderNames.INNER_EXCEPTION_TYPE] = type_name(cause)
        return cls(type_name(error), headers)


def type_name(error: BaseException) -> str:
    """The full name of an exception's type; those of Python itself have no module before it."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{_module(kind.__module__)}.{kind.__qualname__}"


def _module(name: str) -> str:
    """The name of a module; that of a DAG file without the hash of its path, by which Airflow makes it unique.

    The path differs from machine to machine and with every version of a bundle, and failures are grouped by types.
    """
    return _DAG_FILE.sub("", name)


def complete_headers(message: ReceivedMessage | Envelope | Message, envelope: Envelope) -> dict[str, str | None]:
    """The headers, with what a row has beside them: its Id as the message id, and the columns of old versions.

    Every row that is made of the message gets another Id, and a table of delayed messages has no such columns.
    ``envelope`` is the message's.
    """
    values = dict(envelope.headers)
    if not values.get(HeaderNames.MESSAGE_ID) and envelope.row_id is not None:
        values[HeaderNames.MESSAGE_ID] = str(envelope.row_id)
    if isinstance(message, ReceivedMessage):
        if message.correlation_id and not values.get(HeaderNames.CORRELATION_ID):
            values[HeaderNames.CORRELATION_ID] = message.correlation_id
        if message.reply_to_address and not values.get(HeaderNames.REPLY_TO_ADDRESS):
            values[HeaderNames.REPLY_TO_ADDRESS] = message.reply_to_address
    return values


def failed_message(
    message: ReceivedMessage | Envelope | Message, failure: Failure, failed_queue: str, endpoint: str
) -> Message:
    """The message for the error queue. Its row Id, message id and body are the same, and it does not expire.

    ``failed_queue`` is where a retry sends it, ``endpoint`` who could not handle it. Where the headers cannot be read,
    or cannot be written again, the message stays as it is, as endpoints leave it: nothing can be added to it.
    """
    envelope = message if isinstance(message, Envelope) else Envelope.of(message)
    identity = message.row_id if isinstance(message, Envelope) else message.id
    headers = {
        name: value
        for name, value in complete_headers(message, envelope).items()
        if name not in _GONE and not name.startswith(_EXCEPTION)
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


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # Whatever its own code does: the message has to go to the error queue.
        return ""


def _traceback_of(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:
        return type_name(error)


def _source_of(error: BaseException) -> str:
    """The module that raised it; .NET names the assembly."""
    module, here = "", error.__traceback__
    while here is not None:
        module, here = str(here.tb_frame.f_globals.get("__name__", "")), here.tb_next
    return _clean(_module(module))


def _clean(text: str) -> str:
    """The text without halves of surrogate pairs, which no header may hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
