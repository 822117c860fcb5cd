"""A drain: a batch opened, filled part by part, sealed, and listed.

Queue to files is exactly once: a row leaves the queue in the transaction that names its file in the ledger, and the
batch is exactly the files that the ledger lists once it is sealed (docs/design.md, "Draining").
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

from airflow_sqlqueue.budget import Budget
from airflow_sqlqueue.drain.copying import CopyingDrain
from airflow_sqlqueue.drain.ledger import Ledger, LedgerEntry, Part
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.matching import SETTLE_PAUSE, MatchingDrain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.progress import Progress, ProgressCounter
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.worker import DrainTask, Worker, next_wait
from airflow_sqlqueue.drain.worker_pool import ThreadEngine, drain_window
from airflow_sqlqueue.errors import BatchNotFoundError, ConfigurationError, WrongBatchError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.competitors import competitors
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.reconnecting import Reconnecting
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA

log = logging.getLogger(__name__)


class Engine(Protocol):
    """Where the workers of a drain run."""

    def run(self, task: DrainTask, up_to: int, budget: Budget, on_part: Callable[[Part], None]) -> None:
        """Take messages up to the RowVersion ``up_to``, within the budget; call ``on_part`` with what was committed.

        What an engine leaves, the drain takes afterwards by itself.
        """


@dataclass(frozen=True)
class DrainResult:
    """The sealed batch; ``locked`` messages up to its mark were left because others had locked them to the end."""

    batch: Batch
    locked: int
    seconds: float
    resumed: bool


@dataclass(frozen=True)
class _OpenedBatch:
    """What opening gave: the batch's task, its row in the ledger, and the time that is left."""

    task: DrainTask
    entry: LedgerEntry
    time: Budget


class Drain:
    """Drains a queue into one batch.

    :param connect: opens a session; called again after a lost connection.
    :param queue: the resolved queue table; the ledger stands in its database.
    :param stage: where the messages go: a :class:`~airflow_sqlqueue.drain.stages.base.Stage`, or the folder for files.
    :param batch_id: the batch; the same id resumes it, or returns it when it is sealed already.
    :param renew: where the batch of that id was consumed or requeued, drain a new one, whose id follows from it.
    :param origin: who drains, for people who read the ledger (dag, task, run, map index).
    :param owner: the task that the batch belongs to, in whichever run: :func:`.drain.options.owner_of`.
    :param engine: where the workers run; None: in threads.
    :param keep: copy the messages up to the mark to files and leave them in the queue, by one worker too; a retry needs
        the same.
    :param where: drain the messages that match alone; a retry needs the same filter. They are found and taken by one
        worker, in this process.
    """

    def __init__(
        self,
        connect: Callable[[], Session],
        queue: ResolvedAddress,
        stage: Stage | StagingFolder,
        *,
        batch_id: uuid.UUID | None = None,
        renew: bool = False,
        origin: str = "",
        owner: uuid.UUID | None = None,
        options: DrainOptions | None = None,
        ledger_schema: str = LEDGER_SCHEMA,
        engine: Engine | None = None,
        where: MessageFilter | None = None,
        keep: bool = False,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        if (where is not None or keep) and engine is not None:
            raise ConfigurationError("A drain with a filter, or one that keeps, has one worker: leave out the engine.")
        if where is not None and keep:
            raise ConfigurationError("A drain that keeps copies all messages: leave out the filter, or keep.")
        if (where is not None or keep) and options is not None and options.max_bytes is not None:
            raise ConfigurationError("max_bytes is for drains that take all there is: leave out the filter, or keep.")
        self._where, self._keep = where, keep
        self._connect, self._engine = connect, engine or ThreadEngine(connect)
        self._renew, self._origin, self._owner = renew, origin, owner
        self._task = DrainTask(
            batch_id=batch_id or uuid.uuid4(),
            queue=queue,
            stage=FileStage(stage) if isinstance(stage, StagingFolder) else stage,
            options=options or DrainOptions(),
            ledger_schema=ledger_schema,
        )
        self._progress = ProgressCounter(on_progress)

    def run(self) -> DrainResult:
        """Drain up to the high-water mark taken when the batch was opened, or as the options say; seal and list it.

        Raises :class:`WrongBatchError` for a batch that was requeued, and :class:`TransientError` when
        deadlocks, lock timeouts or lost connections do not stop; what was committed so far stays in the open batch,
        which a later run with the same id resumes. Raises :class:`StagingError` for a folder that cannot be written,
        before there is a batch.
        """
        connection = Reconnecting(self._connect, f"A step of batch {self._task.batch_id}")
        with closing(connection):
            # This one is not retried: a server that does not answer at the very beginning may be a wrong address.
            connection.connect()
            return self._run(connection)

    def _run(self, connection: Reconnecting[Session]) -> DrainResult:
        opened = connection.run(self._open)
        task, batch_id, up_to = opened.task, opened.task.batch_id, opened.entry.up_to
        if opened.entry.state != "open":
            log.info("Batch %s is %s already: nothing to drain", batch_id, opened.entry.state)
            batch = connection.run(lambda session: task.ledger(session).manifest(batch_id))
            task.stage.publish(batch, task.options)
            return DrainResult(batch, 0, self._progress.seconds, resumed=True)
        parts = connection.run(lambda session: task.ledger(session).parts(batch_id))
        if parts:
            messages = sum(part.messages for part in parts)
            log.info("Resuming batch %s: %d messages in %d parts", batch_id, messages, len(parts))
            self._progress.resume(parts)
        else:
            log.info("Draining %s into batch %s", task.queue.canonical, batch_id)
        is_plain = self._where is None and not self._keep
        if up_to is not None and is_plain and task.options.max_bytes is None:
            budget = connection.run(lambda session: _budget(session, opened))
            self._engine.run(task, up_to, budget, self._progress.add)
        if up_to is not None and not is_plain:
            locked = self._drain_otherwise(connection, opened, up_to)
        else:
            locked = connection.run(lambda session: self._drain_alone(session, opened, connection.made_progress))
        for other in () if self._keep else connection.run(lambda session: competitors(session, task.queue)):
            log.warning(
                "%s receives from %s as well: the batch has only what it left. Stop it, or drain another queue.",
                *(other, task.queue.canonical),
            )
        batch = connection.run(lambda session: task.ledger(session).seal(batch_id))
        task.stage.publish(batch, task.options)
        log.info(
            "Batch %s is sealed: %d messages, %d bytes in %d parts, %d expired, %d in quarantine, %d locked by others",
            *(batch.batch_id, batch.messages, batch.bytes, batch.parts, batch.expired, batch.quarantined, locked),
        )
        return DrainResult(batch, locked, self._progress.seconds, bool(parts))

    def _open(self, session: Session) -> _OpenedBatch:
        """Open the batch, or with ``renew`` the next one that is not finished, and read its marks and limits."""
        task, options = self._task, self._task.options
        queue, ledger = QueueTable(session, task.queue), task.ledger(session)
        ends = queue.ends()
        up_to = None if ends is None else LAST if options.until_empty else ends[1]
        if up_to is not None and options.up_to is not None:
            up_to = min(up_to, options.up_to)
        ledger.create()
        if self._renew:
            task = replace(task, batch_id=ledger.current(task.batch_id))
        _check_stage(task, ledger)
        filter_text = "" if self._where is None else self._where.canonical
        opening = (task.batch_id, task.queue.canonical, self._origin, up_to, task.stage.name, self._owner)
        entry = ledger.open(*opening, filter_text=filter_text, keep=self._keep)
        if entry.state == "requeued":
            raise WrongBatchError(f"Batch {task.batch_id} was put back into {entry.queue}: ask for a new batch.")
        seconds = None if options.max_seconds is None else max(0.0, options.max_seconds - entry.age)
        if ends is not None and entry.state == "open":
            task = replace(task, mean_bytes=queue.mean_bytes(), layout=queue.layout)
            self._progress.begin(ends[0], ends[1] if entry.up_to is None else min(ends[1], entry.up_to))
        return _OpenedBatch(task, entry, Budget(max_seconds=seconds))

    def _drain_otherwise(self, connection: Reconnecting[Session], opened: _OpenedBatch, up_to: int) -> int:
        """Take what matches, or copy; return how many stay locked, whether they match or not."""
        task = opened.task
        drain: MatchingDrain | CopyingDrain = CopyingDrain(up_to, task.options.settle_seconds)
        if self._where is not None:
            drain = MatchingDrain(task, self._where, up_to)

        def on_part(part: Part) -> None:
            connection.made_progress()
            self._progress.add(part)

        def run(session: Session) -> int:
            return drain.run(Worker(session, task), _budget(session, opened), on_part)

        return connection.run(run)

    def _drain_alone(self, session: Session, opened: _OpenedBatch, made_progress: Callable[[], None]) -> int:
        """Take parts until nothing is left up to the mark or a limit is reached; return how many stay locked."""
        task, up_to = opened.task, opened.entry.up_to
        if up_to is None:
            return QueueTable(session, task.queue).count_left(LAST)
        worker, budget = Worker(session, task), _budget(session, opened)
        settle_until: float | None = None
        while True:
            for part in drain_window(worker, FIRST, up_to, budget):
                made_progress()
                self._progress.add(part)
                settle_until = None
            if budget.used:
                return 0
            # READPAST saw nothing from the bottom up: that is "drained" only if no transaction has locked a row.
            settle_until = settle_until or time.monotonic() + task.options.settle_seconds
            locked = worker.queue.count_left(up_to, wait=next_wait(settle_until - time.monotonic()))
            if locked == 0 or time.monotonic() >= settle_until:
                return locked
            time.sleep(SETTLE_PAUSE)


def _check_stage(task: DrainTask, ledger: Ledger) -> None:
    """Raise :class:`StagingError` before there is a batch that could not be written."""
    try:
        if ledger.find(task.batch_id).state != "open":
            return
    except BatchNotFoundError:
        pass
    task.stage.check(task.options)


def _budget(session: Session, opened: _OpenedBatch) -> Budget:
    """What the limits leave, by the ledger: a COMMIT whose answer was lost counts as well."""
    messages, size = opened.task.options.max_messages, opened.task.options.max_bytes
    if messages is None and size is None:
        return opened.time.share(None)
    parts = opened.task.ledger(session).parts(opened.task.batch_id)
    return opened.time.share(
        None if messages is None else max(0, messages - sum(part.rows for part in parts)),
        None if size is None else max(0, size - sum(part.bytes for part in parts)),
    )
