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


def kill_where_it_halts(work: Callable[..., object], *arguments: Any) -> None:
    """Run ``work(halt, *arguments)`` in a process, which is killed when it calls ``halt``."""
    reports, child = CONTEXT.Pipe()
    process = fork(_halting, work, arguments, child)
    child.close()
    try:
        assert reports.poll(60), "it never halts"
        reports.recv()
    finally:
        process.kill()
        process.join()
        reports.close()


def _halting(work: Callable[..., object], arguments: tuple[Any, ...], reports: Any) -> None:
    def halt(*_: object) -> None:
        reports.send(None)
        reports.recv()

    work(halt, *arguments)
