"""Test the tests: change the code in one place at a time, and see whether a test fails.

``python scripts/mutants.py``, which ``make mutants`` does, draws a sample of mutants by a seed, runs for each one the
tests that name what is changed and those of its room, and prints what was killed. After ``make coverage`` it runs the
tests that execute the changed line, wherever they stand, and the nearest ones only for lines without any. A mutant
that lives is a hole in the tests, unless ``scripts/mutants.json`` explains why the change has no effect that a test
could see. ``--rooms queue drain`` tries some rooms, ``--sample 0`` every mutant, ``--only PATTERN`` those whose file,
line and change match.

A failing test kills a mutant only if the same test passes without the mutant. The exit code is 1 if mutants live that
are not explained.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import TextIO

from mutant_rooms import ROOMS
from mutations import Mutant, mutants_of
from rich.console import Console
from rich.table import Table
from tests_of_lines import TestsOfLines

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "airflow_sqlqueue"
EXPLAINED = ROOT / "scripts" / "mutants.json"
SECONDS = 600.0
"""Longest run of a mutant's tests. A mutant that takes longer is not counted as killed."""
SECONDS_OF_LINES = 150.0
"""Sum of the seconds of the tests that are run for executing a line, some of each file."""
MOST_NAMING = 8
"""Files of other tests than those without a server, above which those that name what is changed are left out."""
RULES = {
    r"\.sql:": "tests/unit/test_hints.py",
    r"repr=|_header\(": "tests/unit/test_untrusted.py",
    r"\b(?:above|least|most)=": "tests/unit/test_limits.py",
}
"""Tests of rules that read statements and classes and execute none, by what they concern, as for ``--only``."""
SYSTEM = ("tests/airflow/running/", "tests/sinks/", "tests/bench/")
"""Tests of whole systems, whose start takes longer than a test of a mutant may."""
SECONDS_OF_A_TEST = 60
"""Longest run of one test, which fails then: so a mutant that never ends is killed."""


UNKNOWN = f"no answer after {SECONDS:.0f} seconds"


@dataclass(frozen=True)
class Outcome:
    """Outcome of one mutant; ``by``: the test that failed, or :data:`UNKNOWN`."""

    room: str
    mutant: Mutant
    by: str | None
    seconds: float
    reason: str | None = None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS), metavar="ROOM", help=", ".join(ROOMS))
    parser.add_argument("--sample", type=int, default=60, metavar="N", help="number of mutants, 0: all (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--only", metavar="PATTERN", help="a regular expression for file:line: change")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="number of mutants at a time")
    parser.add_argument("--list", action="store_true", help="list the mutants, and try none")
    arguments = parser.parse_args()
    chosen = sample(arguments.rooms, arguments.sample, arguments.seed, arguments.only)
    if arguments.list:
        for room, mutant in chosen:
            _say(f"{room}: {mutant.path}:{mutant.line}: {mutant.change}", to=sys.stdout)
        return 0
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(arguments.processes) as pool:
        copies = [_copy(Path(folder, str(number))) for number in range(arguments.processes)]
        for outcome in pool.map(lambda each: _try(copies, *each), chosen):
            outcomes.append(outcome)
            _say(_line(outcome, f"{len(outcomes)} of {len(chosen)}"))
    return _report(outcomes, arguments.seed)


def sample(rooms: Sequence[str], size: int, seed: int, only: str | None = None) -> list[tuple[str, Mutant]]:
    """Draw mutants of each room by a seed, in proportion to the square root of the room's number, at least one."""
    found = {
        room: [
            mutant
            for path in _files(room)
            for mutant in mutants_of(ROOT, path)
            if only is None or re.search(only, f"{mutant.path}:{mutant.line}: {mutant.change}")
        ]
        for room in rooms
    }
    weights = {room: len(mutants) ** 0.5 for room, mutants in found.items()}
    chosen = []
    for room, mutants in found.items():
        # A generator for each room: the sample of a room is the same whatever others are tried.
        share = round(size * weights[room] / (sum(weights.values()) or 1)) if size else len(mutants)
        drawn = random.Random(f"{seed}/{room}").sample(mutants, min(len(mutants), max(1, share)))  # noqa: S311
        chosen += [(room, mutant) for mutant in sorted(drawn, key=lambda each: (each.path, each.start))]
    return chosen


def _files(room: str) -> Iterator[str]:
    for pattern in ROOMS[room].files:
        paths = sorted((ROOT / PACKAGE).glob(pattern))
        if not paths:
            raise SystemExit(f"The room {room} names {pattern}, which does not exist.")
        yield from (path.relative_to(ROOT).as_posix() for path in paths)


def _copy(to: Path) -> Path:
    """Copy what the tests need; a process changes its own copy."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in listed.split("\0")[:-1]:
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, to / name)
    return to


def _try(copies: list[Path], room: str, mutant: Mutant) -> Outcome:
    started, folder = time.monotonic(), copies.pop()
    try:
        path = folder / mutant.path
        text = path.read_text("utf-8")
        try:
            _write(path, mutant.apply(text))
            by = _failing(folder, tests) if (tests := _tests(room, mutant)) else None
        finally:
            _write(path, text)
        if by not in (None, UNKNOWN) and _failing(folder, (str(by),)) is not None:
            raise SystemExit(f"{by} fails without a mutant as well: mend it first.")
        return Outcome(room, mutant, by, time.monotonic() - started, _explained().get((mutant.path, mutant.change)))
    finally:
        copies.append(folder)


def _write(path: Path, text: str) -> None:
    """Write a module, later than the last time by a second at least: else Python would run its old bytecode."""
    before = path.stat().st_mtime
    path.write_text(text, "utf-8")
    os.utime(path, (before + 2, before + 2))


def _tests(room: str, mutant: Mutant) -> Sequence[str]:
    """Return the tests to run: some that execute the line, and where these are unknown the nearest ones, or none."""
    nearest, known = _nearest(room, mutant), _tests_of_lines()
    # Tests that the data are not of may run it.
    unknown = [test for test in nearest if not known.measured(test)]
    if not known.runs(mutant.path, mutant.line):
        return unknown
    seconds = {test: took for test, took in known.of(mutant.path, mutant.line).items() if not test.startswith(SYSTEM)}

    def place(test: str) -> tuple[int, str, float]:
        number = next((number for number, name in enumerate(nearest) if test.startswith(name)), len(nearest))
        return number, test.partition("::")[0], seconds[test]

    tests = sorted(seconds, key=place)
    # Tests without a server take milliseconds: all of them come before one of each other file.
    of_unit = [test for test in tests if test.startswith("tests/unit/")]
    with_server = [test for test in tests if not test.startswith("tests/unit/")]
    of_room = [test for test in with_server if test.startswith(nearest)]
    others = [test for test in with_server if not test.startswith(nearest)]
    chosen: list[str] = []
    left = SECONDS_OF_LINES
    for test in (*of_unit, *_in_turns(of_room), *_in_turns(others)):
        if seconds[test] <= left or not chosen:
            chosen.append(test)
            left -= seconds[test]
    chosen.sort(key=place)
    if not chosen:
        return nearest
    # Of a file that has changed since, tests may be gone and others be there.
    changed = [test for test in unknown if known.changed(test)]
    files = ((test, test.partition("::")[0]) for test in chosen)
    return list(
        dict.fromkeys(
            [
                *_rules(mutant),
                # A constant is set while its module is imported, before any test.
                *(test for test in nearest if test.startswith("tests/unit/")),
                *(name if known.changed(name) else test for test, name in files),
                *changed,
            ]
        )
    )


def _nearest(room: str, mutant: Mutant) -> tuple[str, ...]:
    """Return the tests that name what is changed, or its module, and those of the room."""
    module = mutant.path.removesuffix(".py").replace("/", ".")
    tree = ast.parse((ROOT / mutant.path).read_text("utf-8")) if mutant.path.endswith(".py") else ast.Module([], [])
    names = [
        name.id if isinstance(name, ast.Name) else name.name
        for node in tree.body
        if node.lineno <= mutant.line <= (node.end_lineno or 0)
        for name in (node, *getattr(node, "targets", ()), *filter(None, [getattr(node, "target", None)]))
        if isinstance(name, ast.Name | ast.FunctionDef | ast.ClassDef)
    ]
    of_unit = [test for test in _naming(module, *names) if test.startswith("tests/unit/")]
    others = [test for test in _naming(*names) if test not in of_unit]
    # A name that many use says nothing of one place.
    others = others if len(others) <= MOST_NAMING else []
    return tuple(dict.fromkeys([*_rules(mutant), *of_unit, *others, *ROOMS[room].tests]))


def _naming(*names: str) -> list[str]:
    words = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")
    return [test for test, text in _texts_of_tests().items() if names and words.search(text)]


def _rules(mutant: Mutant) -> list[str]:
    text = f"{mutant.path}:{mutant.line}: {mutant.change}"
    return [test for pattern, test in RULES.items() if re.search(pattern, text)]


@cache
def _texts_of_tests() -> dict[str, str]:
    folders = ("unit", "cli", "contract", "contract/*")
    paths = [path for folder in folders for path in sorted(ROOT.glob(f"tests/{folder}/test_*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


def _in_turns(tests: Sequence[str]) -> Iterator[str]:
    """Of each file the first test, then the second, and so on: tests of one file see much the same."""
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(test.partition("::")[0], []).append(test)
    return filter(None, chain.from_iterable(zip_longest(*files.values())))


@cache
def _tests_of_lines() -> TestsOfLines:
    return TestsOfLines()


def _failing(folder: Path, tests: Sequence[str]) -> str | None:
    """Run tests to the first that fails; return its name, or None."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-rfE", "--no-header"]
    command += [f"--timeout={SECONDS_OF_A_TEST}", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        output = process.communicate(timeout=SECONDS)[0].decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return UNKNOWN
    if process.returncode == 0:
        return None
    if "ERROR: not found: " in output:
        # Parameters have other names than when the data were taken.
        return _failing(folder, list(dict.fromkeys(test.partition("::")[0] for test in tests)))
    failed = re.search(r"^(?:FAILED|ERROR) (\S+\.py(?:::[^\n]*?)?)(?: - |$)", output, re.MULTILINE)
    # A process that could not begin its tests: the first one stands for all.
    return failed[1] if failed else tests[0]


@cache
def _explained() -> dict[tuple[str, str], str]:
    """Return the mutants that no test can kill, with the reason."""
    entries = json.loads(EXPLAINED.read_text("utf-8"))
    return {(entry["path"], entry["change"]): entry["reason"] for entry in entries}


def _line(outcome: Outcome, progress: str) -> str:
    mutant = outcome.mutant
    fate = outcome.by or (f"lives: {outcome.reason}" if outcome.reason else "LIVES")
    return f"{progress} {outcome.seconds:4.0f} s {mutant.path}:{mutant.line}: {mutant.change} | {fate}"


def _say(line: str, to: TextIO = sys.stderr) -> None:
    Console(file=to).print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)


def _report(outcomes: Sequence[Outcome], seed: int) -> int:
    table = Table("room", "mutants", "killed", "explained", "live", "unknown", title=f"Mutants of seed {seed}")
    numbers: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        known = "killed" if outcome.by else "explained" if outcome.reason else "live"
        fate = "unknown" if outcome.by == UNKNOWN else known
        for room in (outcome.room, "all"):
            numbers.setdefault(room, Counter())[fate] += 1
    for room in (*(room for room in numbers if room != "all"), "all"):
        counts = numbers.get(room, Counter())
        table.add_row(
            room, *map(str, (counts.total(), counts["killed"], counts["explained"], counts["live"], counts["unknown"]))
        )
    Console().print(table)
    return 1 if any(outcome.by == UNKNOWN or not (outcome.by or outcome.reason) for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
