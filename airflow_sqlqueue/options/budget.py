"""Limits on the messages, seconds and bytes of one call, and the budget that keeps count of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import Options, option

MIB = 1024 * 1024
"""Bytes of a mebibyte."""


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, as logs have it: ``1 message``, ``3,131 messages``; "batch" becomes "batches"."""
    return f"{number:,} {noun}{'' if number == 1 else 'es' if noun.endswith('ch') else 's'}"


def size_of(number: int) -> str:
    """Return a number of bytes in MiB, as logs have it."""
    return f"{number / MIB:,.1f} MiB"


TimeFunction = Callable[[], float]
"""A function that returns the seconds since some moment and never goes back."""


@dataclass(frozen=True, kw_only=True)
class Limits(Options):
    """Limits of one call on messages and seconds: the base class of options with these limits."""

    max_messages: int | None = option(None, "stop after this many messages", above=0)
    max_seconds: float | None = option(None, "stop after this many seconds", above=0)

    def budget(self, clock: TimeFunction = time.monotonic) -> Budget:
        """Return the budget of a call that begins now."""
        return Budget(self.max_messages, self.max_seconds, clock=clock)


class Budget:
    """A budget of messages, seconds and bytes; None means no limit. The seconds count from the creation of the budget.

    A loop reserves messages before it handles them and gives back the messages that it did not need, so workers that
    share a budget never exceed it together. A loop spends bytes after it has handled them: the last step may exceed
    the limit. Safe to use from several threads.

    Raises :class:`ConfigurationError` for a limit below zero.
    """

    def __init__(
        self,
        max_messages: int | None = None,
        max_seconds: float | None = None,
        *,
        max_bytes: int | None = None,
        clock: TimeFunction = time.monotonic,
    ) -> None:
        for name, limit in (("max_messages", max_messages), ("max_seconds", max_seconds), ("max_bytes", max_bytes)):
            if limit is not None and not limit >= 0:
                raise ConfigurationError(f"{name} is {limit}: give 0 or more, or None for no limit.")
        self._messages, self._bytes, self._clock = max_messages, max_bytes, clock
        self._started = clock()
        self._until = None if max_seconds is None else self._started + max_seconds
        self._lock = threading.Lock()

    @property
    def messages_left(self) -> int | None:
        """Number of messages that can still be reserved, regardless of time; None without a limit."""
        return self._messages

    @property
    def bytes_left(self) -> int | None:
        """Number of bytes left, at least 0; None without a limit."""
        return self._bytes

    @property
    def seconds_left(self) -> float | None:
        """Seconds left, at least 0; None without a limit."""
        return None if self._until is None else max(0.0, self._until - self._clock())

    @property
    def seconds_used(self) -> float:
        """Seconds since the budget was made."""
        return self._clock() - self._started

    @property
    def used(self) -> bool:
        """Whether one of the limits is reached."""
        return self._messages == 0 or self._bytes == 0 or self.seconds_left == 0

    def reserve(self, limit: int) -> int:
        """Reserve up to ``limit`` messages and return their number: 0 once a limit is reached."""
        with self._lock:
            if self._bytes == 0 or self.seconds_left == 0:
                return 0
            if self._messages is None:
                return limit
            reserved = min(limit, self._messages)
            self._messages -= reserved
            return reserved

    def give_back(self, unused: int) -> None:
        """Give back messages that were reserved and not handled."""
        with self._lock:
            if self._messages is not None:
                self._messages += unused

    def spend(self, size: int) -> None:
        """Subtract bytes that were handled."""
        with self._lock:
            if self._bytes is not None:
                self._bytes = max(0, self._bytes - size)

    def share(self, max_messages: int | None, max_bytes: int | None = None) -> Budget:
        """Return a separate budget of messages and bytes, which ends at the same time as this one."""
        return Budget(max_messages, self.seconds_left, max_bytes=max_bytes, clock=self._clock)
