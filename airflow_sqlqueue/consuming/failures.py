"""What messages have failed with so far, in memory, for as many of them as endpoints remember."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from airflow_sqlqueue.errorqueue.failure_headers import Failure

MOST = 10_000
"""Messages that are remembered; the count of one that is forgotten begins again."""


@dataclass(frozen=True)
class Failed:
    """``attempts`` have failed so far, the last one with ``failure``; ``is_final`` ends them whatever their number."""

    attempts: int
    failure: Failure
    is_final: bool = False


class FailureStorage:
    """Failures by the RowVersion of the message, which a rollback leaves as it is. Safe to use from several threads."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._failed: OrderedDict[int, Failed] = OrderedDict()
        self._lock = threading.Lock()

    def record(self, row_version: int, error: Exception, *, is_final: bool = False) -> Failed:
        """Note one more attempt that failed, and forget the message that nothing was heard of for longest."""
        failure = Failure.of(error)
        with self._lock:
            before = self._failed.pop(row_version, None)
            now = Failed(1 if before is None else before.attempts + 1, failure, is_final)
            self._failed[row_version] = now
            if len(self._failed) > self._most:
                self._failed.popitem(last=False)
        return now

    def find(self, row_version: int) -> Failed | None:
        """What is known of a message; None where it has not failed."""
        with self._lock:
            return self._failed.get(row_version)

    def forget(self, row_version: int) -> None:
        """The message has left the queue."""
        with self._lock:
            self._failed.pop(row_version, None)
