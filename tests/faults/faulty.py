"""Stage that fails in the middle of a part, at a moment that is the same on any machine."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.base import PartCounts, PartPlan, PartWriter, Stage
from airflow_sqlqueue.errors import DeadlockError, StagingError

KILL, FREEZE, FAIL, HANG, DEADLOCK = "kill", "freeze", "fail", "hang", "deadlock"

_closed: Counter[uuid.UUID] = Counter()
"""Parts by batch that this process has closed."""


@dataclass(frozen=True)
class FaultyStage:
    """A stage, until a process is about to commit a part of a batch. That happens once: ``mark`` is there then.

    The process is killed or stopped, the part fails, for good or by a deadlock, its thread hangs, or the fault is
    something to call.
    """

    stage: Stage
    mark: Path
    fault: str | Callable[[], object]
    nth: int = 2

    @property
    def name(self) -> str:
        return self.stage.name

    def check(self, options: DrainOptions) -> None:
        self.stage.check(options)

    def copy(self, plan: PartPlan, wait: float | None) -> PartWriter:
        return FaultyPart(self.stage.copy(plan, wait), self, plan.batch_id)

    def part(self, plan: PartPlan) -> PartWriter:
        return FaultyPart(self.stage.part(plan), self, plan.batch_id)

    def publish(self, batch: Batch, options: DrainOptions) -> None:
        self.stage.publish(batch, options)


class FaultyPart:
    def __init__(self, part: PartWriter, stage: FaultyStage, batch_id: uuid.UUID) -> None:
        self._part, self._stage, self._batch_id = part, stage, batch_id

    def take(self, rows: int) -> PartCounts | None:
        return self._part.take(rows)

    def close(self) -> str | None:
        path = self._part.close()
        _closed[self._batch_id] += 1
        if _closed[self._batch_id] >= self._stage.nth and is_first(self._stage.mark):
            if callable(self._stage.fault):
                self._stage.fault()
                return path
            if self._stage.fault == KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            if self._stage.fault == FREEZE:
                os.kill(os.getpid(), signal.SIGSTOP)
                return path
            if self._stage.fault == FAIL:
                raise StagingError("The disk is full.")
            if self._stage.fault == DEADLOCK:
                raise DeadlockError("1205")
            threading.Event().wait()
        return path

    def abandon(self, *, remove: bool) -> None:
        self._part.abandon(remove=remove)


def is_first(mark: Path) -> bool:
    """Make the file ``mark``; False for all callers, in whatever process, but the first."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
