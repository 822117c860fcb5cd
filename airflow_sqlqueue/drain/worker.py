"""One part: rows deleted, staged, made durable and entered in the ledger in one transaction."""

from __future__ import annotations

import os
import socket
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, current_thread

from airflow_sqlqueue.drain.counts import PartCounts
from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.base import PartPlan, PartWriter, Stage
from airflow_sqlqueue.errors import StagingError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.quarantine import Quarantine
from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA
from airflow_sqlqueue.tables.layout import Layout

LONGEST_WAIT = 1.0
"""Seconds that one statement waits for others' locks: a signal that comes just before it is seen when it ends."""


def next_wait(seconds_left: float) -> float:
    """How long the next statement waits for others' locks, of so many seconds that are left."""
    return min(LONGEST_WAIT, max(0.0, seconds_left))


class CancelledError(Exception):
    """The drain ends with another worker's error; the part that was being taken is rolled back."""


@dataclass(frozen=True)
class WorkPlan:
    """Plan of the work on one batch: the same for each of its workers, wherever it runs.

    ``mean_bytes`` and ``layout`` are what the drain has seen of the queue: the size of a message, and the table.
    """

    batch_id: uuid.UUID
    queue: ResolvedAddress
    stage: Stage
    options: DrainOptions
    ledger_schema: str = LEDGER_SCHEMA
    mean_bytes: int | None = None
    layout: Layout | None = None

    def ledger(self, session: Session) -> Ledger:
        return Ledger(session, self.queue.catalog, self.ledger_schema)


@dataclass(frozen=True)
class CommittedPart:
    """A committed part, and whether the head of the queue was empty when it ended (locked rows do not show)."""

    part: Part
    reached_end: bool


class Worker:
    """Drains parts of one batch through one connection. Statements and parts are as large as the messages allow."""

    def __init__(self, session: Session, work: WorkPlan, cancelled: Event | None = None) -> None:
        self._session, self._work, self._options = session, work, work.options
        self.queue = QueueTable(session, work.queue, work.layout)
        self._ledger = work.ledger(session)
        self._quarantine = Quarantine(session, work.queue.catalog, work.ledger_schema)
        self._cancelled = cancelled or Event()
        self._mean_bytes = max(1, work.mean_bytes or _UNKNOWN)
        self._name = f"{socket.gethostname()}:{os.getpid()}:{current_thread().name}"

    @property
    def most_rows(self) -> int:
        """The most messages that a part has, however small they are."""
        return self._options.rows_per_part

    @property
    def rows_per_part(self) -> int:
        """How many messages of the present size make a part."""
        return self.rows_within(self._options.rows_per_part, self._options.bytes_per_part)

    @property
    def _rows_per_statement(self) -> int:
        return self.rows_within(self._options.rows_per_statement, self._options.bytes_per_statement)

    def rows_within(self, rows: int, size: int) -> int:
        """How many messages of the present size are within both limits, the second one in bytes; at least one."""
        return max(1, min(rows, size // self._mean_bytes))

    def drain_part(self, window: Window, limit: int | None, *, max_bytes: int | None = None) -> CommittedPart | None:
        """Take one part of the rows of a window; None where there was no row to take.

        Begins no statement once the part has ``max_bytes``.

        When this raises, the part is rolled back: its rows are in the queue (or, where a COMMIT was under way, the
        ledger knows better). Its files are removed, except where a COMMIT was under way: then they may be the batch's,
        or orphans. The caller takes a new part and never repeats this one.
        """
        plan = PartPlan(self._work.batch_id, uuid.uuid4(), window)
        staged = self._work.stage.part(self.queue, self._quarantine, plan, self._options)
        self._session.begin()
        return self._complete(plan, staged, limit, max_bytes)

    def copy_part(self, up_to: int, limit: int | None, *, wait: float | None) -> CommittedPart | None:
        """Copy one part of the rows that follow those of the batch so far, up to ``up_to``; None where there was none.

        Nobody else can add a part to the batch meanwhile. Rows that others have locked are waited for ``wait`` seconds
        each time, which raises :class:`LockTimeoutError` in the end; with None they are passed over for good.
        """
        session, batch_id = self._session, self._work.batch_id
        session.begin()
        try:
            after = self._ledger.copied_up_to(batch_id)
            plan = PartPlan(batch_id, uuid.uuid4(), Window(FIRST if after is None else after, up_to))
            staged = self._work.stage.copy(self.queue, plan, self._options, wait)
        except BaseException:
            session.roll_back()
            raise
        return self._complete(plan, staged, limit)

    def _complete(
        self, plan: PartPlan, staged: PartWriter, limit: int | None, max_bytes: int | None = None
    ) -> CommittedPart | None:
        session, commit_sent = self._session, False
        try:
            total, reached_end = self._gather(staged, limit, max_bytes)
            if not total.rows:
                session.roll_back()
                staged.abandon(remove=True)
                return None
            part = Part(plan.part_id, staged.close(), **vars(total))
            commit_sent = True
            self._ledger.commit_part(plan.batch_id, part, self._name)
            session.committed()
            return CommittedPart(part, reached_end)
        except BaseException as error:
            try:
                session.roll_back()
            finally:
                # Afterwards: a store that does not answer must not hold the rows.
                with suppress(Exception):
                    staged.abandon(remove=not commit_sent)
            if isinstance(error, StagingError):
                error.args = (f"{str(error).removesuffix('.')}; the messages of this part stay in the queue.",)
            raise

    def _gather(self, staged: PartWriter, limit: int | None, max_bytes: int | None) -> tuple[PartCounts, bool]:
        options = self._options
        limit = options.rows_per_part if limit is None else min(options.rows_per_part, limit)
        size = options.bytes_per_part if max_bytes is None else min(options.bytes_per_part, max_bytes)
        deadline = time.monotonic() + options.seconds_per_part
        total = _NOTHING
        # However late it is, one statement: a part without rows is taken for the end of the queue.
        while total.rows < limit and total.bytes < size and (not total.rows or time.monotonic() < deadline):
            if self._cancelled.is_set():
                raise CancelledError
            counts = staged.take(min(self._rows_per_statement, limit - total.rows))
            if counts is None:
                return total, True
            self._adapt(counts)
            total = total.merged(counts)
        return total, False

    def _adapt(self, counts: PartCounts) -> None:
        """Learn how large messages are here. Where they become smaller, statements grow at most fourfold."""
        if counts.messages:
            self._mean_bytes = max(1, self._mean_bytes // 4, counts.bytes // counts.messages)


_NOTHING = PartCounts(min_row_version=LAST, max_row_version=FIRST)
_UNKNOWN = 256 * 1024
"""Bytes of a message of which nothing is known."""
