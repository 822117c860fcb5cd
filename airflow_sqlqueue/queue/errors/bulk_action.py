"""Bulk action on failed messages, chunk by chunk: the scan, transactions, limits, rate, dry run, counts and retries.

All actions share it; each has an :class:`Effect` of its own.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Protocol

from airflow_sqlqueue import errors
from airflow_sqlqueue.options import BYTES, argument, option
from airflow_sqlqueue.options.budget import MIB, Limits, count_of
from airflow_sqlqueue.queue import forwarding
from airflow_sqlqueue.queue.errors.failed_message import FailedMessage
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.reasons import StayReason
from airflow_sqlqueue.queue.errors.scan import FailedMessages
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.server.reconnecting import reconnecting

log = logging.getLogger(__name__)

REFUSALS: Mapping[type[Exception], StayReason] = {
    errors.MessageError: StayReason.MALFORMED,
    errors.NotAQueueError: StayReason.NOT_A_QUEUE,
    errors.QueueNotFoundError: StayReason.NOT_FOUND,
    errors.PermissionDeniedError: StayReason.DENIED,
    errors.LockTimeoutError: StayReason.LOCKED,
    errors.StatementError: StayReason.REFUSED,
}
"""Errors of a receiving queue that headers name: the messages stay, and the rest goes on."""

ROW_REFUSALS: Mapping[type[Exception], StayReason] = {
    errors.MessageError: StayReason.MALFORMED,
    errors.RowRefusedError: StayReason.REFUSED,
}
"""Errors of single messages, for a receiving queue that the caller names: its other errors are raised."""

_OF_A_MESSAGE = {StayReason.MALFORMED, StayReason.REFUSED}


@dataclass(frozen=True, kw_only=True)
class ErrorQueueOptions(Limits):
    """Options and limits of work on failed messages. Rows and bytes of a transaction bound its locks and its memory."""

    max_messages: int | None = option(None, "stop after this many messages, the oldest first", above=0)
    max_seconds: float | None = option(None, "begin no transaction after this many seconds", above=0)
    rate: float | None = option(None, "messages per second", above=0)
    rows_per_transaction: int = option(
        128, "the most messages of one transaction", least=1, most=1_000, because="locks would escalate", form=None
    )
    bytes_per_transaction: int = option(
        8 * MIB,
        "headers and bodies after which a transaction takes no further message",
        unit=BYTES,
        above=0,
        form=None,
    )
    dry_run: bool = argument(False, "change nothing, only count the messages")


@dataclass
class ErrorQueueResult:
    """Result of work on failed messages, or its progress.

    ``messages`` were handled; with ``dry_run`` they would be. ``destinations`` counts them by the queue that they went
    to, if they went to one. ``left`` counts messages that stay, by the reason.
    ``unseen`` messages were locked by others all the time, so that nothing could read them; it is an estimate if others
    receive from the queue. ``complete`` is False if a budget ended the work before all messages were handled; it does
    not depend on messages that stay. ``warnings`` has sentences about others who work on the same queue, such as
    ServiceControl.
    """

    messages: int = 0
    destinations: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    unseen: int = 0
    complete: bool = False
    dry_run: bool = False
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)

    def leave(self, reason: str, messages: int) -> None:
        """Count messages that stay; zero adds no entry."""
        if messages:
            self.left[reason] = self.left.get(reason, 0) + messages

    def handled(self, target: QueueTable | None, messages: int) -> None:
        """Count handled messages; zero adds no entry."""
        self.messages += messages
        if messages and target is not None:
            name = target.address.canonical
            self.destinations[name] = self.destinations.get(name, 0) + messages

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "seconds": round(self.seconds, 3)}


class Effect(Protocol):
    """Effect of an action on failed messages."""

    def prepare(self) -> None:
        """Make what the transactions need; a dry run does without."""

    def target(self, message: FailedMessage) -> QueueTable | StayReason | None:
        """Return the queue that a message goes to, None for a place that is no queue, or the reason why it stays."""

    def handle(self, target: QueueTable | None, chunk: Sequence[FailedMessage]) -> int:
        """Handle messages of one target in the transaction under way, and return how many.

        Raises :class:`MessagesRefused` for messages that stay.
        """


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


class MessagesRefused(Exception):
    """Refusal of messages by a queue; the transaction is rolled back, and its cause is an error of the server."""

    def __init__(self, reason: StayReason) -> None:
        self.reason = reason


class BulkAction:
    """Action on failed messages in bulk: on those that match and were there at the start, oldest first.

    Each chunk is one transaction, repeated after a deadlock or a lost connection: whichever process dies, no message is
    lost or handled twice, and messages of an uncommitted transaction are still where they were. A message that the
    action cannot handle stays, the result has the reason, and the rest is handled.

    :param name: the name of the action.
    """

    def __init__(
        self,
        name: str,
        source: FailedMessages,
        effect: Effect,
        where: ErrorFilter,
        options: ErrorQueueOptions,
        *,
        on_progress: Callable[[ErrorQueueResult], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._name, self._source, self._effect, self._where, self._options = name, source, effect, where, options
        self._done = ErrorQueueResult(dry_run=options.dry_run)
        self._on_progress = on_progress or (lambda done: None)
        self._clock = clock or Clock()
        self._pace = RateLimiter(options.rate, self._clock)
        self._budget = options.budget(self._clock.now)
        self._blocked: dict[QueueTable | None, StayReason] = {}
        self._refused = Counter[QueueTable | None]()
        self._accepting: set[QueueTable | None] = set()

    def run(self) -> ErrorQueueResult:
        """Handle the messages. Raises :class:`TransactionError` inside a transaction, and the errors of the queues."""
        if self._source.session.in_transaction:
            raise errors.TransactionError(
                f"The action {self._name} takes several transactions: run it outside of a transaction."
            )
        if not self._options.dry_run:
            self._effect.prepare()
        done, where = self._done, self._where
        self._budget = self._options.budget(self._clock.now)
        done.warnings = self._source.warnings()
        for warning in done.warnings:
            log.warning("%s", warning)
        window = self._source.window(where)
        named = where.row_versions
        seen = 0
        done.complete = True
        for page in self._source.pages(window):
            seen += len(page) if named is None else sum(message.row_version in named for message in page)
            if not self._handle([message for message in page if where.matches(message)]):
                done.complete = False
                break
        if done.complete and named is not None:
            self._leave(StayReason.NOT_AVAILABLE, len(named) - seen)
        elif done.complete:
            moved = 0 if done.dry_run else done.messages
            done.unseen = max(0, self._source.count_left(window.up_to) - (seen - moved))
        done.seconds = self._budget.seconds_used
        return done

    def _handle(self, messages: Sequence[FailedMessage]) -> bool:
        """Handle a page's messages; False if the budget was used up first."""
        found: deque[tuple[QueueTable | None, FailedMessage]] = deque()
        for message in messages:
            target = self._effect.target(message)
            if isinstance(target, StayReason):
                self._leave(target, 1)
            else:
                found.append((target, message))
        while found:
            # Of a limited number these are the oldest of all targets. In the place of those that stay come others.
            left = self._budget.messages_left
            oldest = [found.popleft() for _ in range(len(found) if left is None else min(left, len(found)))]
            if not (oldest and self._handle_by_target(oldest)):
                return False
        return True

    def _handle_by_target(self, messages: Sequence[tuple[QueueTable | None, FailedMessage]]) -> bool:
        """Handle messages, target by target; False if the budget was used up first."""
        by_target: dict[QueueTable | None, deque[FailedMessage]] = {}
        for target, message in messages:
            by_target.setdefault(target, deque()).append(message)
        for target, waiting in by_target.items():
            while waiting:
                room = self._reserve()
                if not room:
                    return False
                self._pace.wait()
                moved = self._handle_or_leave(target, self._next(waiting, room))
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

    def _handle_or_leave(self, target: QueueTable | None, chunk: Sequence[FailedMessage]) -> int:
        """Handle messages of a target and return their number; one by one if the server refuses them together.

        A target that refuses as many messages as :data:`.forwarding.REFUSALS` before it accepts one gets no further.
        """
        if reason := self._blocked.get(target):
            self._leave(reason, len(chunk))
            return 0
        try:
            moved = len(chunk) if self._options.dry_run else self._commit(target, chunk)
        except MessagesRefused as refused:
            if refused.reason not in _OF_A_MESSAGE:
                self._blocked[target] = refused.reason
            elif len(chunk) > 1:
                return sum(self._handle_or_leave(target, [message]) for message in chunk)
            elif refused.reason is StayReason.REFUSED:
                self._refused[target] += 1
                if target not in self._accepting and self._refused[target] >= forwarding.REFUSALS:
                    self._blocked[target] = refused.reason
            # The log names the first ones; the result has the number of all.
            if refused.reason is not StayReason.MALFORMED and self._refused[target] <= forwarding.REFUSALS:
                left = count_of(len(chunk), "message")
                log.warning("%s left in %s: %s", left, self._source.name, _sentence(refused.__cause__))
            self._leave(refused.reason, len(chunk))
            return 0
        if moved:
            self._accepting.add(target)
        self._done.handled(target, moved)
        self._leave(StayReason.NOT_AVAILABLE, len(chunk) - moved)
        return moved

    def _commit(self, target: QueueTable | None, chunk: Sequence[FailedMessage]) -> int:
        what = f"The action {self._name} on the queue {self._source.name}"
        work = partial(reconnecting, self._source.session, what, partial(self._commit_once, target, chunk))
        try:
            moved = work()
        except errors.LayoutChangedError:
            moved = work()  # The first attempt was rolled back; this one reads the new columns of the table.
        self._pace.moved(moved)
        return moved

    def _commit_once(self, target: QueueTable | None, chunk: Sequence[FailedMessage]) -> int:
        with self._source.session.transaction():
            return self._effect.handle(target, chunk)

    def _leave(self, reason: StayReason, messages: int) -> None:
        self._done.leave(reason.value, messages)


def _sentence(error: BaseException | None) -> str:
    """Return the text of this package's own errors only: the text of any other error may quote a message."""
    return str(error) if isinstance(error, errors.SqlQueueError) else type(error).__name__


@contextmanager
def refusals(reasons: Mapping[type[Exception], StayReason] = REFUSALS) -> Iterator[None]:
    """Raise :class:`MessagesRefused` for errors of a message or a receiving queue; all others stop the whole work."""
    try:
        yield
    except tuple(reasons) as error:
        raise MessagesRefused(next(reason for kind, reason in reasons.items() if isinstance(error, kind))) from error
    except Exception as error:
        if not errors.is_of_a_message(error):
            raise
        raise MessagesRefused(StayReason.MALFORMED) from error
