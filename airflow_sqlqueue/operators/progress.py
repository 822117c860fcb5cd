"""A drain's progress in the task's log and in Airflow's metrics.

Metrics: the counters ``sqlqueue.drain.messages`` and ``sqlqueue.drain.bytes`` (of headers and bodies), one step per
part, and the timer ``sqlqueue.drain.seconds``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.observability import stats

if TYPE_CHECKING:
    from airflow_sqlqueue.drain.drain import DrainResult, Progress


class DrainLog:
    """Called with each :class:`~airflow_sqlqueue.drain.drain.Progress`, and at the end with the result."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._messages = self._bytes = 0

    def progress(self, done: Progress) -> None:
        """One part was committed."""
        self._log.info(
            "Drained %d messages, %d expired, %.1f MiB in %.1f s; RowVersion %d of %d",
            done.messages,
            done.expired,
            done.bytes / 2**20,
            done.seconds,
            done.row_version,
            done.up_to,
        )
        stats.incr("sqlqueue.drain.messages", done.messages - self._messages)
        stats.incr("sqlqueue.drain.bytes", done.bytes - self._bytes)
        self._messages, self._bytes = done.messages, done.bytes

    def end(self, result: DrainResult) -> None:
        """The batch is sealed, or was already."""
        stats.timing("sqlqueue.drain.seconds", timedelta(seconds=result.seconds))
        if result.held:
            self._log.warning("%d messages were held by others to the end and stay in the queue", result.held)
