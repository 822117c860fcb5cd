"""Shell blocks of the manual: ``sqlqueue`` is run, in this process and for real; every other line is accounted for.

What a block may hold is little on purpose: ``sqlqueue``, ``NAME=$(sqlqueue ... --json | jq -r PATH)``, ``export``,
``echo TEXT > FILE``, and the commands of :data:`NOT_RUN`. Anything else is an error, so that no line goes unnoticed.
"""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_sqlqueue.cli.app import app
from airflow_sqlqueue.server.connection_string import ConnectionString, is_connection_string
from airflow_sqlqueue.server.settings import ConnectionSettings

NOT_RUN = {
    "airflow": "it makes a database; the example DAGs are run in tests/airflow",
    "apt-get": "it changes the machine",
    "make": "its targets are run by themselves; that they exist is checked",
    "pip": "it changes the environment; the extras are checked",
    "python": "options of fakemssql and of Spark's jobs are checked, and another DAG file is run in tests/airflow",
    "python3": "it makes an environment",
    ".": "it enters an environment",
}
"""Commands that a block may show and that are not run, and why."""

COLUMNS = "100"
"""Width of the terminal whose output pages show."""

_CAPTURE = re.compile(r"(?P<name>\w+)=\$\((?P<command>sqlqueue .+) \| jq -r '?(?P<path>[.\w\[\]]+)'?\)")
_ROOT = Path(__file__).parents[2]


class Shell:
    """Shell of a page: its variables, and its folder for relative paths, which has to be the current one."""

    def __init__(self, variables: MutableMapping[str, str]) -> None:
        self._variables = variables
        self._databases: set[str] = set()
        self._exported: dict[str, str] = {}
        self._printed = ""

    def run(self, text: str) -> None:
        """Run a block. Raises if a command fails, or if a line is not one that a block may hold."""
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
        for line in _lines(text):
            self._line(line)

    def check_printed(self, shown: str) -> None:
        """Raise unless the last command of the block before has printed this.

        ``...`` stands for any text in a line, and as a line of its own for any lines.
        """
        pattern = re.escape(shown.rstrip()).replace(r"\.\.\.", ".*")
        pattern = re.sub(r"\\\n\.\*(?=\\\n|$)", r"(?:\\n.*)*", pattern)
        if not re.fullmatch(pattern, "\n".join(map(str.rstrip, self._printed.rstrip().splitlines()))):
            raise AssertionError(f"the block before printed\n{self._printed}")

    def _line(self, line: str) -> None:
        if captured := _CAPTURE.fullmatch(line):
            answer = json.loads(self._sqlqueue(captured["command"]))
            self._variables[captured["name"]] = str(_at(answer, captured["path"]))
            return
        if "$(" in line or "|" in line.replace("'|'", ""):
            raise AssertionError(f"Neither pipes nor substitutions are run: {line}")
        words = shlex.split(self._expanded(line), comments=True)
        command = words[1] if words[0] == "sudo" else words[0]
        if command == "sqlqueue":
            self._sqlqueue(line)
        elif command == "export":
            for word in words[1:]:
                self._check_assignment(*word.partition("=")[::2])
        elif command == "echo" and words[-2] == ">":
            Path(words[-1]).write_text(" ".join(words[1:-2]) + "\n", "utf-8")
        elif command in NOT_RUN:
            if words[1:3] == ["-m", "fakemssql"]:
                self._databases.add(words[words.index("--database") + 1])
            _check_shown(command, words)
        else:
            raise AssertionError(f"{command!r} is neither run nor in NOT_RUN: {line}")

    def _expanded(self, line: str) -> str:
        return re.sub(r"\$(\w+)", lambda found: self._variables.get(found[1], found[0]), line)

    def _sqlqueue(self, line: str) -> str:
        words = shlex.split(self._expanded(line), comments=True)
        environment = {"COLUMNS": COLUMNS, **self._exported}
        done = CliRunner().invoke(app, words[1:], env=environment, catch_exceptions=True)
        if done.exit_code != 0:
            raise AssertionError(f"{line}\n{done.output}") from done.exception
        self._printed = done.stdout
        return done.stdout

    def _check_assignment(self, name: str, value: str) -> None:
        """Connections that are shown can be read; the test's own stay in force."""
        if name in ("SQLQUEUE_URL", "SQLQUEUE_TEST_SERVER"):
            is_string = is_connection_string(value)
            self._check(ConnectionString.parse(value).settings() if is_string else ConnectionSettings.from_url(value))
        elif name == "SQLQUEUE_REDACTION_KEY":
            self._exported[name] = value
        elif name.startswith("AIRFLOW_CONN_"):
            from airflow.sdk import Connection

            from airflow_sqlqueue.hooks.connection import read_connection

            self._check(read_connection(Connection.from_json(value, conn_id="shown")).settings)

    def _check(self, settings: ConnectionSettings) -> None:
        """A database of the fakemssql that the page starts is one that it makes."""
        if settings.port == 14330:
            assert settings.database in self._databases, f"no fakemssql is started with {settings.database!r}"


def _lines(text: str) -> Iterator[str]:
    """The commands of a block. One ends with its line, unless a quote is open or a backslash ends it."""
    waiting = ""
    for line in text.splitlines():
        waiting += line
        try:
            words = shlex.split(waiting, comments=True)
        except ValueError:
            waiting += "\n"
            continue
        if line.endswith("\\"):
            waiting = waiting[:-1]
            continue
        if words:
            yield waiting.strip()
        waiting = ""
    assert not waiting, f"an open quote: {waiting}"


def _at(value: Any, path: str) -> Any:
    """Value of ``jq`` at a path such as ``.[0].batch_id``."""
    for key, index in re.findall(r"\.?(\w+)|\.?\[(\d+)\]", path):
        value = value[int(index)] if index else value[key]
    return value


def _check_shown(command: str, words: list[str]) -> None:
    if command == "make":
        targets = re.findall(r"^([a-z-]+):", _ROOT.joinpath("Makefile").read_text("utf-8"), re.MULTILINE)
        assert words[1] in targets, f"there is no target {words[1]}"
    elif command == "pip":
        for core, named in re.findall(r"airflow-sqlqueue(-core)?\[(.*?)\]", " ".join(words)):
            project = _ROOT.joinpath("core" if core else ".", "pyproject.toml").read_text("utf-8")
            extras = project.partition("[project.optional-dependencies]")[2].partition("\n\n")[0]
            assert set(named.split(",")) <= set(re.findall(r"^([a-z-]+) = ", extras, re.MULTILINE)), words
    elif words[1] == "-m" and words[2].startswith("airflow_sqlqueue.spark.jobs."):
        with pytest.raises(SystemExit), redirect_stdout(StringIO()) as help_text:
            importlib.import_module(words[2]).main([*words[3:], "--help"])
        assert all(word in help_text.getvalue() for word in words if word.startswith("--")), words
    elif words[1:3] == ["-m", "fakemssql"]:
        shown = [sys.executable, "-m", "fakemssql", "--help"]
        text = subprocess.run(shown, capture_output=True, text=True, check=True).stdout
        assert all(word in text for word in words if word.startswith("--")), words
