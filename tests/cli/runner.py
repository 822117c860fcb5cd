"""The command line as a person or a script meets it: arguments, its output and its exit code."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest.mock import patch

from airflow_sqlqueue.cli import main

Done = subprocess.CompletedProcess[str]


def sqlqueue(*arguments: str, url: str | None = None, **environment: str) -> Done:
    """Run a command in this process, which spares its start."""
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding, newline="") for _ in range(2))
    code = 0
    with (
        patch.dict(os.environ, environment_of(url) | environment, clear=True),
        patch.object(sys, "argv", ["sqlqueue", *arguments]),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(), "utf-8")),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else bool(ended.code)
    texts = []
    for stream in (stdout, stderr):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]
    return Done(["sqlqueue", *arguments], code, *texts)


def process(*arguments: str, url: str | None = None, **environment: str) -> Done:
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "airflow_sqlqueue", *arguments]
    variables = environment_of(url) | environment
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)


def answer(*arguments: str, url: str) -> Any:
    """The record or the list that a command prints as JSON: see :func:`whole_answer`."""
    found = whole_answer(*arguments, url=url)
    return found.get("items", found)


def whole_answer(*arguments: str, url: str) -> dict[str, Any]:
    """The object that a command prints as JSON; it must succeed and print nothing else."""
    done = sqlqueue(*arguments, "--json", url=url)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def one_sentence(done: Done, code: int) -> str:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("Error: ")
    assert "[Microsoft]" not in line
    return line


def environment_of(url: str | None) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SQLQUEUE_") and key != "COLUMNS"}
    return kept if url is None else kept | {"SQLQUEUE_URL": url}
