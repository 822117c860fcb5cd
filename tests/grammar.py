"""Microsoft's own grammar of T-SQL, as the formatter ``maxdop`` brings it: ScriptDom, compiled into one program.

A test server may take what SQL Server does not. The grammar is what SQL Server itself is made with, so a text that it
does not parse cannot run anywhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any
from unittest.mock import patch

from airflow_sqlqueue.server.enlisted import EnlistedCursor
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Query

VERSIONS = ("2016", "2022")
"""The oldest SQL Server that is supported and the newest that is common; the grammars between add, and take nothing."""

_PLACES = [sysconfig.get_path("scripts"), os.environ.get("PATH", "")]
MAXDOP = shutil.which("maxdop", path=os.pathsep.join(_PLACES))
"""The program, None where it is not installed: it has no wheel for Linux on ARM."""

WHY_NOT = "maxdop is not installed: pyproject.toml names it, and the platforms that it has wheels for"

_LITERAL_OR_PLACEHOLDER = re.compile(
    r"""'[^']*' | "[^"]*" | \[(?:[^]]|\]\])*\] | --[^\n]* | /\*.*?\*/ | (?P<placeholder>\?)""", re.VERBOSE | re.DOTALL
)
_NAMES_OF_TESTS = re.compile(r"[0-9a-f]{8,}(-[0-9a-f]{4}){0,3}(-[0-9a-f]{12})?")
_PROBLEM = re.compile(r"(?P<number>\d+)\.sql: could not be parsed, so it was left unchanged\. (?P<what>.*)")


def with_parameters(text: str) -> str:
    """The text as the driver hands it on: placeholders are parameters, ``@p1`` and so on.

    Line ends inside of names are one kind: maxdop makes them so, and then calls the change a fault of its own.
    """
    numbers = count(1)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _LITERAL_OR_PLACEHOLDER.sub(lambda found: f"@p{next(numbers)}" if found["placeholder"] else found[0], text)


def problems(texts: Iterable[str], versions: Iterable[str] = VERSIONS) -> list[str]:
    """What the grammar says of the texts that it does not parse."""
    given = list(texts)
    assert MAXDOP, WHY_NOT
    found: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.sql") for number in range(len(given))]
        for file, text in zip(files, given, strict=True):
            file.write_text(with_parameters(text), "utf-8")
        for version in versions if files else ():
            command = [MAXDOP, "--check", "--parser-version", version, *map(str, files)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            # 1 says that a text could not be parsed, or that maxdop would lay it out differently, which is no matter.
            assert done.returncode in (0, 1), done.stderr
            for problem in _PROBLEM.finditer(done.stderr):
                found.append(f"SQL Server {version}: {problem['what']}\n{given[int(problem['number'])]}")
    return found


class Recorder:
    """The texts that go to the driver, each once; names that tests make up are one name.

    ``undescribed`` are names of this package's own statements that were given None: the driver has to ask for its type.
    """

    def __init__(self) -> None:
        self._lock, self._seen, self._new = Lock(), set[str](), list[str]()
        self.undescribed: set[str] = set()

    def note(self, text: str) -> None:
        shape = _NAMES_OF_TESTS.sub("x", text)
        with self._lock:
            if shape not in self._seen:
                self._seen.add(shape)
                self._new.append(text)

    def take(self) -> list[str]:
        """The texts that are new since the last call."""
        with self._lock:
            new, self._new = self._new, []
        return new

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note what every session and every enlisted cursor of this process is given."""
        results, execute = Session.results, EnlistedCursor.execute

        def results_noted(session: Session, statement: Query, *values: Any, **options: Any) -> list[Any]:
            self.note(session.guarded(statement.text) if statement.ours or values else statement.text)
            if statement.ours and any(value is None for value in values):
                self.undescribed.add(statement.name)
            return results(session, statement, *values, **options)

        def execute_noted(cursor: EnlistedCursor, sql: str, *parameters: Any) -> EnlistedCursor:
            self.note(sql)
            return execute(cursor, sql, *parameters)

        with patch.object(Session, "results", results_noted), patch.object(EnlistedCursor, "execute", execute_noted):
            yield
