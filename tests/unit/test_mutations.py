"""Mutants of ``make mutants``, and the list of those that are explained."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import mutants
import pytest
from mutant_rooms import ROOMS
from mutants import EXPLAINED, ROOT, sample
from mutations import mutants_of
from tests_of_lines import TestsOfLines


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """Find the mutants of a module once for all samples."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mutants, "mutants_of", cache(mutants.mutants_of))
        yield


def changes(folder: Path, name: str, text: str) -> list[str]:
    (folder / name).write_text(text, "utf-8")
    return [mutant.apply(text) for mutant in mutants_of(folder, name)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if a <= 3:\n    f(b)\n", ["if (a < 3):\n    f(b)\n", "if a <= (4):\n    f(b)\n", "if a <= 3:\n    pass\n"]),
        ("x = a and not b\n", ["x = (a or not b)\n", "x = a and (b)\n"]),
        ("limit = 255\n", ["limit = (510)\n"]),
        ("raise ValueError(f'{a + 1} is {b > c}')\n", ["pass\n"]),
        ("log.info('%s', a > b)\n", []),
        ("x = [(pyodbc.SQL_VARCHAR, 36, 0)]\n", []),
        ("x = zip(a, b, strict=True)\n", []),
        ("def f(é: int = 1) -> 'a > b':\n    '''Text.'''\n", ["def f(é: int = (2)) -> 'a > b':\n    '''Text.'''\n"]),
    ],
)
def test_a_module_is_changed_in_one_place(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert changes(tmp_path, "module.py", text) == expected


def test_a_statement_is_changed_in_one_place(tmp_path: Path) -> None:
    text = "-- take: take <= one\nSELECT TOP (?) a FROM t WITH (READPAST, ROWLOCK) WHERE a <= ? ORDER BY a;\n"
    head, where = "-- take: take <= one\nSELECT TOP (?) a FROM t WITH (", " WHERE a <= ? ORDER BY a;\n"
    assert changes(tmp_path, "statements.sql", text) == [
        f"{head}ROWLOCK){where}",
        f"{head}READPAST){where}",
        text.replace("a <= ?", "a < ?"),
        text.replace(" ORDER BY a", ""),
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_a_mutant_of_a_module_can_be_parsed(room: str) -> None:
    texts: dict[str, str] = {}
    for _, mutant in sample([room], 50, 1):
        if mutant.path.endswith(".py"):
            ast.parse(mutant.apply(texts.setdefault(mutant.path, (ROOT / mutant.path).read_text("utf-8"))))


def test_each_module_of_a_folder_belongs_to_one_room() -> None:
    rooms = Counter(path for room in ROOMS for path in mutants._files(room))
    below = (path for path in (ROOT / mutants.PACKAGE).rglob("*/*.*") if path.suffix in {".py", ".sql"})
    numbers = {name: rooms[name] for name in (path.relative_to(ROOT).as_posix() for path in below)}
    assert {name: number for name, number in numbers.items() if number != 1} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_the_tests_of_a_room_exist(room: str) -> None:
    assert all((ROOT / test).exists() for test in ROOMS[room].tests)


@pytest.mark.parametrize(
    ("room", "only", "test"),
    [
        ("message", "message.py:.*0xA0 ->", "tests/unit/test_message_types.py"),
        ("queue", "inbox.py:.*== MAX_ROWS", "tests/contract/endpoint/test_inbox.py"),
        ("envelope", "times.py:.*: now is not None and length", "tests/cli/test_times.py"),
    ],
)
def test_tests_that_name_what_is_changed_are_near(room: str, only: str, test: str) -> None:
    ((_, mutant),) = sample([room], 0, 1, only)
    assert test in mutants._nearest(room, mutant)


def test_a_seed_draws_the_same_mutants_of_a_room_whatever_else_is_tried() -> None:
    alone = sample(["queue"], 7, 3)
    assert len(alone) == 7
    assert alone == sample(["queue"], 7, 3)
    assert alone != sample(["queue"], 7, 4)
    assert {room for room, _ in sample(list(ROOMS), 60, 3)} == set(ROOMS)


MODULE = """LIMIT = 3


def few(count):
    return count < LIMIT


def many(count, limit=9 + 1):
    return not few(count) or [
        limit]
"""
TESTS = """import amounts


def test_few():
    assert amounts.few(2)


def test_many():
    assert amounts.many(4)
"""


def test_a_line_has_the_tests_that_execute_it(tmp_path: Path) -> None:
    """A constant has those that execute a line with its name, a default those of its function."""
    pytest.importorskip("coverage", reason="coverage.py is not installed")

    def run(*command: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
        environment |= {
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'scripts'}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)

    (tmp_path / "amounts.py").write_text(MODULE, "utf-8")
    (tmp_path / "test_amounts.py").write_text(TESTS, "utf-8")
    (tmp_path / ".coveragerc").write_text("[run]\ndata_file = .coverage/data\ninclude = amounts.py\n", "utf-8")
    run("git", "init", "-q")
    run("git", "add", ".")
    run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "Begin")
    (tmp_path / ".coverage").mkdir()
    run(sys.executable, "-m", "coverage", "run", "-m", "pytest", "-q", "-p", "tests_of_lines", "-p", "no:cacheprovider")

    few, many = "test_amounts.py::test_few", "test_amounts.py::test_many"
    lines = TestsOfLines(tmp_path)
    assert [set(lines.of("amounts.py", line)) for line in (1, 5, 8, 9, 10)] == [*[{few, many}] * 2, *[{many}] * 3]
    assert (lines.measured("test_amounts.py"), lines.measured("test_others.py")) == (True, False)
    (tmp_path / "amounts.py").write_text(MODULE.replace("LIMIT", "MOST"), "utf-8")
    lines = TestsOfLines(tmp_path)
    assert (lines.of("amounts.py", 5), set(lines.of("amounts.py", 9))) == ({}, {many}), "line 5 has changed"
    assert lines.runs("amounts.py", 5)


def test_each_explained_mutant_is_one_of_todays() -> None:
    """An entry whose code has changed is to be looked at again."""
    changes = {(mutant.path, mutant.change) for _, mutant in sample(list(ROOMS), 0, 1)}
    entries = [(entry["path"], entry["change"]) for entry in json.loads(EXPLAINED.read_text("utf-8"))]
    assert [entry for entry in entries if entry not in changes] == []
    assert len(entries) == len(set(entries))
