"""A barrier that holds the works of a driver in the middle of what they do, until one process is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tests.faults.faulty import is_first

EXECUTOR, WORKER, DRIVER = "executor", "worker", "driver"

_SECONDS = 700.0


@dataclass(frozen=True)
class KillBarrier:
    """Holds one task of each work until one of every work is there; then the victim is killed, and the others go on.

    The victim is the executor of the task that comes last; its worker, with all executors of that; or the driver, whose
    process group is ``driver``. Nobody waits once somebody was killed.
    """

    folder: Path
    works: tuple[str, ...]
    victim: str
    driver: int

    def of(self, work: str) -> Callable[[], None]:
        """Barrier that a task calls in the middle of its work."""
        return partial(self.wait, work)

    @property
    def over(self) -> bool:
        """Whether the victim was killed."""
        return (self.folder / "over").exists()

    def has(self, work: str) -> bool:
        """Whether a task of the work is there."""
        return (self.folder / work).exists()

    def end(self) -> None:
        """Let everybody go on."""
        is_first(self.folder / "over")

    def wait(self, work: str) -> None:
        """Hold the first task of a work, in whatever process of the cluster it is: by files, at which it looks."""
        if self.over or not is_first(self.folder / work):
            return
        if all(map(self.has, self.works)) and is_first(self.folder / "over"):
            self._kill()
        until = time.monotonic() + _SECONDS
        while not self.over:
            assert time.monotonic() < until, "not all works came to their middle"
            time.sleep(0.02)

    def _kill(self) -> None:
        # A task's process is a child of Spark's daemon, and that is one of the executor.
        executor = psutil.Process().parent().parent()
        assert "CoarseGrainedExecutorBackend" in " ".join(executor.cmdline())
        if self.victim == EXECUTOR:
            executor.kill()
        elif self.victim == WORKER:
            os.killpg(os.getpgid(executor.pid), signal.SIGKILL)
        else:
            os.killpg(self.driver, signal.SIGKILL)
        # The daemon ends this process when its executor is gone.
        threading.Event().wait()


def halting(source: Any, barrier: KillBarrier) -> type:
    """The format ``sqlqueue``, of whose tasks one of each kind waits at the barrier when it has begun to read or write.

    A writer's task does so when all of its rows are staged.
    """

    def halted(reader: Any, work: str) -> Any:
        kind: Any = type(reader)

        def read(self: Any, partition: Any) -> Any:
            for batch in kind.read(self, partition):
                yield batch
                barrier.wait(work)

        reader.__class__ = type("HaltingReader", (kind,), {"read": read})
        return reader

    def reader(self: Any, schema: Any) -> Any:
        return halted(source.reader(self, schema), "read")

    def stream_reader(self: Any, schema: Any) -> Any:
        return halted(source.streamReader(self, schema), "stream")

    def writer(self: Any, schema: Any, overwrite: bool) -> Any:
        found = source.writer(self, schema, overwrite)
        kind: Any = type(found)

        def write(self: Any, iterator: Any) -> Any:
            staged = kind.write(self, iterator)
            barrier.wait("write")
            return staged

        found.__class__ = type("HaltingWriter", (kind,), {"write": write})
        return found

    return type("HaltingSource", (source,), {"reader": reader, "streamReader": stream_reader, "writer": writer})
