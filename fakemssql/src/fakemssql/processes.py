"""Ending a process with all that it started."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import psutil  # type: ignore[import-untyped]


def kill_tree(pid: int, reap: Callable[[], object], seconds: float) -> None:
    """SIGKILL for a child process and everything below it; returns when all are gone, or after ``seconds``.

    ``reap`` waits for the child.
    """
    doomed: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        # Stopped first, it cannot start another one meanwhile.
        root.suspend()
        doomed = [root, *root.children(recursive=True)]
    # And so are all: else a connection whose PostgreSQL has gone before it could tell its client of that.
    for signal_one in (psutil.Process.suspend, psutil.Process.kill):
        for process in doomed:
            with contextlib.suppress(psutil.Error):
                signal_one(process)
    reap()
    deadline = time.monotonic() + seconds
    while any(map(_alive, doomed)) and time.monotonic() < deadline:
        time.sleep(0.005)


def _alive(process: psutil.Process) -> bool:
    """A killed process that nobody has reaped is no longer alive: its files and locks are free."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
