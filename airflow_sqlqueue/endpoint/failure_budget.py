"""Failure budget of consuming: limits on failures, and the pauses of a consumer that has slowed down.

Source: docs/transport/transactions.md, "Rate limit after failures".
"""

from __future__ import annotations

import logging
import threading

from airflow_sqlqueue.endpoint.options import FAIL, ConsumeOptions
from airflow_sqlqueue.errors import TooManyFailuresError
from airflow_sqlqueue.options.budget import count_of

log = logging.getLogger(__name__)

LONGEST_PAUSE = 60.0
"""Seconds of the longest pause, unless the first one is longer."""


class FailureBudget:
    """Failures of all handlers of a run, and the limits of its options. Safe for several threads.

    Methods that note a failure raise :class:`TooManyFailuresError` when a limit is reached.

    :param what: names the work in the error and in the log: ``Consuming the queue orders``.
    """

    def __init__(self, options: ConsumeOptions, what: str) -> None:
        self._options, self._what = options, what
        self._lock = threading.Lock()
        self._given_up = self._in_a_row = self._pauses = 0
        self._pause_is_due = False
        self.is_slow = False
        """Whether one message at a time is handled, after pauses, until one succeeds."""

    def note_success(self) -> None:
        """Note an attempt that succeeded, which ends a slow-down."""
        with self._lock:
            self._in_a_row = self._pauses = 0
            self._pause_is_due = False
            if self.is_slow:
                log.warning("%s goes on as before: a message was handled", self._what)
            self.is_slow = False

    def note_failure(self) -> None:
        """Note an attempt that failed."""
        limit = self._options.max_consecutive_failures
        with self._lock:
            self._in_a_row += 1
            if limit is None or self._in_a_row < limit:
                return
            if self._options.on_consecutive_failures == FAIL:
                raise TooManyFailuresError(
                    f"{self._what} was ended after {self._in_a_row} failed attempts in a row: repair the cause, which "
                    "is in the log, and run it again. The messages of these attempts are in the queue or wait in the "
                    "table of delayed messages, unless they had no retries left."
                )
            if not self.is_slow:
                log.warning(
                    "%s slows down to one message at a time after %d failed attempts in a row, until one succeeds",
                    self._what,
                    self._in_a_row,
                )
            self.is_slow = self._pause_is_due = True

    def note_given_up(self) -> None:
        """Note a message that has gone to the error queue."""
        limit = self._options.max_failed
        with self._lock:
            self._given_up += 1
            if limit is not None and self._given_up > limit:
                sent = f"{count_of(self._given_up, 'message')} went to the error queue"
                raise TooManyFailuresError(
                    f"{self._what} was ended because {sent}, and max_failed is {limit}: see 'sqlqueue errors <queue>'. "
                    "The other messages are in the queue."
                )

    def next_pause(self) -> float:
        """Return the seconds before the next attempt, 0 if none are due. Each pause is twice as long as the last."""
        with self._lock:
            if not self._pause_is_due:
                return 0.0
            self._pause_is_due = False
            first = self._options.slow_down_seconds
            pause = min(max(first, LONGEST_PAUSE), first * 2.0 ** min(self._pauses, 30))
            self._pauses += 1
            return pause
