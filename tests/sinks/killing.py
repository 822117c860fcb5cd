"""Sinks in a process of their own, which is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any


def kill(plan: dict[str, Any], folder: Path, held: threading.Event | None) -> None:
    """Run the sinks in a process, and kill it with its Java machine when they are held, or when all have ended."""
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    command = [sys.executable, "-m", "tests.sinks.sinks_program", str(path)]
    log = folder / "log.txt"
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)
    try:
        if held is None:
            assert process.stdout is not None
            assert {process.stdout.readline().strip() for _ in plan["sinks"]} == set(plan["sinks"]), log.read_text()
        else:
            while not held.wait(1):
                assert process.poll() is None, log.read_text()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
