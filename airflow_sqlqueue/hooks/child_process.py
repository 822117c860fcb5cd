"""Child process that ends, with all that it has started, when its parent ends, however that comes about.

A program of its own, run by its path, as :func:`start` does. It imports nothing but the standard library.
Its standard input is a pipe that only its parent can write to: the end of the parent is the end of that pipe. It ends
as the command does, with its exit code or by its signal.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from types import FrameType

GRACE_SECONDS = 5.0
"""What the command has to end by itself when it is told to, before it is killed."""


def start(command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a command that ends with this process; its output is one stream of text lines."""
    return subprocess.Popen(
        [sys.executable, "-I", __file__, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
    )


def main(command: list[str]) -> int:
    # Groups of their own for this program and for the command, so that what ends the parent's group ends neither alone.
    os.setpgid(0, 0)
    told = threading.Event()

    def tell(number: int, frame: FrameType | None) -> None:
        told.set()

    signal.signal(signal.SIGTERM, tell)
    # No thread has begun yet.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=os.setpgrp)
    threading.Thread(target=_watch_parent, args=(told,), daemon=True).start()
    threading.Thread(target=_end, args=(process.pid, told), daemon=True).start()
    code = process.wait()
    if told.is_set():
        # What it had started and left behind.
        _signal(process.pid, signal.SIGKILL)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _watch_parent(told: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    told.set()


def _end(group: int, told: threading.Event) -> None:
    told.wait()
    _signal(group, signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    _signal(group, signal.SIGKILL)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
