"""Metrics of this package among Airflow's, every name in one place; the progress of a drain in metrics and log.

Where Airflow's metrics are off nothing is looked up, read or sent.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import conf
from airflow.sdk.observability import stats

from airflow_sqlqueue.errors import SqlQueueError

if TYPE_CHECKING:
    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.drain.drain import DrainResult
    from airflow_sqlqueue.drain.progress import Progress
    from airflow_sqlqueue.operators.base import ServerTask
    from airflow_sqlqueue.routing import ResolvedAddress

PREFIX = "sqlqueue."

COUNTERS = frozenset(
    (
        "send.messages",
        "publish.messages",
        "publish.copies",
        "reply.messages",
        "drain.messages",
        "drain.expired",
        "drain.quarantined",
        "drain.bytes",
        "requeue.messages",
        "consume.handled",
        "consume.failed",
        "consume.delayed",
        "consume.forwarded",
        "consume.rolled_back",
        "purge.messages",
        "return.messages",
        "forward.messages",
        "move_delayed.messages",
    )
)
GAUGES = frozenset(("backlog.messages", "backlog.oldest_seconds", "drain.locked", "batches.stranded"))
TIMERS = frozenset(("drain.seconds", "consume.seconds"))

_BACKENDS = ("statsd_on", "statsd_datadog_enabled", "otel_on")
_LONGEST = 120
"""Characters of a tag's value: those of a queue are as many as a person gave its table, schema and catalog."""


def are_on() -> bool:
    """Whether Airflow sends its metrics anywhere."""
    return any(conf.getboolean("metrics", name, fallback=False) for name in _BACKENDS)


class Metrics:
    """Counts for one task and queue, which are the tags: ``conn_id`` and ``queue``, as ``catalog.schema.table``.

    A task names both, so there are as many values as the DAGs have.
    """

    def __init__(self, task: ServerTask, queue: Queue | None = None) -> None:
        self._is_on = are_on()
        self._tags: dict[str, str] = {}
        self._queue = queue if self._is_on else None
        if self._is_on:
            self._tags["conn_id"] = tag(task.sqlqueue_conn_id)
        if self._queue is not None:
            self._tags["queue"] = tag(name_of(self._queue.address))

    def count(self, name: str, count: int) -> None:
        """Add to a counter; 0 is not sent."""
        assert name in COUNTERS, name
        if self._is_on and count:
            stats.incr(PREFIX + name, count, tags=self._tags)

    def gauge(self, name: str, value: float) -> None:
        """Set a gauge."""
        assert name in GAUGES, name
        if self._is_on:
            stats.gauge(PREFIX + name, value, tags=self._tags)

    def timing(self, name: str, seconds: float) -> None:
        """Note how long something took."""
        assert name in TIMERS, name
        if self._is_on:
            stats.timing(PREFIX + name, timedelta(seconds=seconds), tags=self._tags)

    def depth(self) -> None:
        """Read how deep and how old the queue is, without counting its rows, and set the gauges of it.

        What cannot be read fails no task.
        """
        if self._queue is None:
            return
        try:
            backlog = self._queue.backlog(kind="catalog")
        except SqlQueueError:
            return
        self.gauge("backlog.messages", backlog.depth.messages)
        self.gauge("backlog.oldest_seconds", max(0.0, backlog.oldest_seconds or 0.0))


class DrainLog:
    """Called with each :class:`~airflow_sqlqueue.drain.drain.Progress`, and at the end with the result."""

    def __init__(self, log: Any, metrics: Metrics) -> None:
        self._log, self._metrics = log, metrics
        self._counted: dict[str, int] = {}

    def progress(self, done: Progress) -> None:
        """One part was committed, or the batch is resumed with what earlier tries had counted."""
        self._log.info("Drained %s", done)
        if done.rows == done.earlier:
            self._counted = done.counters
            return
        for name, count in done.counters.items():
            self._metrics.count(f"drain.{name}", count - self._counted.get(name, 0))
        self._counted = done.counters

    def end(self, result: DrainResult) -> None:
        """The batch is sealed, or was already."""
        self._metrics.timing("drain.seconds", result.seconds)
        self._metrics.gauge("drain.locked", result.locked)
        self._metrics.depth()
        if result.locked:
            self._log.warning("%d messages were locked by others to the end and stay in the queue", result.locked)
        if result.batch.quarantined:
            self._log.warning(
                "%d messages that no file can keep are in quarantine: see 'sqlqueue quarantine'",
                result.batch.quarantined,
            )


def name_of(address: ResolvedAddress) -> str:
    """The queue as the tag of a metric names it."""
    return f"{address.catalog}.{address.schema}.{address.table}"


def tag(value: str) -> str:
    """The value in characters that every kind of metrics takes."""
    return re.sub(r"[^a-zA-Z0-9_.-]", "_", value)[:_LONGEST]
