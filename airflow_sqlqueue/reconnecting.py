"""Work that outlives a lost connection, a deadlock or a failover: what passes by itself is waited for.

Here stands the one rule of what passes (:func:`passes`), which the triggers and sensors go by as well. Users read it in
docs/guides/operating.md, "Retries".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from airflow_sqlqueue.errors import (
    ConnectionLostError,
    LoginFailedError,
    ServerBusyError,
    ServerUnreachableError,
    SqlQueueError,
    StatementError,
    TransientError,
    UnknownHostError,
)
from airflow_sqlqueue.session import Session, retrying

log = logging.getLogger(__name__)


class Closable(Protocol):
    """A session, or several that are kept together."""

    def close(self) -> None: ...


T = TypeVar("T")
S = TypeVar("S", bound=Closable)

OF_THE_SERVER = (ConnectionLostError, LoginFailedError, ServerBusyError, ServerUnreachableError)
"""Errors that all who use the same server and login meet, whatever they do there."""

_ONCE_KNOWN = (LoginFailedError, UnknownHostError)


def passes(error: BaseException, *, known: bool) -> bool:
    """Whether an error passes by itself, so that the work is worth another try.

    A deadlock, a broken connection, a server that starts, fails over, is overloaded or does not answer: they pass. A
    refused login and a host without an address pass only where the same settings have connected before (``known``): a
    database comes up later than its server, and the name of a container goes with it. At a first connection they are a
    slip in the settings, and each further try of a wrong password could lock the login.
    """
    if isinstance(error, _ONCE_KNOWN):
        return known
    return isinstance(error, (TransientError, ServerUnreachableError))


def may_have_lost(error: BaseException) -> bool:
    """Whether the session may be broken after an error: also after one of the driver that has no number of a server."""
    if isinstance(error, StatementError):
        return error.number is None
    return isinstance(error, TransientError) or not isinstance(error, SqlQueueError)


MAX_FAILURES = 8
"""Failures in a row, without progress in between, after which the error is raised."""


def pause_after(failures: int, *, first: float = 0.2, longest: float = 6.4) -> float:
    """Seconds to wait after so many failures in a row; each pause is twice the one before."""
    return min(longest, first * 2.0 ** min(failures, 20))


def wait_after(failures: int, error: BaseException, what: str, sleep: Callable[[float], None] | None = None) -> None:
    """Say what is waited for, and wait for :func:`pause_after`."""
    pause = pause_after(failures)
    log.warning("%s is tried again in %.1f s: %s", what, pause, error)
    (sleep or time.sleep)(pause)


class Reconnecting(Generic[S]):
    """A connection that is replaced after a failure, and the loop that repeats the work.

    Only for work that can be repeated: what a failure interrupts was rolled back, or the work itself finds out what was
    committed. What does not pass by itself (:func:`passes`) is raised at once, what passes is waited for, from the
    first connection on. Failures are counted in a row: progress resets the count. For one thread at a time.

    :param connect: opens a session.
    :param what: names the work in the log as its caller asked for it: ``Draining the queue audit``.
    :param pause: waits so many seconds. What it raises ends the work: so a waiting worker is cancelled.
    :param known: whether the same settings have connected before, in another part of the same work.
    """

    def __init__(
        self,
        connect: Callable[[], S],
        what: str,
        *,
        pause: Callable[[float], None] | None = None,
        known: bool = False,
    ) -> None:
        self._connect, self._what, self._pause, self._known = connect, what, pause or time.sleep, known
        self._session: S | None = None
        self._failures = 0

    def connect(self) -> S:
        """The open session, or a new one; an error of connecting is raised at once."""
        if self._session is None:
            self._session = self._connect()
            self._known = True
        return self._session

    def open(self) -> S:
        """The open session, or a new one, for which a server that is away is waited for."""
        return self.run(lambda session: session)

    def passes(self, error: BaseException) -> bool:
        """:func:`passes`, for this connection."""
        return passes(error, known=self._known)

    def close(self) -> None:
        """Close the session; the next work opens another one."""
        if self._session is not None:
            self._session.close()
        self._session = None

    def made_progress(self) -> None:
        """Note that work was committed: failures are counted from zero again."""
        self._failures = 0

    def run(self, work: Callable[[S], T]) -> T:
        """The result of work, which is repeated after what passes by itself, :data:`MAX_FAILURES` times in a row."""
        self.made_progress()
        while True:
            try:
                return work(self.connect())
            except SqlQueueError as error:
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
            except SqlQueueError as error:
                if not self._recover(error):
                    raise

    def _recover(self, error: SqlQueueError) -> bool:
        """Drop the connection and wait; False for what does not pass, and where it did not too often in a row."""
        if may_have_lost(error):
            self.close()
        self._failures += 1
        if self._failures > MAX_FAILURES or not self.passes(error):
            return False
        wait_after(self._failures, error, self._what, self._pause)
        return True


def reconnecting(session: Session, what: str, work: Callable[[], T]) -> T:
    """:func:`.retrying`, and again on a new connection of the session where that was lost.

    For one of several units of work, each a transaction of its own that can be repeated, as deleting the next so many
    rows. Locks that the session held are gone then. ``what`` is as for :class:`Reconnecting`.
    """

    failures = 0
    lost: BaseException | None = None
    while True:
        try:
            if lost is not None:
                session.open()
            return retrying(work)
        except OF_THE_SERVER as error:
            lost = error
            session.close()
            failures += 1
            if failures > MAX_FAILURES or not passes(error, known=True):
                raise
            wait_after(failures, error, what)
