"""Work that outlives a lost connection, a deadlock or a failover: repeated on a new connection, after a pause."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from airflow_sqlqueue.errors import ServerUnreachableError, TransientError

log = logging.getLogger(__name__)


class Closable(Protocol):
    """A session, or several that are kept together."""

    def close(self) -> None: ...


T = TypeVar("T")
S = TypeVar("S", bound=Closable)

RETRIED = (TransientError, ServerUnreachableError)
"""Errors after which work is repeated: a server that is restarted refuses connections for a while."""

MAX_FAILURES = 8
"""Failures in a row, without progress in between, after which the error is raised."""


def pause_after(failures: int, *, first: float = 0.2, longest: float = 6.4) -> float:
    """Seconds to wait after so many failures in a row; each pause is twice the one before."""
    return min(longest, first * 2.0 ** min(failures, 20))


class Reconnecting(Generic[S]):
    """A connection that is replaced after a failure, and the loop that repeats the work.

    Only for work that can be repeated: what a failure interrupts was rolled back, or the work itself finds out what was
    committed. Failures are counted in a row: progress resets the count. For one thread at a time.

    :param connect: opens a session.
    :param what: names the work in the log, as the beginning of a sentence: ``A step of batch 7``.
    :param pause: waits so many seconds. What it raises ends the work: so a waiting worker is cancelled.
    """

    def __init__(self, connect: Callable[[], S], what: str, *, pause: Callable[[float], None] | None = None) -> None:
        self._connect, self._what, self._pause = connect, what, pause or time.sleep
        self._session: S | None = None
        self._failures = 0

    def connect(self) -> S:
        """The open session, or a new one; an error of connecting is raised at once."""
        if self._session is None:
            self._session = self._connect()
        return self._session

    def close(self) -> None:
        """Close the session; the next work opens another one."""
        if self._session is not None:
            self._session.close()
        self._session = None

    def made_progress(self) -> None:
        """Note that work was committed: failures are counted from zero again."""
        self._failures = 0

    def run(self, work: Callable[[S], T]) -> T:
        """What the work returns. It is repeated after :data:`RETRIED`, :data:`MAX_FAILURES` times in a row."""
        self.made_progress()
        while True:
            try:
                return work(self.connect())
            except RETRIED as error:
                if not self._recover(error):
                    raise

    def stream(self, work: Callable[[S], Iterable[T]]) -> Iterator[T]:
        """What the work yields, each of which is progress; like :meth:`run`, it is begun again after a failure."""
        self.made_progress()
        while True:
            try:
                for item in work(self.connect()):
                    self.made_progress()
                    yield item
                return
            except RETRIED as error:
                if not self._recover(error):
                    raise

    def _recover(self, error: Exception) -> bool:
        """Drop the connection and wait; False where there were too many failures in a row."""
        self.close()
        self._failures += 1
        if self._failures > MAX_FAILURES:
            return False
        log.warning("%s failed and was rolled back; it is retried: %s", self._what, error)
        self._pause(pause_after(self._failures))
        return True
