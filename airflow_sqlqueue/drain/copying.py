"""A drain that copies: the messages up to the mark, in their order, which stay in the queue.

Nothing that is deleted keeps two tries apart here. What does is that each part begins where the ledger says that the
last one ended, and holds a lock of the batch to its COMMIT: so a message is in one part, however many try.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from airflow_sqlqueue.budget import Budget
from airflow_sqlqueue.drain.ledger import Part
from airflow_sqlqueue.drain.worker import CommittedPart, Worker, next_wait
from airflow_sqlqueue.errors import DeadlockError, LockTimeoutError


class CopyingDrain:
    """One run of it.

    :param up_to: the high-water mark, the highest RowVersion that is copied.
    :param settle_seconds: how long to wait, in all, for messages that others have locked.
    """

    def __init__(self, up_to: int, settle_seconds: float) -> None:
        self._up_to, self._settle_seconds = up_to, settle_seconds
        self._waited = 0.0
        self._passed = False

    def run(self, worker: Worker, budget: Budget, on_part: Callable[[Part], None]) -> int:
        """Copy parts until the mark or a limit is reached; return how many were locked too long and left out.

        0 is certain. Otherwise all that others hold up to the mark are counted, at least one.
        """
        while reserved := budget.reserve(worker.most_rows):
            done = self._copy(worker, reserved)
            budget.give_back(reserved - (done.part.rows if done else 0))
            if done is None:
                break
            on_part(done.part)
        if not self._passed:
            return 0
        return worker.queue.count_locked(self._up_to)

    def _copy(self, worker: Worker, count: int) -> CommittedPart | None:
        while not self._passed:
            started, left = time.monotonic(), self._settle_seconds - self._waited
            try:
                return worker.copy_part(self._up_to, count, wait=next_wait(left))
            except (DeadlockError, LockTimeoutError):
                self._waited += time.monotonic() - started
            self._passed = left <= next_wait(left)
        return worker.copy_part(self._up_to, count, wait=None)
