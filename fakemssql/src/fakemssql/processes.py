"""State of processes that are not children of this one."""

from __future__ import annotations

import psutil  # type: ignore[import-untyped]


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process is alive; a zombie is not, because its files and locks are free."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
