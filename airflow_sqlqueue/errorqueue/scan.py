"""A look through an error queue, page by page; nothing is removed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from airflow_sqlqueue.errorqueue.failed import FailedMessage, classify
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errors import MessageNotFoundError
from airflow_sqlqueue.queue import QueueTable, browsing
from airflow_sqlqueue.queue.browsing import MessageHead
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.queue.window import Window

FAILED_PAGE = 256
"""Messages whose headers are in memory at one time; those of a failed message are some ten kilobytes."""


def window_of(queue: QueueTable, where: ErrorFilter) -> Window:
    """The window of all that is in the queue now, as far as the filter's RowVersions let it matter.

    It makes the scan of a busy queue end. Raises :class:`QueueNotFoundError` or :class:`NotAQueueError`.
    """
    end = queue.value("errors.end")
    last = FIRST if end is None else int(end)
    if where.up_to is not None:
        last = min(last, where.up_to)
    if where.row_versions is None:
        return Window(FIRST, last)
    return Window(min(where.row_versions, default=last) - 1, min(last, max(where.row_versions, default=FIRST)))


def pages(queue: QueueTable, window: Window) -> Iterator[list[FailedMessage]]:
    """The messages of a window that nobody has locked, lowest RowVersion first, :data:`FAILED_PAGE` at a time."""
    for page in browsing.pages(queue, window, FAILED_PAGE):
        yield [classified(head) for head in page]


def scan(queue: QueueTable, window: Window) -> Iterator[FailedMessage]:
    """The same, one by one."""
    return chain.from_iterable(pages(queue, window))


def classified(head: MessageHead) -> FailedMessage:
    """What a row without its body says of a failure."""
    return classify(head.row_version, head.id, head.decoded, head.body_bytes, head.header_bytes)


def not_found(queue: QueueTable, what: str) -> MessageNotFoundError:
    """The error where a message that was named, as in ``the RowVersion 5``, cannot be seen."""
    return MessageNotFoundError(
        f"No message with {what} is in the queue {queue.address.canonical}, or it is locked: try again."
    )
