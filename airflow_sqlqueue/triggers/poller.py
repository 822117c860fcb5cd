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
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.errors import LoginFailedError, SqlQueueError, TransientError
from airflow_sqlqueue.reconnecting import SERVER_ERRORS, may_have_lost, passes, pause_after
from airflow_sqlqueue.session import Session

log = logging.getLogger(__name__)

T = TypeVar("T")
Look = Callable[[Session], T | None]
"""Looks once, through the session that it is given, on the poller's thread; None: there is nothing yet."""

LONGEST_PAUSE = 60.0
"""Seconds between two looks at a server that is away, and at the Airflow connection that leads there."""

_REFUSALS = 8
"""Refused logins in a row that a server may answer with that has taken the login before: one that starts does."""

REFUSED_SECONDS = 600.0
"""Seconds until a login is tried again that was refused: each try with a wrong password could lock it."""

STATEMENT_TIMEOUT = 60
"""Seconds after which a look is given up: the others wait for their turn meanwhile."""

_mutex = threading.Lock()
_pollers: dict[tuple[Any, ...], _Poller] = {}


def random_pause(failures: int) -> float:
    """Seconds to wait after so many failures in a row: 1 to 60, growing, and random, so that not all come at once."""
    return max(1.0, pause_after(failures, first=1.0, longest=LONGEST_PAUSE) * random.uniform(0.5, 1.0))  # noqa: S311 - no secret


@dataclass(frozen=True)
class Source(Generic[T]):
    """The source of a client and of a look; asked again while the server is away.

    ``name`` is the same for all whose Airflow connection and arguments are the same: they are asked together.

    :param client: makes the client; on a thread of its own, because looking up a connection waits for an answer.
    :param looker: makes what looks, for a client.
    :param patient: whether to wait also for a server that refuses the login at the first connection.
    """

    name: Hashable
    client: Callable[[], QueueClient]
    looker: Callable[[QueueClient], Look[T]]
    patient: bool = False


class _Away(NamedTuple):
    """The server is away: why, and the seconds until it is looked at again."""

    error: SqlQueueError
    pause: float


class Watch(Generic[T]):
    """One thing that somebody waits for on a server, from one event loop. Close it, in any case.

    As long as there is a watch, the connection that it shares with the others stays open. While the server is away or
    refuses, the source is asked again, and the watch moves to where it leads then.

    :param interval: seconds between two looks.
    """

    look: Look[T]
    _poller: _Poller

    @classmethod
    async def open(cls, source: Source[T], interval: float) -> Watch[T]:
        """Begin to watch what the source says."""
        return cls(source, interval, await _ask(source))

    def __init__(self, source: Source[T], interval: float, client: QueueClient) -> None:
        self.source, self.interval = source, interval
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[T | _Away] | None = None
        self._closed, self.turn = False, -1
        # Of the one who waits, so that what is logged for it goes where its own lines go.
        self._context = contextvars.copy_context()
        self._poller = self._join(client)

    def _join(self, client: QueueClient) -> _Poller:
        self.client, self.look, self.is_new = client, self.source.looker(client), True
        key = (client.settings.odbc_connection_string(), client.settings.login)
        with _mutex:
            joined = _pollers.get(key) or _Poller(key, client)
            joined.watches.add(self)
        return joined

    def _leave(self, poller: _Poller) -> None:
        with _mutex:
            poller.watches.discard(self)
            poller.changed.notify()

    async def found(self, after: float = 0.0) -> T:
        """Look, first after so many seconds, until there is something, and return it.

        A server that is lost is waited for. Raises what looking raises else, and what connecting does.
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
        """Ask the source again, at once and each minute of the pause; return the seconds until the next look."""
        log.warning("Looking again in %.0f s: %s", away.pause, away.error)
        until = self._loop.time() + away.pause
        while True:
            if await self._moved():
                return 0.0
            left = until - self._loop.time()
            if left <= LONGEST_PAUSE:
                return max(0.0, left)
            await asyncio.sleep(LONGEST_PAUSE)

    async def _moved(self) -> bool:
        """Whether the source leads to another server or login by now, to which the watch has gone over then."""
        try:
            client = await _ask(self.source)
        except Exception as error:
            # Somebody may be at work on it. What was known before is tried on.
            known = isinstance(error, SqlQueueError)
            log.warning("The connection cannot be looked up again: %s", error if known else type(error).__name__)
            return False
        if self._closed or _said(client) == _said(self.client):
            return False
        log.info("The connection was changed: looking at %s", client.settings.server)
        before, self._poller = self._poller, self._join(client)
        if before is not self._poller:
            self._leave(before)
        return True

    def close(self) -> None:
        """Wait no more; may be called twice. The connection is closed with the last watch."""
        self._closed = True
        self._leave(self._poller)

    # What follows is called on the poller's thread.

    def answer(self, found: T) -> None:
        self._tell(lambda future: future.set_result(found))

    def fail(self, error: BaseException) -> None:
        self._tell(lambda future: future.set_exception(error))

    def send_away(self, error: SqlQueueError, pause: float) -> None:
        """Have the one who waits ask its source again, and come back after so many seconds."""
        self._tell(lambda future: future.set_result(_Away(error, pause)))

    def report(self, error: SqlQueueError, pause: float) -> None:
        """Say in the log of the one who waits why it takes longer."""
        self._tell(lambda _: log.warning("Looking again in %.0f s: %s", pause, error))

    def _tell(self, what: Callable[[asyncio.Future[T | _Away]], Any]) -> None:
        def tell() -> None:
            if self._future is not None and not self._future.done():
                what(self._future)

        # A loop that is closed has nobody who waits.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(tell, context=self._context)


def _said(client: QueueClient) -> tuple[Any, ...]:
    """The settings of a client, as a connection has them."""
    return client.settings, client.resolver, client.ledger_schema, client.lock_timeout


_asked: dict[tuple[Any, ...], asyncio.Task[QueueClient]] = {}


async def _ask(source: Source[Any]) -> QueueClient:
    """The client of a source, looked up once for all who ask at the same time."""
    key = (asyncio.get_running_loop(), source.name)
    if key not in _asked:
        _asked[key] = asyncio.create_task(asyncio.to_thread(source.client))
        _asked[key].add_done_callback(lambda _: _asked.pop(key))
    return await asyncio.shield(_asked[key])


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
        self._refusal: LoginFailedError | None = None
        self._until = 0.0
        _pollers[key] = self
        threading.Thread(target=self._run, name="sqlqueue-poller", daemon=True).start()

    def schedule(self, watch: Watch[Any], after: float) -> None:
        """Look for somebody in so many seconds; one that is new does not wait for what others have met."""
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
                    _, turn, watch = heapq.heappop(self._due)
                    if watch in self.watches and turn == watch.turn:
                        return watch
                self.changed.wait(self._due[0][0] - now if self._due else None)
            # Under the mutex: who comes now finds no poller, and makes one.
            _pollers.pop(self._key, None)
            return None

    def _look(self, watch: Watch[Any]) -> None:
        watch.is_new = False
        try:
            found = watch.look(self._connect())
        except Exception as error:
            if may_have_lost(error):
                self._close()
            self._failed(watch, error)
        else:
            self._failures = 0
            if found is None:
                self.schedule(watch, watch.interval)
            else:
                watch.answer(found)

    def _failed(self, watch: Watch[Any], error: Exception) -> None:
        if isinstance(error, SERVER_ERRORS):
            self._lost(error)
        elif isinstance(error, TransientError):
            # A statement that ran into its timeout may have done so because nobody is there any more.
            watch.report(error, watch.interval)
            self.schedule(watch, watch.interval)
        else:
            watch.fail(error)

    def _connect(self) -> Session:
        if self._session is None:
            client = self._client
            self._session = Session(
                client.settings, lock_timeout=client.lock_timeout, statement_timeout=STATEMENT_TIMEOUT
            )
            self._was_connected, self._refusals, self._refusal, self._until = True, 0, None, 0.0
        return self._session

    def _lost(self, error: SqlQueueError) -> None:
        """Wait, for all of them: the server is the same. Those whose first connection fails for good wait no more."""
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
