"""An endpoint in Python: its handlers, and its mover of delayed messages."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime, timedelta, timezone

from airflow_sqlqueue.budget import Budget, Clock
from airflow_sqlqueue.consuming.endpoint import Endpoint, EndpointTables
from airflow_sqlqueue.consuming.handler import Handle, Handler, Outcome
from airflow_sqlqueue.consuming.handler_pool import HandlerPool, StoppedError
from airflow_sqlqueue.consuming.options import ConsumeOptions, ConsumeResult
from airflow_sqlqueue.consuming.receiver import Receiver
from airflow_sqlqueue.consuming.recoverability import FailureStorage
from airflow_sqlqueue.delayed.mover import MoveResult, move_due
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.reconnecting import Reconnecting
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA

log = logging.getLogger(__name__)

_SHORTEST, _LONGEST = 1.0, 60.0
"""Seconds between two runs of the mover: those of the transport's own (docs/transport/queue-tables.md, "Delayed
messages")."""

_MOVING_SECONDS = 10.0
"""How long one run of the mover may take, so that the end of consuming is not far away."""

_END_SECONDS = 5.0
"""How long to wait for the handlers once consuming is interrupted by an exception."""


class Consumer:
    """Receives the messages of a queue and has a function handle them, until a limit is reached or it is stopped.

    Delivery by the transaction mode. ``sends_atomic_with_receive``: what the function sends and runs through a client
    of this server commits together with the receive, or not at all; whatever dies, no message is lost, and its effects
    on this server are neither lost nor doubled. ``receive_only``: sends go at once, and again with the next attempt.
    ``none``: a message is gone when it is received, and lost where the process dies.

    A message whose handling raises is in the queue again and tried as :class:`.RecoverabilityOptions` say; then it goes
    to the error queue with the headers that endpoints write. Messages whose headers cannot be read go there as they
    are. What the error queue does not take goes into quarantine, so that no message stops the others. The messages of
    ``<queue>.Delayed`` that are due are moved meanwhile, as an endpoint does.

    :param connect: opens a session.
    :param handle: called with an :class:`~airflow_sqlqueue.Envelope`, in several threads at a time.
    :param on_progress: called with the counts after each message, from one thread at a time.
    :param stop: ends consuming when it is set, after the messages that are being handled.
    :param clock: what the seconds are counted by.
    :param ledger_schema: the schema of the quarantine table.
    """

    def __init__(
        self,
        connect: Callable[[], Session],
        resolver: AddressResolver,
        queue_name: str,
        handle: Handle,
        options: ConsumeOptions | None = None,
        *,
        on_progress: Callable[[ConsumeResult], None] | None = None,
        stop: threading.Event | None = None,
        clock: Clock = time.monotonic,
        ledger_schema: str = LEDGER_SCHEMA,
    ) -> None:
        if not callable(handle):
            raise ConfigurationError(f"The handler is a {type(handle).__name__}: give a function.")
        self._connect, self._resolver, self._queue_name, self._handle = connect, resolver, queue_name, handle
        self._what = f"Consuming the queue {queue_name}"
        self._options = options or ConsumeOptions()
        self._on_progress = on_progress or (lambda done: None)
        self._stop, self._clock = stop or threading.Event(), clock
        self._ledger_schema = ledger_schema
        self._tables: EndpointTables | None = None
        self._done = ConsumeResult()

    def run(self) -> ConsumeResult:
        """Consume to the end.

        Raises what :meth:`.Endpoint.find` raises, before anything is received; and what ends a handler: an error of the
        server that is none of a message, or an exception that is no :class:`Exception`. The message is in its queue
        then, and so is what other handlers could not finish.
        """
        budget = self._options.budget(self._clock)
        with closing(Reconnecting(self._connect, self._what, pause=self._wait)) as connection, suppress(StoppedError):
            endpoint = connection.run(self._find)
            pause = self._move(connection, endpoint)
            self._handle_all(self._pool(connection.open().settings, endpoint, budget), connection, endpoint, pause)
        self._done.seconds = budget.seconds_used
        return self._done

    def _handle_all(
        self, pool: HandlerPool, moving: Reconnecting[Session], endpoint: Endpoint, pause: float | None
    ) -> None:
        """Run the handlers to their end, and the mover beside them, first after so many seconds."""
        try:
            pool.start()
            with suppress(StoppedError):
                while not pool.ended.wait(pause):
                    pause = self._move(moving, endpoint)
            pool.ended.wait()
        except BaseException:
            self._stop.set()
            pool.ended.wait(_END_SECONDS)
            raise
        pool.raise_failure()
        self._done.handlers = pool.most

    def stop(self) -> None:
        """End after the messages that are being handled; from any thread, and from a signal's handler."""
        self._stop.set()

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise StoppedError

    def _find(self, session: Session) -> Endpoint:
        options = self._options
        return Endpoint.find(
            session,
            self._resolver,
            self._queue_name,
            options.recoverability,
            options.endpoint,
            ledger_schema=self._ledger_schema,
        )

    def _pool(self, settings: ConnectionSettings, endpoint: Endpoint, budget: Budget) -> HandlerPool:
        shared = FailureStorage(), Receiver(self._options.where)

        def handler(on_received: Callable[[Callable[[int], int]], None]) -> Handler:
            return Handler(settings, endpoint, self._resolver, self._handle, self._options, *shared, on_received)

        return HandlerPool(self._connect, self._what, handler, self._options, budget, self._stop, self._count)

    def _count(self, outcome: Outcome) -> None:
        done = self._done
        done.handled += outcome is Outcome.HANDLED
        done.failed += outcome is Outcome.FAILED
        done.delayed += outcome is Outcome.DELAYED
        done.forwarded += outcome is Outcome.FORWARDED
        done.rolled_back += outcome is Outcome.ROLLED_BACK
        self._on_progress(done)

    def _move(self, moving: Reconnecting[Session], endpoint: Endpoint) -> float | None:
        """Move the delayed messages that are due, and return the seconds to wait for the next; None: for ever."""
        if endpoint.delayed is None:
            return None

        def move(session: Session) -> MoveResult:
            if self._tables is None or self._tables.session is not session:
                self._tables = EndpointTables(session, endpoint, known=self._tables is None)
            tables = self._tables
            assert tables.delayed is not None
            return move_due(
                tables.delayed,
                tables.queue,
                self._resolver,
                error_queue=tables.error_queue,
                max_seconds=_MOVING_SECONDS,
            )

        moved = moving.run(move)
        # A message that is delayed from now on may be due before all that wait already.
        longest = min(_LONGEST, self._options.recoverability.delayed_retry_seconds or _SHORTEST)
        away = moved.next_due - datetime.now(timezone.utc) if moved.next_due else timedelta.max
        return max(_SHORTEST, min(longest, away.total_seconds()))
