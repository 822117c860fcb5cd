"""A drain's progress in the task's log and in Airflow's metrics: counters part by part, the rest at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.operators.metrics import Metrics

if TYPE_CHECKING:
    from airflow_sqlqueue.drain.drain import DrainResult
    from airflow_sqlqueue.drain.progress import Progress

_COUNTERS = ("messages", "expired", "quarantined", "bytes")


class DrainLog:
    """Called with each :class:`~airflow_sqlqueue.drain.drain.Progress`, and at the end with the result."""

    def __init__(self, log: Any, metrics: Metrics) -> None:
        self._log, self._metrics = log, metrics
        self._counted = dict.fromkeys(_COUNTERS, 0)

    def progress(self, done: Progress) -> None:
        """One part was committed, or the batch is resumed with what earlier tries had counted."""
        self._log.info("Drained %s", done)
        if done.rows == done.earlier:
            self._counted = {name: getattr(done, name) for name in _COUNTERS}
            return
        for name, counted in self._counted.items():
            self._counted[name] = getattr(done, name)
            self._metrics.count(f"drain.{name}", self._counted[name] - counted)

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
