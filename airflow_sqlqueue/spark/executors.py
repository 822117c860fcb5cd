"""Workers of a drain on Spark's executors, for queues that are too much for one machine.

The driver cuts the queue into windows of RowVersions, one action of ``mapInArrow`` drains them, and the batch is what
the ledger lists afterwards: never what tasks return, as those of a task that was repeated are returned once and
committed twice. Executors need this package, an ODBC driver, and the network to the server and the staging folder.

Source: reference/spark.md 1.3 and 1.4.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pickle import PickleError
from typing import TYPE_CHECKING, Any, TypeVar

import airflow_sqlqueue.errors
from airflow_sqlqueue.drain.crew import MAX_FAILURES, RETRIED, Quota, Windows, pause_after
from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.options import MAX_WORKERS
from airflow_sqlqueue.drain.worker import DrainTask, Worker
from airflow_sqlqueue.errors import ConfigurationError, SparkJobError, SqlQueueError
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.session import DEFAULT_LOCK_TIMEOUT, Session
from airflow_sqlqueue.spark.actions import Action
from airflow_sqlqueue.spark.secrets import Shipped, ship
from airflow_sqlqueue.sql import identifier

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_SECONDS = 2.0
"""How often the driver looks into the ledger for parts that the executors have committed."""

_RETURNED = "part string, error string, message string"


@dataclass(frozen=True)
class Window:
    """RowVersions above ``after`` and not above ``up_to``.

    ``at_most`` is how many rows the batch's parts inside may hold in the end, those of earlier tries included, so that
    a task that is repeated does not drain its share twice; None where there is no limit.
    """

    after: int
    up_to: int
    at_most: int | None = None

    def rows(self, parts: Iterable[Part]) -> int:
        """How many rows the parts hold that lie inside the window."""
        return sum(p.rows for p in parts if p.min_row_version > self.after and p.max_row_version <= self.up_to)


@dataclass(frozen=True)
class Orders:
    """What executors have to know, secrets included; ``windows`` are those of each Spark task."""

    settings: ConnectionSettings
    lock_timeout: float
    task: DrainTask
    windows: tuple[tuple[Window, ...], ...] = ()

    def connect(self) -> Session:
        return Session(self.settings, lock_timeout=self.lock_timeout)


class SparkEngine:
    """Runs the workers of a drain on the executors of a Spark session: an engine for ``Drain``.

    The login and the staging folder's options, which may hold keys, go to the executors in a broadcast that is removed
    afterwards; neither plan, web UI nor event log shows them. Every worker has a connection of its own. How many work
    at once is up to Spark, and ``tasks`` at the most. A part file is written by the executor, so a local folder must be
    the same one on every machine.

    Raises :class:`ConfigurationError` for a session with speculation, whose tasks would run twice, and for Spark
    Connect.

    :param spark: the session; of a master, not of Spark Connect.
    :param settings: how executors, and the driver, reach the server.
    :param tasks: how many Spark tasks the windows are dealt out to at the most.
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

    def run(self, task: DrainTask, up_to: int, quota: Quota, on_part: Callable[[Part], None]) -> None:
        """Take what is there, as far as the quota goes; what executors leave, the drain takes afterwards by itself.

        ``on_part`` is told of the parts that the ledger has, every two seconds and at the end. Raises the first error
        that an executor reports, when all others have ended, and :class:`SparkJobError` where the job itself fails. An
        error of the caller's own (a timeout, a stop) cancels the job; its parts stay in the batch.
        """
        orders = Orders(self._settings, self._lock_timeout, task)
        before, windows = _persistently(lambda: self._cut(orders, up_to, quota))
        if not windows:
            return
        tasks = min(len(windows), self._tasks)
        orders = replace(orders, windows=tuple(tuple(windows[number::tasks]) for number in range(tasks)))
        log.info("Batch %s: Spark drains %d windows in %d tasks", task.batch_id, len(windows), tasks)
        ledger = _Watch(orders, {part.id for part in before}, on_part)
        shipped = self._ship(orders)
        try:
            title = f"drain {task.queue.canonical} into batch {task.batch_id}"
            with Action(self._spark, title, _frame(self._spark, shipped, tasks).collect) as action:
                while not action.ended(within=_LOOK_SECONDS):
                    ledger.look()
                returned = action.result()
        finally:
            shipped.recall()
        ledger.look()
        for row in returned:
            if row["error"] is not None:
                raise _error(row["error"], row["message"])

    def _cut(self, orders: Orders, up_to: int, quota: Quota) -> tuple[list[Part], list[Window]]:
        """The parts that the batch has, and windows of about a part's size with their shares of what is left."""
        task, left = orders.task, quota.left
        windows, cut = [], Windows(up_to)
        with closing(orders.connect()) as session:
            parts = task.ledger(session).parts(task.batch_id)
            worker = Worker(session, task)
            while left != 0 and quota.seconds_left != 0:
                rows = worker.rows_per_part if left is None else min(worker.rows_per_part, left)
                ends = cut.take(worker.queue, rows)
                if ends is None:
                    break
                window = Window(*ends)
                if left is not None:
                    left -= rows
                    window = replace(window, at_most=rows + window.rows(parts))
                windows.append(window)
        return parts, windows

    def _ship(self, orders: Orders) -> Shipped[Orders]:
        try:
            return ship(self._spark, orders)
        except (PickleError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                "The staging folder's file system cannot be sent to executors, as it cannot be pickled: name the "
                'folder by a URL that they can open by themselves, or use engine="threads".'
            ) from error


class _Watch:
    """Tells of the parts that the ledger has and nobody was told of. For people: the batch does not depend on it."""

    def __init__(self, orders: Orders, known: set[uuid.UUID], on_part: Callable[[Part], None]) -> None:
        self._orders, self._known, self._on_part = orders, known, on_part

    def look(self) -> None:
        parts: list[Part] = []
        with suppress(*RETRIED), closing(self._orders.connect()) as session:
            parts = self._orders.task.ledger(session).parts(self._orders.task.batch_id)
        for part in parts:
            if part.id not in self._known:
                self._known.add(part.id)
                self._on_part(part)


def _frame(spark: SparkSession, shipped: Shipped[Orders], tasks: int) -> DataFrame:
    """The drain as a DataFrame: whoever runs an action on it drains. A row per Spark task, each in its own partition."""

    def drain_windows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return drain_tasks(shipped.value, batches)

    return spark.range(0, tasks, 1, tasks).mapInArrow(drain_windows, _RETURNED)


def drain_tasks(orders: Orders, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What an executor runs: drain the windows of the tasks that the batches number.

    Gives a row for each part, which shows in Spark's metrics, and one for an error of ours, which ends the task without
    Spark repeating it: this has tried again whatever is worth it.
    """
    for batch in batches:
        for number in batch.column(0).to_pylist():
            try:
                with closing(_Executor(orders)) as executor:
                    for window in orders.windows[number]:
                        for part in executor.drain(window):
                            yield _row(part=str(part.id))
            except SqlQueueError as error:
                yield _row(error=type(error).__name__, message=str(error))


class _Executor:
    """Drains windows through one connection, opened anew after a failure that a drain outlives."""

    def __init__(self, orders: Orders) -> None:
        self._orders, self._task = orders, orders.task
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
        worker, after = Worker(self._session, self._task), window.after
        while wish := quota.reserve(self._task.options.rows_per_part):
            done = worker.drain_part(after, window.up_to, wish)
            if done is None:
                return
            quota.give_back(wish - done.part.rows)
            yield done.part
            if done.reached_end:
                return
            after = done.part.max_row_version

    def _quota(self, ledger: Ledger, window: Window) -> Quota:
        """What the limits leave of the window, by the ledger: an earlier attempt of this task may have drained some."""
        batch_id, seconds = self._task.batch_id, self._task.options.max_seconds
        until = None if seconds is None else time.monotonic() + seconds - ledger.find(batch_id).age
        if window.at_most is None:
            return Quota(None, until)
        # While the earlier attempt lives, or its COMMIT is under way, the ledger cannot say what its share comes to.
        resource = f"sqlqueue.window.{batch_id}.{window.after}"
        wait = int(self._orders.lock_timeout * 1000)
        lock = ledger.query("lock_window", catalog=identifier(ledger.catalog))
        if ledger.session.value(lock, resource, wait) < 0:
            return Quota(0)
        return Quota(max(0, window.at_most - window.rows(ledger.parts(batch_id))), until)


def _row(**values: str) -> pa.RecordBatch:
    import pyarrow as pa

    names = [field.split()[0] for field in _RETURNED.split(", ")]
    return pa.RecordBatch.from_pylist([values], schema=pa.schema([(name, pa.string()) for name in names]))


def _error(name: str, message: str) -> SqlQueueError:
    kind: Any = getattr(airflow_sqlqueue.errors, name, SqlQueueError)
    error: SqlQueueError = kind(f"On a Spark executor: {message}")
    return error


def _persistently(work: Callable[[], T]) -> T:
    """Run work that can be repeated, again after a failure that a drain outlives."""
    for failures in range(1, MAX_FAILURES + 1):
        try:
            return work()
        except RETRIED as error:
            log.warning("A look at the queue failed and is taken anew: %s", error)
            time.sleep(pause_after(failures))
    return work()
