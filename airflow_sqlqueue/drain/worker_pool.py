"""Worker pool: several workers that drain one batch side by side, in threads, each with its own connection.

They work on windows of RowVersions that do not overlap, so that no worker has to skip rows that another one has locked.
The drain takes the remaining rows afterwards with one worker: those that others had locked, or whose receive was rolled
back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from airflow_sqlqueue.drain.ledger import Part
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.worker import LOCKED_PAUSE, CancelledError, Worker, WorkPlan, next_wait
from airflow_sqlqueue.options.budget import Budget
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.reconnecting import Reconnecting
from airflow_sqlqueue.server.session import Session

_END_SECONDS = 20.0
"""Seconds to wait for the workers once the drain is interrupted."""


class Windows:
    """Windows of a queue, from its head to the high-water mark; each goes to one worker."""

    def __init__(self, up_to: int) -> None:
        self._up_to = up_to
        self._after = FIRST
        self._exhausted = False
        self._lock = threading.Lock()

    def take(self, queue: QueueTable, rows: int) -> Window | None:
        """Return the window of the next rows; None if no row is left."""
        with self._lock:
            end = None if self._exhausted else queue.window_end(rows, self._after, self._up_to)
            if end is None:
                self._exhausted = True
                return None
            window = Window(self._after, end)
            self._after = end
            return window


class WorkerPool:
    """Run of several workers.

    :param connect: opens a session for a worker.
    :param worker: makes a worker of a session; it ends its part with :class:`CancelledError` once the event is set.
    :param on_part: called with every committed part, one at a time.
    :param budget: the limits of all workers together.
    :param up_to: the high-water mark, the highest RowVersion that is taken.
    """

    def __init__(
        self,
        connect: Callable[[], Session],
        worker: Callable[[Session, threading.Event], Worker],
        on_part: Callable[[Part], None],
        options: DrainOptions,
        budget: Budget,
        up_to: int,
    ) -> None:
        self._connect, self._worker, self._on_part = connect, worker, on_part
        self._options, self._budget = options, budget
        self._up_to, self._windows = up_to, Windows(up_to)
        self._cancelled = threading.Event()
        self._lock, self._dealing = threading.Lock(), threading.Lock()
        self._started = self._alive = 0
        self._ended = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Work until no window is left. Raises the first error of a worker after all others have ended."""
        try:
            self._add_worker()
            # No thread is joined: after a join that an interrupt ended, the next one does not wait (bpo-45274).
            self._ended.wait()
        except BaseException:
            self._cancelled.set()
            # Their parts are rolled back at the next statement; then the ledger is final.
            if self._alive:
                self._ended.wait(_END_SECONDS)
            raise
        if self._failure is not None:
            raise self._failure

    def _add_worker(self) -> None:
        with self._lock:
            if self._started < self._options.workers and not self._cancelled.is_set():
                number = self._started + 1
                threading.Thread(target=self._work, name=f"drain worker {number}", daemon=True).start()
                self._started += 1
                self._alive += 1

    def _work(self) -> None:
        try:
            with closing(Reconnecting(self._connect, "Draining a part", pause=self._wait, known=True)) as connection:
                connection.run(lambda session: self._drain_windows(session, connection))
        except CancelledError:
            pass
        except BaseException as error:
            with self._lock:
                self._failure = self._failure or error
            self._cancelled.set()
        finally:
            with self._lock:
                self._alive -= 1
                if not self._alive:
                    self._ended.set()

    def _wait(self, seconds: float) -> None:
        if self._cancelled.wait(seconds):
            raise CancelledError

    def _drain_windows(self, session: Session, connection: Reconnecting[Session]) -> None:
        worker = self._worker(session, self._cancelled)
        while (share := self._next(worker)) is not None:
            if share[0].up_to < self._up_to:
                self._add_worker()
            self._drain(worker, *share)
            connection.made_progress()

    def _next(self, worker: Worker) -> tuple[Window, Budget] | None:
        """Return the next window, as large as the limits allow, and its budget: workers take turns at the head."""
        with self._dealing:
            rows = self._budget.reserve(worker.rows_per_part)
            window = self._windows.take(worker.queue, rows) if rows else None
            if window is None:
                self._budget.give_back(rows)
                return None
            return window, self._budget.share(rows)

    def _drain(self, worker: Worker, window: Window, budget: Budget) -> None:
        try:
            for part in drain_window(worker, window, budget):
                with self._lock:
                    self._on_part(part)
        finally:
            # The messages reserved for a failed part are not given back: it may have been committed. The drain reads
            # the ledger before it takes the rest.
            self._budget.give_back(budget.messages_left or 0)


def drain_window(worker: Worker, window: Window, budget: Budget) -> Iterator[Part]:
    """Take parts of a window until no row is left or the budget is used.

    If a part raises an error, its reserved messages are not given back: its COMMIT may have taken effect.
    """
    rest = window
    while reserved := budget.reserve(worker.most_rows):
        done = worker.drain_part(rest, reserved, max_bytes=budget.bytes_left)
        budget.give_back(reserved - (done.part.rows if done else 0))
        if done is not None:
            budget.spend(done.part.bytes)
            yield done.part
        elif rest == window:
            return
        # After the end, again from the start: messages with large bodies are taken after all others.
        rest = window if done is None or done.reached_end else window.above(done.part.max_row_version)


def drain_rest(
    up_to: int, locked_wait_seconds: float, worker: Worker, budget: Budget, on_part: Callable[[Part], None]
) -> int:
    """Take parts until no row up to the mark is left or a limit is reached; return the number of rows still locked."""
    wait_until: float | None = None
    while True:
        for part in drain_window(worker, Window(up_to=up_to), budget):
            on_part(part)
            wait_until = None
        if budget.used:
            return 0
        # READPAST found no row from the start: the queue is drained only if no transaction has locked a row.
        wait_until = wait_until or time.monotonic() + locked_wait_seconds
        locked = worker.queue.count_left(up_to, wait=next_wait(wait_until - time.monotonic()))
        if locked == 0 or time.monotonic() >= wait_until:
            return locked
        time.sleep(LOCKED_PAUSE)


class ThreadEngine:
    """Default engine of a drain: workers in threads of this process."""

    def __init__(self, connect: Callable[[], Session]) -> None:
        self._connect = connect

    def run(self, work: WorkPlan, up_to: int, budget: Budget, on_part: Callable[[Part], None]) -> None:
        """Take messages with several workers side by side; the drain takes the rest afterwards."""

        def worker(session: Session, cancelled: threading.Event) -> Worker:
            return Worker(session, work, cancelled)

        if work.options.workers > 1:
            WorkerPool(self._connect, worker, on_part, work.options, budget, up_to).run()
