"""Drain on Spark's executors, for queues that are too large for one machine.

The driver cuts the queue into windows of RowVersions, one for each task, and one action of Spark drains them. The batch
has the parts that the ledger lists afterwards, never those that tasks return: a repeated task commits parts twice and
returns them once. Executors need this package, an ODBC driver, and the network to the server and the staging folder.

Source: docs/design.md, "The drain on executors".
"""

from __future__ import annotations

import logging
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.drain.ledger import Part
from airflow_sqlqueue.drain.options import MAX_WORKERS
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.storage.object_stores import error_text
from airflow_sqlqueue.drain.worker import Worker, WorkPlan
from airflow_sqlqueue.drain.worker_pool import Windows
from airflow_sqlqueue.errors import ConfigurationError, SparkJobError, SqlQueueError, StagingError
from airflow_sqlqueue.options.budget import MIB, Budget
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.reconnecting import Reconnecting
from airflow_sqlqueue.server.session import DEFAULT_LOCK_TIMEOUT, Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark.errors import error_from_text
from airflow_sqlqueue.spark.executor_tasks import ExecutorPlan, TaskWindow, drain_tasks
from airflow_sqlqueue.spark.secrets import broadcast

if TYPE_CHECKING:
    from pyspark import RDD, Broadcast
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_POLL_SECONDS = 2.0
"""Interval at which the driver asks the ledger for parts that the executors have committed."""

_STOP_SECONDS = 30.0
"""The longest wait for a cancelled action to end."""

_TASK_BYTES = 16 * MIB
"""Bytes of messages that are worth the start of a task and its connection, as ``messages_per_task`` messages are."""

_PIECES_PER_TASK = 8
"""Most pieces of a task's window. Windows are joined from pieces, so that all windows have about the same size."""


class SparkEngine:
    """Engine for ``Drain`` that runs its workers on the executors of a Spark session.

    The login and the staging folder's options, which may contain keys, go to the executors in a broadcast that is
    removed afterwards; neither plan, web UI nor event log shows them. Every task has a connection of its own. Spark
    decides how many tasks run at once, at most ``tasks``. Executors write the part files, so a local folder must be the
    same one on every machine.

    Raises :class:`ConfigurationError` for a session with speculation, whose tasks would run twice, and for Spark
    Connect.

    :param spark: the session; of a master, not of Spark Connect.
    :param settings: the access to the server, for executors and the driver.
    :param tasks: the number of Spark tasks that share the messages, at most.
    :param messages_per_task: the number of messages that are worth a task of their own; fewer if they are large.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: ConnectionSettings,
        *,
        lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
        tasks: int = MAX_WORKERS,
        messages_per_task: int = 5_000,
    ) -> None:
        from airflow_sqlqueue.versions.spark import SPARK

        SPARK.require()
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
        self._lock_timeout, self._tasks, self._messages_per_task = lock_timeout, tasks, messages_per_task

    def run(self, work: WorkPlan, up_to: int, budget: Budget, on_part: Callable[[Part], None]) -> None:
        """Drain the queue within the budget; the drain itself takes messages that the executors leave.

        Every two seconds and at the end, ``on_part`` gets the new parts of the ledger. When all tasks have ended, it
        raises the first error that an executor reported, or :class:`SparkJobError` for a failed job. An error of the
        caller's own (a timeout, a stop) cancels the job; its parts stay in the batch.
        """
        plan = ExecutorPlan(self._settings, self._lock_timeout, work)
        with closing(Reconnecting(plan.connect, "Cutting the queue into windows", known=True)) as connection:
            known, windows = connection.run(lambda session: self._cut_windows(session, work, up_to, budget))
        if not windows:
            return
        plan = replace(plan, windows=tuple(windows))
        log.info("Batch %s: Spark drains it in %d tasks", work.batch_id, len(windows))
        with closing(_LedgerPoller(plan, {part.id for part in known}, on_part)) as poller:
            with _marker_file(work) as marker_file:
                errors = self._run_tasks(replace(plan, marker_file=marker_file), poller)
            poller.poll()
        if errors:
            raise error_from_text(errors[0])

    def _cut_windows(
        self, session: Session, work: WorkPlan, up_to: int, budget: Budget
    ) -> tuple[list[Part], list[TaskWindow]]:
        """Return the present parts of the batch, and a window for each task with its share of the budget."""
        worker, cut = Worker(session, work), Windows(up_to)
        parts = work.ledger(session).parts(work.batch_id)
        left = budget.share(budget.messages_left)
        size = worker.rows_within(self._messages_per_task, _TASK_BYTES)
        pieces: list[TaskWindow] = []
        while rows := left.reserve(size):
            window = cut.take(worker.queue, rows)
            if window is None:
                break
            pieces.append(TaskWindow(window, rows))
            if len(pieces) == 2 * _PIECES_PER_TASK * self._tasks:
                # Larger pieces, so that many messages need few statements.
                pieces, size = _joined(pieces, len(pieces) // 2), 2 * size
        shares = _joined(pieces, min(self._tasks, len(pieces)))
        if left.messages_left is None:
            return parts, [replace(share, limit=None) for share in shares]
        return parts, [replace(share, limit=(share.limit or 0) + share.rows(parts)) for share in shares]

    def _run_tasks(self, plan: ExecutorPlan, poller: _LedgerPoller) -> list[str]:
        """Run the action of Spark and return the texts of its tasks' errors."""
        secret = self._broadcast(plan)
        try:
            title = f"drain {plan.work.queue.canonical} into batch {plan.work.batch_id}"
            drained = drained_reports(self._spark, secret, len(plan.windows))
            with BackgroundAction(self._spark, title, drained.collect) as action:
                while not action.ended(within=_POLL_SECONDS):
                    poller.poll()
                return [error for error in action.result() if error is not None]
        finally:
            secret.destroy()

    def _broadcast(self, plan: ExecutorPlan) -> Broadcast[ExecutorPlan]:
        try:
            # Spark would print the error, and leave behind the file that it has begun to write.
            pickle.dumps(plan)
        except ConfigurationError:
            raise
        except Exception as error:
            raise ConfigurationError(
                f"The staging folder's file system cannot be pickled, so executors cannot get it: {error_text(error)}."
                ' Name the folder by a URL that they can open by themselves, or use engine="threads".'
            ) from None
        return broadcast(self._spark, plan)


class BackgroundAction:
    """An action of Spark in a thread of its own; a context manager that cancels its jobs if the block ends earlier.

    :param title: the description of its jobs in Spark's web UI.
    :param action: for example the ``collect`` of a DataFrame.
    """

    def __init__(self, spark: SparkSession, title: str, action: Callable[[], Any]) -> None:
        from pyspark import InheritableThread

        self._context, self._title, self._action = spark.sparkContext, title, action
        self._tag = f"sqlqueue-{uuid.uuid4()}"
        self._ended = threading.Event()
        self._result: Any = None
        self._failure: BaseException | None = None
        self._thread = InheritableThread(target=self._run, session=spark, name=title, daemon=True)

    def __enter__(self) -> BackgroundAction:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        until = time.monotonic() + _STOP_SECONDS
        while not self._ended.is_set() and time.monotonic() < until:
            # Repeated, because its job may not have started yet. A stopped context has no jobs.
            with suppress(Exception):
                self._context.cancelJobsWithTag(self._tag)
            self._ended.wait(1)

    def ended(self, within: float) -> bool:
        """Wait for the end of the action; False if it still runs after ``within`` seconds."""
        return self._ended.wait(within)

    def result(self) -> Any:
        """Wait for the result of the action. Raises :class:`SparkJobError` for a failed action."""
        self._ended.wait()
        if self._failure is None:
            return self._result
        if "No module named 'airflow_sqlqueue" in str(self._failure):
            raise ConfigurationError(
                "The Spark executors do not have this package: install airflow-sqlqueue and an ODBC driver there."
            ) from self._failure
        raise SparkJobError(f"Spark could not {self._title}: see the error of Spark.") from self._failure

    def _run(self) -> None:
        try:
            # Tag and description belong to this thread and end with it.
            self._context.addJobTag(self._tag)
            self._context.setJobDescription(self._title)
            self._result = self._action()
        except BaseException as error:
            self._failure = error
        finally:
            self._ended.set()


def _joined(pieces: list[TaskWindow], count: int) -> list[TaskWindow]:
    """Join neighbours to ``count`` windows, whose numbers of pieces differ by at most one."""
    bounds = [len(pieces) * number // count for number in range(count + 1)] if count else []
    groups = [pieces[low:high] for low, high in pairwise(bounds)]
    return [
        TaskWindow(Window(group[0].window.after, group[-1].window.up_to), sum(piece.limit or 0 for piece in group))
        for group in groups
    ]


class _LedgerPoller:
    """Reports new parts of the ledger, each once. Progress only: the batch does not depend on it."""

    def __init__(self, plan: ExecutorPlan, known: set[uuid.UUID], on_part: Callable[[Part], None]) -> None:
        self._plan, self._known, self._on_part = plan, known, on_part
        self._connection = Reconnecting(plan.connect, "Reading the ledger", known=True)

    def close(self) -> None:
        self._connection.close()

    def poll(self) -> None:
        try:
            parts = self._plan.work.ledger(self._connection.connect()).parts(self._plan.work.batch_id)
        except SqlQueueError as error:
            self._connection.close()
            if not self._connection.passes(error):
                raise
            return  # The next poll tries again.
        for part in parts:
            if part.id not in self._known:
                self._known.add(part.id)
                self._on_part(part)


def drained_reports(spark: SparkSession, secret: Broadcast[ExecutorPlan], tasks: int) -> RDD[str | None]:
    """Return the drain as an RDD, a partition for each task: each action on it drains.

    Not a DataFrame, because for a DataFrame Spark generates and compiles code, and loads Arrow and pandas, on every
    executor.
    """

    def drain_windows(numbers: Iterable[int]) -> Iterator[str | None]:
        return drain_tasks(secret.value, numbers)

    return spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(drain_windows)


@contextmanager
def _marker_file(work: WorkPlan) -> Iterator[Path | None]:
    """Provide a file in a local staging folder, which shows executors whether the folder is the same where they run."""
    if not isinstance(work.stage, FileStage) or not work.stage.folder.is_local:
        yield None
        return
    path = Path(work.stage.folder.root, f".sqlqueue-{uuid.uuid4()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as error:
        raise StagingError(f"The staging folder {path.parent} cannot be written: {error.strerror}.") from error
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
