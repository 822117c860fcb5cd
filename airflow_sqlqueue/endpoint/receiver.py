"""Receiver of the handlers' messages: the next message of the queue, or with a filter the next matching one."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from airflow_sqlqueue.messages.message import ReceivedMessage
from airflow_sqlqueue.queue import MessageFilter, MessageHead, QueueTable
from airflow_sqlqueue.queue.anchor import Anchor
from airflow_sqlqueue.queue.browsing import Search, browse
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.queue.window import Window

_COLLECTING = 0.1
"""Seconds between two looks for further messages of a batch."""


class Receiver:
    """Receiver for all handlers of a run; each call is part of its handler's transaction. Long headers are cut.

    Without a filter all handlers have one anchor, so none of them passes the messages that others hold or have deleted.
    With a filter one search serves all handlers. It skips locked messages. It continues after the last messages found,
    and at the end of the queue it wraps to the head, where rolled back messages are. When the search has wrapped once
    without a result, the queue has no message to receive.
    """

    def __init__(self, where: MessageFilter | None, *, anchored: bool) -> None:
        self._where = where
        self._anchor = Anchor() if anchored else Anchor(max_age=0)
        self._lock = threading.Lock()
        self._found: deque[int] = deque()
        self._after = FIRST

    def receive(self, queue: QueueTable) -> list[ReceivedMessage]:
        """Receive the next message; the list is empty if there is no message."""
        if self._where is None:
            return queue.receive(1, anchor=self._anchor, cut_headers=True)
        while (row_version := self._next(queue, self._where)) is not None:
            # The result is empty if another receiver was first.
            if received := queue.take([row_version], cut_headers=True):
                return received
        return []

    def collect(
        self,
        queue: QueueTable,
        first: int,
        joins: Callable[[MessageHead], bool],
        wanted: int,
        max_bytes: int,
        max_seconds: float,
        stop: threading.Event,
    ) -> list[ReceivedMessage]:
        """Receive up to ``wanted`` further messages that belong to the batch of ``first``, in the open transaction.

        Looks at no more than ``wanted`` messages, and ends with the message that reaches ``max_bytes`` of bodies. If
        there are fewer, it waits up to ``max_seconds`` for others, unless ``stop`` is set. It locks no message that it
        does not receive: an endpoint would count it and look for it without a pause.
        """
        until = time.monotonic() + max_seconds
        collected: list[ReceivedMessage] = []
        after = first if self._where is None else FIRST
        while wanted > 0 and max_bytes > 0:
            heads = browse(queue, wanted, after=after)
            wanted -= len(heads)
            chosen = []
            for head in heads:
                if (
                    max_bytes > 0
                    and joins(head)
                    and (self._where is None or self._where.matches(head.id, head.decoded))
                ):
                    chosen.append(head.row_version)
                    max_bytes -= head.body_bytes
            if heads:
                after = heads[-1].row_version
                collected += queue.take(chosen, cut_headers=True) if chosen else []
            left = until - time.monotonic()
            if left <= 0 or stop.wait(min(_COLLECTING, left)):
                break
        return collected

    def go_to_head(self) -> None:
        """Let the next receive find the messages of a transaction that was rolled back."""
        self._anchor.go_to_head()

    def put_back(self, row_version: int) -> None:
        """Make a rolled-back message the next one, as it is without a filter."""
        with self._lock:
            if self._where is not None:
                self._found.appendleft(row_version)

    def waiting(self, queue: QueueTable, limit: int) -> int:
        """Count the waiting messages up to a limit; with a filter, the messages found and not yet received."""
        if self._where is not None:
            return min(limit, len(self._found))
        return depth(queue, limit=limit, after=self._anchor.after).messages

    def _next(self, queue: QueueTable, where: MessageFilter) -> int | None:
        with self._lock:
            if not self._found:
                self._search(queue, where)
            return self._found.popleft() if self._found else None

    def _search(self, queue: QueueTable, where: MessageFilter) -> None:
        start = self._after
        for window in (Window(after=start), Window(up_to=start)):
            search = Search(where, window)
            while (page := search.page(queue)) is not None:
                self._found.extend(
                    head.row_version for head in page if not head.expired and where.matches(head.id, head.decoded)
                )
                if self._found:
                    self._after = page[-1].row_version
                    return
