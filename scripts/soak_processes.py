"""Processes of the soak's roles, and what they report."""

from __future__ import annotations

import multiprocessing
import time
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from uuid import UUID

from soak_roles import SENT, START, STOP, run_role
from soak_setting import Plan

NUMBERS: Mapping[str, int] = {
    "sender": 10,
    "drain": 4,
    "consumer": 2,
    "purge": 1,
    "mover": 1,
    "page": 1,
    "sensor": 1,
}
"""Number of processes of each role."""

START_SECONDS, STOP_SECONDS = 240.0, 150.0

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["__main__", "soak_roles", "pyodbc", "pyarrow.parquet", "airflow_sqlqueue.drain.drain"])


class SoakError(Exception):
    """The soak cannot go on: a role has failed or does not answer."""


@dataclass
class Reports:
    """Reports of the roles: numbers, sends as columns of integers, batches, and seconds of sends and looks."""

    counts: Counter[str] = field(default_factory=Counter)
    sends: array[int] = field(default_factory=lambda: array("q"))
    batches: list[UUID] = field(default_factory=list)
    send_seconds: array[float] = field(default_factory=lambda: array("d"))
    look_seconds: array[float] = field(default_factory=lambda: array("d"))
    failures: dict[str, str] = field(default_factory=dict)

    OUTCOMES = (SENT, "unknown", "refused")

    def add(self, name: str, kind: str, values: tuple[Any, ...]) -> None:
        """Add a report."""
        self.counts[kind] += 1
        if kind == "sent":
            sender, of_kind, first, count, outcome, seconds = values
            self.sends.extend((sender, of_kind, first, count, self.OUTCOMES.index(outcome)))
            self.counts[f"messages {outcome}"] += count
            if outcome == SENT:
                self.send_seconds.append(seconds)
        elif kind == "batch":
            self.batches.append(values[0])
        elif kind in ("drained", "handled", "purged", "moved"):
            self.counts[f"messages {kind}"] += values[0]
        elif kind == "looked":
            _, has_problem, seconds = values
            self.counts["looks at a server that is away"] += has_problem
            if not has_problem:
                self.look_seconds.append(seconds)
        elif kind == "sensed":
            self.counts[f"sensors {values[0]}"] += 1
        elif kind == "polling":
            for what, number in zip(("poller threads", "poller connections"), values, strict=True):
                self.counts[what] = max(self.counts[what], number)
        elif kind == "away":
            self.counts[f"error {values[0]}"] += 1
        elif kind == "failed":
            self.failures[name] = values[0]

    def all_sends(self) -> Iterator[tuple[int, int, int, int, str]]:
        """Yield sender, kind, first number, count and outcome of each send."""
        for start in range(0, len(self.sends), 5):
            sender, kind, first, count, outcome = self.sends[start : start + 5]
            yield sender, kind, first, count, self.OUTCOMES[outcome]


class Roles:
    """All roles, each in a process; none outlives the block."""

    def __init__(self, plan: Plan, logs: Path) -> None:
        self.reports = Reports()
        self._processes: dict[str, Any] = {}
        self._pipes: dict[Connection[Any, Any], str] = {}
        self._ready: set[str] = set()
        self._busy = frozenset[str]()
        for role, number in NUMBERS.items():
            for each in range(number):
                name = role if number == 1 else f"{role} {each + 1}"
                pipe, child = _context.Pipe()
                arguments = (plan, name, role, each, child, str(logs / f"{name}.log"))
                process: Any = _context.Process(target=run_role, args=arguments, daemon=True)
                process.start()
                child.close()
                self._processes[name] = process
                self._pipes[pipe] = name

    @property
    def pids(self) -> dict[str, int]:
        """Processes by the role's name."""
        return {name: process.pid for name, process in self._processes.items()}

    def collect(self, seconds: float) -> None:
        """Collect reports for some seconds. Raises :class:`SoakError` where a role has failed or is gone."""
        until = time.monotonic() + seconds
        while True:
            for pipe in wait(list(self._pipes), max(0.0, until - time.monotonic())):
                assert isinstance(pipe, Connection)
                self._receive(pipe)
            if failed := next(iter(self.reports.failures.items()), None):
                raise SoakError(f"The {failed[0]} failed:\n{failed[1]}")
            if time.monotonic() >= until:
                return

    def _receive(self, pipe: Connection[Any, Any]) -> None:
        try:
            name, kind, values = pipe.recv()
        except (EOFError, OSError):
            name = self._pipes.pop(pipe)
            self.reports.failures.setdefault(name, "Its process has ended without a word.")
            return
        if kind == "ready":
            self._ready.add(name)
        elif kind == "ended":
            del self._pipes[pipe]
            pipe.close()
        else:
            self.reports.add(name, kind, values)

    def begin(self) -> None:
        """Let all begin at once, when the last of them is ready."""
        until = time.monotonic() + START_SECONDS
        while missing := self._processes.keys() - self._ready:
            self.collect(0.1)
            if time.monotonic() > until:
                raise SoakError(f"Not ready within {START_SECONDS:g} seconds: {', '.join(sorted(missing))}.")
        for pipe in self._pipes:
            pipe.send(START)

    def tell_busy(self, queues: frozenset[str]) -> None:
        """Tell the senders which queues are to get no messages for the moment."""
        if queues != self._busy:
            self._busy = queues
            for pipe, name in self._pipes.items():
                if name.startswith("sender"):
                    pipe.send(queues)

    def stop(self, role: str = "") -> None:
        """Let roles end what they have begun, and wait for their end."""
        own = {pipe for pipe, name in self._pipes.items() if name.startswith(role)}
        for pipe in own:
            with suppress(OSError):
                pipe.send(STOP)
        until = time.monotonic() + STOP_SECONDS
        while left := own & self._pipes.keys():
            self.collect(0.1)
            if time.monotonic() > until:
                names = sorted(self._pipes[pipe] for pipe in left)
                raise SoakError(f"Not at an end within {STOP_SECONDS:g} seconds: {', '.join(names)}.")

    def __enter__(self) -> Roles:
        return self

    def __exit__(self, *error: object) -> None:
        """Kill what is left."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.join(10)
