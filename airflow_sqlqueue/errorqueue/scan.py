"""A look through an error queue, page by page; nothing is removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from airflow_sqlqueue.errorqueue.failed import FailedMessage, classify
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errors import MessageNotFoundError
from airflow_sqlqueue.queue import QueueTable, browsing
from airflow_sqlqueue.queue.browsing import MessageHead
from airflow_sqlqueue.queue.table_access import FIRST

FAILED_PAGE = 256
"""Messages whose headers are in memory at one time; those of a failed message are some ten kilobytes."""


@dataclass(frozen=True)
class Span:
    """RowVersions above ``after`` and not above ``up_to``: a mark that makes the scan of a busy queue end."""

    after: int
    up_to: int

    @classmethod
    def of(cls, queue: QueueTable, where: ErrorFilter) -> Span:
        """All that is in the queue now, as far as the filter's RowVersions let it matter.

        Raises :class:`QueueNotFoundError` or :class:`NotAQueueError`.
        """
        end = queue.value("errors.end")
        last = FIRST if end is None else int(end)
        if where.up_to is not None:
            last = min(last, where.up_to)
        if where.row_versions is None:
            return cls(FIRST, last)
        return cls(min(where.row_versions, default=last) - 1, min(last, max(where.row_versions, default=FIRST)))


def pages(queue: QueueTable, span: Span) -> Iterator[list[FailedMessage]]:
    """The messages of a span that nobody has locked, lowest RowVersion first, :data:`FAILED_PAGE` at a time."""
    for page in browsing.pages(queue, after=span.after, up_to=span.up_to, rows=FAILED_PAGE):
        yield [classified(head) for head in page]


def scan(queue: QueueTable, span: Span) -> Iterator[FailedMessage]:
    """The same, one by one."""
    return chain.from_iterable(pages(queue, span))


def classified(head: MessageHead) -> FailedMessage:
    """What a row without its body says of a failure."""
    return classify(head.row_version, head.id, head.headers, head.body_bytes)


def not_found(queue: QueueTable, what: str) -> MessageNotFoundError:
    """The error where a message that was named, as in ``the RowVersion 5``, cannot be seen."""
    return MessageNotFoundError(
        f"No message with {what} is in the queue {queue.address.canonical}, or it is locked: try again."
    )
