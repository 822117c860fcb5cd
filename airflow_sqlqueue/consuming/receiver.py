"""How handlers get their messages: the head of the queue, or, with a filter, the next message that matches."""

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
    """Receives for all handlers of a run; each call is part of its handler's transaction. Headers are bounded.

    With a filter one search serves all of them. It goes on where it found the last messages, and from the head of the
    queue when it has come to the end, where rolled back messages are; what others have locked it passes over. Nothing
    was left to receive where it went once around.
    """

    def __init__(self, where: MessageFilter | None = None) -> None:
        self._where = where
        self._lock = threading.Lock()
        self._found: deque[int] = deque()
        self._after = FIRST

    def receive(self, queue: QueueTable) -> list[ReceivedMessage]:
        """The next message; none where none was left."""
        if self._where is None:
            return queue.receive(1, bounded=True)
        while (row_version := self._next(queue, self._where)) is not None:
            # Gone where another receiver was first.
            if received := queue.take([row_version], bounded=True):
                return received
        return []

    def again(self, row_version: int) -> None:
        """A message was rolled back: it is the next one, as it is without a filter."""
        with self._lock:
            if self._where is not None:
                self._found.appendleft(row_version)

    def waiting(self, queue: QueueTable, limit: int) -> int:
        """How many messages wait, counted up to a limit; with a filter, of those that were found."""
        return depth(queue, limit=limit).messages if self._where is None else min(limit, len(self._found))

    def _next(self, queue: QueueTable, where: MessageFilter) -> int | None:
        with self._lock:
            if not self._found:
                self._look(queue, where)
            return self._found.popleft() if self._found else None

    def _look(self, queue: QueueTable, where: MessageFilter) -> None:
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
