"""Standalone Spark cluster on this machine, with the Spark of the package pyspark, for tests and the bench.

Master, workers and the executors that they start are Java machines of their own, as on several machines. All of them
end with the process that started the cluster, also if that process is killed.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import child_process
from spark_archive import QUICK, java_options

START_SECONDS = 120.0
"""Longest start of a master or a worker."""

_DEPLOY = "org.apache.spark.deploy"
_ADDRESS = "127.0.0.1"
_MEMORY = 512
"""MiB of an executor's Java machine; Spark refuses less than 450."""
_SETTINGS = {
    "spark.executor.extraJavaOptions": QUICK,
    "spark.executor.memory": f"{_MEMORY}m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{START_SECONDS:.0f}s",
}


class SparkCluster:
    """A master and its workers; a context manager. A worker has room for an executor of ``cores``.

    Sessions of this machine get executors by :attr:`url` and :meth:`settings`.
    """

    def __init__(self, workers: int = 2, cores: int = 1) -> None:
        self._workers, self._cores = workers, cores
        self._stack = ExitStack()
        self.url = ""

    def __enter__(self) -> SparkCluster:
        with ExitStack() as stack:
            self._folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sqlqueue-spark-"))
            master = stack.enter_context(_Daemon("master.Master"))
            self.url = master.started(rf"Starting Spark master at (spark://{_ADDRESS}:\d+)")
            self._stack = stack
            started = [self._start_worker() for _ in range(self._workers)]
            for worker in started:
                worker.started(_REGISTERED)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add_worker(self) -> None:
        """Start another worker, to replace a killed one."""
        self._start_worker().started(_REGISTERED)

    def _start_worker(self) -> _Daemon:
        size = ("--cores", str(self._cores), "--memory", f"{_MEMORY}m", "--work-dir", self._folder)
        return self._stack.enter_context(_Daemon("worker.Worker", *size, self.url))

    def settings(self, executors: int, config: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the settings of a session that waits for all of its ``executors``."""
        path = os.pathsep.join(path for path in sys.path if path)
        found = {
            "spark.cores.max": str(executors * self._cores),
            "spark.executor.cores": str(self._cores),
            "spark.executorEnv.PYTHONPATH": path,
        }
        return {**_SETTINGS, **found, **(config or {})}


_REGISTERED = r"(Successfully registered) with master"


class _Daemon:
    """A master or a worker, in a process group of its own with the executors that it starts; a context manager."""

    def __init__(self, name: str, *arguments: str) -> None:
        spec = find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise RuntimeError("Spark is missing: install pyspark.")
        launcher = Path(spec.origin).parent / "bin" / "spark-class"
        place = ("--host", _ADDRESS, "--port", "0", "--webui-port", "0")
        self._name, self._command = name, [str(launcher), f"{_DEPLOY}.{name}", *place, *arguments]
        self._lines: deque[str] = deque(maxlen=200)
        self._news = threading.Condition()
        self._ended = False

    def __enter__(self) -> _Daemon:
        environment = {
            **os.environ,
            "SPARK_DAEMON_JAVA_OPTS": f"{QUICK} {java_options()}",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": _ADDRESS,
            "SPARK_NO_DAEMONIZE": "1",
        }
        self._process = child_process.start(self._command, environment)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # When this pipe is closed, the process and its group end.
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._thread.join(60)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                with self._news:
                    self._lines.append(line)
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def started(self, pattern: str) -> str:
        """Wait for a line of the process that matches the pattern; return the match of its group."""
        found: list[str] = []

        def look() -> bool:
            found.extend(match[1] for line in self._lines if (match := re.search(pattern, line)))
            return bool(found) or self._ended

        with self._news:
            self._news.wait_for(look, START_SECONDS)
            if not found:
                raise RuntimeError(f"Spark's {self._name} did not start:\n{''.join(self._lines)}")
        return found[0]
