"""Memory and processor time of a server's processes: the listener, those of connections, and PostgreSQL's."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

MEGABYTE = 1e6


def processes(pid: int) -> list[psutil.Process]:
    """Process ``pid`` and all running processes below it."""
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def memory(pid: int) -> float:
    """Memory in megabytes. On Linux shared pages count once (PSS); elsewhere only unshared pages count."""
    total = 0
    for process in processes(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            found = process.memory_full_info()
            total += found.pss if sys.platform == "linux" else found.uss
    return total / MEGABYTE


def cpu(pid: int) -> float:
    """Seconds of processor time of the running processes."""
    return sum(_cpu(process) for process in processes(pid))


def _cpu(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.NoSuchProcess, OSError):
        if sys.platform == "linux":
            # In nanoseconds; psutil has only hundredths of a second.
            return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0


def ended(pid: int) -> float:
    """Seconds of processor time of the ended child processes."""
    times = psutil.Process(pid).cpu_times()
    return float(times.children_user + times.children_system)


@dataclass
class Spent:
    """Seconds by the clock, and of processor time in this process and in the server's processes."""

    wall: float = 0.0
    client: float = 0.0
    server: float = 0.0

    @property
    def cpu(self) -> float:
        return self.client + self.server


@contextlib.contextmanager
def spent(pid: int) -> Iterator[Spent]:
    """Measure a block; the result is filled at its end. Processes that end within the block are not counted."""
    found = Spent()
    server, client, wall = cpu(pid), time.process_time(), time.perf_counter()
    yield found
    found.wall, found.client = time.perf_counter() - wall, time.process_time() - client
    found.server = cpu(pid) - server
