"""Recoverability: immediate retries, delayed retries, and giving up of failed messages.

Source: docs/transport/transactions.md, "Recoverability".
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import HeaderNames, Headers
from airflow_sqlqueue.options import Options, option
from airflow_sqlqueue.queue.errors.failure_headers import Failure
from airflow_sqlqueue.untrusted import quoted

log = logging.getLogger(__name__)

LINE_SECONDS = 60.0
"""Seconds for which one line in the log stands for all failures of its kind."""

_LONGEST = timedelta(days=1)
"""The longest time between two delayed retries; after a longer time there is no further retry."""

_RETRIES: Mapping[str, Any] = {"least": 0, "most": 1_000_000}

MAX_REMEMBERED = 10_000
"""The most messages whose failures are remembered, as in endpoints; a forgotten message is counted from zero again."""


class RecoverabilityAction(Enum):
    """Action for a failed message when it is received again."""

    RETRY = "retry"
    DELAY = "delay"
    GIVE_UP = "give up"


@dataclass(frozen=True)
class RecoverabilityOptions(Options):
    """Options for retries of failed messages and for their error queue. The defaults are those of endpoints.

    Immediate retries are counted in memory, as in endpoints: another process or another run counts from zero. Delayed
    retries are counted in the message's header ``NServiceBus.Retries``.
    """

    immediate_retries: int = option(5, "number of immediate retries of a message in each round", **_RETRIES)
    delayed_retries: int = option(3, "number of further rounds, each after a delay", **_RETRIES)
    delayed_retry_seconds: float = option(
        10.0,
        "delay before the first of these rounds; each later delay is longer by this, and no round follows one of a day",
        **_RETRIES,
    )
    error_queue: str = option("error", "address of the queue for messages that failed in all retries")
    unrecoverable: tuple[type[BaseException], ...] = option(
        (), "types of exceptions after which a message goes to the error queue at once", form=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.error_queue:
            raise ConfigurationError("error_queue is empty: name a queue for messages that are given up.")
        given = self.unrecoverable
        if not isinstance(given, Collection) or not all(map(_is_exception, given)):
            raise ConfigurationError(
                f"unrecoverable is a list of types of exceptions, as [KeyError], not {quoted(str(given))}: give such a "
                "list, without names in quotes."
            )

    def action(self, attempts: int, envelope: Envelope, *, can_delay: bool) -> RecoverabilityAction:
        """Return the action for a message that has failed ``attempts`` times; ``can_delay``: there is a table."""
        if attempts <= self.immediate_retries:
            return RecoverabilityAction.RETRY
        delayed_at = envelope.recoverability.delayed_at
        recent = delayed_at is None or datetime.now(timezone.utc) - delayed_at <= _LONGEST
        if can_delay and recent and _rounds(envelope) < self.delayed_retries:
            return RecoverabilityAction.DELAY
        return RecoverabilityAction.GIVE_UP

    def delay(self, envelope: Envelope) -> timedelta:
        """Return the delay before the message's next round."""
        return timedelta(seconds=self.delayed_retry_seconds * (_rounds(envelope) + 1))


def _is_exception(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _rounds(envelope: Envelope) -> int:
    return max(0, envelope.recoverability.delayed_retries or 0)


def delayed_headers(headers: Headers, envelope: Envelope) -> dict[str, str | None]:
    """Return the headers of a message that waits for its next round, from which it returns to its own queue."""
    kept = {name: value for name, value in headers.items() if name != HeaderNames.FORWARD_DESTINATION}
    return {
        **kept,
        HeaderNames.DELAYED_RETRIES: str(_rounds(envelope) + 1),
        HeaderNames.DELAYED_RETRIES_TIMESTAMP: format_time(datetime.now(timezone.utc)),
    }


@dataclass(frozen=True)
class FailedAttempts:
    """Number and last failure of a message's attempts; ``is_final``: give it up at once."""

    attempts: int
    failure: Failure
    is_final: bool


class FailureLog:
    """Log of failures: a line for each kind, at most one in a minute, and their numbers at the end of a run.

    Safe for several threads.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._due: dict[str, float] = {}
        self._lock = threading.Lock()

    def note(self, level: int, kind: str, line: str, *values: object) -> None:
        """Count a failure by its kind, in the plural, and log its line, which names the message, if one is due."""
        now = time.monotonic()
        with self._lock:
            self._counts[kind] += 1
            is_due = now >= self._due.get(kind, now)
            if is_due:
                self._due[kind] = now + LINE_SECONDS
        log.log(level if is_due else logging.DEBUG, line, *values)

    def log_totals(self) -> None:
        """Log how many failures of each kind there were, if there were any."""
        if self._counts:
            log.warning("Failures: %s", "; ".join(f"{count:,} {kind}" for kind, count in self._counts.most_common()))


class FailureStorage:
    """Failures of messages in memory, by RowVersion, which a rollback does not change. Safe for several threads."""

    def __init__(self, most: int = MAX_REMEMBERED) -> None:
        self.log = FailureLog()
        self._most = most
        self._failed: OrderedDict[int, FailedAttempts] = OrderedDict()
        self._alone: OrderedDict[int, None] = OrderedDict()
        self._lock = threading.Lock()

    def record(self, row_version: int, error: Exception, *, is_final: bool = False) -> FailedAttempts:
        """Note a failed attempt; if there are too many messages, forget the one whose last failure is the oldest."""
        failure = Failure.of(error)
        with self._lock:
            before = self._failed.pop(row_version, None)
            now = FailedAttempts(1 if before is None else before.attempts + 1, failure, is_final)
            self._failed[row_version] = now
            if len(self._failed) > self._most:
                self._failed.popitem(last=False)
        return now

    def find(self, row_version: int) -> FailedAttempts | None:
        """Return the failures of a message; None if it has not failed."""
        with self._lock:
            return self._failed.get(row_version)

    def single_out(self, row_versions: Iterable[int]) -> None:
        """Note the messages of a failed batch: each is tried alone from now on."""
        with self._lock:
            self._alone |= dict.fromkeys(row_versions)
            while len(self._alone) > self._most:
                self._alone.popitem(last=False)

    def is_alone(self, row_version: int) -> bool:
        """Return whether a message is tried alone, because it or a batch with it has failed."""
        with self._lock:
            return row_version in self._alone or row_version in self._failed

    def forget(self, row_version: int) -> None:
        """Forget a message that has left the queue."""
        with self._lock:
            self._failed.pop(row_version, None)
            self._alone.pop(row_version, None)
