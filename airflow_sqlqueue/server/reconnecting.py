"""Retries of work after a lost connection, a deadlock or a failover, on a new connection.

:func:`passes` is the one rule for errors that pass by themselves; triggers and sensors use it as well. Users read the
rule in docs/guides/operating.md, "Retries".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from airflow_sqlqueue import errors
from airflow_sqlqueue.server.session import Session, retrying

log = logging.getLogger(__name__)


class Closable(Protocol):
    """A session, or a group of sessions."""

    def close(self) -> None: ...


T = TypeVar("T")
S = TypeVar("S", bound=Closable)

SERVER_ERRORS = (
    errors.ConnectionLostError,
    errors.LoginFailedError,
    errors.ServerBusyError,
    errors.ServerUnreachableError,
)
"""Errors of a server or a login: every user of both gets them, in any operation."""

_ONCE_KNOWN = (errors.LoginFailedError, errors.UnknownHostError)


def passes(error: BaseException, *, known: bool) -> bool:
    """Return whether an error passes by itself, so that the work is worth another try.

    A deadlock, a broken connection, and a server that starts, fails over, is overloaded or does not answer pass. A
    refused login and a host without an address pass only if the same settings have connected before (``known``): a
    database comes up later than its server, and a container's name disappears with the container. At a first connection
    both are a mistake in the settings, and each further try of a wrong password could lock the login.
    """
    if isinstance(error, _ONCE_KNOWN):
        return known
    return isinstance(error, (errors.TransientError, errors.ServerUnreachableError))


def may_have_lost(error: BaseException) -> bool:
    """Return whether the session may be broken, as after a driver's error without a number of the server."""
    if isinstance(error, errors.StatementError):
        return error.number is None
    return isinstance(error, errors.TransientError) or not isinstance(error, errors.SqlQueueError)


MAX_FAILURES = 8
"""The most failures in a row, without progress in between, before the error is raised."""

MAX_SECONDS = 120.0
"""The seconds for which a server that is away is tried in any case: a paused database of Azure takes a minute to
resume."""


def is_too_much(failures: int, since: float, error: BaseException) -> bool:
    """Return whether to raise an error after a number of failures in a row that began at ``since``."""
    away = isinstance(error, SERVER_ERRORS) and not isinstance(error, errors.LoginFailedError)
    return failures > MAX_FAILURES and not (away and time.monotonic() - since < MAX_SECONDS)


def pause_after(failures: int, *, first: float = 0.2, longest: float = 6.4) -> float:
    """Return the seconds to wait after a number of failures in a row; each pause is twice the one before."""
    return min(longest, first * 2.0 ** min(failures, 20))


def wait_after(failures: int, error: BaseException, what: str, sleep: Callable[[float], None] | None = None) -> None:
    """Log the error, and wait for the seconds of :func:`pause_after`."""
    pause = pause_after(failures)
    log.warning("%s is tried again in %.1f s: %s", what, pause, error)
    (sleep or time.sleep)(pause)


class Reconnecting(Generic[S]):
    """A connection that is replaced after a failure, and the loop that repeats the work.

    Only for repeatable work: a failure rolls it back, or the work itself finds out which part was committed. An error
    that does not pass by itself (:func:`passes`) is raised at once. After other errors, also of the first connection,
    the work waits and is repeated. Failures are counted in a row: progress resets the count. For one thread at a time.

    :param connect: opens a session.
    :param what: names the work in the log: ``Draining the queue audit``.
    :param pause: waits for a number of seconds. An exception of it ends the work, which cancels a waiting worker.
    :param known: whether the same settings have connected before, in another part of the same work.
    :param patient: whether to wait without end for a server that is away. A refused login is raised nevertheless:
        further tries of a changed password could lock the login.
    """

    def __init__(
        self,
        connect: Callable[[], S],
        what: str,
        *,
        pause: Callable[[float], None] | None = None,
        known: bool = False,
        patient: bool = False,
    ) -> None:
        self._connect, self._what, self._pause, self._known = connect, what, pause or time.sleep, known
        self._patient = patient
        self._session: S | None = None
        self._failures, self._since = 0, 0.0

    def connect(self) -> S:
        """Return the open session or a new one; an error of connecting is raised at once."""
        if self._session is None:
            self._session = self._connect()
            self._known = True
        return self._session

    def open(self) -> S:
        """Return the open session or a new one; wait for a server that does not answer."""
        return self.run(lambda session: session)

    def passes(self, error: BaseException) -> bool:
        """Return whether an error of this connection passes by itself (:func:`passes`)."""
        return passes(error, known=self._known)

    def close(self) -> None:
        """Close the session; the next work opens a new one."""
        if self._session is not None:
            self._session.close()
        self._session = None

    def made_progress(self) -> None:
        """Note that work was committed, and count failures from zero again."""
        self._failures = 0

    def run(self, work: Callable[[S], T]) -> T:
        """Run work and return its result; repeat it after errors that pass, until there are too many in a row."""
        self.made_progress()
        while True:
            try:
                return work(self.connect())
            except errors.SqlQueueError as error:
                if not self._recover(error):
                    raise

    def stream(self, work: Callable[[S], Iterable[T]]) -> Iterator[T]:
        """Yield the items of work and count each as progress; like :meth:`run`, repeat it after a failure."""
        self.made_progress()
        while True:
            try:
                for item in work(self.connect()):
                    self.made_progress()
                    yield item
                return
            except errors.SqlQueueError as error:
                if not self._recover(error):
                    raise

    def _recover(self, error: errors.SqlQueueError) -> bool:
        """Drop the connection and wait; return False for an error that does not pass, or after too many in a row."""
        if may_have_lost(error):
            self.close()
        self._failures += 1
        self._since = self._since if self._failures > 1 else time.monotonic()
        endless = self._patient and not isinstance(error, errors.LoginFailedError)
        is_last = is_too_much(self._failures, self._since, error) and not endless
        if is_last or not self.passes(error):
            return False
        wait_after(self._failures, error, self._what, self._pause)
        return True


def reconnecting(session: Session, what: str, work: Callable[[], T]) -> T:
    """Run :func:`.retrying`, and repeat it on a new connection of the session after the connection was lost.

    For one of several units of work, each a repeatable transaction, such as the deletion of the next 1,000 rows. The
    new connection does not have the locks of the session. ``what`` is as for :class:`Reconnecting`.
    """
    failures, since = 0, 0.0
    while True:
        try:
            if failures:
                session.open()
            return retrying(work)
        except SERVER_ERRORS as error:
            session.close()
            failures += 1
            since = since or time.monotonic()
            if is_too_much(failures, since, error) or not passes(error, known=True):
                raise
            wait_after(failures, error, what)
