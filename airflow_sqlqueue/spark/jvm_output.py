"""Output of Spark's JVM on standard error, copied to a log line by line, each line at its own level.

The processes that pyspark starts inherit standard error, and Airflow logs every line of standard error as an error.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_LEVEL = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (WARN|ERROR|FATAL) ")
_LEVELS = {"WARN": logging.WARNING, "ERROR": logging.ERROR, "FATAL": logging.ERROR}
_STDERR = 2


def level_of(line: str) -> int:
    """The level of a line as Log4j writes it (``26/11/22 02:20:18 WARN Utils: ...``); INFO for any other line."""
    found = _LEVEL.match(line)
    return _LEVELS[found[1]] if found else logging.INFO


@contextmanager
def capture_stderr(log: Callable[[int, str], None]) -> Iterator[None]:
    """Pass the standard error of processes that the block starts to ``log``, as long as these processes live.

    Output of this process itself during the block is included. Logging starts at the end of the block, because a log
    that writes to standard error would be read again; later lines come from a thread of their own.
    """
    sys.stderr.flush()
    reading, writing = os.pipe()
    kept = os.dup(_STDERR)
    os.dup2(writing, _STDERR)
    os.close(writing)
    reader = _Reader(reading, log)
    threading.Thread(target=reader.read, name="Spark's output", daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, _STDERR)
        os.close(kept)
        reader.release()


class _Reader:
    """Reads a pipe to its end; lines wait for :meth:`release`."""

    def __init__(self, descriptor: int, log: Callable[[int, str], None]) -> None:
        self._descriptor, self._log = descriptor, log
        self._waiting: list[str] | None = []
        self._lock = threading.Lock()

    def read(self) -> None:
        with os.fdopen(self._descriptor, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with self._lock:
                    if self._waiting is None:
                        self._write(line)
                    else:
                        self._waiting.append(line)

    def release(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting or [], None
            for line in waiting:
                self._write(line)

    def _write(self, line: str) -> None:
        if line.strip():
            # The log may be closed before the JVM ends; the pipe must still be read, else the JVM would block.
            with suppress(ValueError):
                self._log(level_of(line), line.rstrip())
