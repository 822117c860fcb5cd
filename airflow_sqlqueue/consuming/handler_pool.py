"""As many handlers as there is work for, from one to a maximum, each in a thread with a connection of its own.

A handler that receives a message looks how many more wait and has others started for them; one that finds nothing ends,
but the last, which polls (docs/transport/transactions.md, "Recoverability").
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial

from airflow_sqlqueue.budget import Budget
from airflow_sqlqueue.consuming.handler import Handler, Outcome, SessionStack
from airflow_sqlqueue.consuming.options import ConsumeOptions
from airflow_sqlqueue.reconnecting import Reconnecting
from airflow_sqlqueue.session import Session


class StoppedError(Exception):
    """Consuming is stopped while it waits for the server."""


class HandlerPool:
    """One run of the handlers.

    :param connect: opens a session for a handler.
    :param what: names the work in the log, as for :class:`.Reconnecting`.
    :param handler: makes a handler, which calls what it is given after each receive that found a message.
    :param stop: ends the handlers after the message that each has at hand.
    :param on_outcome: called with the counts after each message, one at a time.
    """

    def __init__(
        self,
        connect: Callable[[], Session],
        what: str,
        handler: Callable[[Callable[[Callable[[int], int]], None]], Handler],
        options: ConsumeOptions,
        budget: Budget,
        stop: threading.Event,
        on_outcome: Callable[[Outcome], None],
    ) -> None:
        self._connect, self._what, self._handler, self._options = connect, what, handler, options
        self._budget, self._stop, self._on_outcome = budget, stop, on_outcome
        # What the caller has set for its own thread, such as the context of its logs, holds for handlers too. A
        # handler that has another one started is in a transaction, which must not.
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._alive = self._started = self.most = 0
        self._failure: BaseException | None = None
        self.ended = threading.Event()

    def start(self) -> None:
        """Start with one handler; ``ended`` is set when none is left."""
        self._add(1)

    def raise_failure(self) -> None:
        """Raise the first error that ended a handler, where there was one."""
        if self._failure is not None:
            raise self._failure

    def _add(self, wanted: int) -> None:
        with self._lock:
            for _ in range(min(wanted, self._options.max_handlers - self._alive)):
                if self._stop.is_set():
                    break
                self._alive += 1
                self._started += 1
                self.most = max(self.most, self._alive)
                work = self._context.copy().run
                name = f"message handler {self._started}"
                threading.Thread(target=work, args=(self._guarded,), name=name, daemon=True).start()
            if not self._alive:
                self.ended.set()

    def _grow(self, waiting: Callable[[int], int]) -> None:
        """Start handlers for the messages that wait. In full number they have no need to look."""
        room = self._options.max_handlers - self._alive
        if room > 0 and not self._stop.is_set():
            self._add(waiting(room))

    def _guarded(self) -> None:
        retired = False
        try:
            retired = self._work()
        except StoppedError:
            pass
        except BaseException as error:
            with self._lock:
                self._failure = self._failure or error
            self._stop.set()
        if not retired:
            self._leave()

    def _leave(self, *, unless_last: bool = False) -> bool:
        with self._lock:
            if unless_last and self._alive == 1:
                return False
            self._alive -= 1
            if not self._alive:
                self.ended.set()
            return True

    def _work(self) -> bool:
        connect = partial(SessionStack, self._connect)
        connection = Reconnecting(connect, self._what, pause=self._wait, known=True)
        handler = self._handler(self._grow)
        with closing(connection):
            return connection.run(lambda sessions: self._handle_messages(handler, sessions, connection))

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise StoppedError

    def _handle_messages(
        self, handler: Handler, sessions: SessionStack, connection: Reconnecting[SessionStack]
    ) -> bool:
        """Handle messages until there is an end to it; True where others go on and this one has left."""
        while not self._stop.is_set() and self._budget.reserve(1):
            outcome = None
            try:
                outcome = handler.next(sessions)
            finally:
                if outcome in (None, Outcome.ROLLED_BACK):
                    self._budget.give_back(1)
            if outcome is not None:
                connection.made_progress()
                with self._lock:
                    self._on_outcome(outcome)
            elif self._leave(unless_last=True):
                return True
            elif self._options.until_empty:
                return False
            else:
                left = self._budget.seconds_left
                pause = self._options.poll_seconds
                self._stop.wait(pause if left is None else min(pause, left))
        return False
