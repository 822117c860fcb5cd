"""Failed messages on their way back to the queues where they failed."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby

from airflow_sqlqueue.errorqueue.destinations import Destinations, Reason
from airflow_sqlqueue.errorqueue.failed import MALFORMED, FailedMessage
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.headers import without_failure
from airflow_sqlqueue.errorqueue.options import ReturnOptions, ReturnResult
from airflow_sqlqueue.errorqueue.rate_limit import Clock, RateLimiter
from airflow_sqlqueue.errorqueue.scan import pages, window_of
from airflow_sqlqueue.errors import (
    LayoutChangedError,
    LockTimeoutError,
    MessageError,
    NotAQueueError,
    PermissionDeniedError,
    QueueNotFoundError,
    SqlQueueError,
    StatementError,
    TransactionError,
    is_of_a_message,
)
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.forwarding import transfer
from airflow_sqlqueue.reconnecting import reconnecting
from airflow_sqlqueue.routing import AddressResolver

log = logging.getLogger(__name__)

_REFUSALS: dict[type[Exception], Reason] = {
    MessageError: Reason.MALFORMED,
    NotAQueueError: Reason.NOT_A_QUEUE,
    QueueNotFoundError: Reason.NOT_FOUND,
    PermissionDeniedError: Reason.DENIED,
    LockTimeoutError: Reason.LOCKED,
    StatementError: Reason.REFUSED,
}
_OF_A_MESSAGE = {Reason.MALFORMED, Reason.REFUSED}


class _Refused(Exception):
    """A queue did not take what was sent to it; the transaction is rolled back."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


class ReturnToSource:
    """One return of messages from an error queue, through the queue's connection.

    Each transaction takes messages out of the error queue and puts them into one queue, so nothing is lost or doubled,
    whatever dies; what was not committed is in the error queue still. Row Id, message id, correlation id, conversation
    id and body are kept, headers of the failure removed (:mod:`airflow_sqlqueue.errorqueue.headers`), the expiry
    cleared. Messages of one queue keep their order, as far as nobody else receives. Messages that fail again while this
    runs are not returned a second time.

    What cannot be returned stays, and the answer says why; no such message stops the rest. Raises
    :class:`QueueNotFoundError` and :class:`NotAQueueError` for the error queue itself and ``redirect_to``,
    :class:`ConfigurationError` where both are the same, :class:`TransactionError` inside a transaction, and what a
    broken connection raises.
    """

    def __init__(
        self,
        queue: QueueTable,
        resolver: AddressResolver,
        where: ErrorFilter,
        options: ReturnOptions | None = None,
        *,
        on_progress: Callable[[ReturnResult], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._queue = queue
        self._where = where
        self._resolver = resolver
        self._options = options = options or ReturnOptions()
        self._on_progress = on_progress or (lambda done: None)
        self._clock = clock or Clock()
        self._pace = RateLimiter(options.rate, self._clock)
        self._blocked: dict[QueueTable, Reason] = {}
        self._done = ReturnResult(dry_run=options.dry_run)

    def run(self) -> ReturnResult:
        """Return what matches and was in the queue at the start."""
        if self._queue.session.in_transaction:
            raise TransactionError("A return commits as it goes: run it outside of a transaction.")
        done, where, options = self._done, self._where, self._options
        self._budget = options.budget(self._clock.now)
        destinations = Destinations(self._queue, self._resolver, options.redirect_to, options.malformed)
        window = window_of(self._queue, where)
        named = where.row_versions
        seen = 0
        done.complete = True
        for page in pages(self._queue, window):
            seen += len(page) if named is None else sum(message.row_version in named for message in page)
            if not self._return([message for message in page if where.matches(message)], destinations):
                done.complete = False
                break
        if done.complete and named is not None:
            self._leave(Reason.NOT_AVAILABLE, len(named) - seen)
        elif done.complete:
            moved = 0 if done.dry_run else done.messages
            done.unseen = max(0, self._queue.count_left(window.up_to) - (seen - moved))
        done.seconds = self._budget.seconds_used
        return done

    def _return(self, messages: Sequence[FailedMessage], destinations: Destinations) -> bool:
        """Return a page's messages, queue by queue; False where the budget was used up first."""
        by_queue: dict[QueueTable, deque[FailedMessage]] = {}
        for message in messages:
            destination = destinations.of(message)
            if isinstance(destination, Reason):
                self._leave(destination, 1)
            else:
                by_queue.setdefault(destination, deque()).append(message)
        for destination, waiting in by_queue.items():
            while waiting:
                room = self._reserve()
                if not room:
                    return False
                self._pace.wait()
                moved = self._move_or_leave(destination, self._next(waiting, room))
                self._budget.give_back(room - moved)
                self._on_progress(self._done)
        return True

    def _reserve(self) -> int:
        """How many messages the next transaction may move; 0 where the budget is used up before the rate allows it."""
        seconds = self._budget.seconds_left
        if seconds is not None and seconds <= self._pace.away:
            return 0
        rows, burst = self._options.rows_per_transaction, self._pace.burst
        return self._budget.reserve(rows if burst is None else min(rows, burst))

    def _next(self, waiting: deque[FailedMessage], room: int) -> list[FailedMessage]:
        chunk = [waiting.popleft()]
        size = chunk[0].size
        while waiting and len(chunk) < room and size + waiting[0].size <= self._options.bytes_per_transaction:
            chunk.append(waiting.popleft())
            size += chunk[-1].size
        return chunk

    def _move_or_leave(self, destination: QueueTable, chunk: Sequence[FailedMessage]) -> int:
        """Move messages to a queue and return how many; one by one where the server does not take them together."""
        if reason := self._blocked.get(destination):
            self._leave(reason, len(chunk))
            return 0
        try:
            moved = len(chunk) if self._options.dry_run else self._move(destination, chunk)
        except _Refused as refused:
            if refused.reason not in _OF_A_MESSAGE:
                self._blocked[destination] = refused.reason
            elif len(chunk) > 1:
                moved = sum(self._move_or_leave(destination, [message]) for message in chunk)
                if not moved and refused.reason is Reason.REFUSED:
                    self._blocked[destination] = refused.reason
                return moved
            if refused.reason is not Reason.MALFORMED:
                log.warning("%d messages stay in %s: %s", len(chunk), self._queue.address, _sentence(refused.__cause__))
            self._leave(refused.reason, len(chunk))
            return 0
        self._done.count(self._done.returned, destination.address.canonical, moved)
        self._leave(Reason.NOT_AVAILABLE, len(chunk) - moved)
        return moved

    def _move(self, destination: QueueTable, chunk: Sequence[FailedMessage]) -> int:
        what = f"Returning messages of the queue {self._queue.address.canonical}"
        work = partial(reconnecting, self._queue.session, what, partial(self._move_once, destination, chunk))
        try:
            moved = work()
        except LayoutChangedError:
            moved = work()  # Rolled back; the next attempt reads the table's new shape.
        self._pace.moved(moved)
        return moved

    def _move_once(self, destination: QueueTable, chunk: Sequence[FailedMessage]) -> int:
        moved = 0
        with self._queue.session.transaction():
            for malformed, run in groupby(chunk, key=lambda message: message.kind == MALFORMED):
                row_versions = [message.row_version for message in run]
                taken = [] if malformed else self._queue.take(row_versions)
                with _refusals():
                    if malformed:
                        moved += transfer(self._queue, destination, row_versions)
                    else:
                        destination.send(map(without_failure, taken))
                        moved += len(taken)
        return moved

    def _leave(self, reason: Reason, messages: int) -> None:
        self._done.count(self._done.left, reason.value, messages)


def _sentence(error: BaseException | None) -> str:
    """Our own sentence; the text of another error may quote a message."""
    return str(error) if isinstance(error, SqlQueueError) else type(error).__name__


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise :class:`_Refused` for errors of a message or of the receiving queue; all others stop the whole return."""
    try:
        yield
    except tuple(_REFUSALS) as error:
        raise _Refused(next(reason for kind, reason in _REFUSALS.items() if isinstance(error, kind))) from error
    except Exception as error:
        if not is_of_a_message(error):
            raise
        raise _Refused(Reason.MALFORMED) from error
