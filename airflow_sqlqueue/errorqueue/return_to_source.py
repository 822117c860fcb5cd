"""Return to source: send failed messages back to the queues where they failed."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from airflow_sqlqueue import errors
from airflow_sqlqueue.budget import MIB, Limits, check_limits
from airflow_sqlqueue.errorqueue.destinations import Destinations, Reason
from airflow_sqlqueue.errorqueue.failed_message import MALFORMED, FailedMessage
from airflow_sqlqueue.errorqueue.failure_headers import without_failure
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.scan import pages, window_of
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.forwarding import transfer
from airflow_sqlqueue.reconnecting import reconnecting
from airflow_sqlqueue.routing import AddressResolver

log = logging.getLogger(__name__)

_REFUSALS: dict[type[Exception], Reason] = {
    errors.MessageError: Reason.MALFORMED,
    errors.NotAQueueError: Reason.NOT_A_QUEUE,
    errors.QueueNotFoundError: Reason.NOT_FOUND,
    errors.PermissionDeniedError: Reason.DENIED,
    errors.LockTimeoutError: Reason.LOCKED,
    errors.StatementError: Reason.REFUSED,
}
_OF_A_MESSAGE = {Reason.MALFORMED, Reason.REFUSED}


@dataclass(frozen=True)
class ReturnOptions(Limits):
    """Options and limits of a return. Rows and bytes of a transaction bound its locks and the memory it takes.

    :param redirect_to: send the messages to this queue instead of the queues where they failed.
    :param malformed: redirect messages with malformed headers too, their text unchanged; needs ``redirect_to``.
    :param rate: messages per second; None: no limit.
    :param max_messages: stop after this number of returned messages; None: no limit.
    :param max_seconds: begin no transaction after this many seconds; None: no limit.
    :param dry_run: return nothing, only count the messages that would be returned.
    :param rows_per_transaction: the most messages that one transaction moves, 1 to 1,000.
    :param bytes_per_transaction: bytes of headers and bodies after which a transaction takes no further message.
    """

    redirect_to: str | None = None
    malformed: bool = False
    rate: float | None = None
    dry_run: bool = False
    rows_per_transaction: int = 128
    bytes_per_transaction: int = 8 * MIB

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.malformed and self.redirect_to is None:
            raise errors.ConfigurationError("Malformed messages name no queue: name one with redirect_to.")
        check_limits(rate=self.rate, bytes_per_transaction=self.bytes_per_transaction)
        if not 1 <= self.rows_per_transaction <= 1_000:
            raise errors.ConfigurationError("rows_per_transaction must be 1 to 1,000: locks would escalate.")


@dataclass
class ReturnResult:
    """Result of a return, or its progress.

    ``returned`` counts messages by the queue that they were sent to, ``left`` counts messages that stay, by the reason.
    ``unseen`` messages were locked by others all the time, so that the return could not read them; it is an estimate if
    others receive from the error queue. ``complete`` is False if a budget ended the return before all messages were
    handled; it does not depend on messages that stay.
    """

    returned: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    unseen: int = 0
    complete: bool = False
    dry_run: bool = False
    seconds: float = 0.0

    @property
    def messages(self) -> int:
        """Number of returned messages."""
        return sum(self.returned.values())

    def count(self, into: dict[str, int], key: str, messages: int) -> None:
        """Add messages to ``returned`` or ``left``; zero adds no entry."""
        if messages:
            into[key] = into.get(key, 0) + messages

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"messages": self.messages, **asdict(self), "seconds": round(self.seconds, 3)}


@dataclass(frozen=True)
class Clock:
    """Source of the time in seconds, and a function that waits."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class RateLimiter:
    """Limit of ``rate`` messages per second, in bursts of up to one second; None: no limit."""

    def __init__(self, rate: float | None, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._free_at = clock.now()

    @property
    def burst(self) -> int | None:
        """Maximum number of messages to move at once."""
        return None if self._rate is None else max(1, int(self._rate))

    @property
    def away(self) -> float:
        """Seconds until more may be moved."""
        return 0.0 if self._rate is None else max(0.0, self._free_at - self._clock.now())

    def wait(self) -> None:
        """Wait until more may be moved."""
        if away := self.away:
            self._clock.sleep(away)

    def moved(self, count: int) -> None:
        """Count moved messages. Time that was lost before does not raise the rate later."""
        if self._rate is not None:
            self._free_at = max(self._free_at, self._clock.now()) + count / self._rate


class _Refused(Exception):
    """Error of a queue that did not take the messages sent to it; the transaction is rolled back."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


class ReturnToSource:
    """Return of failed messages to the queues where they failed, through the error queue's connection.

    Each transaction takes messages out of the error queue and puts them into one queue, so nothing is lost or doubled,
    whichever process dies; messages of an uncommitted transaction are still in the error queue. Row Id, message id,
    correlation id, conversation id and body are kept, headers of the failure are removed
    (:mod:`airflow_sqlqueue.errorqueue.failure_headers`), and the expiry is cleared. Messages of one queue keep their
    order if there is no other receiver. Messages that fail again while this runs are not returned a second time.

    A message that cannot be returned stays, the result has the reason, and the rest is returned. Raises
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
        """Return the messages that match and were in the queue at the start."""
        if self._queue.session.in_transaction:
            raise errors.TransactionError("A return has several transactions: run it outside of a transaction.")
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
        """Return a page's messages, queue by queue; False if the budget was used up first."""
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
        """Reserve messages for the next transaction; 0 if the budget is used up before the rate allows more."""
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
        """Move messages to a queue and return their number; one by one if the server does not take them together."""
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
        except errors.LayoutChangedError:
            moved = work()  # The first attempt was rolled back; this one reads the new columns of the table.
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
    """Return the text of this package's own errors only: the text of any other error may quote a message."""
    return str(error) if isinstance(error, errors.SqlQueueError) else type(error).__name__


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise :class:`_Refused` for errors of a message or of the receiving queue; all others stop the whole return."""
    try:
        yield
    except tuple(_REFUSALS) as error:
        raise _Refused(next(reason for kind, reason in _REFUSALS.items() if isinstance(error, kind))) from error
    except Exception as error:
        if not errors.is_of_a_message(error):
            raise
        raise _Refused(Reason.MALFORMED) from error
