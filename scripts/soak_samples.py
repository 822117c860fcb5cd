"""Samples of the memory and the file descriptors of processes, from /proc, and how much they grow."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression

SAMPLES = 600
"""Samples of a process over the load, at the most."""

SHORTEST = 0.5
"""Seconds between two samples, at the least."""

LEAST = 8
"""Samples from which a slope is read."""

MIB = 1024 * 1024


@dataclass
class Series:
    """Samples of one process: when, its private memory in MiB, its file descriptors."""

    times: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    descriptors: list[float] = field(default_factory=list)

    def add(self, moment: float, memory: float, descriptors: float) -> None:
        self.times.append(moment)
        self.memory.append(memory)
        self.descriptors.append(descriptors)


@dataclass(frozen=True)
class Growth:
    """Level of a process at its half, and the ratio of the level at its end to that one."""

    name: str
    memory: float
    memory_ratio: float
    descriptors: float
    descriptors_ratio: float


class Samples:
    """Samples of processes by name and pid, taken in a thread over some seconds.

    A process that replaces another one is one of its own. ``pids`` gives the processes of the moment.
    """

    def __init__(self, pids: Callable[[], Mapping[str, int]], seconds: float) -> None:
        self._series: dict[tuple[str, int], Series] = defaultdict(Series)
        self._pids, self._pause = pids, max(SHORTEST, seconds / SAMPLES)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Samples:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._pause):
            self.take(self._pids())

    def take(self, pids: Mapping[str, int]) -> None:
        """Take a sample of each process that is alive."""
        now = time.monotonic()
        for name, pid in pids.items():
            with suppress(OSError):
                memory, descriptors = private_memory(pid), len(os.listdir(f"/proc/{pid}/fd"))
                self.series(name, pid).add(now, memory / MIB, descriptors)

    def series(self, name: str, pid: int) -> Series:
        """Return the samples of a process."""
        return self._series[name, pid]

    @property
    def names(self) -> set[str]:
        """The names of all processes that have a sample."""
        return {name for name, _ in self._series}

    def growth(self, since: float, until: float) -> list[Growth]:
        """Return the growth of each process that has lived for nearly all of this time."""
        found = []
        for (name, _), series in self._series.items():
            chosen = [n for n, moment in enumerate(series.times) if since <= moment <= until]
            times = [series.times[n] for n in chosen]
            if len(times) < LEAST or times[-1] - times[0] < 0.9 * (until - since):
                continue
            memory = fitted_ends(times, [series.memory[n] for n in chosen])
            descriptors = fitted_ends(times, [series.descriptors[n] for n in chosen])
            found.append(Growth(name, memory[0], ratio(memory), descriptors[0], ratio(descriptors)))
        return found


def private_memory(pid: int) -> int:
    """Resident memory of a process that it shares with no file and no segment, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    if "RssAnon:" not in status:
        raise ProcessLookupError(pid)
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


def fitted_ends(times: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Return the first and the last value of the straight line that is nearest to the values (least squares)."""
    slope, intercept = linear_regression(times, values)
    return intercept + slope * times[0], intercept + slope * times[-1]


def ratio(ends: tuple[float, float]) -> float:
    """Return the last value against the first one, which a step may put below zero."""
    return ends[1] / max(ends[0], 0.5)
