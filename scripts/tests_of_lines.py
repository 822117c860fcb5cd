"""Seconds of each test, and the tests that execute a line of the product: ``make coverage`` records both.

As a plugin of pytest (``coverage run -m pytest -p tests_of_lines``) it names to coverage.py the test that runs, and
writes the seconds of each test beside coverage's data. :class:`TestsOfLines` reads both.

A line that runs in a process of its own has no test. A module that has changed since the data were taken has none for
any line.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / ".coverage" / "data"
COMMIT = ROOT / ".coverage" / "commit"
_SECONDS = "seconds-*.json"

_ASSIGNED = re.compile(r"\s*(\w+)(?:: [^=]+)? = ")

_seconds: dict[str, float] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Name the test to coverage.py, its fixtures with it."""
    measured, started = coverage.Coverage.current(), time.monotonic()
    if measured is not None:
        measured.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        _seconds[item.nodeid] = round(time.monotonic() - started, 3)
        if measured is not None:
            measured.switch_context("")


def pytest_sessionfinish() -> None:
    """Write the seconds of the tests of this process."""
    DATA.parent.mkdir(exist_ok=True)
    Path(DATA.parent, _SECONDS.replace("*", str(os.getpid()))).write_text(json.dumps(_seconds), "utf-8")
    COMMIT.write_text(_git("rev-parse", "HEAD").strip(), "utf-8")


class TestsOfLines:
    """The tests of each line, as the last ``make coverage`` has seen them."""

    __test__ = False

    def __init__(self) -> None:
        self._commit = COMMIT.read_text("utf-8") if COMMIT.exists() else None
        self._data = coverage.CoverageData(str(DATA))
        if self._commit is not None:
            self._data.read()
        self._paths = {Path(name).relative_to(ROOT).as_posix(): name for name in self._data.measured_files()}
        self._seconds: dict[str, float] = {}
        for path in DATA.parent.glob(_SECONDS):
            self._seconds |= json.loads(path.read_text("utf-8"))

    def of(self, path: str, line: int) -> dict[str, float]:
        """Return the tests that execute a line, with the seconds of each.

        For a constant, a field or a default, which is set while its module is imported: the tests that execute a line
        with its name, in any module.
        """
        tests = {*self._contexts(path).get(line, ())} & self._seconds.keys()
        if not tests and (name := _ASSIGNED.match((ROOT / path).read_text("utf-8").splitlines()[line - 1])):
            tests = self._with_name(name[1]) & self._seconds.keys()
        return {test: self._seconds[test] for test in tests}

    def _with_name(self, name: str) -> set[str]:
        found: set[str] = set()
        for path in self._paths:
            for number, line in enumerate((ROOT / path).read_text("utf-8").splitlines(), 1):
                if re.search(rf"\b{name}\b", line):
                    found.update(self._contexts(path).get(number, ()))
        return found

    @cache  # noqa: B019 - one object lives as long as the program
    def _contexts(self, path: str) -> dict[int, list[str]]:
        if path not in self._paths or _git("diff", "--name-only", str(self._commit), "--", path):
            return {}
        return self._data.contexts_by_lineno(self._paths[path])


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True, text=True).stdout
