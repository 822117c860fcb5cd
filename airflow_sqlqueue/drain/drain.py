"""A drain: a batch opened, filled part by part, sealed, and listed.

Queue to files is exactly once: a row leaves the queue in the transaction that names its file in the ledger, and the
batch is exactly the files that the ledger lists once it is sealed (DESIGN 3).
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from threading import Event

from airflow_sqlqueue.drain.crew import MAX_FAILURES, Crew, Quota, pause_after
from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.staging import StagingFolder
from airflow_sqlqueue.drain.worker import Worker
from airflow_sqlqueue.errors import TransientError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.fitted import FIRST
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA

log = logging.getLogger(__name__)

_PAUSE = 0.2


@dataclass(frozen=True)
class Progress:
    """How far a drain is: this try's counts, and the RowVersions done and to do."""

    messages: int
    expired: int
    bytes: int
    seconds: float
    row_version: int
    up_to: int


@dataclass(frozen=True)
class DrainResult:
    """The sealed batch; ``held`` messages up to the high-water mark were left because others held them to the end."""

    batch: Batch
    held: int
    seconds: float
    resumed: bool


class Drain:
    """Drains a queue into one batch.

    :param connect: opens a session; called again after a lost connection.
    :param queue: the resolved queue table; the ledger stands in its database.
    :param staging: where the part files go.
    :param batch_id: the batch; the same id resumes it, or returns it when it is sealed already.
    :param origin: who drains, for people who read the ledger (dag, task, run, map index).
    """

    def __init__(
        self,
        connect: Callable[[], Session],
        queue: ResolvedAddress,
        staging: StagingFolder,
        *,
        batch_id: uuid.UUID | None = None,
        origin: str = "",
        options: DrainOptions | None = None,
        ledger_schema: str = LEDGER_SCHEMA,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._connect, self._queue, self._staging = connect, queue, staging
        self.batch_id = batch_id or uuid.uuid4()
        self._origin, self._options = origin, options or DrainOptions()
        self._ledger_schema, self._on_progress = ledger_schema, on_progress
        self._started = time.monotonic()
        self._messages = self._expired = self._bytes = 0

    def run(self) -> DrainResult:
        """Drain up to the high-water mark taken when the batch was opened, seal the batch and list it.

        Raises :class:`TransientError` when deadlocks, lock timeouts or lost connections do not stop; what was committed
        so far stays in the open batch, which a later run with the same id resumes.
        """
        with closing(self._connect()) as session:
            queue, ledger = self._open(session)
            high_water = queue.high_water()
            ledger.create()
            row = ledger.open(self.batch_id, self._queue.canonical, self._origin, high_water)
            left = self._left(ledger)
            resumed = bool(row.state != "open" or ledger.parts(self.batch_id))
            if row.state != "open":
                log.info("Batch %s is %s already: nothing to drain", self.batch_id, row.state)
                return DrainResult(ledger.manifest(self.batch_id), 0, self._seconds(), True)
        held = 0
        if row.up_to is not None:
            if self._options.workers > 1:
                self._drain_together(row.up_to, Quota(left))
            held = self._drain_alone(row.up_to)
        with closing(self._connect()) as session:
            batch = self._open(session)[1].seal(self.batch_id)
        log.info("Batch %s is sealed: %d messages, %d expired", batch.batch_id, batch.messages, batch.expired)
        return DrainResult(batch, held, self._seconds(), resumed)

    def _open(self, session: Session) -> tuple[QueueTable, Ledger]:
        return QueueTable(session, self._queue), Ledger(session, self._queue.catalog, self._ledger_schema)

    def _drain_together(self, up_to: int, quota: Quota) -> None:
        """Take what several workers find side by side; what they leave is for :meth:`_drain_alone`."""
        Crew(self._connect, self._worker, lambda part: self._count(part, up_to), self._options, quota, up_to).run()

    def _worker(self, session: Session, cancelled: Event | None = None) -> tuple[QueueTable, Worker]:
        queue, ledger = self._open(session)
        return queue, Worker(queue, ledger, self.batch_id, self._staging, self._options, cancelled)

    def _drain_alone(self, up_to: int) -> int:
        """Take parts until nothing is left up to the mark or the limit is reached; return how many stay held."""
        failures = 0
        while True:
            done = self._messages + self._expired
            try:
                with closing(self._connect()) as session:
                    return self._take_parts(session, up_to)
            except TransientError as error:
                failures = failures + 1 if done == self._messages + self._expired else 1
                if failures > MAX_FAILURES:
                    raise
                log.warning("A part of batch %s was undone and is taken anew: %s", self.batch_id, error)
                time.sleep(pause_after(failures))

    def _take_parts(self, session: Session, up_to: int) -> int:
        queue, worker = self._worker(session)
        left = self._left(self._open(session)[1])
        after = FIRST
        settle_until: float | None = None
        while left is None or left > 0:
            done = worker.drain_part(after, up_to, left)
            if done is not None:
                self._count(done.part, up_to)
                left = None if left is None else left - done.part.messages - done.part.expired
                after = FIRST if done.reached_end else done.part.max_row_version
                settle_until = None
            elif after != FIRST:
                after = FIRST
            else:
                # READPAST saw nothing from the bottom up: that is "drained" only if nobody holds a row.
                settle_until = settle_until or time.monotonic() + self._options.settle_seconds
                held = queue.held(up_to, wait=max(0.0, settle_until - time.monotonic()))
                if held == 0 or time.monotonic() >= settle_until:
                    return held
                time.sleep(_PAUSE)
        return 0

    def _left(self, ledger: Ledger) -> int | None:
        """What the limit leaves, by the ledger: a COMMIT whose answer was lost counts as well."""
        limit = self._options.max_messages
        if limit is None:
            return None
        return max(0, limit - sum(part.messages + part.expired for part in ledger.parts(self.batch_id)))

    def _count(self, part: Part, up_to: int) -> None:
        self._messages += part.messages
        self._expired += part.expired
        self._bytes += part.bytes
        if self._on_progress is not None:
            seconds = self._seconds()
            self._on_progress(
                Progress(self._messages, self._expired, self._bytes, seconds, part.max_row_version, up_to)
            )

    def _seconds(self) -> float:
        return time.monotonic() - self._started
