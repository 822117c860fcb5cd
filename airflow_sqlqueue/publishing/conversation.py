"""Request and response: a private queue for the reply, and waiting for it by its correlation id.

Source: docs/transport/messages.md, "Replies".
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from airflow_sqlqueue.errors import ConfigurationError, MessageError, NoReplyError, SqlQueueError, TransactionError
from airflow_sqlqueue.message import HeaderNames, Message, ReceivedMessage, decode_headers
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import PAGE, PAGE_BYTES, read
from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.tables.create import create_queue, drop_queue

log = logging.getLogger(__name__)

PRIVATE_PREFIX = "sqlqueue.replies"
"""What the name of a private queue begins with; a GUID follows."""

_LOOKED_AT = ("Headers", "CorrelationId", "Expired")
"""Whose reply a message is, its headers say; the column too, where versions 1 and 2 wrote it."""

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.05, 2.0, 1.5


@dataclass(frozen=True)
class Reply:
    """A reply as it was received, with its headers read. ``error_code`` is a callback's result, None for others."""

    message: ReceivedMessage
    headers: Mapping[str, str | None] = field(repr=False)
    error_code: int | None = None

    @property
    def body(self) -> bytes:
        """The reply's body; a callback's result has none."""
        return self.message.body


@dataclass(frozen=True)
class Polling:
    """How long to wait, and by which clock: ``timeout`` seconds, with pauses that grow from 0.05 to 2 seconds."""

    timeout: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep

    def __post_init__(self) -> None:
        if not self.timeout >= 0:
            raise ConfigurationError(f"A timeout of {self.timeout} seconds: give zero or more.")

    def polls(self) -> Iterator[None]:
        """Yields each time that it is worth to look again: at once, after each pause, and when the time is over."""
        deadline, pause = self.clock() + self.timeout, _FIRST_PAUSE
        while True:
            yield
            left = deadline - self.clock()
            if left <= 0:
                return
            self.sleep(min(pause, left))
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)


@contextmanager
def private_queue(session: Session, resolver: AddressResolver, *, prefix: str = PRIVATE_PREFIX) -> Iterator[QueueTable]:
    """A queue of one's own for replies, in the default schema; dropped at the end, whatever happened.

    The login must be allowed to create and drop tables there. A process that is killed leaves its queue behind. Raises
    :class:`TransactionError` inside a transaction.
    """
    _check_outside(session)
    table = resolver.resolve(f"{prefix}.{uuid.uuid4()}")
    create_queue(session, table)
    try:
        yield QueueTable(session, table)
    finally:
        try:
            drop_queue(session, table, force=True)
        except SqlQueueError as error:
            # Whatever the block did or raised matters more.
            log.warning("The private queue %s is left behind, drop it: %s", table.canonical, error)


def request(destination: QueueTable, message: Message, replies: QueueTable, polling: Polling) -> Reply:
    """Send a request, committed at once, and wait for the reply in the queue ``replies``.

    The headers ``NServiceBus.MessageId``, ``NServiceBus.CorrelationId`` and ``NServiceBus.MessageIntent`` are filled in
    where they are missing, ``NServiceBus.ReplyToAddress`` becomes the canonical address of ``replies``. A reply is the
    message with the request's correlation id; replies of others stay where they are, expired ones are none.

    Delivery: the request is sent once; a reply is gone from its queue when this returns. Raises :class:`NoReplyError`
    where none came in time: the request is not taken back. Raises :class:`TransactionError` inside a transaction, which
    would keep the request from everybody, and :class:`MessageError` for a message whose headers are text.
    """
    _check_outside(destination.session)
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
    destination.send([Message(headers, message.body, message.time_to_be_received, message.id)])
    return wait_for_reply(replies, correlation_id, polling)


def wait_for_reply(replies: QueueTable, correlation_id: str, polling: Polling) -> Reply:
    """Wait for the message with this correlation id, and take it out of the queue. Raises :class:`NoReplyError`."""
    for _ in polling.polls():
        if (reply := take_reply(replies, correlation_id)) is not None:
            return reply
    raise NoReplyError(
        f"No reply came to {replies.address.canonical} within {polling.timeout:g} seconds: see that the receiver "
        "runs, or wait longer."
    )


def find_reply(replies: QueueTable, correlation_id: str) -> int | None:
    """The RowVersion of the message with this correlation id, which stays where it is; None: there is none."""
    return next(_waiting(replies, correlation_id), None)


def take_reply(replies: QueueTable, correlation_id: str) -> Reply | None:
    """Take the message with this correlation id out of the queue; None: there is none. Delivery as for a receive."""
    for row_version in _waiting(replies, correlation_id):
        # Another receiver may have taken or locked it: then it is none.
        for message in replies.take([row_version]):
            return _reply(message)
    return None


def _waiting(replies: QueueTable, correlation_id: str) -> Iterator[int]:
    """The RowVersions of the messages with this correlation id, from the head: their order is not that of commits."""
    after = FIRST
    while True:
        page = read(replies, _LOOKED_AT, after, LAST, rows=PAGE, max_bytes=PAGE_BYTES, bounded=True)
        for headers, in_column, expired, row_version in page:
            values = decode_headers(headers).values
            if not expired and correlation_id == (values.get(HeaderNames.CORRELATION_ID) or in_column):
                yield row_version
        # Of four bytes a character at the most, so that it is certain that the bytes did not end the page.
        if len(page) < PAGE and 4 * sum(len(headers or "") for headers, *_ in page) < PAGE_BYTES:
            return
        after = page[-1][-1]


def _check_outside(session: Session) -> None:
    if session.in_transaction:
        raise TransactionError("A request is answered only after it is committed: send it outside the transaction.")


def _reply(message: ReceivedMessage) -> Reply:
    values = decode_headers(message.headers).values
    error_code = None
    with suppress(TypeError, ValueError):
        error_code = int(values.get(HeaderNames.ERROR_CODE))  # type: ignore[arg-type] # None is a TypeError
    return Reply(message, values, error_code)
