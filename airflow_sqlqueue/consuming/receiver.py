"""Receiver of the handlers' messages: from the head of the queue, or with a filter the next matching message."""

from __future__ import annotations

import threading
from collections import deque

from airflow_sqlqueue.message import ReceivedMessage
from airflow_sqlqueue.queue import MessageFilter, QueueTable
from airflow_sqlqueue.queue.browsing import Search
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.queue.window import Window


class Receiver:
    """Receiver for all handlers of a run; each call is part of its handler's transaction. Long headers are cut.

    With a filter one search serves all handlers. It skips locked messages. It continues after the last messages found,
    and at the end of the queue it wraps to the head, where rolled back messages are. When the search has wrapped once
    without a result, the queue has no message to receive.
    """

    def __init__(self, where: MessageFilter | None = None) -> None:
        self._where = where
        self._lock = threading.Lock()
        self._found: deque[int] = deque()
        self._after = FIRST

    def receive(self, queue: QueueTable) -> list[ReceivedMessage]:
        """Receive the next message; the list is empty if there is no message."""
        if self._where is None:
            return queue.receive(1, bounded=True)
        while (row_version := self._next(queue, self._where)) is not None:
            # The result is empty if another receiver was first.
            if received := queue.take([row_version], bounded=True):
                return received
        return []

    def put_back(self, row_version: int) -> None:
        """Make a rolled-back message the next one, as it is without a filter."""
        with self._lock:
            if self._where is not None:
                self._found.appendleft(row_version)

    def waiting(self, queue: QueueTable, limit: int) -> int:
        """Count the waiting messages up to a limit; with a filter, the messages found and not yet received."""
        return depth(queue, limit=limit).messages if self._where is None else min(limit, len(self._found))

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
