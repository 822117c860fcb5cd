"""What Spark's executors run of a drain: the driver's plan, and the windows of RowVersions that a task drains."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.worker import DrainTask, Worker
from airflow_sqlqueue.drain.worker_pool import MAX_FAILURES, RETRIED, Quota, drain_window, pause_after
from airflow_sqlqueue.errors import ConfigurationError, SqlQueueError
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import identifier

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

RETURNED = "part string, error string, message string"
"""What a task returns, as Spark writes a schema."""


@dataclass(frozen=True)
class Window:
    """RowVersions above ``after`` and not above ``up_to``.

    ``limit`` is how many rows the batch's parts inside may hold in the end, those of earlier tries included, so that
    a task that is repeated does not drain its share twice; None where there is no limit.
    """

    after: int
    up_to: int
    limit: int | None = None

    def rows(self, parts: Iterable[Part]) -> int:
        """How many rows the parts hold that lie inside the window."""
        return sum(p.rows for p in parts if p.min_row_version > self.after and p.max_row_version <= self.up_to)


@dataclass(frozen=True)
class ExecutorPlan:
    """What executors have to know, secrets included.

    ``windows`` are those of each Spark task. ``marker_file`` is one that the driver has made in a local staging folder.
    """

    settings: ConnectionSettings = field(repr=False)
    lock_timeout: float
    task: DrainTask = field(repr=False)
    windows: tuple[tuple[Window, ...], ...] = ()
    marker_file: Path | None = None

    def connect(self) -> Session:
        return Session(self.settings, lock_timeout=self.lock_timeout)

    def check(self) -> None:
        """Raise :class:`ConfigurationError` where the staging folder is another one than the driver's."""
        if self.marker_file is not None and not self.marker_file.exists():
            raise ConfigurationError(
                f"The staging folder {self.marker_file.parent} here is not the one of the driver: name a folder that "
                "all machines share, or one of an object store."
            )


def drain_tasks(plan: ExecutorPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What an executor runs: drain the windows of the tasks that the batches number.

    Gives a row for each part, which shows in Spark's metrics, and one for an error of ours, which ends the task without
    Spark repeating it: this has tried again whatever is worth it.
    """
    for batch in batches:
        for number in batch.column(0).to_pylist():
            try:
                plan.check()
                with closing(_Executor(plan)) as executor:
                    for window in plan.windows[number]:
                        for part in executor.drain(window):
                            yield _row(part=str(part.id))
            except SqlQueueError as error:
                yield _row(error=type(error).__name__, message=str(error))


class _Executor:
    """Drains windows through one connection, opened anew after a failure that a drain outlives."""

    def __init__(self, plan: ExecutorPlan) -> None:
        self._orders, self._task = plan, plan.task
        self._session: Session | None = None

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None

    def drain(self, window: Window) -> Iterator[Part]:
        """Take parts until the window is empty or its limit is reached; a part that was undone is taken anew."""
        failures = 0
        while True:
            try:
                for part in self._parts(window):
                    failures = 0
                    yield part
                return
            except RETRIED as error:
                self.close()
                failures += 1
                if failures > MAX_FAILURES:
                    raise
                log.warning("A part was undone; what it took is taken anew: %s", error)
                time.sleep(pause_after(failures))

    def _parts(self, window: Window) -> Iterator[Part]:
        self._session = self._session or self._orders.connect()
        quota = self._quota(self._task.ledger(self._session), window)
        yield from drain_window(Worker(self._session, self._task), window.after, window.up_to, quota)

    def _quota(self, ledger: Ledger, window: Window) -> Quota:
        """What the limits leave of the window, by the ledger: an earlier attempt of this task may have drained some."""
        batch_id, seconds = self._task.batch_id, self._task.options.max_seconds
        until = None if seconds is None else time.monotonic() + seconds - ledger.find(batch_id).age
        if window.limit is None:
            return Quota(None, until)
        # While the earlier attempt lives, or its COMMIT is under way, the ledger cannot say what its share comes to.
        resource = f"sqlqueue.window.{batch_id}.{window.after}"
        wait = int(self._orders.lock_timeout * 1000)
        lock = ledger.query("lock_window", catalog=identifier(ledger.catalog))
        if ledger.session.value(lock, resource, wait) < 0:
            return Quota(0)
        return Quota(max(0, window.limit - window.rows(ledger.parts(batch_id))), until)


def _row(**values: str) -> pa.RecordBatch:
    import pyarrow as pa

    names = [field.split()[0] for field in RETURNED.split(", ")]
    return pa.RecordBatch.from_pylist([values], schema=pa.schema([(name, pa.string()) for name in names]))
