"""Metrics of this package among Airflow's, with all their names; the progress of a drain in metrics and log.

If Airflow's metrics are off, this module reads and sends none.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import conf

from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.queue.errors.actions import ACTIONS
from airflow_sqlqueue.versions.airflow import TaskStats

if TYPE_CHECKING:
    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.drain.drain import DrainResult
    from airflow_sqlqueue.drain.progress import Progress
    from airflow_sqlqueue.messages.routing import ResolvedAddress
    from airflow_sqlqueue.operators.base import ServerTask

_log = logging.getLogger(__name__)

PREFIX = "sqlqueue."

COUNTERS = {
    *("send.messages", "publish.messages", "publish.copies", "reply.messages", "requeue.messages", "purge.messages"),
    *("drain.messages", "drain.expired", "drain.quarantined", "drain.bytes"),
    *("consume.handled", "consume.failed", "consume.delayed", "consume.forwarded", "consume.duplicates"),
    *("consume.discarded", "consume.rolled_back"),
    *("forward.messages", "move_delayed.messages"),
    *("tables.messages", "tables.rescued", "tables.unparsed"),
    *(f"{name}.messages" for name in ACTIONS),
}
GAUGES = {"backlog.messages", "backlog.oldest_seconds", "drain.locked", "batches.stranded"}
TIMERS = {"drain.seconds", "consume.seconds"}

_BACKENDS = ("statsd_on", "statsd_datadog_enabled", "otel_on")
_LONGEST = 120
"""Largest number of characters of a tag's value, because names of tables, schemas and catalogs can be long."""


def are_on() -> bool:
    """Return whether Airflow sends its metrics anywhere."""
    return any(conf.getboolean("metrics", name, fallback=False) for name in _BACKENDS)


def send(metric: Callable[[], object]) -> bool:
    """Send a metric by a call of Airflow's statistics; False, and a warning in the log, where that fails.

    The work that is counted is done by then, and must not fail for its metric.
    """
    try:
        metric()
    except Exception as error:
        # Backends may be of anybody, and raise anything.
        _log.warning("No metrics are sent from here on, because Airflow's metrics raised %s", type(error).__name__)
        return False
    return True


class Metrics:
    """Metrics of one task, with the tags ``conn_id`` and ``queue``, as ``catalog.schema.table``.

    Tasks name both, so the DAGs limit the number of tag values.
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
        if count:
            self._send(lambda: TaskStats.incr(PREFIX + name, count, tags=self._tags))

    def count_new(self, room: str, counts: Mapping[str, int], before: Mapping[str, int]) -> None:
        """Add to the counters of these names what has come since ``before``."""
        for name, count in counts.items():
            self.count(f"{room}.{name}", count - before.get(name, 0))

    def tables(self, result: Any) -> None:
        """Count the messages of a result of ``message_tables_job``; other results count nothing."""
        if isinstance(result, dict) and {"tables", "largest", "worst"} <= result.keys():
            for name in ("messages", "rescued", "unparsed"):
                self.count(f"tables.{name}", result[name])

    def gauge(self, name: str, value: float) -> None:
        """Set a gauge."""
        assert name in GAUGES, name
        self._send(lambda: TaskStats.gauge(PREFIX + name, value, tags=self._tags))

    def timing(self, name: str, seconds: float) -> None:
        """Send a duration."""
        assert name in TIMERS, name
        self._send(lambda: TaskStats.timing(PREFIX + name, timedelta(seconds=seconds), tags=self._tags))

    def _send(self, metric: Callable[[], object]) -> None:
        if self._is_on:
            self._is_on = send(metric)

    def depth(self) -> None:
        """Set the gauges of the queue's depth and age, without counting its rows; an error of this fails no task."""
        if self._queue is None:
            return
        try:
            backlog = self._queue.backlog(kind="catalog")
        except SqlQueueError:
            return
        self.gauge("backlog.messages", backlog.depth.messages)
        self.gauge("backlog.oldest_seconds", max(0.0, backlog.oldest_seconds or 0.0))


class DrainLog:
    """Progress and result of a drain, in the task's log and in metrics."""

    def __init__(self, log: Any, metrics: Metrics) -> None:
        self._log, self._metrics = log, metrics
        self.counted: dict[str, int] = {}
        """Counts of the batch, empty before the first part."""

    def progress(self, done: Progress) -> None:
        """Log and count a committed part; a resumed batch first reports the counts of earlier tries."""
        self._log.info("Drained %s", done)
        if done.rows == done.earlier:
            self.counted = done.counters
            return
        self._metrics.count_new("drain", done.counters, self.counted)
        self.counted = done.counters

    def end(self, result: DrainResult) -> None:
        """Log and count the result, when the batch is sealed."""
        self._metrics.timing("drain.seconds", result.seconds)
        self._metrics.gauge("drain.locked", result.locked)
        self._metrics.depth()
        if result.locked:
            locked = count_of(result.locked, "message")
            self._log.warning("%s left in the queue, because others had locked them to the end", locked)
        if result.batch.quarantined:
            self._log.warning(
                "%s in quarantine, which no file can hold: see 'sqlqueue quarantine <queue>'",
                count_of(result.batch.quarantined, "message"),
            )


def name_of(address: ResolvedAddress) -> str:
    """Name of a queue in the tag of a metric."""
    return f"{address.catalog}.{address.schema}.{address.table}"


def tag(value: str) -> str:
    """Return the value of a tag, with only those characters that all of Airflow's metrics backends accept."""
    return re.sub(r"[^a-zA-Z0-9_.-]", "_", value)[:_LONGEST]
