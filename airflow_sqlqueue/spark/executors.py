"""Workers of a drain on Spark's executors, for queues that are too much for one machine.

The driver cuts the queue into windows of RowVersions, one action of ``mapInArrow`` drains them, and the batch is what
the ledger lists afterwards: never what tasks return, as those of a task that was repeated are returned once and
committed twice. Executors need this package, an ODBC driver, and the network to the server and the staging folder.

Source: docs/design.md, "The drain on executors".
"""

from __future__ import annotations

import logging
import pickle
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.budget import Budget
from airflow_sqlqueue.drain.ledger import Part
from airflow_sqlqueue.drain.options import MAX_WORKERS
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.storage.object_stores import error_text
from airflow_sqlqueue.drain.worker import DrainTask, Worker
from airflow_sqlqueue.drain.worker_pool import Windows
from airflow_sqlqueue.errors import ConfigurationError, StagingError
from airflow_sqlqueue.reconnecting import RETRIED, Reconnecting
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.session import DEFAULT_LOCK_TIMEOUT, Session
from airflow_sqlqueue.spark.actions import Action
from airflow_sqlqueue.spark.executor_tasks import RETURNED, ExecutorPlan, Window, drain_tasks
from airflow_sqlqueue.spark.secrets import SecretBroadcast, broadcast
from airflow_sqlqueue.spark.task_errors import error_from_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_POLL_SECONDS = 2.0
"""How often the driver asks the ledger for parts that the executors have committed."""


class SparkEngine:
    """Runs the workers of a drain on the executors of a Spark session: an engine for ``Drain``.

    The login and the staging folder's options, which may hold keys, go to the executors in a broadcast that is removed
    afterwards; neither plan, web UI nor event log shows them. Every worker has a connection of its own. How many work
    at once is up to Spark, and at most ``tasks``. A part file is written by the executor, so a local folder must be
    the same one on every machine.

    Raises :class:`ConfigurationError` for a session with speculation, whose tasks would run twice, and for Spark
    Connect.

    :param spark: the session; of a master, not of Spark Connect.
    :param settings: how executors, and the driver, reach the server.
    :param tasks: how many Spark tasks the windows are distributed to, at most.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: ConnectionSettings,
        *,
        lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
        tasks: int = MAX_WORKERS,
    ) -> None:
        context = getattr(spark, "sparkContext", None)
        if context is None:
            raise ConfigurationError(
                "Spark Connect cannot hand a login to executors without showing it in the plan: give the drain a "
                'session of a master (local, YARN, Kubernetes, spark://), or engine="threads".'
            )
        if context.getConf().get("spark.speculation", "false").lower() == "true":
            raise ConfigurationError(
                "The Spark session runs slow tasks twice, which a drain must not: set spark.speculation to false."
            )
        self._spark, self._settings = spark, settings
        self._lock_timeout, self._tasks = lock_timeout, tasks

    def run(self, task: DrainTask, up_to: int, budget: Budget, on_part: Callable[[Part], None]) -> None:
        """Take what is there, within the budget; what executors leave, the drain takes afterwards by itself.

        ``on_part`` is called with the parts that the ledger has, every two seconds and at the end. Raises the first
        error that an executor reports, when all others have ended, and :class:`SparkJobError` where the job itself
        fails. An error of the caller's own (a timeout, a stop) cancels the job; its parts stay in the batch.
        """
        plan = ExecutorPlan(self._settings, self._lock_timeout, task)
        with closing(Reconnecting(plan.connect, "Cutting the queue into windows")) as connection:
            known, windows = connection.run(lambda session: _cut_windows(session, task, up_to, budget))
        if not windows:
            return
        tasks = min(len(windows), self._tasks)
        plan = replace(plan, windows=tuple(tuple(windows[number::tasks]) for number in range(tasks)))
        log.info("Batch %s: Spark drains %d windows in %d tasks", task.batch_id, len(windows), tasks)
        with closing(_LedgerPoller(plan, {part.id for part in known}, on_part)) as poller:
            with _marker_file(task) as marker_file:
                returned = self._run_tasks(replace(plan, marker_file=marker_file), poller)
            poller.poll()
        for row in returned:
            if row["error"] is not None:
                raise error_from_text(row["error"])

    def _run_tasks(self, plan: ExecutorPlan, poller: _LedgerPoller) -> Any:
        """Run the one action of Spark and return its tasks' rows."""
        secret = self._broadcast(plan)
        try:
            title = f"drain {plan.task.queue.canonical} into batch {plan.task.batch_id}"
            drained = drained_frame(self._spark, secret, len(plan.windows))
            with Action(self._spark, title, drained.collect) as action:
                while not action.ended(within=_POLL_SECONDS):
                    poller.poll()
                return action.result()
        finally:
            secret.destroy()

    def _broadcast(self, plan: ExecutorPlan) -> SecretBroadcast[ExecutorPlan]:
        try:
            # Beforehand, as Spark would print the error and leave what it has written by then.
            pickle.dumps(plan)
        except ConfigurationError:
            raise
        except Exception as error:
            raise ConfigurationError(
                f"The staging folder's file system cannot be pickled, so not sent to executors: {error_text(error)}."
                ' Name the folder by a URL that they can open by themselves, or use engine="threads".'
            ) from None
        return broadcast(self._spark, plan)


def _cut_windows(session: Session, task: DrainTask, up_to: int, budget: Budget) -> tuple[list[Part], list[Window]]:
    """The parts that the batch has, and windows of about a part's size with their shares of the budget."""
    worker, cut = Worker(session, task), Windows(up_to)
    parts = task.ledger(session).parts(task.batch_id)
    left = budget.share(budget.messages_left)
    windows = []
    while rows := left.reserve(worker.rows_per_part):
        ends = cut.take(worker.queue, rows)
        if ends is None:
            break
        window = Window(*ends)
        if left.messages_left is not None:
            window = replace(window, limit=rows + window.rows(parts))
        windows.append(window)
    return parts, windows


class _LedgerPoller:
    """Reports the parts of the ledger that were not reported before. Progress only: the batch does not depend on it."""

    def __init__(self, plan: ExecutorPlan, known: set[uuid.UUID], on_part: Callable[[Part], None]) -> None:
        self._plan, self._known, self._on_part = plan, known, on_part
        self._connection = Reconnecting(plan.connect, "Reading the ledger")

    def close(self) -> None:
        self._connection.close()

    def poll(self) -> None:
        for part in self._parts():
            if part.id not in self._known:
                self._known.add(part.id)
                self._on_part(part)

    def _parts(self) -> list[Part]:
        try:
            return self._plan.task.ledger(self._connection.connect()).parts(self._plan.task.batch_id)
        except RETRIED:
            # Not retried here: the next poll does it.
            self._connection.close()
            return []


def drained_frame(spark: SparkSession, secret: SecretBroadcast[ExecutorPlan], tasks: int) -> DataFrame:
    """The drain as a DataFrame, a partition per Spark task: each action on it drains."""

    def drain_windows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return drain_tasks(secret.value, batches)

    return spark.range(0, tasks, 1, tasks).mapInArrow(drain_windows, RETURNED)


@contextmanager
def _marker_file(task: DrainTask) -> Iterator[Path | None]:
    """A file in a local staging folder, by which executors see whether it is the same on their machine."""
    if not isinstance(task.stage, FileStage) or not task.stage.folder.is_local:
        yield None
        return
    path = Path(task.stage.folder.root, f".sqlqueue-{uuid.uuid4()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as error:
        raise StagingError(f"The staging folder {path.parent} cannot be written: {error.strerror}.") from error
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
