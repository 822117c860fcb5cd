"""Child process that runs a command and ends it, with all its processes, when the parent ends for any reason.

This module is a program of its own: :func:`start` runs it by its path. It imports the standard library only. Its
standard input is a pipe from its parent, and the pipe closes when the parent ends. The program ends as the command
does, with its exit code or by its signal.
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
"""Seconds between the request to end (SIGTERM) and the end by force (SIGKILL)."""


def start(command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a command that ends with this process; its outputs are one stream of text lines."""
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
    # This program and the command have a process group each, so that a signal to the parent's group ends neither alone.
    os.setpgid(0, 0)
    end = threading.Event()

    def request_end(number: int, frame: FrameType | None) -> None:
        end.set()

    signal.signal(signal.SIGTERM, request_end)
    # preexec_fn is safe here, because this process has no other thread yet.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=os.setpgrp)
    threading.Thread(target=_watch_parent, args=(end,), daemon=True).start()
    threading.Thread(target=_end, args=(process.pid, end), daemon=True).start()
    code = process.wait()
    if end.is_set():
        # Processes of the command may be left.
        _signal(process.pid, signal.SIGKILL)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _watch_parent(end: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    end.set()


def _end(group: int, end: threading.Event) -> None:
    end.wait()
    _signal(group, signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    _signal(group, signal.SIGKILL)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
