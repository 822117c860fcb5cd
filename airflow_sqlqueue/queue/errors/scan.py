"""Scan of failed messages in an error queue, page by page, and one of them in full; nothing is removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol

from airflow_sqlqueue.errors import ConfigurationError, MessageNotFoundError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.queue import browsing
from airflow_sqlqueue.queue.browsing import MessageHead
from airflow_sqlqueue.queue.errors.failed_message import FailedMessage, classify
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.other_receivers import warnings_about
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.session import Session

FAILED_PAGE = 256
"""Messages whose headers are in memory at one time; the headers of a failed message are some ten kilobytes."""


@dataclass(frozen=True)
class ShownError:
    """Failed message with the raw text of its headers. ``body`` is None if it was not requested."""

    message: FailedMessage
    headers_text: str = field(repr=False)
    body: bytes | None = field(default=None, repr=False)

    @property
    def envelope(self) -> Envelope:
        """Headers and body as typed values; ``envelope.failure`` is the exception."""
        return replace(Envelope.of(self.headers_text), body=self.body or b"", row_id=self.message.id)


class FailedMessages(Protocol):
    """Place of failed messages that one number orders: an error queue with RowVersions, or the archive."""

    @property
    def session(self) -> Session:
        """Session of the statements."""

    @property
    def name(self) -> str:
        """Address of the queue, for people."""

    def window(self, where: ErrorFilter) -> Window:
        """Return the window of the messages that are there now, narrowed by the numbers of the filter."""

    def pages(self, window: Window) -> Iterator[list[FailedMessage]]:
        """Yield the messages of a window in order, :data:`FAILED_PAGE` at a time; locked messages are skipped."""

    def count_left(self, up_to: int) -> int:
        """Count the messages up to a number, locked ones included."""

    def warnings(self) -> list[str]:
        """Return sentences about others who work on the same messages."""


class ErrorQueue:
    """Failed messages of an error queue, in the order of their RowVersions."""

    def __init__(self, queue: QueueTable) -> None:
        self._queue = queue

    @property
    def session(self) -> Session:
        return self._queue.session

    @property
    def name(self) -> str:
        return self._queue.address.canonical

    def window(self, where: ErrorFilter) -> Window:
        return window_of(self._queue, where)

    def pages(self, window: Window) -> Iterator[list[FailedMessage]]:
        for page in browsing.pages(self._queue, window, FAILED_PAGE):
            yield [classified(head) for head in page]

    def count_left(self, up_to: int) -> int:
        return self._queue.count_left(up_to)

    def warnings(self) -> list[str]:
        return warnings_about(self._queue)


def window_of(queue: QueueTable, where: ErrorFilter) -> Window:
    """Return the window of the messages in the queue now, so that a scan ends, narrowed by the filter's RowVersions."""
    end = queue.value("errors.end")
    return narrowed(where, FIRST if end is None else int(end))


def narrowed(where: ErrorFilter, last: int) -> Window:
    """Return the window up to ``last``, narrowed by the RowVersions of the filter."""
    if where.up_to is not None:
        last = min(last, where.up_to)
    if where.row_versions is None:
        return Window(FIRST, last)
    first = max(FIRST, min(where.row_versions, default=last) - 1)
    return Window(first, min(last, max(where.row_versions, default=FIRST)))


def scan(source: FailedMessages, window: Window) -> Iterator[FailedMessage]:
    """Yield the messages of a window one by one, in order; locked messages are skipped, and memory holds one page."""
    return chain.from_iterable(source.pages(window))


def classified(head: MessageHead) -> FailedMessage:
    """Read the failure from a row without its body."""
    return classify(head.row_version, head.id, head.decoded, head.body_bytes, head.header_bytes)


def not_found(queue: QueueTable, what: str) -> MessageNotFoundError:
    """Make the error for a message that is missing or locked; ``what`` names it, as in ``the RowVersion 5``."""
    return MessageNotFoundError(
        f"No message with {what} is in the queue {queue.address.canonical}, or it is locked: try again."
    )


def show_error(
    queue: QueueTable, *, row_version: int | None = None, message_id: str | None = None, with_body: bool = False
) -> ShownError:
    """Read one message by its RowVersion or its message id. Nothing is removed.

    Raises :class:`MessageNotFoundError` if the message is gone or locked, and :class:`ConfigurationError` if both names
    are given or none is, or if several rows have the message id (each subscriber that failed to handle an event leaves
    one).
    """
    if (row_version is None) == (message_id is None):
        raise ConfigurationError("Name a message by its RowVersion or by its message id: one of the two.")
    if row_version is None:
        row_version = _only_one(queue, message_id or "")
    window = window_of(queue, ErrorFilter(row_versions=frozenset([row_version])))
    found = browsing.browse(queue, 1, after=window.after, up_to=window.up_to)
    body = queue.session.run(queue.query("errors.body"), row_version) if found and with_body else []
    if not found or (with_body and not body):
        raise not_found(queue, f"the RowVersion {row_version}")
    return ShownError(classified(found[0]), found[0].headers, bytes(body[0][0] or b"") if with_body else None)


def _only_one(queue: QueueTable, message_id: str) -> int:
    where = ErrorFilter(message_ids=frozenset([message_id]))
    found = [
        message.row_version for message in scan(ErrorQueue(queue), window_of(queue, where)) if where.matches(message)
    ]
    if not found:
        raise not_found(queue, f"the message id {message_id}")
    if len(found) > 1:
        shown = ", ".join(map(str, found[:10]))
        raise ConfigurationError(f"{len(found)} messages have the id {message_id}: name one by RowVersion, {shown}.")
    return found[0]
