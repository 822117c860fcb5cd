"""Requests and replies: send a request, and wait for the reply by its correlation id.

Source: docs/transport/messages.md, "Replies".
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from airflow_sqlqueue.errors import MessageError, NoReplyError
from airflow_sqlqueue.messages.envelope.causation import outgoing
from airflow_sqlqueue.messages.message import HeaderNames, Message, ReceivedMessage, decode_headers
from airflow_sqlqueue.options import seconds
from airflow_sqlqueue.queue.browsing import PAGE, PAGE_BYTES, read
from airflow_sqlqueue.queue.publishing.private_queue import check_outside
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.queue.window import Window

log = logging.getLogger(__name__)

_COLUMNS = ("Headers", "CorrelationId", "Expired")
"""Columns to find a reply by. The correlation id is in the headers; versions 1 and 2 wrote it into the column."""

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.05, 2.0, 1.5


@dataclass(frozen=True)
class Reply:
    """A received reply with its headers. ``error_code`` is the integer of a callback reply, None for other replies."""

    message: ReceivedMessage
    headers: Mapping[str, str | None] = field(repr=False)
    error_code: int | None = None

    @property
    def body(self) -> bytes:
        """Body of the reply; the result of a callback has no body."""
        return self.message.body


@dataclass(frozen=True)
class Polling:
    """Waiting time and clock of a poll: ``timeout`` seconds, with pauses that grow from 0.05 to 2 seconds."""

    timeout: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep

    def __post_init__(self) -> None:
        seconds("timeout", self.timeout)

    def polls(self) -> Iterator[None]:
        """Yield at each time for a poll: at once, after each pause, and at the timeout."""
        deadline, pause = self.clock() + self.timeout, _FIRST_PAUSE
        while True:
            yield
            left = deadline - self.clock()
            if left <= 0:
                return
            self.sleep(min(pause, left))
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)


def request(destination: QueueTable, message: Message, replies: QueueTable, polling: Polling) -> Reply:
    """Send a request, committed at once, and wait for the reply in the queue ``replies``.

    Missing headers ``NServiceBus.MessageId``, ``NServiceBus.CorrelationId`` and ``NServiceBus.MessageIntent`` are
    added, and ``NServiceBus.ReplyToAddress`` becomes the canonical address of ``replies``. A reply is a message with
    the request's correlation id that has not expired; replies to other requests stay in the queue.

    Delivery: the request is sent once; the reply has left its queue when this function returns. Raises
    :class:`NoReplyError` if no reply came in time: the request stays sent. Raises :class:`TransactionError` inside a
    transaction, in which no receiver could see the request, :class:`MessageError` for a message whose headers are text,
    and :class:`ConfigurationError` for one queue for both: the request would be taken for its own reply.
    """
    check_outside(destination.session)
    destination.check_destination(replies, "reply")
    if isinstance(message.headers, str):
        raise MessageError("A request's headers are text: give them as a mapping.")
    message_id = message.headers.get(HeaderNames.MESSAGE_ID) or str(uuid.uuid4())
    correlation_id = message.headers.get(HeaderNames.CORRELATION_ID) or message_id
    headers = {
        HeaderNames.MESSAGE_INTENT: "Send",
        **message.headers,
        HeaderNames.MESSAGE_ID: message_id,
        HeaderNames.CORRELATION_ID: correlation_id,
        HeaderNames.REPLY_TO_ADDRESS: replies.address.canonical,
    }
    sent = Message(headers, message.body, message.time_to_be_received, message.id)
    with outgoing([sent], destination.address.canonical) as linked:
        destination.send(linked)
    return wait_for_reply(replies, correlation_id, polling)


def wait_for_reply(replies: QueueTable, correlation_id: str, polling: Polling) -> Reply:
    """Wait for the message with this correlation id, and receive it. Raises :class:`NoReplyError`."""
    for _ in polling.polls():
        if (reply := take_reply(replies, correlation_id)) is not None:
            return reply
    raise NoReplyError(
        f"No reply came to {replies.address.canonical} within {polling.timeout:g} seconds: check that the "
        "receiver runs, or wait longer."
    )


def find_reply(replies: QueueTable, correlation_id: str) -> int | None:
    """Return the RowVersion of the message with this correlation id, which stays in the queue; None without one."""
    return next(_waiting(replies, correlation_id), None)


def take_reply(replies: QueueTable, correlation_id: str) -> Reply | None:
    """Receive the message with this correlation id; None without one. Delivery as for a receive."""
    for row_version in _waiting(replies, correlation_id):
        # If another receiver has taken or locked the message, there is no reply.
        for message in replies.take([row_version]):
            return _reply(message)
    return None


def _waiting(replies: QueueTable, correlation_id: str) -> Iterator[int]:
    """Yield the RowVersions of the messages with this correlation id from the head on: commits have another order."""
    after = FIRST
    while True:
        page = read(replies, _COLUMNS, Window(after), rows=PAGE, max_bytes=PAGE_BYTES, cut_headers=True)
        for headers, in_column, expired, row_version in page:
            values = decode_headers(headers).values
            if not expired and correlation_id == (values.get(HeaderNames.CORRELATION_ID) or in_column):
                yield row_version
        characters = sum(len(headers or "") for headers, *_ in page)
        # A character has at most four bytes: below this size the limit of bytes has not ended the page.
        if len(page) < PAGE and 4 * characters < PAGE_BYTES:
            return
        after = page[-1][-1]


def _reply(message: ReceivedMessage) -> Reply:
    values = decode_headers(message.headers).values
    error_code = None
    with suppress(TypeError, ValueError):
        error_code = int(values.get(HeaderNames.ERROR_CODE))  # type: ignore[arg-type] # None is a TypeError
    return Reply(message, values, error_code)
