"""Scan of an error queue, page by page, and one failed message in full; nothing is removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.errorqueue.failed_message import FailedMessage, classify
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errors import ConfigurationError, MessageNotFoundError
from airflow_sqlqueue.queue import QueueTable, browsing
from airflow_sqlqueue.queue.browsing import MessageHead
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.queue.window import Window

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


def window_of(queue: QueueTable, where: ErrorFilter) -> Window:
    """Return the window of the messages in the queue now, narrowed by the RowVersions of the filter.

    With it the scan of a busy queue ends. Raises :class:`QueueNotFoundError` or :class:`NotAQueueError`.
    """
    end = queue.value("errors.end")
    last = FIRST if end is None else int(end)
    if where.up_to is not None:
        last = min(last, where.up_to)
    if where.row_versions is None:
        return Window(FIRST, last)
    return Window(min(where.row_versions, default=last) - 1, min(last, max(where.row_versions, default=FIRST)))


def pages(queue: QueueTable, window: Window) -> Iterator[list[FailedMessage]]:
    """Yield the messages of a window by RowVersion, :data:`FAILED_PAGE` at a time; locked messages are skipped."""
    for page in browsing.pages(queue, window, FAILED_PAGE):
        yield [classified(head) for head in page]


def scan(queue: QueueTable, window: Window) -> Iterator[FailedMessage]:
    """Yield the messages of :func:`pages` one by one."""
    return chain.from_iterable(pages(queue, window))


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
    found = [message.row_version for message in scan(queue, window_of(queue, where)) if where.matches(message)]
    if not found:
        raise not_found(queue, f"the message id {message_id}")
    if len(found) > 1:
        shown = ", ".join(map(str, found[:10]))
        raise ConfigurationError(f"{len(found)} messages have the id {message_id}: name one by RowVersion, {shown}.")
    return found[0]
