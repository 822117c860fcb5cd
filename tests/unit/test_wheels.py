"""The two wheels of the package: airflow-sqlqueue has the modules of Airflow, airflow-sqlqueue-core all others."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import release

from airflow_sqlqueue import __version__

ROOT = Path(__file__).resolve().parents[2]
tomllib = pytest.importorskip("tomllib", reason="tomllib comes with Python 3.11")


def project(folder: str) -> Any:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_provider_leaves_requirements_to_the_core_of_its_version() -> None:
    provider, core = project("."), project("core")
    assert f"airflow-sqlqueue-core=={__version__}" in provider["dependencies"]
    assert core["requires-python"] == provider["requires-python"]
    assert "scripts" not in provider
    for name in core["optional-dependencies"]:
        assert provider["optional-dependencies"][name] == [f"airflow-sqlqueue-core[{name}]"]
    of_core = [*core["dependencies"], *chain(*core["optional-dependencies"].values())]
    of_provider = [*provider["dependencies"], *chain(*provider["optional-dependencies"].values())]
    assert {name_of(each) for each in of_core}.isdisjoint(name_of(each) for each in of_provider)


def name_of(requirement: str) -> str:
    return re.split(r"[\[<>=;]", requirement)[0]


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


def built(project: Path, folder: Path) -> Path:
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of both distributions, by name."""
    folders = {"airflow-sqlqueue": ROOT, "airflow-sqlqueue-core": ROOT / "core"}
    return {name: built(folder, tmp_path_factory.mktemp(name)) for name, folder in folders.items()}


def files_of_package() -> set[str]:
    """Files in the package's folder. One of another kind, or one that git ignores, fails the tests below."""
    package = ROOT / "airflow_sqlqueue"
    return {
        path.relative_to(ROOT).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def examples() -> set[str]:
    """Files of the example DAGs, which the wheel of the provider has below the package."""
    found = [path for path in (ROOT / "example_dags").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert found
    return {f"airflow_sqlqueue/{path.relative_to(ROOT).as_posix()}" for path in found}


def files_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name.partition(".dist-info/")[2] or name for name in archive.namelist()}


def test_each_file_of_the_package_is_in_one_wheel_beside_its_description(wheels: dict[str, Path]) -> None:
    described = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    provider, core = (files_in(wheel) for wheel in wheels.values())
    assert provider & core == described
    assert provider | core == files_of_package() | examples() | described
    suffixes = {Path(name).suffix for name in files_of_package()}
    assert suffixes == {".css", ".html", ".js", ".py", ".pyi", ".sql", ".svg", ".typed"}


@cache
def names_of_airflow() -> tuple[str, ...]:
    """Airflow, and the packages and modules in the wheel of the provider; each ends with a dot."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    paths = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    return ("airflow.", *(path.removesuffix(".py").replace("/", ".") + "." for path in paths))


def of_airflow(module: str) -> bool:
    return f"{module}.".startswith(names_of_airflow())


def imports_of(path: Path) -> Iterator[str]:
    """Names that a module imports, wherever it does; of ``from a import b`` both ``a`` and ``a.b``."""
    package = ".".join(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            yield from (module, *(f"{module}.{alias.name}" for alias in node.names))


def test_the_core_knows_nothing_of_airflow_but_for_the_connection_of_a_command(wheels: dict[str, Path]) -> None:
    """Imports inside functions count as well. The stub of the public names names those of both wheels."""
    modules = sorted(name for name in files_in(wheels["airflow-sqlqueue-core"]) if name.endswith(".py"))
    found = {(name, module) for name in modules for module in imports_of(ROOT / name) if of_airflow(module)}
    hook = "airflow_sqlqueue.hooks"
    assert found == {("airflow_sqlqueue/cli/options.py", each) for each in (hook, f"{hook}.SqlQueueHook")}
    of_provider = imports_of(ROOT / "airflow_sqlqueue/hooks/sqlqueue.py")
    assert any(map(of_airflow, of_provider))


class Environment:
    """A new environment. Unless it is ``alone``, packages of this one can be imported in it, after its own."""

    def __init__(self, folder: Path, *, alone: bool = False) -> None:
        self.folder = folder
        self._uv = str(Path(sys.executable).with_name("uv"))
        if not Path(self._uv).exists():
            pytest.skip("uv, which installs the wheels, is not installed")
        self.uv("venv", "--quiet", "--python", sys.executable, str(folder))
        (site_packages,) = folder.glob("lib/python*/site-packages")
        if not alone:
            # Its own .pth files, which would add the clone, are not read.
            (site_packages / "zz_tests.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")

    def uv(self, *command: str) -> None:
        done = subprocess.run([self._uv, *command], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr

    def pip(self, verb: str, *arguments: str) -> None:
        options = ["--offline", "--no-deps", "--no-build-isolation"] if verb == "install" else []
        self.uv("pip", verb, "--quiet", *options, "--python", str(self.folder / "bin/python"), *arguments)

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command without the PYTHONPATH of this process, whose packages would come before its own."""
        done, variables = [str(self.folder / "bin" / command), *arguments], {**os.environ, "PYTHONPATH": ""}
        return subprocess.run(
            done, cwd=self.folder, env=variables, capture_output=True, text=True, timeout=120, check=False
        )

    def shows(self, program: str) -> list[str]:
        """The words that a program prints, without this process's variables and folder."""
        done = self.run("python", "-I", "-c", program)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()


WHERE = "import airflow_sqlqueue as p; print(p.__file__, p.__version__)"
WITHOUT_AIRFLOW = """
import importlib, pkgutil, sys
import airflow_sqlqueue
sys.modules["airflow"] = None
names = [module.name for module in pkgutil.walk_packages(airflow_sqlqueue.__path__, "airflow_sqlqueue.")]
for name in names:
    if not name.endswith("__main__") and ".source.streaming" not in name and ".source.pushdown" not in name:
        importlib.import_module(name)
print(len(names))
"""


def test_either_wheel_is_removed_without_harm_to_the_other(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.pip("install", *map(str, wheels.values()))
    file, version = environment.shows(WHERE)
    assert Path(file).is_relative_to(environment.folder)
    assert version == __version__
    assert environment.run("sqlqueue", "--version").stdout.split()[-1] == __version__
    environment.pip("uninstall", "airflow-sqlqueue")
    (count,) = environment.shows(WITHOUT_AIRFLOW)
    modules = [name for name in files_in(wheels["airflow-sqlqueue-core"]) if name.endswith(".py")]
    assert int(count) == len(modules) - 1
    assert environment.run("sqlqueue", "--version").stdout.split()[-1] == __version__
    refused = environment.run("sqlqueue", "depth", "audit", "--conn-id", "sql")
    assert refused.returncode == 2
    sentence = (
        "--conn-id needs the package apache-airflow, which is not installed: run \"pip install 'airflow-sqlqueue'\""
    )
    assert sentence in " ".join(refused.stderr.split())
    environment.pip("install", str(wheels["airflow-sqlqueue"]))
    environment.pip("uninstall", "airflow-sqlqueue-core")
    left = {path.name for path in environment.folder.glob("lib/python*/site-packages/airflow_sqlqueue/*")}
    assert left == {
        "versions",
        *(name.split("/")[1] for name in files_in(wheels["airflow-sqlqueue"]) if "/" in name),
    } - {"LICENSE"}


def test_a_hint_names_the_installed_distribution(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment", alone=True)
    program = "from airflow_sqlqueue.extras import from_extra\nwith from_extra('spark', 'Spark'): import pyspark"
    environment.pip("install", *map(str, wheels.values()))
    both = environment.run("python", "-I", "-c", program).stderr
    assert both.endswith("""run "pip install 'airflow-sqlqueue[spark]'".\n""")
    environment.pip("uninstall", "airflow-sqlqueue")
    core = environment.run("python", "-I", "-c", program).stderr
    assert core.endswith("""run "pip install 'airflow-sqlqueue-core[spark]'".\n""")


def test_the_readmes_installation_from_a_clone_works(tmp_path: Path) -> None:
    """Without the packages from outside, which this environment has."""
    line = re.search(r"`pip install (-e [^`]+)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert line is not None
    environment = Environment(tmp_path / "environment")
    environment.pip("install", *shlex.split(line[1]))
    file, version = environment.shows(WHERE)
    assert (Path(file).parents[1], version) == (ROOT, __version__)
    assert environment.run("sqlqueue", "--version").stdout.split()[-1] == __version__
    own = "d.metadata['Name'] for d in m.distributions(path=[p]) if 'sql' in d.metadata['Name']"
    program = f"import importlib.metadata as m, sysconfig; p = sysconfig.get_path('purelib'); print(*sorted({own}))"
    assert environment.shows(program) == ["airflow-sqlqueue", "airflow-sqlqueue-core", "fakemssql"]
