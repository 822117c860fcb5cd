"""Poller of a server for many triggers: one thread and one connection for all of them.

A triggerer runs hundreds of triggers in one event loop, which must not be blocked, and pyodbc blocks. A thread and a
connection for each trigger would cost the server hundreds of sessions, so all triggers with the same server, login
and ledger schema take turns on one.
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
from collections.abc import Callable, Hashable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from airflow_sqlqueue.client.client import QueueClient
from airflow_sqlqueue.errors import LockTimeoutError, LoginFailedError, SqlQueueError, TransientError
from airflow_sqlqueue.hooks.lookups import look_up
from airflow_sqlqueue.server.reconnecting import SERVER_ERRORS, may_have_lost, passes, pause_after
from airflow_sqlqueue.server.session import Session

log = logging.getLogger(__name__)

T = TypeVar("T")
Poll = Callable[[Session], T | None]
"""Function that polls once, through the given session, on the poller's thread; it returns None for no result yet."""

LONGEST_PAUSE = 60.0
"""Largest number of seconds between two tries of a lost server, and two lookups of its Airflow connection."""

_REFUSALS = 8
"""Refused logins in a row to tolerate after a login succeeded, because a starting server refuses logins."""

REFUSED_SECONDS = 600.0
"""Seconds until a refused login is tried again: each try with a wrong password could lock the login."""

LOCK_TIMEOUT = 1.0
"""Seconds that a poll waits for a lock if no other watch is due; else it does not wait at all."""

STATEMENT_TIMEOUT = 60
"""Seconds until a poll times out, because the other watches wait for their turn."""

_mutex = threading.Lock()
_pollers: dict[tuple[Any, ...], _Poller] = {}


def random_pause(failures: int) -> float:
    """Return the seconds to wait after failures in a row: 1 to 60, growing, and random to spread the load."""
    return max(1.0, pause_after(failures, first=1.0, longest=LONGEST_PAUSE) * random.uniform(0.5, 1.0))  # noqa: S311 - no secret


@dataclass(frozen=True)
class Source(Generic[T]):
    """Source of a client and of a poll function; it is asked again while the server is away.

    Sources with the same Airflow connection and arguments have the same ``name`` and share one lookup.

    :param client: makes the client, by a lookup (:mod:`airflow_sqlqueue.hooks.lookups`).
    :param make_poll: makes the poll function for a client.
    :param patient: whether to keep waiting for a server that refuses the login at the first connection.
    """

    name: Hashable
    client: Callable[[], QueueClient]
    make_poll: Callable[[QueueClient], Poll[T]]
    patient: bool = False


class _Away(NamedTuple):
    """Outcome of a poll of a lost server: the error, and the seconds until the next try."""

    error: SqlQueueError
    pause: float


class Watch(Generic[T]):
    """Watch of one trigger on a server, from one event loop. The caller must always close it.

    The connection stays open while any watch uses it. While the server is away or refuses the login, the watch asks its
    source again, and moves to another server or login if the connection was changed.

    :param interval: seconds between two polls.
    """

    poll: Poll[T]
    _poller: _Poller

    @classmethod
    async def open(cls, source: Source[T], interval: float) -> Watch[T]:
        """Open a watch on a source."""
        return cls(source, interval, await _ask(source))

    def __init__(self, source: Source[T], interval: float, client: QueueClient) -> None:
        self.source, self.interval = source, interval
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[T | _Away] | None = None
        self._closed, self.turn = False, -1
        # The context of the waiting trigger, so that log lines about it go to its own log.
        self._context = contextvars.copy_context()
        self.reported = ""
        self._poller = self._join(client)

    def _join(self, client: QueueClient) -> _Poller:
        self.client, self.poll, self.is_new = client, self.source.make_poll(client), True
        key = (client.settings.odbc_connection_string(), client.settings.login, client.settings.ledger_schema)
        with _mutex:
            joined = _pollers.get(key) or _Poller(key, client)
            joined.watches.add(self)
        return joined

    def _leave(self, poller: _Poller) -> None:
        with _mutex:
            poller.watches.discard(self)
            poller.changed.notify()

    async def found(self, after: float = 0.0) -> T:
        """Poll until there is a result, and return it; ``after`` is the number of seconds before the first poll.

        A lost server is waited for. Raises any other error of polling or connecting.
        """
        while True:
            self._future = self._loop.create_future()
            self._poller.schedule(self, after)
            try:
                outcome = await self._future
            finally:
                self._future = None
            if not isinstance(outcome, _Away):
                return outcome
            after = await self._wait(outcome)

    async def _wait(self, away: _Away) -> float:
        """Ask the source again, at once and each minute of the pause; return the seconds until the next poll."""
        log.warning("Trying again in %.0f s: %s", away.pause, away.error)
        until = self._loop.time() + away.pause
        while True:
            if await self._moved():
                return 0.0
            left = until - self._loop.time()
            if left <= LONGEST_PAUSE:
                return max(0.0, left)
            await asyncio.sleep(LONGEST_PAUSE)

    async def _moved(self) -> bool:
        """Return whether the Airflow connection has changed; the watch then moves to the new server or login."""
        try:
            client = await _ask(self.source)
        except Exception as error:
            # A user may be editing the connection. Keep trying the known one.
            known = isinstance(error, SqlQueueError)
            log.warning("The connection cannot be looked up again: %s", error if known else type(error).__name__)
            return False
        if self._closed or _settings(client) == _settings(self.client):
            return False
        log.info("The connection was changed: watching %s", client.settings.server)
        before, self._poller = self._poller, self._join(client)
        if before is not self._poller:
            self._leave(before)
        return True

    def close(self) -> None:
        """End the watch; may be called twice. The last watch closes the connection."""
        self._closed = True
        self._leave(self._poller)

    # The poller calls these methods on its thread.

    def answer(self, found: T) -> None:
        self._call(lambda future: future.set_result(found))

    def fail(self, error: BaseException) -> None:
        self._call(lambda future: future.set_exception(error))

    def send_away(self, error: SqlQueueError, pause: float) -> None:
        """Make the waiting trigger ask its source again, and poll again after the pause."""
        self._call(lambda future: future.set_result(_Away(error, pause)))

    def report(self, error: SqlQueueError, pause: float) -> None:
        """Log the reason for a longer wait in the waiting trigger's log, once until a poll succeeds."""
        if str(error) != self.reported:
            self._call(lambda _: log.warning("Trying again in %.0f s: %s", pause, error))
        self.reported = str(error)

    def _call(self, action: Callable[[asyncio.Future[T | _Away]], Any]) -> None:
        def call() -> None:
            if self._future is not None and not self._future.done():
                action(self._future)

        # A closed loop raises RuntimeError; no trigger waits there any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, context=self._context)


def _settings(client: QueueClient) -> tuple[Any, ...]:
    """Return the settings of a client that come from its connection."""
    return client.settings, client.resolver, client.lock_timeout


_asked: dict[tuple[Any, ...], asyncio.Task[QueueClient]] = {}


async def _ask(source: Source[Any]) -> QueueClient:
    """Return the client of a source; simultaneous calls share one lookup."""
    key = (asyncio.get_running_loop(), source.name)
    if key not in _asked:
        _asked[key] = asyncio.create_task(look_up(source.client))
        _asked[key].add_done_callback(lambda _: _asked.pop(key))
    return await asyncio.shield(_asked[key])


class _Poller:
    """Thread that polls one server with one login; it ends with the last watch."""

    def __init__(self, key: tuple[Any, ...], client: QueueClient) -> None:
        self.watches: set[Watch[Any]] = set()
        self.changed = threading.Condition(_mutex)
        self._key, self._client = key, client
        self._due: list[tuple[float, int, Watch[Any]]] = []
        self._numbers = itertools.count()
        self._session: Session | None = None
        self._was_connected = False
        self._failures = self._refusals = 0
        self._refusal: LoginFailedError | None = None
        self._until = 0.0
        _pollers[key] = self
        threading.Thread(target=self._run, name="sqlqueue-poller", daemon=True).start()

    def schedule(self, watch: Watch[Any], after: float) -> None:
        """Schedule a poll in ``after`` seconds; a new watch does not wait for the pause of a lost server."""
        with _mutex:
            now, watch.turn = time.monotonic(), next(self._numbers)
            if self._refusal is not None and watch.source.patient and now < self._until:
                watch.send_away(self._refusal, self._until - now)
                return
            due = now + after
            heapq.heappush(self._due, (due if watch.is_new else max(due, self._until), watch.turn, watch))
            self.changed.notify()

    def _run(self) -> None:
        try:
            while (watch := self._next()) is not None:
                self._poll(watch)
        except BaseException as error:
            self._give_up(error)
            raise
        finally:
            self._close()

    def _next(self) -> Watch[Any] | None:
        """Wait for the next watch that is due; None when no watch is left."""
        with _mutex:
            while self.watches:
                now = time.monotonic()
                while self._due and self._due[0][0] <= now:
                    _, turn, watch = heapq.heappop(self._due)
                    if watch in self.watches and turn == watch.turn:
                        return watch
                self.changed.wait(self._due[0][0] - now if self._due else None)
            # Under the mutex: a new watch now finds no poller, and makes one.
            _pollers.pop(self._key, None)
            return None

    def _poll(self, watch: Watch[Any]) -> None:
        watch.is_new = False
        try:
            session = self._connect()
            patience = min(LOCK_TIMEOUT, self._client.lock_timeout)
            with nullcontext() if self._is_awaited() else session.lock_timeout(patience):
                found = watch.poll(session)
        except LockTimeoutError as error:
            # A condition that cannot be seen is not met.
            watch.report(error, watch.interval)
            self.schedule(watch, watch.interval)
        except Exception as error:
            if may_have_lost(error):
                self._close()
            self._failed(watch, error)
        else:
            self._failures, watch.reported = 0, ""
            if found is None:
                self.schedule(watch, watch.interval)
            else:
                watch.answer(found)

    def _is_awaited(self) -> bool:
        """Return whether another watch is due, which may not wait for a lock of this one's queue."""
        with _mutex:
            return bool(self._due) and self._due[0][0] <= time.monotonic()

    def _failed(self, watch: Watch[Any], error: Exception) -> None:
        if isinstance(error, SERVER_ERRORS):
            self._lost(error)
        elif isinstance(error, TransientError):
            # A statement may time out because the server is gone.
            watch.report(error, watch.interval)
            self.schedule(watch, watch.interval)
        else:
            watch.fail(error)

    def _connect(self) -> Session:
        if self._session is None:
            client = self._client
            self._session = Session(client.settings, lock_timeout=0, statement_timeout=STATEMENT_TIMEOUT)
            self._was_connected, self._refusals, self._refusal, self._until = True, 0, None, 0.0
        return self._session

    def _lost(self, error: SqlQueueError) -> None:
        """Pause all watches of the lost server; fail those that the error ends at the first connection."""
        self._failures += 1
        known, pause = self._was_connected, random_pause(self._failures)
        if isinstance(error, LoginFailedError):
            self._refusals += 1
            if not known or self._refusals > _REFUSALS:
                pause, self._refusal = REFUSED_SECONDS, error
        with _mutex:
            self._until = time.monotonic() + pause
            self._due.clear()
            for each in self.watches:
                if passes(error, known=known or each.source.patient):
                    each.send_away(error, pause)
                else:
                    each.fail(error)

    def _give_up(self, error: BaseException) -> None:
        """End after an unexpected error: all watches fail, and the next watch gets a new poller."""
        with _mutex:
            _pollers.pop(self._key, None)
            for each in self.watches:
                each.fail(error)
            self._due.clear()

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None
