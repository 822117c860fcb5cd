"""Drain that copies: the messages up to the mark, in their order, stay in the queue.

A copy deletes no rows that could keep two tries apart. Instead each part begins after the end of the last one in the
ledger, and holds a lock of the batch until its COMMIT. So a message is in one part, whatever the number of tries.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from airflow_sqlqueue.drain.ledger import Part
from airflow_sqlqueue.drain.worker import CommittedPart, Worker, next_wait
from airflow_sqlqueue.errors import DeadlockError, LockTimeoutError
from airflow_sqlqueue.options.budget import Budget
from airflow_sqlqueue.queue.copies import QueueCopy


class CopyingDrain:
    """Copy of the messages of a queue.

    :param up_to: the high-water mark, the highest RowVersion that is copied.
    :param locked_wait_seconds: the total wait for messages that others have locked.
    """

    def __init__(self, up_to: int, locked_wait_seconds: float) -> None:
        self._up_to, self._locked_wait_seconds = up_to, locked_wait_seconds
        self._waited = 0.0
        self._skips_locked = False

    def run(self, worker: Worker, budget: Budget, on_part: Callable[[Part], None]) -> int:
        """Copy parts until the mark or a limit is reached; return the number of messages left out because of locks.

        0 is certain. Otherwise the number counts all locked messages up to the mark, at least 1.
        """
        while reserved := budget.reserve(worker.most_rows):
            done = self._copy(worker, reserved, budget.bytes_left)
            budget.give_back(reserved - (done.part.rows if done else 0))
            if done is None:
                break
            budget.spend(done.part.bytes)
            on_part(done.part)
        return worker.queue.count_locked(self._up_to) if self._skips_locked else 0

    def _copy(self, worker: Worker, count: int, max_bytes: int | None) -> CommittedPart | None:
        while not self._skips_locked:
            started, left = time.monotonic(), self._locked_wait_seconds - self._waited
            try:
                return worker.copy_part(self._up_to, count, wait=next_wait(left), max_bytes=max_bytes)
            except (DeadlockError, LockTimeoutError):
                self._waited += time.monotonic() - started
            self._skips_locked = left <= next_wait(left)
        return worker.copy_part(self._up_to, count, wait=None, max_bytes=max_bytes)


class NewMessagesCopy:
    """Copy of the messages that no earlier part of the copy ``name`` has; each is in one part, in whatever batch.

    :param up_to: the high-water mark, the highest RowVersion that is copied.
    """

    def __init__(self, name: str, up_to: int) -> None:
        self._name, self._up_to = name, up_to

    def run(self, worker: Worker, budget: Budget, on_part: Callable[[Part], None]) -> int:
        """Copy parts until the mark or a limit is reached; return 0, because no message is left out for good."""
        copy = QueueCopy(worker.queue, self._name)
        self._copy(worker, budget, on_part, late=True)
        copy.close_gaps()
        copy.check_gaps()
        self._copy(worker, budget, on_part, late=False)
        # Those that were committed late, or that others had locked, while the parts above were made.
        self._copy(worker, budget, on_part, late=True)
        copy.close_gaps()
        return 0

    def _copy(self, worker: Worker, budget: Budget, on_part: Callable[[Part], None], *, late: bool) -> None:
        while reserved := budget.reserve(worker.most_rows):
            done = worker.copy_new_part(self._name, self._up_to, reserved, late=late, max_bytes=budget.bytes_left)
            budget.give_back(reserved - (done.part.rows if done else 0))
            if done is None:
                return
            budget.spend(done.part.bytes)
            on_part(done.part)
