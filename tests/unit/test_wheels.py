"""The wheels: the package, and airflow-sqlqueue-core, which is the package without the modules of Airflow."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import release

from airflow_sqlqueue import __version__

ROOT = Path(__file__).resolve().parents[2]
tomllib = pytest.importorskip("tomllib", reason="tomllib comes with Python 3.11")


def project(folder: str) -> Any:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_requirements_are_those_of_the_provider_without_airflow() -> None:
    whole, core = project("."), project("core")
    assert core["dependencies"] == [each for each in whole["dependencies"] if not each.startswith("apache-airflow")]
    assert core["requires-python"] == whole["requires-python"]
    assert core["scripts"] == whole["scripts"]
    for name, requirements in core["optional-dependencies"].items():
        assert requirements == whole["optional-dependencies"][name], name


def test_the_list_of_licences_has_every_extra_for_users() -> None:
    assert set(release.EXTRAS) == project(".")["optional-dependencies"].keys() - {"test", "dev", "docs"}


def test_a_licence_is_called_as_spdx_calls_it_or_else_as_its_package() -> None:
    known = {"licenses": [{"license": {"id": "MIT"}}, {"license": {"name": "License :: OSI Approved :: MIT License"}}]}
    own = {"licenses": [{"license": {"name": "License :: Other/Proprietary License"}}]}
    expression = {"licenses": [{"expression": "MIT OR Apache-2.0"}]}
    found = [release.licence_of(each) for each in (known, own, expression, {})]
    assert found == ["MIT", "Other/Proprietary License", "MIT OR Apache-2.0", "unknown"]


def test_the_changelog_begins_with_the_version_and_its_date() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert re.fullmatch(rf"\[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d", headings[0])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of airflow-sqlqueue-core."""
    return built(ROOT / "core", tmp_path_factory.mktemp("core"))


def built(project: Path, folder: Path) -> Path:
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


def files_of_package() -> set[str]:
    """Files in the package's folder. One of another kind, or one that git ignores, fails the tests below."""
    package = ROOT / "airflow_sqlqueue"
    return {
        path.relative_to(ROOT).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_of_the_provider_has_the_package_and_its_licence_alone(tmp_path: Path) -> None:
    with zipfile.ZipFile(built(ROOT, tmp_path)) as archive:
        found = {name.partition(".dist-info/")[2] or name for name in archive.namelist()}
    described = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert found == files_of_package() | described
    suffixes = {Path(name).suffix for name in files_of_package()}
    assert suffixes == {".css", ".html", ".js", ".py", ".pyi", ".sql", ".svg", ".typed"}


def test_the_wheel_works_without_airflow(wheel: Path, tmp_path: Path) -> None:
    """The import of Airflow and of its modules here fails in this process, as where Airflow is not installed."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
sys.modules["airflow"] = None
import airflow_sqlqueue
assert airflow_sqlqueue.__file__.startswith({str(tmp_path)!r}), airflow_sqlqueue.__file__
from airflow_sqlqueue import QueueClient, read_batch
from airflow_sqlqueue.cli import main
for name in ("hooks", "operators", "sensors", "triggers", "plugin"):
    try:
        __import__("airflow_sqlqueue." + name)
    except ModuleNotFoundError:
        continue
    raise AssertionError(name)
sys.argv = ["sqlqueue", *sys.argv[1:]]
main()
"""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    shown = run("--help")
    assert shown.returncode == 0, shown.stderr
    assert "drain" in shown.stdout
    refused = run("depth", "audit", "--conn-id", "sql")
    assert refused.returncode == 2
    assert "--conn-id needs the package apache-airflow, which is not installed" in refused.stderr


def test_the_wheel_has_all_other_modules(wheel: Path) -> None:
    """A module is in the wheel unless it, or its folder, is named as one of Airflow."""
    sys.path.insert(0, str(ROOT / "core"))
    try:
        from modules import OF_AIRFLOW
    finally:
        sys.path.remove(str(ROOT / "core"))
    package = "airflow_sqlqueue/"
    expected = {name for name in files_of_package() if not name.removeprefix(package).startswith(OF_AIRFLOW)}
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == expected
