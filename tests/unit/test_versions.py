"""Versions of Airflow, Spark and Python: what differs is known in one place, and what is missing is refused."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import debian_root
import pytest
from packaging.requirements import Requirement
from release import EXTRAS
from versions import (
    Tried,
    ends,
    outcome_of,
    python_of,
    ranges,
    reason_of,
    reasons,
    required_by,
    skips_of,
    supported,
    table,
)
from versions_matrix import MATRIX, STEPS

import airflow_sqlqueue
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.versions import VersionedFeature, check_pyspark

PACKAGE = Path(airflow_sqlqueue.__file__).parent
ROOT = PACKAGE.parent
MOVED = (
    "airflow.exceptions",
    "airflow.hooks.base",
    "airflow.observability",
    "airflow.plugins_manager",
    "airflow.sdk.configuration",
    "airflow.sdk.exceptions",
    "airflow.sdk.observability",
    "airflow.sdk.plugins_manager",
    "airflow.stats",
    "airflow.triggers.shared_stream",
    "pyspark.sql.streaming.datasource",
)
"""Modules that some supported version lacks, or whose names have moved."""

NAMES_IN_ALL_VERSIONS = {"airflow.exceptions": {"DagNotFound", "DagRunAlreadyExists"}}
OF_A_FEATURE = {"spark/source/streaming.py", "spark/source/pushdown.py", "triggers/receiver.py"}
"""Modules that are imported after ``VersionedFeature.require``."""


def imported_in(path: Path) -> dict[str, set[str]]:
    """Modules that a module imports when it runs, with the names from them; those for type checkers are left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in for_types:
            found.setdefault(str(node.module), set()).update(alias.name for alias in node.names)
        elif isinstance(node, ast.Import) and id(node) not in for_types:
            found.update({alias.name: set() for alias in node.names})
    return found


def test_moved_names_are_imported_in_one_place() -> None:
    broken = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith("versions/") or name in OF_A_FEATURE:
            continue
        for module, names in imported_in(path).items():
            if module.startswith(MOVED) and not (names and names <= NAMES_IN_ALL_VERSIONS.get(module, set())):
                broken.append(f"{name}: {module}")
    # In a method that runs in the triggerer, after VersionedFeature.require in the constructor.
    assert broken == ["triggers/message.py: airflow.triggers.shared_stream"]


def test_versions_are_asked_for_in_one_place() -> None:
    asked = re.compile(
        r"version_info|(?:airflow|pyspark)\.__version__|import __version__|parse_version|packaging\.version"
    )
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        found = asked.findall(path.read_text(encoding="utf-8").replace("from airflow_sqlqueue import __version__", ""))
        assert not found or name.startswith("versions/"), name


def test_a_missing_feature_is_refused_in_one_sentence() -> None:
    VersionedFeature("Streams", "Spark", "4.2", "4.2.0", is_available=True).require()
    with pytest.raises(ConfigurationError) as caught:
        VersionedFeature("Streams", "Spark", "4.2", "4.0.5", is_available=False).require()
    assert str(caught.value) == "Streams needs Spark 4.2 or later, and 4.0.5 is installed."


def test_the_docs_have_the_versions_of_the_matrix() -> None:
    assert f"\n\n{supported()}\n\n" in (ROOT / "docs/versions.md").read_text(encoding="utf-8")
    assert f"It supports {ranges()}:" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("kills", "seed", "is_taken"),
    [
        ("500", "7", True),
        ("5", "$(shell id)", False),
        ("$(shell id)", "1", False),
        ("5\n6", "1", False),
        ("", "", False),
    ],
)
def test_the_nightly_run_takes_numbers_alone(kills: str, seed: str, is_taken: bool) -> None:
    """Make would run a shell for a value of its command line that asks for one."""
    text = (ROOT / ".github/workflows/nightly.yml").read_text(encoding="utf-8")
    checks = re.findall(r"- run: '(.*)'\n +- run: make \w+ .*\$SEED", text)
    assert len(checks) == text.count('="$SEED"') == 2
    for check in checks:
        done = subprocess.run(["bash", "-e", "-c", check], env={"KILLS": kills, "SEED": seed}, check=False)
        assert (done.returncode == 0) == is_taken


def test_the_workflow_has_a_job_for_each_row_of_the_matrix() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    jobs = re.findall(r'^ +- \{ row: (\S+), python: "(\S+)" \}$', text, re.MULTILINE)
    assert jobs == [(row.name, row.python) for row in MATRIX]
    assert 'make versions ROWS="${{ matrix.row }}"' in text


@pytest.mark.parametrize("folder", [".", "core", "fakemssql"])
def test_an_upper_bound_has_its_reason_beside_it(folder: str) -> None:
    lines = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    end = next(number for number, line in enumerate(lines) if line.startswith(("[project.scripts", "[project.entry")))
    bounded = re.compile(r'"[\w.\[\],-]+(?:[^";]*,)?(?:<|==|~=|!=)')
    found = [number for number, line in enumerate(lines[:end]) if not line.startswith("#") and bounded.search(line)]
    assert len(found) == {".": 2, "core": 2, "fakemssql": 0}[folder]
    assert [lines[number] for number in found if not lines[number - 1].lstrip().startswith("# ")] == []


@pytest.mark.parametrize("folder", [".", "fakemssql"])
def test_the_classifiers_have_the_pythons_of_the_matrix(folder: str) -> None:
    text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(r'^  "Programming Language :: Python :: (\d\.\d+)",$', text, re.MULTILINE)
    assert named == [row.version for row in MATRIX if row.package == "Python"]


def test_make_and_the_workflow_take_the_pythons_of_the_matrix() -> None:
    pythons = [row.version for row in MATRIX if row.package == "Python"]
    script = (ROOT / "scripts/setup.sh").read_text(encoding="utf-8")
    assert [f"3.{minor}" for minor in re.findall(r"\(3, (\d+)\)", script)] == [pythons[0], pythons[-1]]
    assert f"takes Python {pythons[0]} to {pythons[-1]}," in script
    assert f"Python {pythons[0]} to {pythons[-1]}." in (ROOT / "fakemssql/README.md").read_text(encoding="utf-8")
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert re.findall(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE) == [", ".join(f'"{each}"' for each in pythons)]


def test_the_lowest_versions_are_those_of_a_project_and_of_its_extras() -> None:
    lowest = [row for row in MATRIX if row.resolution == "lowest-direct"]
    assert [row.name for row in lowest] == ["airflow-3.1", "spark-4.0", "python-3.10"]
    names = [re.split(r"[<>=]", each)[0] for each in required_by("core[spark,driver]")]
    assert names == ["fsspec", "pyarrow", "pyodbc", "rich", "tenacity", "typer", "pyspark", "pandas", "mssql-python"]
    provider = required_by(lowest[0].project)
    assert {each for each in provider if each.startswith("apache-airflow-providers-")} >= {
        "apache-airflow-providers-common-compat>=1.13",
        "apache-airflow-providers-apache-spark>=5.3.1",
    }
    assert not [each for each in provider if "sqlqueue" in each]


@pytest.mark.parametrize("found", [{"3.10", "3.13"}, {"3.12"}, set()])
def test_the_ends_are_the_lowest_and_highest_and_those_that_the_machine_can_try(
    monkeypatch: pytest.MonkeyPatch, found: set[str]
) -> None:
    monkeypatch.setattr("versions.python_of", lambda row: row.python if row.python in found else None)
    chosen = [row.name for row in ends() if row.package == "Python"]
    assert chosen == sorted({"python-3.10", "python-3.14", *(f"python-{version}" for version in found)})


def test_a_python_that_the_machine_lacks_is_that_of_debian_where_root_can_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("versions.run", lambda *command: "")
    monkeypatch.setattr("versions._python_here", lambda row: None)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    for user, found in {0: "/usr/bin/python3.14", 1000: None}.items():
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        assert [python_of(row) for row in MATRIX if row.package == "Python"] == [None, None, None, None, found]


def can_mount() -> bool:
    """True for root of the machine, who is not in a root folder himself."""
    mounts = Path("/proc/self/mountinfo")
    return os.geteuid() == 0 and mounts.exists() and " / / " in mounts.read_text(encoding="utf-8")


@pytest.mark.skipif(not can_mount(), reason="only root of the machine can enter a root folder")
def test_a_command_in_a_root_folder_is_in_the_clone_and_leaves_no_mount(tmp_path: Path) -> None:
    before = Path("/proc/mounts").read_text(encoding="utf-8")
    program = "import os; print(os.getcwd(), os.environ['SEEN'], os.stat('/').st_ino)"
    command = [*debian_root.enter(Path("/"), tmp_path), sys.executable, "-c", program]
    done = subprocess.run(command, env=os.environ | {"SEEN": "yes"}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(tmp_path), "yes", str(Path("/").stat().st_ino)], done.stderr
    assert Path("/proc/mounts").read_text(encoding="utf-8") == before


def test_a_root_folder_is_made_once_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """debootstrap is a program that makes the folder, or that leaves a part of it and fails."""
    monkeypatch.setattr("shutil.which", lambda name: name)
    root, commands = tmp_path / "debian", []

    def run(*command: str) -> str:
        commands.append(command)
        folder = Path(command[-1])
        (folder / "usr/bin").mkdir(parents=True)
        if len(commands) == 1:
            raise subprocess.CalledProcessError(1, command, "E: no package python3.14\n", "")
        (folder / "usr/bin/python3.14").touch()
        return ""

    with pytest.raises(subprocess.CalledProcessError) as failure:
        debian_root.make(root, "3.14", run)
    assert "E: no package python3.14" in reason_of(failure.value)
    assert not root.exists()
    for _ in range(2):
        debian_root.make(root, "3.14", run)
    assert len(commands) == 2
    assert (root / "usr/bin/python3.14").exists()


def test_steps_name_files_that_exist() -> None:
    for step in STEPS.values():
        missing = [path for path in (*step.tests, *step.without, *step.short) if not (ROOT / path).exists()]
        assert not missing, step.name


def test_the_table_counts_tests_and_names_the_reason_of_each_skip() -> None:
    log = """
SKIPPED [2] tests/sinks/test_iceberg.py:92: no release: use another one.
SKIPPED [1] tests/sinks/test_iceberg.py:103: no release: use another one.
SKIPPED [1] tests/sinks/test_tables.py: no jars
============ 7 passed, 4 skipped, 2 warnings in 614.23s (0:10:14) ============
"""
    assert outcome_of(log) == "7 passed, 4 skipped"
    assert skips_of(log) == {"no release: use another one.": 3, "no jars": 1}
    assert outcome_of("3 workers [3 items]\nno answer\n") == "failed: no answer"
    outcomes = {"installs": "3.1", "sinks": outcome_of(log), "constraints": "failed"}
    whole = Tried(MATRIX[0], outcomes, {"sinks": skips_of(log)})
    lacking = Tried(MATRIX[-1], {"installs": "not tried: no Python"})
    assert table([whole, lacking]).splitlines() == [
        "            | installs             | sinks               | constraints",
        "airflow-3.1 | 3.1                  | 7 passed, 4 skipped | failed",
        "python-3.14 | not tried: no Python | -                   | -",
    ]
    assert reasons([whole, lacking]) == [
        "airflow-3.1: sinks: 3 skipped: no release: use another one.",
        "airflow-3.1: sinks: 1 skipped: no jars",
    ]


@pytest.mark.skipif(find_spec("airflow") is None, reason="Airflow is not installed")
def test_features_of_airflow() -> None:
    from airflow import __version__

    from airflow_sqlqueue.hooks import TransientRetryPolicy
    from airflow_sqlqueue.triggers import SqlQueueMessageEventTrigger
    from airflow_sqlqueue.versions import airflow as versions

    has_them = tuple(map(int, __version__.split(".")[:2])) >= (3, 3)
    features = (versions.PARTITION_KEYS, versions.RETRY_POLICIES, versions.SHARED_STREAMS, versions.TRIGGER_TEMPLATES)
    assert {feature.is_available for feature in features} == {has_them}
    for needed in (TransientRetryPolicy, lambda: SqlQueueMessageEventTrigger(queue_name="orders")):
        if has_them:
            needed()
        else:
            with pytest.raises(ConfigurationError, match=r"needs Airflow 3\.3 or later, and 3\.\d"):
                needed()


@pytest.mark.skipif(find_spec("pyspark") is None, reason="pyspark is not installed")
def test_features_of_spark() -> None:
    from pyspark import __version__

    from airflow_sqlqueue.versions import spark as versions

    version = tuple(map(int, __version__.split(".")[:2]))
    assert versions.PUSHED_FILTERS.is_available == (version >= (4, 1))
    assert versions.STREAMS.is_available == (version >= (4, 2))


@pytest.mark.parametrize(
    ("installed", "is_refused"),
    [
        ({"pyspark": "4.3.0", "pyspark_client": "4.2.0"}, True),
        ({"pyspark": "4.2.0", "pyspark_client": "4.2.0"}, False),
        ({"pyspark": "4.3.0"}, False),
        ({}, False),
    ],
)
def test_pyspark_and_its_client_are_of_one_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], is_refused: bool
) -> None:
    for name, version in installed.items():
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    if is_refused:
        with pytest.raises(ConfigurationError, match=r"pyspark 4\.3\.0 and pyspark-client 4\.2\.0 have overwritten"):
            check_pyspark()
    else:
        check_pyspark()


def test_the_project_takes_the_versions_of_each_released_airflow() -> None:
    """A row that has no such file is of an Airflow without a release."""
    tomllib = pytest.importorskip("tomllib", reason="tomllib comes with Python 3.11")
    taken: dict[str, Requirement] = {}
    for folder in (".", "core"):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))["project"]
        users = {name: each for name, each in project["optional-dependencies"].items() if name in EXTRAS}
        for text in (*project["dependencies"], *(text for each in users.values() for text in each)):
            taken[Requirement(text).name] = Requirement(text)
    rows = [row for row in MATRIX if row.package == "Airflow"]
    assert [row.name for row in rows if row.constraints is None] == ["airflow-3.4"]
    for row in rows[:-1]:
        assert row.constraints is not None
        pins = [Requirement(line) for line in row.constraints.read_text("utf-8").splitlines() if line[:1] != "#"]
        assert f"{pins[0]}" == row.requirements[0]
        assert len(pins) > 10
        for pin in pins:
            (exact,) = pin.specifier
            assert taken[pin.name].specifier.contains(exact.version), (row.name, str(pin))
