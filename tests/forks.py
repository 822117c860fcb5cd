"""Processes of tests, forked from a server that has loaded what they need: each is at work within milliseconds."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.forked"])


def fork(work: Callable[..., object], *arguments: Any) -> Any:
    """Start work in a process, which ends with this one."""
    process: Any = CONTEXT.Process(target=work, args=arguments, daemon=True)
    process.start()
    return process
