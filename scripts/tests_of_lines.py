"""Seconds of each test, and the tests that execute a line of the product: ``make coverage`` records both.

As a plugin of pytest (``coverage run -m pytest -p tests_of_lines``) it names to coverage.py the test that runs, and
writes the seconds of each test beside coverage's data. :class:`TestsOfLines` reads both.

A line that runs in a process of its own has no test, and so has one that has changed since the data were taken.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ".coverage"

_STATEMENT = re.compile(r"-- (\w+): ")

_seconds: dict[str, float] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Name the test to coverage.py, its fixtures with it."""
    from coverage import Coverage

    measured, started = Coverage.current(), time.monotonic()
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
    folder = Path.cwd() / FOLDER
    folder.mkdir(exist_ok=True)
    (folder / f"seconds-{os.getpid()}.json").write_text(json.dumps(_seconds), "utf-8")
    (folder / "commit").write_text(_git(Path.cwd(), "rev-parse", "HEAD").strip(), "utf-8")


class TestsOfLines:
    """The tests of each line, as the last ``make coverage`` has seen them."""

    __test__ = False

    def __init__(self, root: Path = ROOT) -> None:
        from coverage import CoverageData

        self._root, folder = root, root / FOLDER
        self._data = CoverageData(str(folder / "data"))
        self._seconds: dict[str, float] = {}
        self._changed: set[str] = set()
        if (folder / "commit").exists():
            self._commit = (folder / "commit").read_text("utf-8")
            self._changed = {*_git(root, "diff", "--name-only", self._commit).splitlines()}
            self._data.read()
            for path in folder.glob("seconds-*.json"):
                self._seconds |= json.loads(path.read_text("utf-8"))
        self._paths = {Path(name).relative_to(root).as_posix(): name for name in self._data.measured_files()}

    def of(self, path: str, line: int) -> dict[str, float]:
        """Return the tests that execute a line, with the seconds of each.

        A constant or a field is set while its module is imported, whichever test comes first: it has the tests that
        execute a line with its name, in any module. So has a statement of SQL. A default has the tests of its function.
        """
        if path.endswith(".sql"):
            lines = (self._root / path).read_text("utf-8").splitlines()[:line]
            names = [f"{Path(path).stem}.{found[1]}" for each in lines if (found := _STATEMENT.match(each))]
            tests = self._with_name(names[-1]) if names else set()
        else:
            tests = self._of_statement(path, line)
        return {test: self._seconds[test] for test in tests if test in self._seconds}

    def _of_statement(self, path: str, line: int) -> set[str]:
        statement, is_called = _statement(ast.parse((self._root / path).read_text("utf-8")), line)
        tests = self._contexts(path)
        if isinstance(statement, ast.FunctionDef) and line < statement.body[0].lineno:
            end = statement.end_lineno or line
            return {test for number in range(statement.body[0].lineno, end + 1) for test in tests.get(number, ())}
        if not is_called and isinstance(statement, ast.Assign | ast.AnnAssign):
            target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
            return self._with_name(ast.unparse(target))
        # An expression of several lines may run without an event for each of them.
        return {*(tests.get(line) or tests.get(statement.lineno) or ())}

    def measured(self, tests: str) -> bool:
        """Return whether the data are of today's tests of this file or folder."""
        return any(test.startswith(tests) for test in self._seconds) and not self.changed(tests)

    def changed(self, tests: str) -> bool:
        """Return whether a file or folder of tests has changed since."""
        return any(path.startswith(tests) for path in self._changed)

    def runs(self, path: str, line: int) -> bool:
        """Return whether anything executed the line, as far as is known: one that has changed may run anywhere."""
        lines = self._contexts(path)
        return not lines or path.endswith(".sql") or line in lines or line not in self._same(path).values()

    def _with_name(self, name: str) -> set[str]:
        found: set[str] = set()
        for path in self._paths:
            for number, line in enumerate((self._root / path).read_text("utf-8").splitlines(), 1):
                if re.search(rf"\b{re.escape(name)}\b", line):
                    found.update(self._contexts(path).get(number, ()))
        return found

    @cache  # noqa: B019 - one object lives as long as the program
    def _contexts(self, path: str) -> dict[int, list[str]]:
        if path not in self._paths:
            return {}
        found = self._data.contexts_by_lineno(self._paths[path])
        return {now: found[line] for line, now in self._same(path).items() if line in found}

    @cache  # noqa: B019
    def _same(self, path: str) -> dict[int, int]:
        """Return today's numbers of the lines that are what they were when the data were taken."""
        new = (self._root / path).read_text("utf-8").splitlines()
        old = new
        if path in self._changed:
            is_there = _git(self._root, "ls-tree", "--name-only", self._commit, path)
            old = _git(self._root, "show", f"{self._commit}:{path}").splitlines() if is_there else []
        blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        return {block.a + place: block.b + place for block in blocks for place in range(1, block.size + 1)}


def _statement(tree: ast.Module, line: int) -> tuple[ast.stmt, bool]:
    """Return the innermost statement of a line, and whether it runs in a call, not while the module is imported."""
    around = [
        node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    innermost = max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0)))
    return innermost, any(isinstance(node, ast.FunctionDef) and node.body[0].lineno <= line for node in around)


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True, text=True).stdout
