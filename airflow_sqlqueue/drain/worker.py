"""Worker of a drain: takes one part at a time.

The rows of a part are deleted, staged, made durable and added to the ledger in one transaction.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, current_thread

from airflow_sqlqueue.bodies.redaction.redactor import Redactor
from airflow_sqlqueue.drain.counts import PartCounts
from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.base import PartPlan, PartWriter, Stage
from airflow_sqlqueue.errors import StagingError
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.copies import QueueCopy
from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.queue.tables.layout import Layout
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.session import Session

LONGEST_WAIT = 1.0
"""Longest wait of one statement for others' locks, in seconds; a signal is handled when the statement ends."""

LOCKED_PAUSE = 0.2
"""Seconds between two reads of messages that others have locked: no server says when a lock ends."""


def next_wait(seconds_left: float) -> float:
    """Return the seconds that the next statement waits for others' locks."""
    return min(LONGEST_WAIT, max(0.0, seconds_left))


class CancelledError(Exception):
    """Another worker failed, so this one ends; its part is rolled back."""


@dataclass(frozen=True)
class WorkPlan:
    """Plan of the work on one batch, the same for all of its workers, in threads or on executors.

    ``mean_bytes`` and ``layout`` were read from the queue: the size of a message, and the columns of the table.
    ``redactor`` changes the rows before they are staged. ``folder`` is the name of the batch's folder in the
    ledger; None: the batch's id, as in earlier versions.
    """

    batch_id: uuid.UUID
    queue: ResolvedAddress
    stage: Stage
    options: DrainOptions
    mean_bytes: int | None = None
    layout: Layout | None = None
    redactor: Redactor | None = None
    folder: str | None = None

    def ledger(self, session: Session) -> Ledger:
        return Ledger(session, self.queue.catalog)


@dataclass(frozen=True)
class CommittedPart:
    """Committed part; ``reached_end``: the window had no more rows, apart from locked ones."""

    part: Part
    reached_end: bool


class Worker:
    """Worker that drains parts of one batch through one connection.

    The numbers of rows of statements and parts follow the sizes of the messages.
    """

    def __init__(self, session: Session, work: WorkPlan, cancelled: Event | None = None) -> None:
        self._session, self._work, self._options = session, work, work.options
        self.queue = QueueTable(session, work.queue, work.layout)
        self._ledger = work.ledger(session)
        self._cancelled = cancelled or Event()
        self._mean_bytes = max(1, work.mean_bytes or _UNKNOWN)
        self._name = f"{socket.gethostname()}:{os.getpid()}:{current_thread().name}"

    @property
    def most_rows(self) -> int:
        """Maximum number of messages of a part, for messages of any size."""
        return self._options.rows_per_part

    @property
    def rows_per_part(self) -> int:
        """Number of messages of the present size that make a part."""
        return self.rows_within(self._options.rows_per_part, self._options.bytes_per_part)

    def rows_within(self, rows: int, size: int) -> int:
        """Return the number of messages of the present size within a limit of rows and one of bytes, at least 1."""
        return max(1, min(rows, size // self._mean_bytes))

    def drain_part(self, window: Window, limit: int | None, *, max_bytes: int | None = None) -> CommittedPart | None:
        """Take one part of the rows of a window; None if the window has no row to take.

        Begins no statement once the part has ``max_bytes``.

        If this raises an error, the part is rolled back: its rows are in the queue, and its files are removed. If the
        COMMIT was already sent, only the ledger shows whether it took effect, and the files may belong to the batch, or
        be orphans. The caller takes a new part and never repeats this one.
        """
        plan = self._plan(window)
        staged = self._work.stage.part(plan)
        self._session.begin()
        return self._complete(plan, staged, limit, max_bytes)

    def copy_part(
        self, up_to: int, limit: int | None, *, wait: float | None, max_bytes: int | None = None
    ) -> CommittedPart | None:
        """Copy one part of the rows after the last part of the batch, up to ``up_to``; None if no row is left.

        No other worker can add a part to the batch meanwhile. Each statement waits ``wait`` seconds for rows that
        others have locked, and then raises :class:`LockTimeoutError`; with None it skips these rows for good.
        """
        self._session.begin()
        try:
            after = self._ledger.copied_up_to(self._work.batch_id)
            plan = self._plan(Window(FIRST if after is None else after, up_to))
            staged = self._work.stage.copy(plan, wait)
        except BaseException:
            self._session.roll_back()
            raise
        return self._complete(plan, staged, limit, max_bytes)

    def copy_new_part(
        self, name: str, up_to: int, limit: int | None, *, late: bool, max_bytes: int | None = None
    ) -> CommittedPart | None:
        """Copy one part of the messages up to ``up_to`` that the copy ``name`` does not have; None if none is left.

        With ``late`` it takes messages in the gaps of the copy, without it those above the watermark. Its transaction
        notes in the copy what it has copied, and keeps other parts of the copy out. It skips locked rows, which a later
        part finds in a gap or above the watermark. Raises :class:`CopyError`.
        """
        session, copy = self._session, QueueCopy(self.queue, name)
        session.begin()
        try:
            state = copy.lock()
            rows = self.most_rows if limit is None else min(limit, self.most_rows)
            found = copy.in_gaps(rows, up_to) if late and state.gaps else {}
            if late and not found:
                session.roll_back()
                return None
            gaps = sorted(set(found.values())) if late else None
            plan = self._plan(Window.of(tuple(sorted(found))) if late else Window(state.high, up_to))
            staged = self._work.stage.copy(plan, None)
        except BaseException:
            session.roll_back()
            raise
        return self._complete(plan, staged, limit, max_bytes, lambda: copy.advance(state, staged.copied, gaps))

    def _plan(self, window: Window) -> PartPlan:
        work = self._work
        folder = work.folder or str(work.batch_id)
        return PartPlan(self.queue, self._options, work.batch_id, uuid.uuid4(), folder, window, work.redactor)

    def _complete(
        self,
        plan: PartPlan,
        staged: PartWriter,
        limit: int | None,
        max_bytes: int | None = None,
        before_commit: Callable[[], None] | None = None,
    ) -> CommittedPart | None:
        session, commit_sent = self._session, False
        try:
            total, reached_end = self._gather(staged, limit, max_bytes)
            if not total.rows:
                session.roll_back()
                staged.abandon(remove=True)
                return None
            part = Part(plan.part_id, staged.close(), **vars(total))
            if before_commit is not None:
                before_commit()
            commit_sent = True
            self._ledger.commit_part(plan.batch_id, part, self._name)
            session.committed()
            return CommittedPart(part, reached_end)
        except BaseException as error:
            try:
                session.roll_back()
            finally:
                # After the rollback: a store that does not answer must not keep the rows locked.
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
        # At least one statement, also after the deadline: a part without rows means the end of the queue.
        while total.rows < limit and total.bytes < size and (not total.rows or time.monotonic() < deadline):
            if self._cancelled.is_set():
                raise CancelledError
            rows = self.rows_within(options.rows_per_statement, options.bytes_per_statement)
            counts = staged.take(min(rows, limit - total.rows))
            if counts is None:
                return total, True
            self._adapt(counts)
            total = total.merged(counts)
        return total, False

    def _adapt(self, counts: PartCounts) -> None:
        """Update the mean size of messages. If messages become smaller, statements grow at most fourfold."""
        if counts.messages:
            self._mean_bytes = max(1, self._mean_bytes // 4, counts.bytes // counts.messages)


_NOTHING = PartCounts(min_row_version=LAST, max_row_version=FIRST)
_UNKNOWN = 256 * 1024
"""Assumed bytes of a message before the first one is read."""
