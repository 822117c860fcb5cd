"""Consumer: an endpoint in Python with its handlers and its mover of delayed messages."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime, timedelta, timezone

from airflow_sqlqueue.endpoint.attempt import Outcome
from airflow_sqlqueue.endpoint.endpoint import Endpoint, EndpointTables
from airflow_sqlqueue.endpoint.handler_pool import HandlerPool, StoppedError
from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.endpoint.options import ConsumeOptions, ConsumeResult
from airflow_sqlqueue.endpoint.receiver import Receiver
from airflow_sqlqueue.endpoint.recoverability import FailureStorage
from airflow_sqlqueue.endpoint.run import Handle, Run
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.options.budget import Budget, TimeFunction
from airflow_sqlqueue.queue.delayed.mover import MoveOptions, MoveResult, move_due
from airflow_sqlqueue.server.reconnecting import Reconnecting
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.transactions import NONE

log = logging.getLogger(__name__)

_SHORTEST, _LONGEST = 1.0, 60.0
"""Seconds between two runs of the mover, as in the transport's mover (docs/transport/queue-tables.md, "Delayed
messages")."""

_MOVING_SECONDS = 10.0
"""The most seconds of one run of the mover, so that consuming ends soon after it is stopped."""

_CLEANING = 60.0
"""Seconds between two removals of old ids from the inbox, as endpoints clean their outbox."""

_END_SECONDS = 5.0
"""Seconds to wait for the handlers after an exception has interrupted consuming."""


def pause_until_due(away: timedelta | None, delayed_retry_seconds: float) -> float:
    """Return the seconds until the mover's next run; ``away`` is the time until the next message is due, if any is.

    A message that is delayed from now on may be due before those that are delayed already.
    """
    longest = min(_LONGEST, delayed_retry_seconds or _SHORTEST)
    return max(_SHORTEST, longest if away is None else min(longest, away.total_seconds()))


class Consumer:
    """Consumer of a queue: receives messages and calls a function with each, until it reaches a limit or is stopped.

    The delivery guarantee depends on the transaction mode. ``sends_atomic_with_receive``: sends and statements of the
    function through a client of this server commit together with the receive, or not at all. A crash of any part loses
    no message, and effects on this server are neither lost nor duplicated. ``receive_only``: sends are committed
    immediately, and the next attempt sends again. ``none``: a message leaves the queue when it is received, and a crash
    loses it.

    After an exception of the function the message is in the queue again and is retried by
    :class:`.ConsumeOptions`. Then it goes to the error queue with the headers that endpoints write. Messages
    with unreadable headers go there unchanged. A message that the error queue refuses goes into quarantine, so that no
    message stops the others. Meanwhile due messages of ``<queue>.Delayed`` are moved, as by an endpoint.

    A handled message is acknowledged if ServiceControl has retried it, and copied to the audit queue if there is one:
    in its transaction, and in the mode ``none`` in a transaction after its handling.

    With an inbox (``ConsumeOptions(inbox=True)``) a message id is handled once, also if it was sent twice. This covers
    effects on this server that commit with the receive; other effects are repeated by each attempt, as without it.

    :param connect: opens a session.
    :param handle: called with an :class:`~airflow_sqlqueue.Envelope`, in several threads at a time; or
        :class:`~airflow_sqlqueue.MessageHandlers`, functions by message type.
    :param on_progress: called with the counts after each message, from one thread at a time.
    :param stop: when set, ends consuming after the messages that are being handled.
    :param clock: the clock for the limit in seconds.
    :param on_contact: called with False before a wait for a server that is away, and with True when the server has
        answered, from several threads.
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
        clock: TimeFunction = time.monotonic,
        on_contact: Callable[[bool], None] | None = None,
    ) -> None:
        if not callable(handle):
            raise ConfigurationError(f"The handler is a {type(handle).__name__}: give a function.")
        self._connect, self._resolver, self._queue_name = connect, resolver, queue_name
        self._handlers = (handle if isinstance(handle, MessageHandlers) else MessageHandlers.of(handle)).bind()
        self._what = f"Consuming the queue {queue_name}"
        self._options = ConsumeOptions.or_default(options)
        if self._handlers.has_batches and self._options.transaction_mode == NONE:
            raise ConfigurationError("A batch is one transaction: choose another transaction_mode than none.")
        self._on_contact = on_contact or (lambda reached: None)
        self._on_progress = on_progress or (lambda done: None)
        self._stop, self._clock = stop or threading.Event(), clock
        self._tables: EndpointTables | None = None
        self._done = ConsumeResult()
        self._failures = FailureStorage()
        self._forget_at = 0.0

    def run(self, budget: Budget | None = None) -> ConsumeResult:
        """Consume until the end; ``budget`` is that of several consumers, instead of the options' own.

        Raises the errors of :meth:`.Endpoint.find` before anything is received. Raises the error that ended a handler:
        a server error not caused by one message, or a :class:`KeyboardInterrupt` of the function. Then that
        message and the unfinished messages of other handlers are in the queue. Raises :class:`TooManyFailuresError`
        when a limit on failures is reached, after the messages that were being handled.
        """
        budget = budget or self._options.budget(self._clock)
        patient = self._options.wait_for_server
        reconnecting = Reconnecting(self._connect, self._what, pause=self._wait, patient=patient)
        with closing(reconnecting) as connection, suppress(StoppedError):
            endpoint = connection.run(self._find)
            self._on_contact(True)
            pause = self._maintain(connection, endpoint)
            run = Run(
                connect=self._connect,
                what=self._what,
                settings=connection.open().settings,
                endpoint=endpoint,
                resolver=self._resolver,
                handlers=self._handlers,
                options=self._options,
                failures=self._failures,
                receiver=Receiver(self._options.where, anchored=self._options.transaction_mode != NONE),
                stop=self._stop,
                pause=self._wait,
                on_contact=self._on_contact,
            )
            pool = HandlerPool(run, budget, self._count)
            try:
                self._handle_all(pool, connection, endpoint, pause)
            finally:
                self._failures.log.log_totals()
        self._done.seconds = budget.seconds_used
        return self._done

    def _handle_all(
        self, pool: HandlerPool, moving: Reconnecting[Session], endpoint: Endpoint, pause: float | None
    ) -> None:
        """Run the handlers until they end, and the maintenance beside them, first after ``pause`` seconds."""
        try:
            pool.start()
            with suppress(StoppedError):
                while not pool.ended.wait(pause):
                    pause = self._maintain(moving, endpoint)
            pool.ended.wait()
        except BaseException:
            self._stop.set()
            pool.ended.wait(_END_SECONDS)
            raise
        pool.raise_failure()
        self._done.handlers = pool.most

    def stop(self) -> None:
        """Stop after the messages that are being handled; safe in any thread and in a signal handler."""
        self._stop.set()

    def _wait(self, seconds: float) -> None:
        self._on_contact(False)
        if self._stop.wait(seconds):
            raise StoppedError

    def _find(self, session: Session) -> Endpoint:
        names = self._resolver, self._queue_name, self._options, self._options.endpoint
        endpoint = Endpoint.find(session, *names, audit_queue=self._options.audit_queue)
        if self._options.inbox:
            endpoint.tables(session).inbox.create()
        return endpoint

    def _count(self, outcome: Outcome) -> None:
        done = self._done
        done.handled += outcome is Outcome.HANDLED
        done.failed += outcome in (Outcome.FAILED, Outcome.GIVEN_UP)
        done.delayed += outcome is Outcome.DELAYED
        done.forwarded += outcome is Outcome.FORWARDED
        done.duplicates += outcome is Outcome.DUPLICATE
        done.discarded += outcome is Outcome.DISCARDED
        done.rolled_back += outcome.stays
        self._on_progress(done)

    def _maintain(self, connection: Reconnecting[Session], endpoint: Endpoint) -> float | None:
        """Move due delayed messages and clean the inbox; return the seconds until the next time, None: no next time."""
        pauses = self._move(connection, endpoint), self._clean_inbox(connection, endpoint)
        return min((pause for pause in pauses if pause is not None), default=None)

    def _clean_inbox(self, connection: Reconnecting[Session], endpoint: Endpoint) -> float | None:
        """Remove old ids from the inbox once a minute, for some seconds."""
        if not self._options.inbox:
            return None
        now = time.monotonic()
        if now >= self._forget_at:
            self._forget_at = now + _CLEANING
            age = timedelta(days=self._options.inbox_days)

            def clean(session: Session) -> None:
                tables = self._tables = endpoint.tables(session, self._tables)
                while tables.inbox.forget(endpoint.queue, age) and not self._stop.is_set():
                    if time.monotonic() > now + _MOVING_SECONDS:
                        break

            connection.run(clean)
        return max(_SHORTEST, self._forget_at - time.monotonic())

    def _move(self, moving: Reconnecting[Session], endpoint: Endpoint) -> float | None:
        """Move due delayed messages, and return the seconds until the next move; None: no next move."""
        if endpoint.delayed is None:
            return None

        def move(session: Session) -> MoveResult:
            tables = self._tables = endpoint.tables(session, self._tables)
            assert tables.delayed is not None
            return move_due(
                tables.delayed,
                tables.queue,
                self._resolver,
                MoveOptions(max_seconds=_MOVING_SECONDS),
                error_queue=tables.error_queue,
            )

        next_due = moving.run(move).next_due
        return pause_until_due(
            None if next_due is None else next_due - datetime.now(timezone.utc),
            self._options.delayed_retry_seconds,
        )
