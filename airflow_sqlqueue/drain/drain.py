"""A drain: a batch opened, filled part by part, sealed, and listed.

Queue to files is exactly once: a row leaves the queue in the transaction that names its file in the ledger, and the
batch is exactly the files that the ledger lists once it is sealed (DESIGN 3).
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from airflow_sqlqueue.drain.ledger import LedgerEntry, Part
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions, batch_after
from airflow_sqlqueue.drain.progress import Progress, ProgressCounter
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.worker import DrainTask, Worker
from airflow_sqlqueue.drain.worker_pool import MAX_FAILURES, RETRIED, Quota, ThreadEngine, drain_window, pause_after
from airflow_sqlqueue.errors import WrongBatchError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA

log = logging.getLogger(__name__)

_PAUSE = 0.2

T = TypeVar("T")


class Engine(Protocol):
    """Where the workers of a drain run."""

    def run(self, task: DrainTask, up_to: int, quota: Quota, on_part: Callable[[Part], None]) -> None:
        """Take what is there, as far as the quota goes. What is left, the drain takes afterwards by itself."""


@dataclass(frozen=True)
class DrainResult:
    """The sealed batch; ``locked`` messages up to its mark were left because others had locked them to the end."""

    batch: Batch
    locked: int
    seconds: float
    resumed: bool


class Drain:
    """Drains a queue into one batch.

    :param connect: opens a session; called again after a lost connection.
    :param queue: the resolved queue table; the ledger stands in its database.
    :param stage: where the messages go: a :class:`~airflow_sqlqueue.drain.stages.base.Stage`, or the folder for files.
    :param batch_id: the batch; the same id resumes it, or returns it when it is sealed already.
    :param renew: where the batch of that id was consumed or put back, drain a new one, whose id follows from it.
    :param origin: who drains, for people who read the ledger (dag, task, run, map index).
    :param engine: where the workers run; None: in threads.
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
        options: DrainOptions | None = None,
        ledger_schema: str = LEDGER_SCHEMA,
        engine: Engine | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._connect, self._engine = connect, engine or ThreadEngine(connect)
        self._renew, self._origin = renew, origin
        self._task = DrainTask(
            batch_id=batch_id or uuid.uuid4(),
            queue=queue,
            stage=FileStage(stage) if isinstance(stage, StagingFolder) else stage,
            options=options or DrainOptions(),
            ledger_schema=ledger_schema,
        )
        self._session: Session | None = None
        self._until: float | None = None
        self._tally = ProgressCounter(on_progress)

    @property
    def batch_id(self) -> uuid.UUID:
        return self._task.batch_id

    def run(self) -> DrainResult:
        """Drain up to the high-water mark taken when the batch was opened, or as the options say; seal and list it.

        Raises :class:`WrongBatchError` for a batch that was put back into the queue, and :class:`TransientError` when
        deadlocks, lock timeouts or lost connections do not stop; what was committed so far stays in the open batch,
        which a later run with the same id resumes.
        """
        # Outside of what is tried again: a server that does not answer at the very beginning may be a wrong address.
        self._session = self._connect()
        try:
            return self._run()
        finally:
            self._disconnect()

    def _run(self) -> DrainResult:
        row = self._persistently(self._open)
        if row.state != "open":
            log.info("Batch %s is %s already: nothing to drain", self.batch_id, row.state)
            batch = self._persistently(lambda session: self._task.ledger(session).manifest(self.batch_id))
            return DrainResult(batch, 0, self._tally.seconds, resumed=True)
        resumed = self._persistently(lambda session: bool(self._task.ledger(session).parts(self.batch_id)))
        if row.up_to is not None:
            self._engine.run(self._task, row.up_to, self._persistently(self._quota), self._tally.add)
        locked = self._persistently(lambda session: self._drain_alone(session, row.up_to))
        batch = self._persistently(lambda session: self._task.ledger(session).seal(self.batch_id))
        log.info(
            "Batch %s is sealed: %d messages, %d bytes in %d parts, %d expired, %d in quarantine, %d locked by others",
            *(batch.batch_id, batch.messages, batch.bytes, batch.parts, batch.expired, batch.quarantined, locked),
        )
        return DrainResult(batch, locked, self._tally.seconds, resumed)

    def _open(self, session: Session) -> LedgerEntry:
        """Open the batch, or the one after those that are done with, and take the marks that the drain goes by."""
        queue, ledger = QueueTable(session, self._task.queue), self._task.ledger(session)
        ends = queue.ends()
        options = self._task.options
        up_to = None if ends is None else LAST if options.until_empty else ends[1]
        ledger.create()
        opening = (self._task.queue.canonical, self._origin, up_to, self._task.stage.name)
        row = ledger.open(self.batch_id, *opening)
        while self._renew and row.state in ("consumed", "requeued"):
            self._task = replace(self._task, batch_id=batch_after(self.batch_id))
            row = ledger.open(self.batch_id, *opening)
        if row.state == "requeued":
            raise WrongBatchError(f"Batch {self.batch_id} was put back into {row.queue}: ask for a new batch.")
        if options.max_seconds is not None:
            self._until = time.monotonic() + options.max_seconds - row.age
        if ends is not None and row.state == "open":
            self._task = replace(self._task, mean_bytes=queue.mean_bytes(), layout=queue.layout)
            self._tally.begin(ends[0], ends[1] if row.up_to is None else min(ends[1], row.up_to))
        return row

    def _persistently(self, work: Callable[[Session], T]) -> T:
        """Run work that can be repeated, on a new connection after a failure that a drain outlives."""
        failures = 0
        while True:
            parts = self._tally.parts
            try:
                if self._session is None:
                    self._session = self._connect()
                return work(self._session)
            except RETRIED as error:
                self._disconnect()
                failures = failures + 1 if parts == self._tally.parts else 1
                if failures > MAX_FAILURES:
                    raise
                log.warning("A step of batch %s was undone and is taken anew: %s", self.batch_id, error)
                time.sleep(pause_after(failures))

    def _disconnect(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None

    def _quota(self, session: Session) -> Quota:
        """What the limits leave, by the ledger: a COMMIT whose answer was lost counts as well."""
        limit = self._task.options.max_messages
        if limit is not None:
            limit = max(0, limit - sum(part.rows for part in self._task.ledger(session).parts(self.batch_id)))
        return Quota(limit, self._until)

    def _drain_alone(self, session: Session, up_to: int | None) -> int:
        """Take parts until nothing is left up to the mark or a limit is reached; return how many stay locked."""
        if up_to is None:
            return QueueTable(session, self._task.queue).count_left(LAST)
        worker, quota = Worker(session, self._task), self._quota(session)
        settle_until: float | None = None
        while True:
            for part in drain_window(worker, FIRST, up_to, quota):
                self._tally.add(part)
                settle_until = None
            if quota.used:
                return 0
            # READPAST saw nothing from the bottom up: that is "drained" only if nobody holds a row.
            settle_until = settle_until or time.monotonic() + self._task.options.settle_seconds
            locked = worker.queue.count_left(up_to, wait=max(0.0, settle_until - time.monotonic()))
            if locked == 0 or time.monotonic() >= settle_until:
                return locked
            time.sleep(_PAUSE)
