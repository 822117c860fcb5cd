"""Anchor: where the next receive from a queue begins, past the rows that earlier receives have passed."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from airflow_sqlqueue.options.budget import TimeFunction
from airflow_sqlqueue.queue.table_access import FIRST

MAX_AGE = 1.0
"""Seconds after which each receive begins at the head again, which bounds how long a late message is overtaken."""


@dataclass
class Pass:
    """Pass over a queue, from its head on: each receive begins ``after`` the RowVersions that earlier ones received.

    ``since`` is a time before the first of them. If two threads advance it at once, the lower RowVersion may stay: then
    the next receive only passes more rows.
    """

    since: float
    after: int = FIRST

    def advance(self, row_version: int) -> None:
        self.after = max(self.after, row_version)


class Anchor:
    """Place in a queue at which receives begin, for any number of threads and connections.

    A message that becomes visible below it, by a late commit or a rollback, is overtaken only by receives that begin in
    the next ``max_age`` seconds by ``clock`` (docs/design.md, "Receives after an anchor").
    """

    def __init__(self, clock: TimeFunction = time.monotonic, max_age: float = MAX_AGE) -> None:
        self._clock, self._max_age = clock, max_age
        self._lock = threading.RLock()
        self._pass = self._next = Pass(clock())

    def current(self) -> Pass:
        """Return the pass that the next receive belongs to.

        At half the age one receive goes to the head, and others follow it when it has found a message: together they
        would all pass the same rows. At the full age each goes there.
        """
        with self._lock:
            now = self._clock()
            self._pass = self._latest()
            age = now - self._pass.since
            if age >= self._max_age:
                return self.go_to_head()
            if age >= self._max_age / 2 and self._next is self._pass:
                self._next = Pass(now)
                return self._next
            return self._pass

    @property
    def after(self) -> int:
        """RowVersion after which a count begins, which is no receive: it never is the one that goes to the head."""
        with self._lock:
            latest = self._latest()
            return FIRST if self._clock() - latest.since >= self._max_age else latest.after

    def _latest(self) -> Pass:
        """Return the pass of the receive that went to the head, if it has found a message; else the one before."""
        return self._pass if self._next.after == FIRST else self._next

    def go_to_head(self) -> Pass:
        """Begin a new pass: the next receive is one from the head. Receives under way do not advance it."""
        with self._lock:
            self._pass = self._next = Pass(self._clock())
            return self._pass
