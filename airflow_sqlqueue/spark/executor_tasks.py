"""Tasks of a drain on Spark's executors: the driver's plan, and the drain of one task's window of RowVersions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from airflow_sqlqueue.drain.ledger import Part
from airflow_sqlqueue.drain.worker import Worker, WorkPlan
from airflow_sqlqueue.drain.worker_pool import drain_window
from airflow_sqlqueue.errors import ConfigurationError, SqlQueueError
from airflow_sqlqueue.options.budget import Budget
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.reconnecting import Reconnecting
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark.errors import error_to_text


@dataclass(frozen=True)
class TaskWindow:
    """The window of one Spark task.

    ``limit`` is the number of rows that the batch's parts inside the window may hold in the end, with those of earlier
    tries, so that a repeated task does not drain its share twice; None means no limit.
    """

    window: Window
    limit: int | None = None

    def rows(self, parts: Iterable[Part]) -> int:
        """Return the number of rows in the parts that lie inside the window."""
        after, up_to = self.window.after, self.window.up_to
        return sum(part.rows for part in parts if part.min_row_version > after and part.max_row_version <= up_to)


@dataclass(frozen=True)
class ExecutorPlan:
    """The driver's plan for executors, with secrets.

    ``windows`` has one window for each Spark task. The driver creates ``marker_file`` in a local staging folder.
    """

    settings: ConnectionSettings = field(repr=False)
    lock_timeout: float
    work: WorkPlan = field(repr=False)
    windows: tuple[TaskWindow, ...] = ()
    marker_file: Path | None = None

    def connect(self) -> Session:
        return Session(self.settings, lock_timeout=self.lock_timeout)

    def check(self) -> None:
        """Raise :class:`ConfigurationError` if the staging folder is not the one of the driver."""
        if self.marker_file is not None and not self.marker_file.exists():
            raise ConfigurationError(
                f"The staging folder {self.marker_file.parent} here is not the one of the driver: name a folder that "
                "all machines share, or one of an object store."
            )


def drain_tasks(plan: ExecutorPlan, numbers: Iterable[int]) -> Iterator[str | None]:
    """Drain the windows of the tasks with these numbers, on an executor; yield None for each part that is committed.

    It yields an error of this package as a text, so that Spark does not repeat the task: each error that is worth a
    retry was retried before.
    """
    for number in numbers:
        try:
            plan.check()
            for _ in _drain(plan, plan.windows[number]):
                yield None
        except SqlQueueError as error:
            yield error_to_text(error)


def _drain(plan: ExecutorPlan, share: TaskWindow) -> Iterator[Part]:
    """Drain parts until the window is empty or its limit is reached; a broken connection is replaced."""
    with closing(Reconnecting(plan.connect, "Draining a part", known=True)) as connection:
        yield from connection.stream(
            lambda session: drain_window(Worker(session, plan.work), share.window, _budget(plan, share, session))
        )


def _budget(plan: ExecutorPlan, share: TaskWindow, session: Session) -> Budget:
    """Return the rest of the window's limits, by the ledger: an earlier attempt of this task may have drained some."""
    batch_id, seconds = plan.work.batch_id, plan.work.options.max_seconds
    ledger = plan.work.ledger(session)
    if seconds is not None:
        seconds = max(0.0, seconds - ledger.find(batch_id).age)
    if share.limit is None:
        return Budget(None, seconds)
    # While the earlier attempt lives, or its COMMIT runs, the ledger does not have all of its parts.
    resource = f"sqlqueue.window.{batch_id}.{share.window.after}"
    wait = int(plan.lock_timeout * 1000)
    lock = ledger.query("ledger.lock_window")
    if session.value(lock, resource, wait) < 0:
        return Budget(0)
    return Budget(max(0, share.limit - share.rows(ledger.parts(batch_id))), seconds)
