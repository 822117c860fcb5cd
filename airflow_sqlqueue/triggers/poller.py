"""Looking at a server again and again for many who wait: one thread and one connection for all of them.

A triggerer runs hundreds of triggers in one event loop, which nothing may block, and pyodbc blocks. A thread and a
connection for each trigger would cost the server hundreds of sessions, so what waits for the same server with the same
login takes turns.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.errors import (
    ConnectionLostError,
    LoginFailedError,
    ServerBusyError,
    ServerUnreachableError,
    SqlQueueError,
    TransientError,
)
from airflow_sqlqueue.reconnecting import pause_after
from airflow_sqlqueue.session import Session

log = logging.getLogger(__name__)

T = TypeVar("T")
Look = Callable[[Session], T | None]
"""Looks once, through the session that it is given, on the poller's thread; None: there is nothing yet."""

_LOST = (ConnectionLostError, ServerBusyError, ServerUnreachableError)
_REFUSALS = 8
"""Refused logins in a row that a server may answer with that has taken the login before: one that starts does."""

STATEMENT_TIMEOUT = 60
"""Seconds after which a look is given up: the others wait for their turn meanwhile."""

_mutex = threading.Lock()
_pollers: dict[tuple[Any, ...], _Poller] = {}


def random_pause(failures: int) -> float:
    """Seconds to wait after so many failures in a row: 1 to 60, growing, and random, so that not all come at once."""
    return max(1.0, pause_after(failures, first=1.0, longest=60.0) * random.uniform(0.5, 1.0))  # noqa: S311 - no secret


class Watch(Generic[T]):
    """One thing that somebody waits for on a server, from one event loop. Close it, in any case.

    As long as there is a watch, the connection that it shares with the others stays open.

    :param client: the server and the login.
    :param look: looks once.
    :param interval: seconds between two looks.
    """

    def __init__(self, client: QueueClient, look: Look[T], interval: float) -> None:
        self.look, self.interval = look, interval
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[T] | None = None
        # Of the one who waits, so that what is logged for it goes where its own lines go.
        self._context = contextvars.copy_context()
        key = (client.settings.odbc_connection_string(), client.settings.login)
        with _mutex:
            self._poller = _pollers.get(key) or _Poller(key, client)
            self._poller.watches.add(self)

    async def found(self, after: float = 0.0) -> T:
        """Look, first after so many seconds, until there is something, and return it.

        A server that is lost is waited for. Raises what looking raises else, and what connecting does.
        """
        self._future = self._loop.create_future()
        self._poller.schedule(self, after)
        try:
            return await self._future
        finally:
            self._future = None

    def close(self) -> None:
        """Wait no more; may be called twice. The connection is closed with the last watch."""
        with _mutex:
            self._poller.watches.discard(self)
            self._poller.changed.notify()

    # What follows is called on the poller's thread.

    def answer(self, found: T) -> None:
        self._tell(lambda future: future.set_result(found))

    def fail(self, error: BaseException) -> None:
        self._tell(lambda future: future.set_exception(error))

    def report(self, error: SqlQueueError, pause: float) -> None:
        """Say in the log of the one who waits why it takes longer."""
        self._tell(lambda _: log.warning("Looking again in %.0f s: %s", pause, error))

    def _tell(self, what: Callable[[asyncio.Future[T]], Any]) -> None:
        def tell() -> None:
            if self._future is not None and not self._future.done():
                what(self._future)

        # A loop that is closed has nobody who waits.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(tell, context=self._context)


class _Poller:
    """The looks at one server with one login, on a thread of its own, which lives as long as somebody waits."""

    def __init__(self, key: tuple[Any, ...], client: QueueClient) -> None:
        self.watches: set[Watch[Any]] = set()
        self.changed = threading.Condition(_mutex)
        self._key, self._client = key, client
        self._due: list[tuple[float, int, Watch[Any]]] = []
        self._numbers = itertools.count()
        self._session: Session | None = None
        self._was_connected = False
        self._failures = self._refusals = 0
        _pollers[key] = self
        threading.Thread(target=self._run, name="sqlqueue-poller", daemon=True).start()

    def schedule(self, watch: Watch[Any], after: float) -> None:
        """Look for somebody in so many seconds."""
        with _mutex:
            heapq.heappush(self._due, (time.monotonic() + after, next(self._numbers), watch))
            self.changed.notify()

    def _run(self) -> None:
        try:
            while (watch := self._next()) is not None:
                self._look(watch)
        except BaseException as error:
            self._give_up(error)
            raise
        finally:
            self._close()

    def _next(self) -> Watch[Any] | None:
        """Whose turn it is, when it has come; None when nobody waits any more."""
        with _mutex:
            while self.watches:
                now = time.monotonic()
                while self._due and self._due[0][0] <= now:
                    watch = heapq.heappop(self._due)[2]
                    if watch in self.watches:
                        return watch
                self.changed.wait(self._due[0][0] - now if self._due else None)
            # Under the mutex: who comes now finds no poller, and makes one.
            _pollers.pop(self._key, None)
            return None

    def _look(self, watch: Watch[Any]) -> None:
        try:
            session = self._connect()
            found = watch.look(session)
        except _LOST as error:
            self._lost(watch, error)
        except LoginFailedError as error:
            self._refusals += 1
            if self._was_connected and self._refusals <= _REFUSALS:
                self._lost(watch, error)
            else:
                # Each further try with a wrong password could lock the login.
                self._fail_all(error)
        except TransientError as error:
            # A statement that ran into its timeout may have done so because nobody is there any more.
            self._close()
            watch.report(error, watch.interval)
            self.schedule(watch, watch.interval)
        except Exception as error:
            watch.fail(error)
        else:
            self._failures = 0
            if found is None:
                self.schedule(watch, watch.interval)
            else:
                watch.answer(found)

    def _connect(self) -> Session:
        if self._session is None:
            client = self._client
            self._session = Session(
                client.settings, lock_timeout=client.lock_timeout, statement_timeout=STATEMENT_TIMEOUT
            )
            self._was_connected, self._refusals = True, 0
        return self._session

    def _lost(self, watch: Watch[Any], error: SqlQueueError) -> None:
        """Wait, for all of them: the server is the same."""
        self._close()
        self._failures += 1
        pause = random_pause(self._failures)
        self.schedule(watch, 0)
        with _mutex:
            for each in self.watches:
                each.report(error, pause)
            until = time.monotonic() + pause
            while self.watches and (left := until - time.monotonic()) > 0:
                self.changed.wait(left)

    def _fail_all(self, error: BaseException) -> None:
        with _mutex:
            for each in self.watches:
                each.fail(error)
            self._due.clear()

    def _give_up(self, error: BaseException) -> None:
        """After a fault of the poller's own: nobody is left waiting, and who comes next gets another poller."""
        with _mutex:
            _pollers.pop(self._key, None)
        self._fail_all(error)

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None
