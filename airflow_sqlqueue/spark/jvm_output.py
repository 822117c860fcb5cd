"""What Spark's JVM prints on standard error, line by line to a log, at the level that each line has.

A process that pyspark starts inherits standard error, and Airflow takes every line there for an error.
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
def captured(log: Callable[[int, str], None]) -> Iterator[None]:
    """Give what processes that are started in the block print on standard error to ``log``, for as long as they live.

    What this process itself prints there in the block is among it. Lines are logged from the end of the block on, as
    they would be read again where the log goes to standard error; later ones come from a thread of its own.
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
            # The log can be closed before the JVM ends, which would stop at a pipe that nobody reads.
            with suppress(ValueError):
                self._log(level_of(line), line.rstrip())
