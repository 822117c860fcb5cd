"""A consumer as a service: ``sqlqueue consume`` in a process of its own, with handlers that a test writes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.cli.runner import environment_of

WAIT = 60


class Service:
    """Process of ``sqlqueue consume``; what it prints is read all the time, so that it never waits for its reader."""

    def __init__(self, folder: Path, url: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "airflow_sqlqueue", "consume", *arguments, "--json"]
        self.process: Any = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment_of(url), "PYTHONPATH": str(Path(__file__).parents[2])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._changed = threading.Condition()
        self._texts = {"stdout": "", "stderr": ""}
        self._readers = [threading.Thread(target=self._read, args=(name,), daemon=True) for name in self._texts]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str) -> None:
        for line in getattr(self.process, name):
            with self._changed:
                self._texts[name] += line
                self._changed.notify_all()

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.ended()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()

    @property
    def stdout(self) -> str:
        return self._texts["stdout"]

    @property
    def stderr(self) -> str:
        return self._texts["stderr"]

    def says(self, text: str, *, stream: str = "stderr", times: int = 1) -> str:
        """Wait until it has printed a text that many times; return all that it has printed."""
        with self._changed:
            said = self._changed.wait_for(lambda: self._texts[stream].count(text) >= times, WAIT)
        assert said, f"{text!r} is not in {self._texts}"
        return self._texts[stream]

    def go_on(self) -> None:
        """Let a handler go on that reads a line."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end, and return its exit code."""
        code = self.process.wait(WAIT)
        for reader in self._readers:
            reader.join(WAIT)
        return int(code)

    def result(self) -> dict[str, Any]:
        """The last line of a service that has ended with exit code 0."""
        assert self.ended() == 0, self.stderr
        return dict(json.loads(self.stdout.splitlines()[-1]))
