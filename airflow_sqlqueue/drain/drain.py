"""Drain: open a batch, fill it part by part, seal it, and list its files.

Queue to files is exactly once: a row leaves the queue in the transaction that adds its file to the ledger, and the
batch is exactly the files that the ledger lists after the seal (docs/design.md, "Draining").
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from airflow_sqlqueue.drain.copying import CopyingDrain, NewMessagesCopy
from airflow_sqlqueue.drain.counts import Counts
from airflow_sqlqueue.drain.ledger import Ledger, LedgerEntry, Part
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.matching import MatchingDrain
from airflow_sqlqueue.drain.progress import Progress, ProgressCounter
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.worker import Worker, WorkPlan
from airflow_sqlqueue.drain.worker_pool import ThreadEngine, drain_rest
from airflow_sqlqueue.errors import BatchNotFoundError, ConfigurationError, WrongBatchError
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.options import check_type
from airflow_sqlqueue.options.budget import Budget, count_of, size_of
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.copies import CopyTable
from airflow_sqlqueue.queue.receivers import other_receivers
from airflow_sqlqueue.queue.table_access import LAST
from airflow_sqlqueue.queue.tables.reading import identify
from airflow_sqlqueue.server.reconnecting import Reconnecting
from airflow_sqlqueue.server.session import Session

log = logging.getLogger(__name__)


class Engine(Protocol):
    """Place where the workers of a drain run: threads, or Spark executors."""

    def run(self, work: WorkPlan, up_to: int, budget: Budget, on_part: Callable[[Part], None]) -> None:
        """Take messages up to the RowVersion ``up_to``, within the budget; call ``on_part`` with each committed part.

        The drain itself takes the remaining messages afterwards.
        """


@dataclass(frozen=True)
class DrainResult:
    """Result of a drain: the sealed batch, and how it went.

    ``locked`` messages up to its high-water mark stay in the queue because others had locked them until the end.
    """

    batch: Batch
    locked: int
    seconds: float
    resumed: bool


@dataclass(frozen=True)
class _OpenedBatch:
    """Opened batch: the plan of its work, its row in the ledger, and the time left."""

    work: WorkPlan
    entry: LedgerEntry
    time: Budget


class Drain:
    """Drain of a queue into one batch.

    :param connect: opens a session; called again after a lost connection.
    :param queue: the resolved queue table; the ledger is in its database.
    :param stage: the destination: a :class:`~airflow_sqlqueue.drain.stages.base.Stage`, or the folder for files.
    :param request: the batch, the filter of its messages, and the options.
    :param engine: runs the workers; None: in threads.
    """

    def __init__(
        self,
        connect: Callable[[], Session],
        queue: ResolvedAddress,
        stage: Stage | StagingFolder,
        request: DrainRequest | None = None,
        *,
        engine: Engine | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._request = request = DrainRequest() if request is None else request
        check_type("request", DrainRequest.__name__, request)
        if engine is not None and not request.is_plain:
            raise ConfigurationError("A drain with a filter, or with copy, has one worker: leave out the engine.")
        self._connect, self._engine = connect, engine or ThreadEngine(connect)
        self._work = WorkPlan(
            batch_id=request.batch_id or uuid.uuid4(),
            queue=queue,
            stage=FileStage(stage) if isinstance(stage, StagingFolder) else stage,
            options=request.options,
            redactor=request.redaction,
        )
        self._progress = ProgressCounter(on_progress)

    def run(self) -> DrainResult:
        """Drain up to the high-water mark taken when the batch was opened, or as the options say; seal and list it.

        The drain waits for a server that is away (:mod:`airflow_sqlqueue.server.reconnecting`). Raises
        :class:`WrongBatchError` for a batch that was requeued, and :class:`TransientError` or
        :class:`ServerUnreachableError` if deadlocks, lock timeouts or lost connections do not stop. Committed parts
        stay in the open batch then, and a later run with the same id resumes it. Raises :class:`StagingError` for a
        folder that cannot be written, before a batch is opened.
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
            counts = count_of(messages, "message"), count_of(len(parts), "part")
            log.info("Resuming batch %s: %s in %s", batch_id, *counts)
            self._progress.resume(parts)
        else:
            log.info("Draining %s into batch %s", work.queue.canonical, batch_id)
        if up_to is None:
            locked = connection.run(lambda session: QueueTable(session, work.queue).count_left(LAST))
        else:
            if self._request.is_plain and work.options.max_bytes is None:
                budget = connection.run(lambda session: _budget(session, opened))
                self._engine.run(work, up_to, budget, self._progress.add)
            locked = self._drain_rest(connection, opened, up_to)
        for other in () if self._request.copy else connection.run(lambda session: other_receivers(session, work.queue)):
            log.warning(
                "%s receives from %s as well: the batch has only the messages that it left. Stop it, or drain another "
                "queue.",
                *(other, work.queue.canonical),
            )
        batch = connection.run(lambda session: work.ledger(session).seal(batch_id))
        work.stage.publish(batch, work.options)
        log.info(
            "Batch %s is sealed: %s, %s in %s, %s expired, %s in quarantine, %s locked by others",
            *(batch.batch_id, count_of(batch.messages, "message"), size_of(batch.bytes), count_of(batch.parts, "part")),
            *(f"{count:,}" for count in (batch.expired, batch.quarantined, locked)),
        )
        return DrainResult(batch, locked, self._progress.seconds, bool(parts))

    def _open(self, session: Session) -> _OpenedBatch:
        """Open the batch, or with ``renew`` the next unfinished one, and read its mark and limits."""
        work, options = self._work, self._work.options
        # The ledger knows the queue by its identity, and is in the database of the table behind a synonym.
        work = replace(work, queue=identify(session, work.queue))
        queue, ledger = QueueTable(session, work.queue), work.ledger(session)
        ends = queue.ends()
        up_to = None if ends is None else LAST if options.until_empty else ends[1]
        if up_to is not None and options.up_to is not None:
            up_to = min(up_to, options.up_to)
        ledger.create()
        if self._request.incremental is not None:
            CopyTable(session, work.queue.catalog).create()
        if self._request.renew:
            work = replace(work, batch_id=ledger.current(work.batch_id))
        _check_stage(work, ledger)
        entry = ledger.open(work.batch_id, work.queue.canonical, up_to, work.stage.name, self._request)
        if entry.state == "requeued":
            raise WrongBatchError(f"Batch {work.batch_id} was put back into {entry.queue}: ask for a new batch.")
        work = replace(work, folder=ledger.folder(work.batch_id))
        seconds = None if options.max_seconds is None else max(0.0, options.max_seconds - entry.age)
        if ends is not None and entry.state == "open":
            work = replace(work, mean_bytes=queue.mean_bytes(), layout=queue.layout)
            self._progress.begin(ends[0], ends[1] if entry.up_to is None else min(ends[1], entry.up_to))
        return _OpenedBatch(work, entry, Budget(max_seconds=seconds))

    def _drain_rest(self, connection: Reconnecting[Session], opened: _OpenedBatch, up_to: int) -> int:
        """Take the rest, the matching messages or copies with one worker; return the number that stay locked."""
        work, locked_wait_seconds = opened.work, opened.work.options.locked_wait_seconds
        drain: Callable[[Worker, Budget, Callable[[Part], None]], int]
        if self._request.where is not None:
            drain = MatchingDrain(work, self._request.where, up_to).run
        elif self._request.incremental is not None:
            drain = NewMessagesCopy(self._request.incremental, up_to).run
        elif self._request.copy:
            drain = CopyingDrain(up_to, locked_wait_seconds).run
        else:
            drain = partial(drain_rest, up_to, locked_wait_seconds)

        def on_part(part: Part) -> None:
            connection.made_progress()
            self._progress.add(part)

        return connection.run(lambda session: drain(Worker(session, work), _budget(session, opened), on_part))


def _check_stage(work: WorkPlan, ledger: Ledger) -> None:
    """Raise :class:`StagingError` if the stage cannot be written, before the batch is opened."""
    try:
        if ledger.find(work.batch_id).state != "open":
            return
    except BatchNotFoundError:
        pass
    work.stage.check(work.options)


def _budget(session: Session, opened: _OpenedBatch) -> Budget:
    """Return the budget left by the ledger, so that a COMMIT whose answer was lost counts as well."""
    messages, size = opened.work.options.max_messages, opened.work.options.max_bytes
    if messages is None and size is None:
        return opened.time.share(None)
    taken = sum(opened.work.ledger(session).parts(opened.work.batch_id), Counts())
    return opened.time.share(
        None if messages is None else max(0, messages - taken.rows),
        None if size is None else max(0, size - taken.bytes),
    )
