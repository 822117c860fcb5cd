"""Spark's lines have the level that they say."""

from __future__ import annotations

import logging
import os
import queue
import subprocess
import sys
from typing import Any

import pytest

from airflow_sqlqueue.spark.jvm_output import capture_stderr, level_of


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("WARNING: Using incubator modules: jdk.incubator.vector", logging.INFO),
        ("26/11/22 02:20:18 WARN Utils: Your hostname resolves to a loopback address", logging.WARNING),
        ("26/11/22 02:20:18 ERROR Executor: Exception in task 0.0", logging.ERROR),
        ("Using Spark's default log4j profile", logging.INFO),
        ('Setting Spark log level to "ERROR".', logging.INFO),
    ],
)
def test_a_line_has_its_own_level(line: str, level: int) -> None:
    assert level_of(line) == level


def test_output_after_the_block_is_logged_too(capfd: Any) -> None:
    lines: queue.Queue[tuple[int, str]] = queue.Queue()
    late = "26/11/22 02:20:18 ERROR Executor: late"
    script = f"import sys; print('Picked up options', file=sys.stderr, flush=True); input(); sys.exit('{late}')"
    with capture_stderr(lambda level, line: lines.put((level, line))):
        process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, text=True)
    assert lines.get(timeout=60) == (logging.INFO, "Picked up options")
    os.write(2, b"of this process\n")
    process.communicate("\n", timeout=60)
    assert lines.get(timeout=60) == (logging.ERROR, late)
    assert capfd.readouterr().err == "of this process\n"


def test_a_process_that_outlives_the_log_is_not_stopped() -> None:
    """The JVM of a session stays for the next one, when the task whose log it had has ended."""

    def closed(_: int, line: str) -> None:
        if line == "late":
            raise ValueError("I/O operation on closed file.")
        lines.put(line)

    lines: queue.Queue[str] = queue.Queue()
    script = "import sys; print('late', file=sys.stderr); sys.exit('later')"
    with capture_stderr(closed):
        process = subprocess.Popen([sys.executable, "-c", script])
    process.communicate(timeout=60)
    assert lines.get(timeout=60) == "later"
