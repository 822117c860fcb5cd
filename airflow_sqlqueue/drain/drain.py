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
from airflow_sqlqueue.drain.counts import Counts
from airflow_sqlqueue.drain.ledger import Ledger, LedgerEntry, Part
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.matching import SETTLE_PAUSE, MatchingDrain
from airflow_sqlqueue.drain.progress import Progress, ProgressCounter
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.worker import Worker, WorkPlan, next_wait
from airflow_sqlqueue.drain.worker_pool import ThreadEngine, drain_window
from airflow_sqlqueue.errors import BatchNotFoundError, ConfigurationError, WrongBatchError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.receivers import other_receivers
from airflow_sqlqueue.queue.table_access import LAST
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.reconnecting import Reconnecting
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA

log = logging.getLogger(__name__)


class Engine(Protocol):
    """Where the workers of a drain run."""

    def run(self, work: WorkPlan, up_to: int, budget: Budget, on_part: Callable[[Part], None]) -> None:
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
    """An opened batch: its work, its row in the ledger, and the time that is left."""

    work: WorkPlan
    entry: LedgerEntry
    time: Budget


class Drain:
    """Drains a queue into one batch.

    :param connect: opens a session; called again after a lost connection.
    :param queue: the resolved queue table; the ledger stands in its database.
    :param stage: where the messages go: a :class:`~airflow_sqlqueue.drain.stages.base.Stage`, or the folder for files.
    :param request: the batch, the messages that it is for, and the options.
    :param engine: where the workers run; None: in threads.
    """

    def __init__(
        self,
        connect: Callable[[], Session],
        queue: ResolvedAddress,
        stage: Stage | StagingFolder,
        request: DrainRequest | None = None,
        *,
        ledger_schema: str = LEDGER_SCHEMA,
        engine: Engine | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._request = request = request or DrainRequest()
        if engine is not None and not request.is_plain:
            raise ConfigurationError("A drain with a filter, or one that keeps, has one worker: leave out the engine.")
        self._connect, self._engine = connect, engine or ThreadEngine(connect)
        self._work = WorkPlan(
            batch_id=request.batch_id or uuid.uuid4(),
            queue=queue,
            stage=FileStage(stage) if isinstance(stage, StagingFolder) else stage,
            options=request.options,
            ledger_schema=ledger_schema,
        )
        self._progress = ProgressCounter(on_progress)

    def run(self) -> DrainResult:
        """Drain up to the high-water mark taken when the batch was opened, or as the options say; seal and list it.

        A server that is away is waited for (:mod:`airflow_sqlqueue.reconnecting`). Raises :class:`WrongBatchError` for
        a batch that was requeued, and :class:`TransientError` or :class:`ServerUnreachableError` when deadlocks, lock
        timeouts or lost connections do not stop; what was committed so far stays in the open batch, which a later run
        with the same id resumes. Raises :class:`StagingError` for a folder that cannot be written, before there is a
        batch.
        """
        what = f"Draining {self._work.queue.canonical} into batch {self._work.batch_id}"
        with closing(Reconnecting(self._connect, what)) as connection:
            return self._run(connection)

    def _run(self, connection: Reconnecting[Session]) -> DrainResult:
        opened = connection.run(self._open)
        work, batch_id, up_to = opened.work, opened.work.batch_id, opened.entry.up_to
        if opened.entry.state != "open":
            log.info("Batch %s is %s already: nothing to drain", batch_id, opened.entry.state)
            batch = connection.run(lambda session: work.ledger(session).manifest(batch_id))
            work.stage.publish(batch, work.options)
            return DrainResult(batch, 0, self._progress.seconds, resumed=True)
        parts = connection.run(lambda session: work.ledger(session).parts(batch_id))
        if parts:
            messages = sum(part.messages for part in parts)
            log.info("Resuming batch %s: %d messages in %d parts", batch_id, messages, len(parts))
            self._progress.resume(parts)
        else:
            log.info("Draining %s into batch %s", work.queue.canonical, batch_id)
        is_plain = self._request.is_plain
        if up_to is not None and is_plain and work.options.max_bytes is None:
            budget = connection.run(lambda session: _budget(session, opened))
            self._engine.run(work, up_to, budget, self._progress.add)
        if up_to is not None and not is_plain:
            locked = self._drain_otherwise(connection, opened, up_to)
        else:
            locked = connection.run(lambda session: self._drain_alone(session, opened, connection.made_progress))
        for other in () if self._request.keep else connection.run(lambda session: other_receivers(session, work.queue)):
            log.warning(
                "%s receives from %s as well: the batch has only what it left. Stop it, or drain another queue.",
                *(other, work.queue.canonical),
            )
        batch = connection.run(lambda session: work.ledger(session).seal(batch_id))
        work.stage.publish(batch, work.options)
        log.info(
            "Batch %s is sealed: %d messages, %d bytes in %d parts, %d expired, %d in quarantine, %d locked by others",
            *(batch.batch_id, batch.messages, batch.bytes, batch.parts, batch.expired, batch.quarantined, locked),
        )
        return DrainResult(batch, locked, self._progress.seconds, bool(parts))

    def _open(self, session: Session) -> _OpenedBatch:
        """Open the batch, or with ``renew`` the next one that is not finished, and read its marks and limits."""
        work, options = self._work, self._work.options
        queue, ledger = QueueTable(session, work.queue), work.ledger(session)
        ends = queue.ends()
        up_to = None if ends is None else LAST if options.until_empty else ends[1]
        if up_to is not None and options.up_to is not None:
            up_to = min(up_to, options.up_to)
        ledger.create()
        if self._request.renew:
            work = replace(work, batch_id=ledger.current(work.batch_id))
        _check_stage(work, ledger)
        entry = ledger.open(work.batch_id, work.queue.canonical, up_to, work.stage.name, self._request)
        if entry.state == "requeued":
            raise WrongBatchError(f"Batch {work.batch_id} was put back into {entry.queue}: ask for a new batch.")
        seconds = None if options.max_seconds is None else max(0.0, options.max_seconds - entry.age)
        if ends is not None and entry.state == "open":
            work = replace(work, mean_bytes=queue.mean_bytes(), layout=queue.layout)
            self._progress.begin(ends[0], ends[1] if entry.up_to is None else min(ends[1], entry.up_to))
        return _OpenedBatch(work, entry, Budget(max_seconds=seconds))

    def _drain_otherwise(self, connection: Reconnecting[Session], opened: _OpenedBatch, up_to: int) -> int:
        """Take what matches, or copy; return how many stay locked, whether they match or not."""
        work = opened.work
        drain: MatchingDrain | CopyingDrain = CopyingDrain(up_to, work.options.settle_seconds)
        if self._request.where is not None:
            drain = MatchingDrain(work, self._request.where, up_to)

        def on_part(part: Part) -> None:
            connection.made_progress()
            self._progress.add(part)

        def run(session: Session) -> int:
            return drain.run(Worker(session, work), _budget(session, opened), on_part)

        return connection.run(run)

    def _drain_alone(self, session: Session, opened: _OpenedBatch, made_progress: Callable[[], None]) -> int:
        """Take parts until nothing is left up to the mark or a limit is reached; return how many stay locked."""
        work, up_to = opened.work, opened.entry.up_to
        if up_to is None:
            return QueueTable(session, work.queue).count_left(LAST)
        worker, budget = Worker(session, work), _budget(session, opened)
        settle_until: float | None = None
        while True:
            for part in drain_window(worker, Window(up_to=up_to), budget):
                made_progress()
                self._progress.add(part)
                settle_until = None
            if budget.used:
                return 0
            # READPAST saw nothing from the bottom up: that is "drained" only if no transaction has locked a row.
            settle_until = settle_until or time.monotonic() + work.options.settle_seconds
            locked = worker.queue.count_left(up_to, wait=next_wait(settle_until - time.monotonic()))
            if locked == 0 or time.monotonic() >= settle_until:
                return locked
            time.sleep(SETTLE_PAUSE)


def _check_stage(work: WorkPlan, ledger: Ledger) -> None:
    """Raise :class:`StagingError` before there is a batch that could not be written."""
    try:
        if ledger.find(work.batch_id).state != "open":
            return
    except BatchNotFoundError:
        pass
    work.stage.check(work.options)


def _budget(session: Session, opened: _OpenedBatch) -> Budget:
    """What the limits leave, by the ledger: a COMMIT whose answer was lost counts as well."""
    messages, size = opened.work.options.max_messages, opened.work.options.max_bytes
    if messages is None and size is None:
        return opened.time.share(None)
    taken = sum(opened.work.ledger(session).parts(opened.work.batch_id), Counts())
    return opened.time.share(
        None if messages is None else max(0, messages - taken.rows),
        None if size is None else max(0, size - taken.bytes),
    )
