"""Pool of handlers, from one to a maximum by the number of messages, each in a thread with a connection of its own.

A handler that receives a message counts the waiting messages and lets the pool start handlers for them. A handler that
finds no message ends, except for the last one, which polls (docs/transport/transactions.md, "Recoverability").
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial

from airflow_sqlqueue.endpoint.attempt import Outcome
from airflow_sqlqueue.endpoint.failure_budget import FailureBudget
from airflow_sqlqueue.endpoint.handler import Handler
from airflow_sqlqueue.endpoint.run import Run
from airflow_sqlqueue.endpoint.session_stack import SessionStack
from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.options.budget import Budget
from airflow_sqlqueue.server.reconnecting import MAX_SECONDS, Reconnecting

log = logging.getLogger(__name__)


class StoppedError(Exception):
    """Consuming was stopped during a wait for the server."""


class HandlerPool:
    """Pool of handlers for one run. It calls ``on_outcome`` after each receive, from one thread at a time."""

    def __init__(self, run: Run, budget: Budget, on_outcome: Callable[[Outcome], None]) -> None:
        self._run, self._options, self._stop = run, run.options, run.stop
        self._budget, self._on_outcome, self._failures = budget, on_outcome, FailureBudget(run.options, run.what)
        # Handlers inherit the caller's context variables, such as the context of its logs. The context is copied here
        # because a handler that starts another one is in a transaction, which the other must not inherit.
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._alive = self._started = self.most = 0
        self._failure: BaseException | None = None
        self._stopped: float | None = None
        self.ended = threading.Event()

    def start(self) -> None:
        """Start one handler; ``ended`` is set when the last handler has ended."""
        self._add(1)

    def raise_failure(self) -> None:
        """Raise the first error that ended a handler, if any."""
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
        """Start handlers for the waiting messages. A full pool does not count them, nor does a slow one."""
        room = self._options.max_handlers - self._alive
        if room > 0 and not self._stop.is_set() and not self._failures.is_slow:
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
        connect, patient = partial(SessionStack, self._run.connect), self._options.wait_for_server
        handler = Handler(self._run, self._grow)
        pause = partial(self._wait_for_server, handler)
        connection = Reconnecting(connect, self._run.what, pause=pause, known=True, patient=patient)
        with closing(connection):
            try:
                return connection.run(lambda sessions: self._handle_messages(handler, sessions, connection))
            except (SqlQueueError, StoppedError):
                try:
                    handler.settlement.give_back(connection.connect)
                except SqlQueueError as error:
                    log.error("%s: a message that is in no queue is lost: %s", self._run.what, error)
                raise

    def _wait_for_server(self, handler: Handler, seconds: float) -> None:
        """Wait for the server. A message that is in no queue keeps its handler for :data:`MAX_SECONDS` after a stop."""
        try:
            self._run.pause(seconds)
        except StoppedError:
            self._stopped = self._stopped or time.monotonic()
            if not handler.settlement.is_open or time.monotonic() - self._stopped > MAX_SECONDS:
                raise
            # The run's own pause waits for the stop, which is set.
            time.sleep(seconds)

    def _handle_messages(
        self, handler: Handler, sessions: SessionStack, connection: Reconnecting[SessionStack]
    ) -> bool:
        """Handle messages until the end; return True if this handler has left the pool and others continue."""
        # A message that is in no queue is finished whether consuming was stopped or a limit was reached meanwhile.
        while handler.settlement.is_open or not self._stop.is_set():
            if self._failures.is_slow and not handler.settlement.is_open:
                if self._leave(unless_last=True):
                    return True
                self._pause(self._failures.next_pause())
                if self._stop.is_set():
                    break
            reserved, outcomes = 0, list[Outcome]()
            if not handler.settlement.is_open:
                reserved = self._budget.reserve(1 if self._failures.is_slow else self._run.handlers.max_batch)
                if not reserved:
                    break
            try:
                outcomes = handler.next(sessions, reserved)
            finally:
                if reserved:
                    used = sum(not each.stays for each in outcomes) + handler.settlement.is_open
                    self._budget.give_back(reserved - used)
            self._run.on_contact(True)
            if outcomes:
                connection.made_progress()
                with self._lock:
                    for outcome in outcomes:
                        self._on_outcome(outcome)
                for outcome in outcomes:
                    self._note(outcome)
            elif self._leave(unless_last=True):
                return True
            elif self._options.until_empty:
                return False
            else:
                self._pause(self._options.poll_seconds)
        return False

    def _pause(self, seconds: float) -> None:
        left = self._budget.seconds_left
        if seconds:
            self._stop.wait(seconds if left is None else min(seconds, left))

    def _note(self, outcome: Outcome) -> None:
        """Note the outcome in the failure budget, which may end the pool by an error."""
        if outcome is Outcome.HANDLED:
            self._failures.note_success()
        if outcome in (Outcome.FAILED, Outcome.GIVEN_UP):
            self._failures.note_given_up()
        if outcome in (Outcome.FAILED, Outcome.ROLLED_BACK):
            self._failures.note_failure()
